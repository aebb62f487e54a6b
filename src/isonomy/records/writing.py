"""Writing a certificate: the evidence as plain arrays, the document that names it by SHA-256, and a signature.

The form is that of :mod:`isonomy_verify.record`; see ``docs/reference/certificate.md``. Nothing half-written stands
under a final name: files are written elsewhere and renamed, and ``certificate.json`` comes last. An older certificate
in the same directory is taken away before its evidence is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.certificates.alone import ChangeAlone
from isonomy.certificates.assembled import Assembled, some_rows
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.forms import domain_arrays
from isonomy.certificates.gaps import FeatureGap
from isonomy.certificates.protocol import tier_for
from isonomy.certificates.reweighting import Reweighting
from isonomy.errors import DataError, FileError, needed
from isonomy.files import file_hash
from isonomy.model import Model
from isonomy.similarity.files import metric_to_text
from isonomy_verify import definitions
from isonomy_verify import record as files
from isonomy_verify.alone import claims
from isonomy_verify.claims import inflated, outward, verdict
from isonomy_verify.individuals import FLIPPABLE, Individuals

WITHHELD = (
    "people.x",
    "people.y",
    "local.counterpart",
    "local.flip_counterpart",
    "points.person",
    "points.counterpart",
    "turned.person",
    "turned.counterpart",
    "model.people",
)
"""Arrays that hold people's rows, and are not written when a record is redacted."""

BLOCK = 2**20
"""Numbers written at a time."""

Written = dict[str, NDArray[Any] | Callable[[], NDArray[Any] | Assembled]]
"""Arrays of the evidence by name; those that are made here when they are written, one after the other."""

_UNRECORDED = (
    "The statement rests on who belongs together, which is not in the evidence, so that nobody could check it."
)


def write(
    directory: Path,
    certificate: Certificate,
    *,
    sources: Mapping[str, str] = MappingProxyType({}),
    created: str = "",
    redact: bool = False,
    key: Path | None = None,
    beside: Sequence[str] = (),
    table: Mapping[str, Any] | None = None,
    alone: Sequence[ChangeAlone] = (),
    gaps: Sequence[FeatureGap] = (),
) -> Path:
    """Write ``certificate.json`` and ``evidence/`` into a directory, and return the path of the former.

    ``sources`` names files and their SHA-256, ``created`` is an ISO 8601 date. With ``redact`` people's rows are left
    out; their hash stays, so that the rows can be checked later. ``key`` is the file of a private key
    (:func:`isonomy.records.new_key`) that signs the document, into ``certificate.dsse.json``. ``beside`` are files of
    the directory, such as a report, that the document names by their hash. ``table`` says how the file of people was
    read (:func:`isonomy.population.tables.described`, and ``unknown``), so that others read it in no other way.
    ``alone`` are the answers to questions about some features alone, or all but some, ``gaps`` those about the whole
    domain (of the same model and ``arithmetic``), which become claims too.
    """
    people, directory = certificate.people, Path(directory)
    if people is None:
        raise DataError("A record needs individuals with a schema: certify a Population.")
    if not (np.diff(people.rows) > 0).all():
        raise DataError("A record needs individuals in the order of their table, each of its rows once.")
    private = None if key is None else read_key(key)
    fresh = directory / f".{files.EVIDENCE}.{secrets.token_hex(8)}.part"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        model = _recorded_model(certificate, alone)
        answers = [(each, each.claimed) for each in alone if each.claimed is not None]
        evidence = _arrays(certificate, model) | _alone_arrays(answers)
        evidence |= {f"gaps.{i}.{name}": array for i, gap in enumerate(gaps) for name, array in gap.arrays().items()}
        hashes, shapes = _write_arrays(evidence, fresh, redact)
        hashes |= {f"{files.EVIDENCE}/{name}": digest for name, digest in _write_texts(certificate, fresh).items()}
        hashes |= {name: file_hash(directory / name) for name in beside}
        predicate = _predicate(certificate, model, dict(sources), created)
        if answers:
            predicate["claims"]["alone"] = [
                claims(each.features, each.held, own, certificate.weights) for each, own in answers
            ]
        if gaps:
            predicate["claims"]["gaps"] = [gap.claim() for gap in gaps]
        predicate |= {
            "reading": {"table": None if table is None else dict(table), "model": _model_reading(certificate)},
            "arrays": shapes,
            "withheld": [name for name in shapes if redact and withheld(name)],
        }
        subject = [{"name": name, "digest": {"sha256": digest}} for name, digest in hashes.items()]
        document = {
            "_type": files.STATEMENT,
            "subject": subject,
            "predicateType": files.PREDICATE,
            "predicate": predicate,
        }
        content = (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()
        return _replace_record(directory, fresh, content, None if private is None else _signed(content, private))
    except OSError as error:
        raise FileError(f"The certificate cannot be written to {directory}: {error.strerror}.") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _write_arrays(evidence: Written, folder: Path, redact: bool) -> tuple[dict[str, str], dict[str, list[int]]]:
    """Write arrays, made one after the other, and return their hashes by file and shapes by name; where a record is
    redacted those with people's rows leave a hash alone."""
    hashes, shapes = {}, {}
    for name, made in evidence.items():
        array = made() if callable(made) else made
        shapes[name] = list(array.shape)
        hashes[f"{files.EVIDENCE}/{name}.bin"] = _write_array(folder / f"{name}.bin", array, files.dtype_of(name))
        if redact and withheld(name):
            (folder / f"{name}.bin").unlink()
    return hashes, shapes


def _write_texts(certificate: Certificate, folder: Path) -> dict[str, str]:
    """Write the texts of the evidence, and return their hashes by name."""
    texts = _texts(certificate)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name: file_hash(folder / name) for name in texts}


def withheld(name: str) -> bool:
    """Return whether an array holds people's rows."""
    return name in WITHHELD or (name.startswith("alone.") and name.endswith("counterpart"))


def _recorded_model(certificate: Certificate, alone: Sequence[ChangeAlone]) -> Model:
    tier = tier_for(certificate.problem, certificate.tier, certificate.arithmetic == "float32")
    return tier.recorded(certificate, [each.certificate for each in alone])


def _alone_arrays(answers: Sequence[tuple[ChangeAlone, Individuals]]) -> Written:
    """Return the arrays of questions about some features alone, by name."""
    arrays: Written = {}
    for number, (change, own) in enumerate(answers):
        pairs = change.certificate.witnesses
        parts: Written = {
            "upper": own.upper, "lower": own.lower, "decision": own.decision,
            "counterpart": partial(some_rows, pairs.counterpart, own.lower > 0),
            "flip_counterpart": partial(some_rows, pairs.flip_counterpart, own.decision == FLIPPABLE),
        }  # fmt: skip
        arrays |= {f"alone.{number}.{name}": array for name, array in parts.items()}
    return arrays


def _predicate(certificate: Certificate, model: Model, sources: dict[str, str], created: str) -> dict[str, Any]:
    problem, people = certificate.problem, certificate.people
    assert people is not None
    section, ground = certificate.shift.section(), certificate.shift.ground_file
    changes = certificate.change_claims
    others, shifts = [each.section() for each in certificate.shifts], certificate.shift_claims
    lower, upper, hidden = certificate.claimed
    return {
        "question": {
            "delta": certificate.delta,
            "shift": {name: _json_number(value) for name, value in section.items()},
            **({"shifts": others} if others else {}),
            "epsilon": certificate.epsilon,
            "confidence": certificate.confidence,
            "tier": certificate.tier,
            "arithmetic": certificate.arithmetic,
            "domain": problem.domain.kind,
            "head": model.head,
            "head_from": "file" if _head_in_file(model) else "declared",
            "classes": list(problem.outcome.classes),
            "favourable": list(problem.outcome.favourable),
            "threshold": problem.outcome.threshold,
            "output_range": None if certificate.output_range is None else list(certificate.output_range),
            "max_branches": problem.max_branches,
        },
        "claims": {  # what the evidence implies, rounded outward; see isonomy_verify.claims
            "upper": upper,
            "lower": lower,
            "multiplier": certificate.multiplier,
            "hidden": hidden,
            "verdict": verdict(lower, upper, certificate.epsilon),
            "population": _population(certificate, shifts),
            "local": certificate.individuals.claims(certificate.weights, certificate.epsilon),
            **({"shifts": shifts} if shifts else {}),
            **({} if changes is None else {"changes": changes}),
            **_hints(certificate),
        },
        "selection": asdict(people.selection),
        "model": {"kind": model.kind, **model.section()},
        "remarks": {
            "software": f"isonomy {version('isonomy')}",
            "created": created,
            "sources": sources,
            "model": model.name,
            "schema": people.schema.name,
            "metric": problem.metric.describe(),
            "refusal": certificate.refusal or (_UNRECORDED if certificate.clusters is not None else ""),
            **({} if ground is None else {"ground": ground.describe()}),
        },
    }


def _hints(certificate: Certificate) -> dict[str, Any]:
    """Return the hints of a composition, by which its claims follow from those about everybody."""
    hints = None if certificate.shift.ground_cost is None else certificate.moved_claims.hints
    return {} if hints is None else {"hints": {name: list(values) for name, values in hints._asdict().items()}}


def _model_reading(certificate: Certificate) -> dict[str, Any] | None:
    """Return the options with which the model's file was read; None where it came from no file."""
    opened = certificate.problem.model.opened
    return None if opened is None else dict(opened)


def _head_in_file(model: Model) -> bool:
    """Return whether the head follows from the model file: neither declared by the caller, nor assumed."""
    return model.opened is not None and model.opened["head"] == "auto" and not model.assumed_head


def _population(certificate: Certificate, shifts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if certificate.refusal or certificate.clusters is not None:
        return None
    if isinstance(certificate.shift, Reweighting):  # the claim about the shift has what shows it
        return {"upper": shifts[0]["behind"]["upper"], "multiplier": None}
    bound = certificate.population
    # Bets are on claims, which exceed the derived bounds by a margin: four times the margin covers the difference.
    margin = float(inflated(certificate.profiles.largest)) - certificate.profiles.largest
    return {"upper": outward(bound.upper + 1e-6 + 4 * margin), "multiplier": bound.multiplier}


def _texts(certificate: Certificate) -> dict[str, str]:
    """Return metric, ground cost and schema as texts; refuse those that would be read back as others."""
    people, problem = certificate.people, certificate.problem
    assert people is not None
    label, outcome = people.schema.label, problem.outcome
    fits = label is not None and len(label.classes) == len(outcome.classes)
    schema = replace(people.schema, label=outcome) if fits else people.schema  # which holds the outcome, too
    texts = {files.SCHEMA: schema.to_toml()}
    space = domain_arrays(definitions.domain_of(texts[files.SCHEMA], problem.domain.kind))
    if not _equal_arrays(space, domain_arrays(problem.domain)):
        raise DataError("A record needs individuals in the domain of their schema: give the schema their ranges.")
    possible = definitions.domain_of(texts[files.SCHEMA], "realizable")
    for name, metric in ((files.METRIC, problem.metric), (files.GROUND, certificate.shift.ground_file)):
        if metric is None:
            continue
        texts[name] = metric_to_text(metric)
        try:
            read = definitions.form_of(texts[name], name, possible)
        except files.BadInput as error:
            raise DataError(f"The {type(metric).__name__} is none of these individuals: {error}") from None
        if not _equal_arrays(vars(read), vars(metric.form)):
            raise DataError(f"The {type(metric).__name__} cannot be written to {name}, which would be another metric.")
    return texts


def _equal_arrays(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the arrays of one are equal to those of the other."""
    return all(np.array_equal(one[name], other[name]) for name in one)


def _arrays(certificate: Certificate, model: Model) -> Written:
    """Return all arrays by name; those that are mapped from files stay there, and some rows of them too."""
    x, weights, people, local = certificate.x, certificate.weights, certificate.people, certificate.local
    profiles, points, alone = certificate.profiles, certificate.points, certificate.individuals
    assert people is not None
    still = isinstance(certificate.shift, Reweighting)  # then the claims about everybody alone are the evidence
    mass = None if still else certificate.moved_claims.plan.masses(weights, len(points.owner))
    # The attainable points of the claimed population, and every individual unmoved.
    recorded = (points.cost == 0) | (False if mass is None else mass > 0)
    passes, turned, away = np.unique(profiles.source), certificate.turned_masses, certificate.turned_away
    groups: dict[str, Written] = {
        "people": {
            "x": x,
            "weights": weights,
            "rows": people.rows,
            **({} if people.y is None else {"y": people.y}),
        },
        "local": {
            "upper": alone.upper,
            "lower": alone.lower,
            "decision": alone.decision,
            "counterpart": partial(some_rows, local.witnesses.counterpart, alone.lower > 0),
            "flip_counterpart": partial(some_rows, local.witnesses.flip_counterpart, alone.decision == FLIPPABLE),
            **({} if still or certificate.steady is None else {"steady": lambda: certificate.radii}),
        },
        "profiles": {
            "count": lambda: np.diff(profiles.start),
            "radius": profiles.radius,
            "value": profiles.value,
            "pass": lambda: np.searchsorted(passes, profiles.source).astype(np.uint32),
            "passes": passes,
            "largest": np.array([profiles.largest]),
        },
        "points": {
            "count": lambda: np.bincount(points.owner[recorded], minlength=len(x)),
            "person": partial(some_rows, points.person, recorded),
            "counterpart": partial(some_rows, points.counterpart, recorded),
            "cost": lambda: points.cost[recorded],
            "value": lambda: points.value[recorded],
            "mass": lambda: np.zeros(recorded.sum()) if mass is None else mass[recorded],
        },
        "turned": {}
        if turned is None
        else {
            "owner": turned.owner,
            "cost": turned.cost,
            "mass": turned.mass,
            "person": away.person,
            "counterpart": away.counterpart,
        },
        "model": dict(model.arrays()),
    }
    return {f"{group}.{name}": array for group, arrays in groups.items() for name, array in arrays.items()}


def _write_array(path: Path, array: NDArray[Any] | Assembled, dtype: np.dtype[Any]) -> str:
    """Write an array in blocks, and return its SHA-256."""
    digest, rows = hashlib.sha256(), max(1, BLOCK // max(1, math.prod(array.shape[1:])))
    with path.open("wb") as file:
        for start in range(0, len(array) if array.ndim else 1, rows):
            piece = np.ascontiguousarray(array[start : start + rows] if array.ndim else array, dtype).tobytes()
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _replace_record(directory: Path, fresh: Path, content: bytes, envelope: bytes | None) -> Path:
    target, evidence, stale = directory / files.DOCUMENT, directory / files.EVIDENCE, fresh.with_suffix(".old")
    temporary = fresh.with_suffix(".json")
    try:
        temporary.write_bytes(content)
        target.unlink(missing_ok=True)
        (directory / files.ENVELOPE).unlink(missing_ok=True)
        if evidence.exists():
            evidence.rename(stale)
        fresh.rename(evidence)
        if envelope is not None:
            (directory / files.ENVELOPE).write_bytes(envelope)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
        shutil.rmtree(stale, ignore_errors=True)
    return target


def _json_number(value: Any) -> Any:
    """Return a number for JSON, which has no infinity; anything else as it is."""
    if isinstance(value, dict):
        return {name: _json_number(each) for name, each in value.items()}
    return "inf" if isinstance(value, float) and value == math.inf else value


# -- signatures --------------------------------------------------------------------------------------------------


def new_key(path: Path) -> str:
    """Write a new private key, readable by its owner only, and return the public key in hexadecimal."""
    private = _ed25519().Ed25519PrivateKey.generate()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(private.private_bytes_raw().hex() + "\n")
    except OSError as error:
        raise FileError(f"The key file {path} cannot be written: {error.strerror}.") from None
    return _public(private)


def read_key(path: Path) -> Any:
    """Read the private key in a file."""
    try:
        seed = bytes.fromhex(Path(path).read_text(encoding="ascii").strip())
    except OSError as error:
        raise FileError(f"The key file {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise FileError(f"The key file {path} must hold 64 hexadecimal digits.")
    return _ed25519().Ed25519PrivateKey.from_private_bytes(seed)


def _signed(content: bytes, private: Any) -> bytes:
    """Return the DSSE envelope of the document."""
    signature = base64.b64encode(private.sign(files.encoded(content))).decode()
    envelope = {
        "payloadType": files.PAYLOAD,
        "payload": base64.b64encode(content).decode(),
        "signatures": [{"keyid": _public(private), "sig": signature}],
    }
    return (json.dumps(envelope) + "\n").encode()


def _public(private: Any) -> str:
    return str(private.public_key().public_bytes_raw().hex())


def _ed25519() -> Any:
    return needed("cryptography.hazmat.primitives.asymmetric.ed25519", "sign", "a signature")
