"""``python -m tests.service.serving PORT DATABASE SETTINGS``: the example, served until stopped."""

from __future__ import annotations

import json
import sys

from isonomy.service import Settings, run

from .example import bare

if __name__ == "__main__":
    port, database, settings = sys.argv[1:]
    run(bare(), Settings(database=database, **json.loads(settings)), port=int(port), log_level="error")
