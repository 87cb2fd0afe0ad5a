# SPDX-License-Identifier: Apache-2.0
"""Feature columns as numbers: which columns, read how, scaled and encoded from training rows only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..features import numbered_categories

VASP_FEATURES = (
    "core_num",
    "kpoints",
    "volume",
    "prec",
    "ichg",
    "isym",
    "lreal",
    "ispin",
    "istart",
    "nelmin",
    "nelm",
    "ediff",
    "ediffg",
    "encut",
    "nbands",
)
DISCRETE = frozenset({"prec", "ichg", "isym", "lreal", "ispin", "istart"})
KEY = ("ispin", "isym", "lreal", "prec")
Row = tuple[Any, ...]
Encut = Literal["paper", "physics", "plain"]
ENCUT_POWER = {"paper": 3.0, "physics": 1.5, "plain": 1.0}


def columns_of(features: Sequence[str]) -> tuple[str, ...]:
    """The request's fields behind feature names: the paper's `core_num` is our `procs`.

    >>> columns_of(("core_num", "encut"))
    ('procs', 'encut')
    """
    return tuple("procs" if name == "core_num" else name for name in features)


@dataclass(frozen=True, slots=True)
class Encoder:
    """How rows become numbers, learnt from training rows: scale of the continuous, categories of the discrete ones.

    Wu et al. 2019, section 2.1: ENCUT cubed (`physics`: to the power 1.5, the number of plane waves), continuous
    features to [0, 1] by the training rows' extremes (constant ones to 0, unseen values beyond them stay beyond),
    discrete ones one-hot (IRPA; a category never seen is all zeros) or numbered (BRBF; never seen is the number after
    the last). A column is discrete if it is one of the paper's or holds text.
    """

    names: tuple[str, ...]
    powers: np.ndarray
    continuous: tuple[int, ...]
    low: np.ndarray
    span: np.ndarray
    categories: dict[int, dict[Any, int]]

    @classmethod
    def fit(cls, names: Sequence[str], rows: Sequence[Row], encut: Encut = "paper") -> Encoder:
        """From training rows without unknown values. O(rows)."""
        columns = list(zip(*rows))
        is_discrete = [n in DISCRETE or any(isinstance(v, str) for v in c) for n, c in zip(names, columns)]
        continuous = tuple(k for k, discrete in enumerate(is_discrete) if not discrete)
        powers = np.array([ENCUT_POWER[encut] if names[k] == "encut" else 1.0 for k in continuous])
        values = np.array([[row[k] for k in continuous] for row in rows], dtype=float) ** powers
        low, high = values.min(axis=0), values.max(axis=0)
        categories = {k: numbered_categories(columns[k]) for k, discrete in enumerate(is_discrete) if discrete}
        return cls(tuple(names), powers, continuous, low, np.where(high > low, high - low, np.inf), categories)

    def covers(self, rows: Sequence[Row]) -> bool:
        """Whether other rows lie inside what this was fitted on, so that a model may go on with it."""
        values = np.array([[row[k] for k in self.continuous] for row in rows], dtype=float) ** self.powers
        high = self.low + np.where(np.isinf(self.span), 0.0, self.span)
        return bool(((values >= self.low) & (values <= high)).all()) and all(
            row[k] in codes for row in rows for k, codes in self.categories.items()
        )

    def scaled(self, rows: Sequence[Row]) -> np.ndarray:
        """The continuous features, (rows, continuous), float64."""
        values = np.array([[row[k] for k in self.continuous] for row in rows], dtype=float)
        return np.asarray((values**self.powers - self.low) / self.span)

    def codes(self, rows: Sequence[Row]) -> np.ndarray:
        """The discrete features as numbers, (rows, discrete), int64."""
        coded = [[codes.get(row[k], len(codes)) for k, codes in self.categories.items()] for row in rows]
        return np.array(coded, dtype=np.int64).reshape(len(rows), len(self.categories))

    def one_hot(self, rows: Sequence[Row]) -> np.ndarray:
        """The continuous features, then the discrete ones one-hot, (rows, features), float64."""
        codes = self.codes(rows)
        blocks = [
            codes[:, column, None] == np.arange(len(known)) for column, known in enumerate(self.categories.values())
        ]
        return np.hstack([self.scaled(rows), *blocks])

    def numbered(self, rows: Sequence[Row]) -> np.ndarray:
        """The continuous features, then the discrete ones as numbers, (rows, features), float64."""
        return np.hstack([self.scaled(rows), self.codes(rows)])
