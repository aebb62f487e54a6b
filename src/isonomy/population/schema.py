"""The schema: which columns make an individual, and in which coordinates individuals are compared.

Radii mean nothing until the coordinates are fixed, so the schema fixes them, never the table at hand and
never the model. All features are coordinates, also protected ones that the model does not see. A schema is
read from a TOML file that is pleasant to write by hand, or inferred from a table and then corrected by hand.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isonomy.errors import ParameterError, SchemaError, template
from isonomy.files import atomic
from isonomy.given import instance
from isonomy.population.domain import BoolArray, Domain, DomainKind, FloatArray, check_kind, repeated
from isonomy.population.encoding import decode_column, encode_table, find_column
from isonomy.population.feature import Feature, Label, Split
from isonomy.population.inference import find_identifiers, infer_features, infer_label
from isonomy.population.schema_file import read_schema, write_schema
from isonomy.population.tables import read_frame

Unknown = Literal["error", "exclude"]


@dataclass(frozen=True)
class Encoded:
    """Individuals in fair coordinates: ``x`` of the kept rows, their mask, how many were excluded."""

    x: FloatArray
    kept: BoolArray
    excluded: int


@dataclass(frozen=True)
class Schema:
    """Which columns make an individual, and in which coordinates individuals are compared.

    A schema has a ``name``, a ``description`` and ``features``, each a :class:`Feature`. ``label`` names the outcome;
    ``weight`` the column of sampling weights, and ``max_weight`` the largest that can occur, known beforehand and not
    from the table; ``split`` the column that tells training from test rows; ``inputs`` is the ``[model.inputs]`` table,
    which says how a model reads the coordinates. ``id`` names the column by whose values people are known: it is no
    feature, and nothing that is proved depends on it.
    """

    name: str
    features: tuple[Feature, ...]
    label: Label | None = None
    weight: str | None = None
    split: Split | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    description: str = ""
    max_weight: float | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        if not self.features:
            raise SchemaError(f"Schema {self.name!r} has no features: add at least one [features.<column>] table.")
        if self.max_weight is not None and (self.weight is None or not 0 < self.max_weight < math.inf):
            raise SchemaError(
                f"Schema {self.name!r}: 'max_weight' must be a positive number beside a 'weight'. "
                f"Got {self.max_weight}."
            )
        roles = (self.label and self.label.column, self.weight, self.split and self.split.column, self.id)
        columns = (*(feature.name for feature in self.features), *(role for role in roles if role))
        if (twice := repeated(columns)) is not None:
            raise SchemaError(f"Schema {self.name!r}: column {twice!r} has two roles; a column has exactly one.")
        if (twice := repeated(self.coordinate_names)) is not None:
            raise SchemaError(f"Schema {self.name!r}: two coordinates would be called {twice!r}; rename a category.")

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Schema:
        """Read a TOML file, or TOML text (anything that holds a line break or ``=``)."""
        return cls(**read_schema(source))

    @classmethod
    def infer(
        cls,
        frame: Any,
        *,
        name: str = "inferred",
        label: str | None = None,
        protected: Iterable[str] = (),
        proxies: Iterable[str] = (),
        immutable: Iterable[str] = (),
        weight: str | None = None,
        split: Split | None = None,
        ignore: Iterable[str] = (),
        max_categories: int = 50,
    ) -> Schema:
        """Guess a schema from a table ``frame``; write it out, read it and correct it before certifying anything.

        The caller says what no table tells: the ``name``, which columns are ``protected``, ``proxies`` or
        ``immutable``, and which one is the ``label``, the ``weight``, the ``split``. The guesses follow the column's
        type and err towards the larger domain:

        * whole-number types are integers, except protected ones with at most 12 values, which are read as
          codes of categories; floats are numeric even where all are whole; texts and booleans are categories,
          in sorted order; an ordered pandas category is ordinal;
        * low and high are the extremes of the column widened to round numbers (steps of 1, 2 or 5 times a
          power of ten, about a tenth of the range); origin is low and unit the range, so coordinates run from
          0 to 1;
        * a missing number is filled with the median beside a flag; a missing category becomes a category;
        * a label that is a float with more than 20 values is a regression, any other has classes;
        * a column that is called an identifier (``id``, ``customer_id``, ``No``, …) and has another value in every row
          is none of these but the ``id``; others like it, and one that ``ignore`` names, are left out.

        A date, a column without a value, or a text column with more than ``max_categories`` values cannot be
        guessed: the error says so, and ``ignore`` leaves the column out.
        """
        table = read_frame(frame)
        roles = {"protected": set(protected), "proxy": set(proxies), "immutable": set(immutable)}
        ignore = tuple(ignore)
        not_features = {name for name in (label, weight, split.column if split else None) if name is not None}
        named = {*not_features, *ignore}.union(*roles.values())
        for column in named:
            find_column(table, column)
        identifiers = find_identifiers(table.drop(columns=list(named)))
        return cls(
            name=name,
            features=infer_features(table.drop(columns=[*not_features, *ignore, *identifiers]), roles, max_categories),
            label=None if label is None else infer_label(table[label]),
            weight=weight,
            split=split,
            id=next(iter(identifiers), None),
        )

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Return the coordinates of each feature."""
        stops = np.cumsum([feature.width for feature in self.features]).tolist()
        return {f.name: slice(stop - f.width, stop) for f, stop in zip(self.features, stops, strict=True)}

    @cached_property
    def singles(self) -> tuple[Feature, ...]:
        """Return the columns beside the features that are read as one coordinate each: the label, then the weight."""
        label = () if self.label is None else (self.label.as_feature(),)
        return label if self.weight is None else (*label, Feature(self.weight, low=0.0, origin=0.0, unit=1.0))

    @cached_property
    def width(self) -> int:
        """Return the number ``m`` of coordinates."""
        return sum(feature.width for feature in self.features)

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Return ``age``, ``sex=female``, ``sex=male``, ``income``, ``income=missing`` …"""
        return tuple(name for feature in self.features for name in feature.coordinate_names)

    @property
    def protected(self) -> tuple[str, ...]:
        """Return the names of the protected features."""
        return tuple(feature.name for feature in self.features if feature.protected)

    @property
    def proxies(self) -> tuple[str, ...]:
        """Return the names of the declared proxies."""
        return tuple(feature.name for feature in self.features if feature.proxy)

    @property
    def protected_coordinates(self) -> BoolArray:
        """Return the mask ``(m,)`` of the coordinates of protected features."""
        return self._spread([feature.protected for feature in self.features])

    @cached_property
    def seen_coordinates(self) -> BoolArray:
        """Return the mask ``(m,)`` of the coordinates of features that the model reads."""
        return self._spread([feature.seen for feature in self.features])

    def __getitem__(self, name: str) -> Feature:
        for feature in self.features:
            if feature.name == name:
                return feature
        raise ParameterError(template("feature", f"one of {', '.join(map(repr, self.slices))}", name))

    def domain(self, kind: DomainKind = "realizable") -> Domain:
        """Return the individuals that this schema makes possible."""
        check_kind(kind)
        return self._domains[kind]

    @cached_property
    def _domains(self) -> dict[DomainKind, Domain]:
        """Return the domain of each kind, made from the realizable one."""
        blocks, fills = [], []
        for feature in self.features:
            start, stop = self.slices[feature.name].start, self.slices[feature.name].stop
            if feature.kind == "categorical" and feature.width > 1:
                blocks.append((start, stop))
            if feature.flagged:
                blocks.append((start + 1, stop))
                fills.append((start + 1, start, feature.coordinate(feature.fill_value)))
        low, high = zip(*(bound for feature in self.features for bound in _ranges(feature)), strict=True)
        scaled = self._spread([feature.kind in ("integer", "ordinal") for feature in self.features])
        scaled[[flag for flag, _, _ in fills]] = False
        realizable = Domain(
            kind="realizable",
            low=np.array(low),
            high=np.array(high),
            blocks=tuple(blocks),
            integer=scaled,
            origin=self._spread([feature.origin for feature in self.features]),
            unit=self._spread([feature.unit for feature in self.features]),
            immutable=self._spread([feature.immutable for feature in self.features]),
            names=self.coordinate_names,
            fills=tuple(fills),
        )
        return {kind: realizable.with_kind(kind) for kind in get_args(DomainKind)}

    def encode(self, frame: Any, unknown: Unknown = "error") -> Encoded:
        """Return the fair coordinates of the rows of a table ``frame``.

        A value that the schema does not know is an error that names column, row and value;
        ``unknown="exclude"`` leaves such rows out and counts them. A missing column or an empty table is
        always an error.
        """
        x, _, kept = encode_table(read_frame(frame), self.features, (), unknown)
        return Encoded(x, kept, int((~kept).sum()))

    def decode(self, x: ArrayLike, *, words: bool = False, only: Collection[str] | None = None) -> pd.DataFrame:
        """Return the raw values of individuals ``x`` in fair coordinates, to be shown to a person.

        Numbers are ``coordinate * unit + origin``; a relaxed category reads ``female 0.70 / male 0.30``.
        ``words=True`` replaces category codes by the schema's words for them; ``only`` some features are decoded.
        """
        rows = np.atleast_2d(np.asarray(x, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ParameterError(template("x", f"rows of {self.width} coordinates", np.shape(x)))
        features = [feature for feature in self.features if only is None or feature.name in only]
        columns = {f.name: decode_column(rows[:, self.slices[f.name]], f, words) for f in features}
        return pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))

    def to_toml(self) -> str:
        """Return the schema as TOML text; reading it gives an equal schema."""
        return write_schema(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the TOML file, whole or not at all."""
        with atomic(Path(path), "schema file", folders=False) as partial:
            partial.write_text(self.to_toml(), encoding="utf-8")

    def hash(self) -> str:
        """Return the SHA-256 of the meaning of coordinates; words for display, and what is decided, do not count."""
        content = asdict(self)
        for name in ("max_weight", "id"):
            content.pop(name)
        for table in (content, *content["features"], content["label"] or {}):
            table.pop("description", None)
            table.pop("labels", None)
        for name in ("favourable", "threshold"):
            (content["label"] or {}).pop(name, None)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def refuse_other(self, given: Schema | None) -> None:
        """Refuse a schema that is given beside people who have this one, where it says something else of them."""
        if given is None:
            return
        instance("schema", given, Schema, "a Schema")
        meanings = [
            (schema.hash(), schema.max_weight, schema.label and (schema.label.favourable, schema.label.threshold))
            for schema in (given, self)
        ]
        if meanings[0] != meanings[1]:
            raise ParameterError(
                f"'schema' says something else than the schema {self.name!r} that these individuals have: leave it "
                "out, or read their table anew with it."
            )

    def _spread(self, per_feature: Sequence[Any]) -> NDArray[Any]:
        return np.repeat(np.array(per_feature), [feature.width for feature in self.features])


def _ranges(feature: Feature) -> list[tuple[float, float]]:
    """Return low and high of each coordinate of a feature; a lone category is always 1."""
    if feature.kind == "categorical":
        return [(0.0, 1.0)] * feature.width if feature.width > 1 else [(1.0, 1.0)]
    ends = (feature.coordinate(feature.low), feature.coordinate(feature.high))
    return [ends, (0.0, 1.0)][: feature.width]
