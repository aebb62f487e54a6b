"""``python -m isonomy.cli``: the same as ``isonomy``."""

from isonomy.cli.app import main

if __name__ == "__main__":
    raise SystemExit(main())
