"""Make docs/report.png, the picture of the README: the first screen of the report of the bundled example.

    make audit && .venv/bin/python docs/picture.py audit-german/report.html

It needs Chromium (Debian: apt install chromium).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PICTURE = Path(__file__).parent / "report.png"
SIZE = "1000,860"


def main(report: str) -> None:
    """Write the picture of a report."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("No Chromium is installed (Debian: apt install chromium).")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}"]
    address = Path(report).resolve().as_uri()
    subprocess.run(
        [browser, *options, f"--screenshot={PICTURE}", address], check=True, timeout=120, capture_output=True
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
