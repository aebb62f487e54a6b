"""Writing a certificate: the evidence first, then the document that names it by SHA-256.

Nothing half-written stands under a final name: files are written elsewhere and renamed, and ``certificate.json`` comes
last. An older certificate in the same directory is taken away before its evidence is.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from isonomy.certificates.certificate import Certificate
from isonomy.certificates.forms import Arrays, domain_arrays, metric_arrays, network_arrays
from isonomy.errors import DataError, FileError
from isonomy.networks.network import Network
from isonomy.population import Population
from isonomy.records.signature import read_key, signed
from isonomy.similarity.files import metric_to_text

FORMAT, VERSION = "isonomy certificate", 1
DOCUMENT, EVIDENCE = "certificate.json", "evidence"
WITHHELD = ("people", "witnesses")
"""Evidence that holds people's rows, and is not written when a record is redacted."""

_UNRECORDED = (
    "The statement rests on who belongs together, which is not in the evidence, so that nobody could check it."
)


def write(
    directory: Path,
    certificate: Certificate,
    network: Network,
    people: Population,
    *,
    sources: Mapping[str, str] = MappingProxyType({}),
    created: str = "",
    redact: bool = False,
    key: Path | None = None,
) -> Path:
    """Write ``certificate.json`` and ``evidence/`` into a directory, and return the path of the former.

    ``network`` and ``people`` are those that were certified; ``sources`` names files and their SHA-256, ``created`` is
    an ISO 8601 date. With ``redact`` people's rows are left out; their hash stays, so that who has them can show them.
    ``key`` is the file of a private key (:func:`isonomy.records.new_key`) that signs the document.
    """
    if not np.array_equal(people.x, certificate.question.x):
        raise DataError("'people' must be the individuals that were certified.")
    seed = None if key is None else read_key(key)
    files = _evidence(certificate, people)
    document = _document(certificate, network, people, dict(sources), created)
    document["evidence"] = {
        name: {
            "file": f"{EVIDENCE}/{file}",
            "sha256": hashlib.sha256(content).hexdigest(),
            "withheld": redact and name in WITHHELD,
        }
        for name, (file, content) in files.items()
    }
    if seed is not None:
        document = signed(document, seed)
    kept = {file: content for name, (file, content) in files.items() if not (redact and name in WITHHELD)}
    return _put(Path(directory), document, kept)


def _document(
    certificate: Certificate,
    network: Network,
    people: Population,
    sources: dict[str, str],
    created: str,
) -> dict[str, Any]:
    asked = {"delta": certificate.delta, "gamma": certificate.gamma, "order": certificate.order}
    return {
        "format": FORMAT,
        "version": VERSION,
        "question": {name: _number(value) for name, value in asked.items()}
        | {"epsilon": certificate.epsilon, "confidence": certificate.confidence},
        "claims": {
            "upper": _number(certificate.upper),
            "multiplier": certificate.multiplier,
            "lower": certificate.lower,
            "verdict": None if certificate.epsilon is None else certificate.verdict,
            "population": _population(certificate),
        },
        "evidence": {},
        "remarks": {
            "software": f"isonomy {version('isonomy')}",
            "created": created,
            "sources": sources,
            "network": network.name,
            "head": f"{network.head} (assumed)" if network.assumed_head else network.head,
            "schema": people.schema.name,
            "split": people.split,
            "selection": people.selection.as_dict(),
            "metric": certificate.question.metric.describe(),
            "ground": certificate.ground.describe(),
            "domain": certificate.question.domain.kind,
            "tier": certificate.tier,
            "arithmetic": certificate.arithmetic,
            "refusal": certificate.refusal or (_UNRECORDED if certificate.clusters is not None else ""),
        },
    }


def _population(certificate: Certificate) -> dict[str, Any] | None:
    if certificate.refusal or certificate.clusters is not None:
        return None
    bound = certificate.population
    return {"upper": _number(bound.upper), "multiplier": bound.multiplier}


def _evidence(certificate: Certificate, people: Population) -> dict[str, tuple[str, bytes]]:
    question, profiles, points = certificate.question, certificate.profiles, certificate.points
    witnesses = {
        "owner": points.owner.astype(np.int64),
        "person": points.person,
        "counterpart": points.counterpart,
        "cost": points.cost,
        "value": points.value,
        "mass": certificate.mixture.masses(question.weights, len(points.owner)),
    }
    arrays = {
        "network": network_arrays(question.network),
        "people": {"x": np.array(question.x), "weights": np.array(question.weights), "rows": np.array(people.rows)},
        "metric": metric_arrays(question.metric),
        "ground": metric_arrays(certificate.ground),
        "domain": domain_arrays(question.domain),
        "profiles": {
            "radii": profiles.radii,
            "values": profiles.values,
            "largest": np.array(profiles.largest),
            "weights": np.array(question.weights),
        },
        "witnesses": witnesses,
    }
    files = {name: (f"{name}.npz", packed(part)) for name, part in arrays.items()}
    texts = {
        "metric_text": ("metric.toml", metric_to_text(question.metric)),
        "ground_text": ("ground.toml", metric_to_text(certificate.ground)),
        "schema_text": ("schema.toml", people.schema.to_toml()),
    }
    return files | {name: (file, text.encode()) for name, (file, text) in texts.items()}


def packed(arrays: Arrays) -> bytes:
    """A compressed archive; the same bytes for the same arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    return value if math.isfinite(value) else "inf"


def _put(directory: Path, document: Mapping[str, Any], files: Mapping[str, bytes]) -> Path:
    target, evidence = directory / DOCUMENT, directory / EVIDENCE
    fresh, stale = (directory / f".{EVIDENCE}.{os.getpid()}.{word}" for word in ("part", "old"))
    temporary = directory / f".{DOCUMENT}.{os.getpid()}.part"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        for name, content in files.items():
            (fresh / name).write_bytes(content)
        temporary.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        target.unlink(missing_ok=True)
        if evidence.exists():
            evidence.rename(stale)
        fresh.rename(evidence)
        temporary.replace(target)
    except OSError as error:
        raise FileError(f"The certificate cannot be written to {directory}: {error.strerror}.") from None
    finally:
        temporary.unlink(missing_ok=True)
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(stale, ignore_errors=True)
    return target
