# SPDX-License-Identifier: Apache-2.0
"""Join several traces of one log, such as the periods of a log that was stored in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from .columns import LogInfo, Nominal, Values, sorted_names
from .trace import Trace

Names = tuple[int | str, ...]


def joined(pieces: Sequence[Trace], info: LogInfo | None = None) -> Trace:
    """Join traces into one, with all rows in log order.

    Parameters
    ----------
    pieces
        The traces. If some of the traces lack a column, the column's values are unknown for the rows of these traces.
    info
        The provenance of the result. Default: the provenance of the first piece.

    Returns
    -------
    Trace
        A trace equal to the result of reading all pieces as one log.

    Notes
    -----
    The categories of a nominal column are the names in all pieces. Rows with the same submit time and id keep the order
    of the pieces. Costs O(rows), or O(rows log rows) if the pieces overlap.

    Examples
    --------
    >>> early = Trace.from_arrays({"submit_time": [0.0], "user_id": ["eve"]})
    >>> late = Trace.from_arrays({"job_id": [2], "submit_time": [5.0], "user_id": ["ada"], "run_time": [9.0]})
    >>> both = joined([early, late])
    >>> both["user_id"].tolist(), both.nominal("user_id").codes.tolist(), both.run_time.tolist()
    (['eve', 'ada'], [1, 0], [nan, 9.0])
    """
    if len(pieces) == 1:
        return pieces[0] if info is None else pieces[0].with_info(info)
    columns: dict[str, Values] = {}
    for name in dict.fromkeys(name for piece in pieces for name in piece.names):
        if any(name in piece.names and isinstance(piece.column(name), Nominal) for piece in pieces):
            columns[name] = _names([_nominal(piece, name) for piece in pieces])
        elif name == "job_id":
            columns[name] = join_ids([piece.job_id for piece in pieces])
        else:
            columns[name] = np.concatenate([_numbers(piece, name) for piece in pieces])
    return Trace(columns, info or pieces[0].info)


def with_categories(trace: Trace, categories: Mapping[str, Names]) -> Trace:
    """Recode the names of some columns with given categories.

    Parameters
    ----------
    trace
        The trace.
    categories
        The categories of each column, by column name. The categories must include all names that occur in the column.

    Returns
    -------
    Trace

    Examples
    --------
    >>> piece = Trace.from_arrays({"submit_time": [0.0, 1.0], "user_id": ["eve", None]})
    >>> with_categories(piece, {"user_id": ("ada", "eve")}).nominal("user_id").codes.tolist()
    [1, -1]
    """
    present = {name: names for name, names in categories.items() if name in trace.names}
    changed = {name: _coded(_nominal(trace, name), names) for name, names in present.items()}
    return trace.with_columns(changed) if changed else trace


def summed_notes(notes: Iterable[str]) -> list[str]:
    """Add up notes that differ only in the number at their beginning, and remove repeated notes.

    Parameters
    ----------
    notes
        Notes about the pieces of one log.

    Returns
    -------
    list of str

    Examples
    --------
    >>> summed_notes(["2 lines left out: x (first: line 3)", "odd", "odd", "1 lines left out: x (first: line 9)"])
    ['3 lines left out: x (first: line 3)', 'odd']
    """
    counts: dict[str, tuple[int, str]] = {}
    for note in notes:
        number, _, rest = note.partition(" ")
        kind = rest.partition(" (first: ")[0] if number.isdecimal() else note
        count, first = counts.get(kind, (0, rest))
        counts[kind] = (count + int(number), first) if number.isdecimal() else (-1, note)
    return [text if count < 0 else f"{count} {text}" for count, text in counts.values()]


def _numbers(piece: Trace, name: str) -> np.ndarray:
    """Returns a column of numbers, all NaN if the piece does not have the column."""
    return piece.number(name) if name in piece.names else np.full(len(piece), np.nan)


def _nominal(piece: Trace, name: str) -> Nominal:
    """Returns a column as names; numbers become names if another piece has texts in this column."""
    if name in piece.names and not isinstance(values := piece.column(name), Nominal):
        return Nominal.encode(values)
    return piece.nominal(name) if name in piece.names else Nominal(np.full(len(piece), -1, dtype=np.int32), ())


def _names(parts: Sequence[Nominal]) -> Nominal:
    """Returns the names of all pieces as one column."""
    first = parts[0].categories
    same = all(part.categories is first for part in parts)
    categories = first if same else sorted_names(name for part in parts for name in part.categories)
    coded = [_coded(part, categories) for part in parts]
    return Nominal(np.concatenate([part.codes for part in coded]), categories)


def _coded(values: Nominal, categories: Names) -> Nominal:
    """Returns the nominal column with codes into the given categories."""
    if values.categories is categories:
        return values
    new_code = {name: code for code, name in enumerate(categories)}
    new = np.array([*(new_code[name] for name in values.categories), -1], dtype=np.int32)
    return Nominal(new[values.codes], categories)


def join_ids(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join pieces of job ids: whole numbers if every piece has whole numbers, else text."""
    are_whole = all(part.dtype.kind in "iu" for part in parts)
    return np.concatenate(parts if are_whole else [part.astype(str) for part in parts])
