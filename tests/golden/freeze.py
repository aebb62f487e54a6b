"""Write golden results again.

    python -m tests.golden.freeze [NAME ...]

**Only the engine that the golden results belong to may do this.** They are what later engines are judged by: whoever
writes them again with another engine has nothing left to compare with. A loss that is accepted goes into the table of
exceptions in ``test_golden.py``, with its reason, and the results stay as they are. A new audit is frozen by its name.

Prints, for each audit, processor seconds, bytes, and whether the results are the same bits as those that were there.
To compare later: ``python -m pytest tests/golden`` (``-m "not slow"`` for the quick ones).
"""

from __future__ import annotations

import sys
import time

from .audits import AUDITS, ask
from .results import FOLDER, Results


def main(names: list[str]) -> int:
    """Freeze the audits of these names, or all."""
    unknown = [name for name in names if name not in AUDITS]
    if unknown:
        print(f"There is no audit {unknown[0]!r}: they are {', '.join(AUDITS)}.", file=sys.stderr)
        return 2
    whole = 0.0
    for name in names or AUDITS:
        before = Results.read(name) if (FOLDER / f"{name}.json").exists() else None
        began = time.process_time()
        found = ask(name)
        seconds = time.process_time() - began
        whole += seconds
        wrong = found.check()
        if wrong:
            print(f"{name}: {'; '.join(wrong)}", file=sys.stderr)
            return 1
        size = found.write(name).stat().st_size
        kept = "new" if before is None else "same bits" if before.equals(found) else "CHANGED"
        print(f"{name:28} {seconds:6.2f} s {size:7} bytes  {kept}", flush=True)
    print(f"{whole:.1f} s of processor time")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
