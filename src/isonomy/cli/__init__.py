"""The command line: ``isonomy audit`` and what belongs to it.

Nothing heavy is imported before a command needs it, so that help is immediate. Commands talk in one way: results on
standard output, everything else (progress, remarks, errors) on standard error; with ``--json`` standard output is one
JSON document.
"""

from isonomy.cli.app import app, main

__all__ = ["app", "main"]
