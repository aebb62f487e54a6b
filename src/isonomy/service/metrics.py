"""What Prometheus is told."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from isonomy.monitor import Evaluation
from isonomy.service.certifier import Answers

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STATES = ("valid", "expired", "undecided")


class Metrics:
    """The numbers of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        all_of = self.registry
        self.requests = Counter("isonomy_requests_total", "Requests", ["path", "status"], registry=all_of)
        self.seconds = Histogram(
            "isonomy_request_seconds", "Time to answer", ["path"], buckets=SECONDS, registry=all_of
        )
        self.predictions = Counter(
            "isonomy_predictions_total", "Certified predictions", ["verdict", "tier"], registry=all_of
        )
        self.refused = Counter("isonomy_refused_total", "People whom the schema refuses", registry=all_of)
        self.commits = Histogram("isonomy_log_commit_seconds", "Time of a commit", buckets=SECONDS, registry=all_of)
        self.logged = Counter("isonomy_log_requests_total", "Requests in the audit log", registry=all_of)
        self.waiting = Gauge("isonomy_requests_waiting", "Requests being answered", registry=all_of)
        self.looks = Counter("isonomy_monitor_evaluations_total", "Looks at the window", registry=all_of)
        self.state = Gauge("isonomy_monitor_state", "1 for the present state", ["state"], registry=all_of)
        self.distance = Gauge(
            "isonomy_monitor_distance_lower", "The populations are at least this far apart", registry=all_of
        )
        self.mean = Gauge("isonomy_monitor_mean_upper", "Mean of the proved violations of the window", registry=all_of)
        self.share = Gauge("isonomy_monitor_refused_share", "Of the window, refused by the schema", registry=all_of)

    def answered(self, answers: Answers) -> None:
        """Count predictions by verdict and tier."""
        pairs = list(zip(answers.verdict, answers.tier, strict=True))
        for pair in set(pairs):
            self.predictions.labels(*pair).inc(pairs.count(pair))

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
