"""Columns that grow block by block, and dictionary coding of whole numbers without sorting where the range allows."""

from __future__ import annotations

import numpy as np

from ..table import Nominal


class GrowingColumn:
    """Pieces of one column in order; a piece that knows nothing costs nothing until another piece does.

    `add` copies; `join` returns the whole column, or None when every piece was unknown, and lets the pieces go, so
    that a log in memory is never held twice.
    """

    __slots__ = ("_length", "_pieces", "_unknown")

    def __init__(self, unknown: float) -> None:
        self._pieces: list[np.ndarray | int] = []
        self._length = 0
        self._unknown = unknown

    def add(self, piece: np.ndarray) -> None:
        """Append the values, which may lie in a buffer that is used again."""
        self._length += len(piece)
        known = bool((~np.isnan(piece)).any()) if piece.dtype.kind == "f" else bool((piece != self._unknown).any())
        self._pieces.append(narrow(piece) if known else len(piece))

    def join(self) -> np.ndarray | None:
        """The whole column, or None when it holds nothing known."""
        kinds = [p.dtype for p in self._pieces if isinstance(p, np.ndarray)]
        if not kinds:
            self._pieces.clear()
            return None
        whole = np.full(self._length, self._unknown, dtype=np.result_type(*kinds))
        at = 0
        for k, piece in enumerate(self._pieces):
            if isinstance(piece, int):
                at += piece
            else:
                whole[at : at + len(piece)] = piece
                at += len(piece)
            self._pieces[k] = 0
        self._pieces.clear()
        return whole


def narrow(values: np.ndarray) -> np.ndarray:
    """A copy; whole numbers as int32 where they fit."""
    if values.dtype.kind == "i" and len(values) and values.min() >= -(2**31) and values.max() < 2**31:
        return values.astype(np.int32)
    return values.copy()


def encode_whole(values: np.ndarray) -> Nominal:
    """Dictionary-code whole numbers, negative ones being null. O(n + range), O(n log n) where the range is wide.

    >>> encode_whole(np.array([7, -1, 3, 7]))
    Nominal(codes=array([ 1, -1,  0,  1], dtype=int32), categories=(3, 7))
    """
    known = values >= 0
    top = int(values.max(initial=-1))
    if top <= 4 * len(values) + 65536:
        present = np.zeros(top + 2, dtype=bool)
        present[values] = True  # -1 marks the spare last place
        present[-1] = False
        code = np.cumsum(present, dtype=np.int32) - 1
        code[-1] = -1
        return Nominal(code[values], tuple(np.flatnonzero(present).tolist()))
    codes = np.full(len(values), -1, dtype=np.int32)
    names, inverse = np.unique(values[known], return_inverse=True)
    codes[known] = inverse
    return Nominal(codes, tuple(names.tolist()))


def count_duplicates(ids: np.ndarray) -> int:
    """How many rows repeat an id that stood in an earlier row. O(n) for ascending ids, O(n log n) at most."""
    if len(ids) < 2 or bool((ids[1:] > ids[:-1]).all()):
        return 0
    ordered = np.sort(ids)
    return int((ordered[1:] == ordered[:-1]).sum())
