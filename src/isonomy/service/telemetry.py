"""What operators are told: numbers for Prometheus, and log lines, one JSON object each, on the standard error stream.

Never features, never keys.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter as Counts
from datetime import UTC, datetime
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from isonomy.monitor import Evaluation
from isonomy.service.certifier import Answers

LOGGER = logging.getLogger("isonomy.service")
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STATES = ("valid", "expired", "undecided")


class Metrics:
    """The numbers of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter("isonomy_requests_total", "Requests", ["path", "status"])
        self.seconds = histogram("isonomy_request_seconds", "Time to answer", ["path"], buckets=SECONDS)
        self.predictions = counter("isonomy_predictions_total", "Certified predictions", ["verdict", "tier"])
        self.refused = counter("isonomy_refused_total", "People whom the schema refuses")
        self.commits = histogram("isonomy_log_commit_seconds", "Time of a commit", buckets=SECONDS)
        self.logged = counter("isonomy_log_requests_total", "Requests in the audit log")
        self.waiting = gauge("isonomy_requests_waiting", "Requests being answered")
        self.looks = counter("isonomy_monitor_evaluations_total", "Looks at the window")
        self.state = gauge("isonomy_monitor_state", "1 for the present state", ["state"])
        self.distance = gauge("isonomy_monitor_distance_lower", "The populations are at least this far apart")
        self.mean = gauge("isonomy_monitor_mean_upper", "Mean of the proved violations of the window")
        self.share = gauge("isonomy_monitor_refused_share", "Of the window, refused by the schema")

    def answered(self, answers: Answers) -> None:
        """Count predictions by verdict and tier."""
        for pair, count in Counts(zip(answers.verdict, answers.tier, strict=True)).items():
            self.predictions.labels(*pair).inc(count)

    def committed(self, seconds: float, requests: int) -> None:
        """A transaction of the audit log."""
        self.commits.observe(seconds)
        self.logged.inc(requests)

    def looked(self, found: Evaluation) -> None:
        """An evaluation of the monitor."""
        self.looks.inc()
        for state in STATES:
            self.state.labels(state).set(state == found.state)
        self.mean.set(found.mean.observed)
        self.share.set(found.refused.observed)
        if found.distance is not None:
            self.distance.set(found.distance.lower)

    def page(self) -> bytes:
        """In the text format of Prometheus."""
        return generate_latest(self.registry)


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


def write_lines(level: str = "INFO") -> None:
    """Send the service's own records, and the server's warnings, to the standard error stream."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name, least in (("isonomy.service", level.upper()), ("uvicorn", "WARNING"), ("uvicorn.error", level.upper())):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
