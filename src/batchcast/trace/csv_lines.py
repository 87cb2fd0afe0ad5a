# SPDX-License-Identifier: Apache-2.0
"""Write columns as lines of CSV: the same text as `csv` and `str` give, in a tenth of the time."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from ..compiled import kernel
from .whole_file import whole_file

_COMMA, _NEWLINE, _END = 44, 10, 0


def write_by_job(path: str | Path, names: Sequence[str], job_id: np.ndarray, columns: Sequence[bytes]) -> None:
    """Write job ids (quoted if needed) and columns from `cells` to a file, with a header."""
    ids = cells(job_id)
    if any(mark in ids for mark in (b",", b'"', b"\r", b"\n")):
        ids = _joined([_line([text, ""])[:-2] for text in map(str, job_id.tolist())])
    with whole_file(path) as beside, beside.open("wb") as out:
        out.write(_line(names).encode())
        out.write(lines([ids, *columns]))


def shortest(values: np.ndarray) -> bytes:
    """Return values as `cells` does: whole numbers without a point, others with ten digits, empty for NaN."""
    if ((values == np.floor(values)) & (np.abs(values) < 1e10) & ~np.signbit(values)).all():
        return cells(values.astype(np.int64))
    return (("%.10g\0" * len(values)) % tuple(values.tolist())).replace("nan", "").encode()


def _line(fields: Sequence[str]) -> str:
    """Returns one line of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def lines(columns: Sequence[bytes]) -> memoryview:
    """Return columns from `cells` as lines of CSV."""
    texts, begun = b"".join(columns), np.cumsum([0, *map(len, columns[:-1])])
    woven = np.empty(len(texts), dtype=np.uint8)
    _weave(np.frombuffer(texts, dtype=np.uint8), begun, woven)
    return woven.data


@kernel
def _weave(texts: np.ndarray, begun: np.ndarray, lines: np.ndarray) -> None:
    """Interleaves columns of texts to lines of CSV; input and output have n bytes.

    In the input, the columns follow each other and each text ends with a 0 byte. `begun` has the position of each
    column's first byte. One pass, O(bytes).
    """
    columns = len(begun)
    at = 0
    while at < len(lines):
        for column in range(columns):
            byte = texts[begun[column]]
            while byte != _END:
                lines[at] = byte
                at += 1
                begun[column] += 1
                byte = texts[begun[column]]
            lines[at] = _COMMA if column < columns - 1 else _NEWLINE
            at += 1
            begun[column] += 1


def cells(values: np.ndarray) -> bytes:
    """Return the text of each value, each followed by a 0 byte; whole numbers have no point."""
    if values.dtype.kind == "f" and (values == np.floor(values)).all() and (np.abs(values) < 2**53).all():
        values = values.astype(np.int64)
    if values.dtype.kind == "f" and ((np.abs(values) >= 1e-4) & (np.abs(values) < 2**53) | (values == 0)).all():
        # In this range, JSON's text of a number equals that of str(), and is ten times faster.
        text = msgspec.json.encode(values.tolist())[1:-1] + b","
        return text.replace(b".0,", b",").replace(b",", b"\0")
    if values.dtype.kind in "iu" and len(values):
        return msgspec.json.encode(values.tolist())[1:-1].replace(b",", b"\0") + b"\0"
    return _joined([str(int(v) if isinstance(v, float) and v.is_integer() else v) for v in values.tolist()])


def _joined(texts: Sequence[str]) -> bytes:
    """Returns the texts, each followed by a 0 byte; 0 bytes inside texts are removed."""
    whole = "".join([text + "\0" for text in texts])
    if whole.count("\0") > len(texts):  # a text with a 0 in it
        whole = "".join([text.replace("\0", "") + "\0" for text in texts])
    return whole.encode()
