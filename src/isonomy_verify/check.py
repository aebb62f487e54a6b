"""The claims of a certificate: *proved again* from network, individuals, metric and domain; *recomputed* from files;
*trusted*, which no file can show; *rejected*. It takes 95 % of the individuals within 5 % of their own bound and 25 %
of those at a distance, an upper bound that the claimed profiles give, and one from *our* profiles at most 1 % above it.
"""

import hashlib
import io
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isonomy_verify.bounds import Array, Layer, Metric, U, gamma
from isonomy_verify.people import Domain, Question

SHARE, CLOSE, NEAR, UPPER, SAME = 0.95, 1.05, np.array([[1.05], [1.25]]), 1.01, 1e-9
INPUTS = ("network", "people", "metric", "ground", "domain", "selection", "remarks")  # all that may be trusted
KINDS = ("affine", "relu", "leaky_relu", "sigmoid", "tanh")
Arrays = dict[str, Any]


class BadInput(Exception):  # noqa: N818
    """A file that is missing or not what it should be, in one sentence."""


@dataclass
class Verification:
    """Claims as (name, status, detail), and what is proved here."""

    claimed_upper: float
    proved_upper: float = math.inf
    share_proved: float = 0.0
    claims: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Nothing is rejected, and nothing trusted but the origin of inputs and remarks."""
        return not any(s == "rejected" or (s == "trusted" and name not in INPUTS) for name, s, _ in self.claims)

    def say(self, name: str, holds: Any, detail: str, status: str = "recomputed") -> None:
        """Note what became of a claim; None: nothing here can tell."""
        self.claims.append((name, "trusted" if holds is None else status if holds else "rejected", detail))


def verify(path: str | Path, model: str | None = None, data: str | None = None) -> Verification:
    """Check a certificate; ``model`` and ``data`` are the evidence (or its SHA-256) that it should rest on."""
    path = Path(path) / "certificate.json" if Path(path).is_dir() else Path(path)
    try:
        with np.errstate(all="ignore"):
            document = json.loads(path.read_text(encoding="utf-8"))
            _need((document["format"], document["version"]) == ("isonomy certificate", 1), "another format")
            found = Verification(float(document["claims"]["upper"]))
            files = _evidence(found, path, document["evidence"], model, data)
            _claims(found, document["question"], document["claims"], files)
            _selection(found, document["remarks"].get("selection"), files)
    except OSError as error:
        raise BadInput(f"{error.filename or path} cannot be read: {error.strerror}.") from None
    except Exception as error:  # of whatever kind: files may be made to harm
        raise BadInput(f"{path} or its evidence is not as version 1 has it: {type(error).__name__}, {error}.") from None
    found.say("remarks", None, "names, dates, sources and how it was made are the issuer's word")
    return found


def _evidence(found: Verification, path: Path, parts: Arrays, model: str | None, data: str | None) -> dict[str, Arrays]:
    files, wrong = dict[str, Arrays](), []
    for name, part in parts.items():
        _need(Path(part["file"]).parent == Path("evidence"), "evidence elsewhere")
        file = Path(data).parent / Path(part["file"]).name if data and part["withheld"] else path.parent / part["file"]
        if file.is_file() or not part["withheld"]:
            content = file.read_bytes()
            wrong += [name] * (hashlib.sha256(content).hexdigest() != part["sha256"])
            files[name] = dict(np.load(io.BytesIO(content), allow_pickle=False)) if file.suffix == ".npz" else {}
            _need(not any(a.dtype.kind == "f" and np.isnan(a).any() for a in files[name].values()), "not a number")
    found.say("evidence", not wrong, f"SHA-256 of {len(files)} files, wrong: {', '.join(wrong) or 'none'}")
    for name, given in zip(INPUTS[:5], (model, data, None, None, None), strict=True):
        seen = hashlib.sha256(Path(given).read_bytes()).hexdigest() if given and Path(given).is_file() else given
        sha, by = parts[name]["sha256"], "for you to compare" if seen is None else f"against {given}"
        found.say(name, None if seen is None else seen.lower() == sha, f"SHA-256 {sha[:16]}…, {by}")
    return files


def _claims(found: Verification, asked: Arrays, claims: Arrays, files: dict[str, Arrays]) -> None:
    order, shift, delta, epsilon = float(asked["order"]), float(asked["gamma"]), float(asked["delta"]), asked["epsilon"]
    radii, values, largest, weights = (files["profiles"][key] for key in ("radii", "values", "largest", "weights"))
    n, total, multiplier, upper = len(values), math.fsum(weights), claims["multiplier"] or 0.0, found.claimed_upper
    _need(values.shape == (n, len(radii)) and weights.shape == (n,) and radii[0] == 0 <= values.min(), "profiles")
    _need((np.diff(radii) > 0).all() and np.isfinite(values[:, 0]).all() and min(weights) >= 0 < total < 1e300, "rows")
    _need(order >= 1 and shift >= 0 <= multiplier < 1e300 and 0 <= delta < 1e300 and (epsilon or 0) >= 0, "question")
    still = shift == 0 or order == math.inf  # nobody moves, or everybody as far as gamma: there is nothing to pay

    def dual(values: Array, largest: float, multiplier: float) -> tuple[float, float, Array]:
        """At a multiplier the bound, what the shift costs, and how much everybody can gain by it."""
        grown = np.minimum.accumulate(np.hstack([values, np.full((n, 1), largest)])[:, ::-1], axis=1)[:, ::-1]
        costs = multiplier * (1 - 64 * U) * np.minimum(np.append(0.0, radii) ** (1.0 if still else order), 1e308)
        high = grown[:, np.searchsorted(radii, shift)] if still else np.maximum((grown - costs).max(1), 0.0)
        price = 0.0 if still or not multiplier else float(multiplier * np.float64(shift) ** order)
        return float((price + weights @ high / total) * (1 + gamma(n + 64))), price, high

    again = dual(values, float(largest), multiplier)[0]
    question = _question(files, delta) if "people" in files else "the individuals are withheld: give --data"
    if isinstance(question, str):
        return found.say("profiles", None, question)
    x, domain = files["people"]["x"], question.domain
    _need(x.shape == (n, len(domain.low)) and np.array_equal(files["people"]["weights"], weights), "individuals")
    own, best, proved = np.full(values.shape, np.inf), np.full(n, np.inf), np.ones((2, n), dtype=bool)
    for k in reversed(range(len(radii))):  # what is proved for a larger radius need not be proved for a smaller one
        rows = np.flatnonzero(np.isfinite(values[:, k]) & (best > values[:, k]))
        best[rows] = np.minimum(best[rows], question.bound(x[rows], np.full(len(rows), radii[k])))
        own[:, k] = best
        proved &= np.isinf(values[:, k]) | (best <= (NEAR if radii[k] else CLOSE) * values[:, k] + SAME)
    anybody = min(1.0 if question.head != "regression" else math.inf, question.bound(x[:1], np.full(1, np.inf))[0])
    proved &= anybody <= NEAR * largest
    found.share_proved, found.proved_upper = float(proved[0].mean()), dual(own, anybody, multiplier)[0]
    detail = f"{100 * found.share_proved:.1f} % of {n} within 5 %; anybody: claimed {largest:.4f}, proved {anybody:.4f}"
    found.say("profiles", proved[1].mean() >= SHARE and domain.contains(x).all(), detail, "proved again")
    holds = abs(again - upper) <= SAME * max(1.0, again) and found.proved_upper <= UPPER * upper + SAME
    detail = f"claimed {upper:.6f}, the claimed profiles give {again:.6f}, proved again {found.proved_upper:.6f}"
    found.say("upper", holds, detail, "proved again")
    if "witnesses" not in files:
        return found.say("lower", None, "the witnesses are withheld: put them beside --data")
    keys = ("owner", "person", "counterpart", "cost", "value", "mass")
    owner, z, y, cost, value, mass = (files["witnesses"][key] for key in keys)
    good = domain.contains(z) & domain.contains(y) & (z == y)[:, domain.immutable].all(1) & (value >= 0) & (mass >= 0)
    good &= question.metric.within(z, y, np.full(len(z), delta)) & question.ground.within(x[owner], z, cost)
    good &= value <= question.attained(z, y) + SAME
    found.say("witnesses", good.all(), f"{good.sum()} of {len(good)} pairs evaluated again")
    paid = float(cost[mass > 0].max() if still else (mass @ cost**order / total) ** (1 / order))
    whole = np.allclose(np.bincount(owner, mass, n), weights, rtol=SAME, atol=0.0) and paid <= shift * (1 + SAME)
    lower = float(mass @ value / total)
    detail = f"claimed {claims['lower']:.6f}, from {(mass > 0).sum()} atoms {lower:.6f}, at a distance of {paid:.6f}"
    found.say("lower", whole and abs(lower - claims["lower"]) <= SAME, detail)
    verdict = "certified" if upper <= (epsilon or 0) else "violated" if lower > (epsilon or 0) else "undecided"
    proper = claims["verdict"] == (verdict if epsilon is not None else None)
    proper &= verdict != "certified" or epsilon is None or found.proved_upper <= epsilon
    found.say("verdict", proper, f"{claims['verdict']} at {epsilon}")
    if claims["population"] is not None:
        said, slope = float(claims["population"]["upper"]), claims["population"]["multiplier"] or 0.0
        step = 0.0 if still else 2 * math.log2(largest / shift**order / slope) if slope else -1.0  # in a fixed grid
        tries, (_, price, high) = 1 if still else 32, dual(values, float(largest), slope)
        holds = 0 <= round(step) < tries and abs(step - round(step)) < 1e-6 and np.ptp(weights) == 0
        holds = holds and dual(own, anybody, slope)[0] <= UPPER * dual(values, float(largest), slope)[0] + SAME
        holds = holds and _confident(said, price, high, largest, (1 - asked["confidence"]) / tries)
        found.say("population", holds or said >= largest, f"at most {said:.6f}, if these are independent draws")
    return None


def _selection(found: Verification, who: Arrays | None, files: dict[str, Arrays]) -> None:
    """How people were selected is the issuer's word; that it is a word about these people can be seen."""
    if who is None:
        return found.say("selection", None, "how these people were selected is not said")
    n, rows = len(files["profiles"]["weights"]), files["people"]["rows"] if "people" in files else np.arange(0)
    fits = who["people"] == n and who["words"].startswith(f"{n:,} ") and (who["pool"] or n) >= n
    fits &= rows.max(initial=-1) < (who["rows"] or math.inf)
    fits &= who["how"] == "chosen" or len(np.unique(rows)) == len(rows)
    words = json.dumps(who["words"])[1:-1]  # nothing in a file can write on the terminal
    return found.say("selection", None if fits else False, f"{words}: the issuer's word")


def _confident(upper: float, price: float, high: Array, largest: float, alpha: float) -> bool:
    """Is a mean above what ``upper`` leaves refuted by Hoeffding's bound, or by bets on the values fixed in advance?"""
    n, m, h, odds = len(high), (upper - price) / largest, high / largest, -math.log(0.9 * alpha)
    theta = np.minimum(2.0 ** (-np.arange(math.ceil(max(0.0, math.log2(2 * n / odds))) + 1) / 2), 31 / 32)
    wealth = np.log1p(np.outer((m - h) / (1 - m), theta)).sum(0)
    plain = h.mean() + math.sqrt(-math.log(0.1 * alpha) / (2 * n)) <= m
    return bool(m < 1 and (plain or np.logaddexp.reduce(wealth) - math.log(len(theta)) >= odds))


def _question(files: dict[str, Arrays], delta: float) -> Question | str:
    """What is asked, or why it cannot be answered here."""
    layers, net, width = list[Layer](), files["network"], files["people"]["x"].shape[1]
    for i, kind in enumerate(net["kinds"].tolist()[1:], 1):
        if kind not in KINDS or net[f"{i}.inputs"].tolist() != [i - 1]:
            return f"no rule here for '{kind}' at node {i} of the network"
        if kind == "affine":
            layers.append(Layer(kind, net[f"{i}.weight"], net[f"{i}.bias"]))
            _need(layers[-1].weight.shape == (len(layers[-1].bias), width), f"node {i}")
            width = len(layers[-1].bias)
        else:
            layers.append(Layer(kind, leak=float(net[f"{i}.parameters"][0]) if kind == "leaky_relu" else 0.0))
    domain, metrics = Domain(**(files["domain"] | {"kind": str(files["domain"]["kind"])})), []
    for a in (files["metric"], files["ground"]):
        diagonal = a["root"].shape == (len(domain.low),) * 2 and not (a["root"] - np.diag(np.diag(a["root"]))).any()
        metrics.append(Metric(**a, diagonal=diagonal))
        _need(all(a[k].shape == domain.low.shape for k in Metric._fields[3:]) and min(a["unit"]) > 0, "metric")
    _need(str(net["head"]) in ("softmax", "sigmoid", "regression") and min(domain.unit) > 0, "network")
    return Question(layers, str(net["head"]), domain, metrics[0], delta, metrics[1])


def _need(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)
