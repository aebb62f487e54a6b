"""Structured logs: one JSON object per line on the standard error stream. Never features, never keys."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class Lines(logging.Formatter):
    """A record as one line of JSON; ``extra={"facts": {...}}`` adds fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"at": at, "level": record.levelname.lower(), "message": record.getMessage()}
        fields.update(getattr(record, "facts", {}))
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def configure(level: str = "INFO") -> None:
    """Send the service's own records, and the server's warnings, to the standard error stream."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name, least in (("isonomy.service", level.upper()), ("uvicorn", "WARNING"), ("uvicorn.error", level.upper())):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
