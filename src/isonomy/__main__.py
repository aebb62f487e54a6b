"""``python -m isonomy``: the same as ``isonomy``."""

from isonomy.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
