"""``python -m isonomy.audit``: the bundled audit on the terminal."""

from isonomy.audit.terminal import main

if __name__ == "__main__":
    raise SystemExit(main())
