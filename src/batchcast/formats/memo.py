# SPDX-License-Identifier: Apache-2.0
"""Caches that parse each distinct text of a column once, and arithmetic on columns with unknown values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..errors import UsageError
from .chunks import Problems

STRANGE_STATE = "state: not a Slurm state, kept unchanged (a truncated line can have such a state)"
NULL = {"", "Unknown", "None", "N/A", "(null)", "None assigned"}
BAD, UNLIMITED = math.inf, -math.inf
_MOST_CACHED = 500_000


class Memo(dict[str, float]):
    """A cache of the number for each distinct text. Texts that cannot be parsed map to +inf (`BAD`)."""

    def __init__(self, parse: Callable[[str], float]) -> None:
        self._parse = parse

    def __missing__(self, text: str) -> float:
        try:
            value = UNLIMITED if text.strip().lower() == "unlimited" else float(self._parse(text))
            value = value if value >= 0 or math.isnan(value) or value == UNLIMITED else BAD
        except (ValueError, UsageError):
            value = BAD
        if len(self) < _MOST_CACHED:
            self[text] = value
        return value

    def numbers(self, texts: Sequence[str]) -> np.ndarray:
        """Return the numbers of texts, shape (n,)."""
        return np.fromiter(map(self.__getitem__, texts), dtype=float, count=len(texts))

    def read(self, texts: Sequence[str], lines: Sequence[int], problem: str, problems: Problems) -> np.ndarray:
        """Return the numbers of texts, -inf (`UNLIMITED`) for unlimited values. Texts that cannot be parsed become NaN
        and are reported."""
        values = self.numbers(texts)
        bad = np.flatnonzero(values == BAD).tolist()
        problems.unknown_at(bad, lines, problem, texts)
        values[bad] = np.nan
        return values


def name_or_null(text: str) -> str | None:
    """Return the text without blanks at its ends, or None if it stands for no value."""
    word = text.strip()
    return None if word in NULL else word


def either(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the first column, with unknown values replaced by values of the second column."""
    return np.where(np.isnan(first), second, first)


def positive(values: np.ndarray) -> np.ndarray:
    """Return the values with 0 and negative values replaced by NaN."""
    return np.where(values > 0, values, np.nan)
