"""A dictionary-coded column: names as codes into categories, null as -1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Nominal:
    """A dictionary-coded column: `codes` (int32, -1 is null) into `categories` (whole numbers or text)."""

    codes: np.ndarray
    categories: tuple[int | str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def encode(cls, values: Sequence[Any] | np.ndarray) -> Nominal:
        """From plain values, None (or NaN) being null; categories in sorted order, numbers before text. O(n log n).

        >>> Nominal.encode(["b", None, "a", "b"])
        Nominal(codes=array([ 1, -1,  0,  1], dtype=int32), categories=('a', 'b'))
        """
        array = np.asarray(values)
        if array.dtype.kind in "iu":
            names, codes = np.unique(array, return_inverse=True)
            return cls(codes.astype(np.int32), tuple(names.tolist()))
        if array.dtype.kind == "f":
            known = ~np.isnan(array)
            codes = np.full(len(array), -1, dtype=np.int32)
            names, inverse = np.unique(array[known], return_inverse=True)
            codes[known] = inverse
            return cls(codes, tuple(int(v) if v == int(v) else str(v) for v in names.tolist()))
        present = {v for v in values if v is not None and v == v}
        ordered = sorted(present, key=lambda v: (isinstance(v, str), v))
        code = {v: k for k, v in enumerate(ordered)}
        return cls(np.fromiter((code.get(v, -1) for v in values), dtype=np.int32, count=len(values)), tuple(ordered))

    def take(self, rows: np.ndarray) -> Nominal:
        """The same column on other rows; the categories stay, so codes stay comparable."""
        return Nominal(frozen(self.codes[rows]), self.categories)

    def decode(self) -> list[int | str | None]:
        """Plain values, null as None."""
        names = [*self.categories, None]
        return [names[code] for code in self.codes.tolist()]

    def is_known(self) -> np.ndarray:
        """Boolean mask of the rows that hold a value."""
        return self.codes >= 0


Values = np.ndarray | Nominal


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, read-only."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
