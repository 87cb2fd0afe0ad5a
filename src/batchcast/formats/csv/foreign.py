# SPDX-License-Identifier: Apache-2.0
"""Read a foreign CSV file through a column map."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, tzinfo

import numpy as np

from ...job import is_slurm_state, status_from_sacct, status_from_swf
from ...table import LogInfo, Nominal, Trace, Values
from ...units import parse_memory
from ..batch import BAD, STRANGE_STATE, UNLIMITED, Codes, Memo, either, name_or_null
from ..chunks import GrowingColumn, Problems, as_ids, in_house_order, join_ids, sorted_nominal
from ..slurm.resources import parse_tres, tres_gpus
from ..times import STAMP_FORMS, LocalClock, Stamps, parse_stamps, run_and_wait, unfinished, without_zeros
from .column_map import LENGTHS, SIZES, TRES, ColumnMap, MappedColumn, places
from .rows import CsvRows, no_rows

_ABOVE_ZERO = ("req_procs", "alloc_procs", "req_nodes", "alloc_nodes", "req_time", "req_mem_kib")
"""Columns in which 0 means unknown."""
_FORMS = {
    "slurm": "Slurm's forms, e.g. 1-12:00:00 or 4000M",
    "tres": "Slurm's TRES, e.g. cpu=4,gres/gpu=2",
    "whole": "a whole number",
}


def read_mapped_csv(
    blocks: Iterable[bytes],
    mapped: ColumnMap,
    source: str = "(memory)",
    *,
    strict: bool = False,
    zone: tzinfo = UTC,
) -> Trace:
    """Read a CSV text through a column map.

    Parameters
    ----------
    blocks
        The text of the file in blocks of bytes.
    mapped
        The column map to apply.
    source
        File name for messages.
    strict
        Whether to raise InputError at the first row or value that cannot be read.
    zone
        Time zone of times without an offset.

    Returns
    -------
    Trace
        Times are epoch seconds. A row without a submit time or with another number of cells is dropped and counted.
        Other values that cannot be read are unknown and counted. Columns that the map does not name are ignored and
        counted.

    Raises
    ------
    InputError
        If the file does not have a mapped column.

    Notes
    -----
    Run time and wait are the mapped columns, or are computed from `start_time` and `end_time` as for a Slurm dump
    (`times`).

    Examples
    --------
    >>> from batchcast.formats.csv.column_map import make_map
    >>> plain = {"columns": {"submit_time": "sub", "req_time": {"from": "wall", "unit": "hours"}}}
    >>> read_mapped_csv([b"sub,wall\\n60,2\\n"], make_map(plain, "m")).req_time.tolist()
    [7200.0]
    """
    problems = Problems(source, strict)
    rows = CsvRows(blocks, source, problems, delimiter=mapped.delimiter, encoding=mapped.encoding)
    order = places(mapped, rows.header, source)
    table = _Table(mapped, problems, LocalClock(zone))
    submit = rows.header.index(next(c.source for c in mapped.columns if c.target == "submit_time"))
    for lines, columns in rows.batches(order, lambda cells: table.is_submit(cells[submit])):
        table.add(lines, columns)
    if not table.jobs:
        raise no_rows(source, problems, f"check the map {mapped.name} against the file")
    unread = [name for name in rows.header if name not in {column.source for column in mapped.columns}]
    return table.trace(source, unread)


class _Table:
    """Collects the mapped columns, batch by batch."""

    def __init__(self, mapped: ColumnMap, problems: Problems, clock: LocalClock) -> None:
        self.jobs = self.unfinished = self.unlimited = 0
        self._mapped, self._problems, self._clock = mapped, problems, clock
        self._numbers: dict[str, GrowingColumn] = {}
        self._codes: dict[str, GrowingColumn] = {}
        self._memos = {column: _memo(column) for column in mapped.columns}
        self._words = {c: _words(c, mapped) for c in mapped.columns if _is_name(c)}
        self._ids: list[np.ndarray] = []

    def add(self, lines: Sequence[int], columns: Sequence[Sequence[str]]) -> None:
        """Adds the mapped columns of some rows; drops rows without a submit time."""
        texts = {column.target: values for column, values in zip(self._mapped.columns, columns)}
        by_name = {column.target: column for column in self._mapped.columns}
        stamps = self._stamps(by_name["submit_time"], texts["submit_time"])
        missing = np.isnan(stamps[0])
        if missing.any():
            for k in np.flatnonzero(missing).tolist():
                value = texts["submit_time"][k]
                self._problems.drop(lines[k], f"no submit time (accepted: {STAMP_FORMS})", value)
            good = np.flatnonzero(~missing).tolist()
            if good:
                self.add([lines[k] for k in good], [[column[k] for k in good] for column in columns])
            return
        measured: dict[str, np.ndarray] = {}
        times: dict[str, Stamps] = {"submit_time": stamps}
        for column, values in zip(self._mapped.columns, columns):
            if column.target in ("eligible_time", "start_time", "end_time"):
                epoch, later = self._stamps(column, values, lines)
                times[column.target] = without_zeros(epoch, stamps[0]), later
            elif _is_name(column):
                code_of = self._words[column]
                codes = np.fromiter(map(code_of.__getitem__, values), dtype=np.int32, count=len(values))
                self._grow(self._codes, column.target, -1, codes)
                if column.target == "status" and column.unit == "slurm":
                    self._report_states(values, lines)
            elif column.target not in ("submit_time", "job_id"):
                measured[column.target] = self._measure(column, values, lines)
        measured |= self._outcome(stamps[0], times, measured, texts, lines)
        measured["submit_time"] = stamps[0]
        if "eligible_time" in times:
            measured["eligible_time"] = times["eligible_time"][0]
        for name, column_values in measured.items():
            self._grow(self._numbers, name, np.nan, column_values)
        ids = texts.get("job_id")
        if ids is not None and not all(ids):
            ids = [text or f"row{line}" for text, line in zip(ids, lines)]
        self._ids.append(np.arange(self.jobs + 1, self.jobs + len(lines) + 1) if ids is None else as_ids(ids))
        self.jobs += len(lines)

    def _report_states(self, texts: Sequence[str], lines: Sequence[int]) -> None:
        """Reports job states that neither Slurm nor the column map has. Unknown job states are kept unchanged."""
        strange = {text for text in set(texts) if text.strip() not in self._mapped.status and not is_slurm_state(text)}
        for k in [k for k, text in enumerate(texts) if text in strange] if strange else ():
            self._problems.unknown(lines[k], f"{STRANGE_STATE}; [status] in the map can translate it", texts[k])

    def is_submit(self, text: str) -> bool:
        """Whether a cell is a submit time."""
        column = next(column for column in self._mapped.columns if column.target == "submit_time")
        return bool(np.isfinite(self._stamps(column, [text])[0]).all())

    def _stamps(self, column: MappedColumn, texts: Sequence[str], lines: Sequence[int] = ()) -> Stamps:
        """Returns epoch seconds; reports unreadable times if line numbers (`lines`) are given."""
        if column.unit == "epoch_ms":
            values = np.array([_number(text) for text in texts]) / 1000.0
            epoch, later = np.where(np.isinf(values), np.nan, values), np.zeros(len(texts))
            bad = np.flatnonzero(np.isinf(values)).tolist()
        else:
            epoch, later, bad = parse_stamps(texts, self._clock)
        for k in bad if lines else ():
            what = f"{column.source}: not a valid time, read as unknown (accepted: {STAMP_FORMS})"
            self._problems.unknown(lines[k], what, texts[k])
        return epoch, later

    def _measure(self, column: MappedColumn, texts: Sequence[str], lines: Sequence[int]) -> np.ndarray:
        """Returns a column of numbers in batchcast's unit; NaN for unlimited values, and for 0 in some columns."""
        values = np.fromiter(map(self._memos[column].__getitem__, texts), dtype=float, count=len(texts))
        for k in np.flatnonzero(values == BAD).tolist():
            forms = _FORMS.get(column.unit, f"{column.unit}, as a number of 0 or more")
            what = f"{column.source}: not a valid value, read as unknown (accepted: {forms})"
            self._problems.unknown(lines[k], what, texts[k])
        if column.target == "req_time":
            self.unlimited += int((values == UNLIMITED).sum())
        values = np.where(np.isinf(values), np.nan, values)
        return np.where(values == 0, np.nan, values) if column.target in _ABOVE_ZERO else values

    def _outcome(
        self,
        submit: np.ndarray,
        times: dict[str, Stamps],
        measured: dict[str, np.ndarray],
        texts: dict[str, Sequence[str]],
        lines: Sequence[int],
    ) -> dict[str, np.ndarray]:
        """Returns run time and wait from the mapped columns; empty if these columns do not suffice."""
        status, names = np.full(len(submit), -1, dtype=np.int32), dict[str, int]()
        for column, words in self._words.items():
            if column.target == "status":
                status = np.fromiter(map(words.__getitem__, texts["status"]), dtype=np.int32, count=len(submit))
                names = words.names
        start, end, elapsed = times.get("start_time"), times.get("end_time"), measured.get("run_time")
        self.unfinished += int(unfinished(status, names, None if end is None else end[0]).sum())
        if start is None and (end is None or elapsed is None):
            return {}
        held = measured.get("alloc_procs", measured.get("alloc_nodes"))
        run, wait = run_and_wait(
            submit, start, end, elapsed, status, names, np.zeros(len(submit), bool) if held is None else held > 0
        )
        outcome = {"run_time": run} if end is not None or elapsed is not None else {}
        outcome |= {} if "wait_time" in measured else {"wait_time": wait}
        for name, what in (
            ("run_time", "run time (end before start)"),
            ("wait_time", "wait (start before submission)"),
        ):
            if name in outcome:
                for k in np.flatnonzero(outcome[name] < 0).tolist():
                    self._problems.unknown(lines[k], f"{what}: negative, read as unknown", f"{outcome[name][k]:.0f} s")
                outcome[name] = np.where(outcome[name] < 0, np.nan, outcome[name])
        return outcome

    def _grow(self, columns: dict[str, GrowingColumn], name: str, unknown: float, values: np.ndarray) -> None:
        """Appends values to a growing column."""
        columns.setdefault(name, GrowingColumn(unknown)).add(values)

    def trace(self, source: str, unread: Sequence[str]) -> Trace:
        """Returns all rows as a sorted trace, with notes."""
        mapped, columns = self._mapped, dict[str, Values]()
        for name, growing in self._numbers.items():
            if (values := growing.join()) is not None:
                columns[name] = values
        words = {column.target: (column, known.names) for column, known in self._words.items()}
        for name, growing in self._codes.items():
            if (codes := growing.join()) is not None:
                column, names = words[name]
                columns[name] = _whole(codes, names) if column.unit == "whole" else sorted_nominal(codes, names)
        columns["job_id"] = join_ids(self._ids)
        columns |= _whole_jobs(mapped, columns)
        notes = [f"the columns are read through the map {mapped.name}", *mapped.notes, *self._problems.notes()]
        if unread:
            shown = ", ".join(unread[:6]) + (", ..." if len(unread) > 6 else "")
            notes.append(f"{len(unread)} columns are not in the map and were not read: {shown}")
        if self.unfinished:
            notes.append(f"{self.unfinished} jobs had not finished when the file was written: run time unknown")
        if self.unlimited:
            notes.append(f"{self.unlimited} jobs have no time limit (UNLIMITED): requested time unknown")
        notes += self._clock.notes()
        header = {"map": mapped.name} | ({"local_times": str(self._clock.local)} if self._clock.local else {})
        info = LogInfo(
            source=source,
            format="csv",
            header=header,
            dropped=self._problems.counts(),
            notes=tuple(notes),
            max_procs=mapped.procs_total,
            max_procs_source="unknown" if math.isnan(mapped.procs_total) else f"the map {mapped.name}",
        )
        return Trace(in_house_order(columns), info)


def _whole_jobs(mapped: ColumnMap, columns: Mapping[str, Values]) -> dict[str, Values]:
    """Returns memory columns that are per node or processor in the file as memory of the whole job."""
    whole: dict[str, Values] = {}
    for column in mapped.columns:
        values = columns.get(column.target)
        if column.per != "job" and isinstance(values, np.ndarray):
            kind, asked = f"{column.per}s".replace("processors", "procs"), column.target == "req_mem_kib"
            first, second = ("req_", "alloc_") if asked else ("alloc_", "req_")
            counts = [columns.get(f"{which}{kind}") for which in (first, second)]
            known = [count for count in counts if isinstance(count, np.ndarray)]
            whole[column.target] = values * (either(*(known + [None, None])[:2]) if known else np.nan)
    return whole


def _is_name(column: MappedColumn) -> bool:
    """Whether a mapped column holds names."""
    return column.target == "status" or (column.unit in ("text", "whole") and column.target != "job_id")


def _words(column: MappedColumn, mapped: ColumnMap) -> Codes:
    """Returns the object that assigns codes to a column's names; job states are translated to status words first."""
    if column.target != "status":
        return Codes(name_or_null)

    def meaning(text: str) -> str | None:
        word = text.strip()
        if word in mapped.status:
            return mapped.status[word].lower() or None
        if column.unit == "swf":
            return status_from_swf(int(word)) if re.fullmatch("-?[0-9]{1,9}", word) else None
        return (word.lower() or None) if column.unit == "text" else status_from_sacct(word)

    return Codes(meaning)


def _whole(codes: np.ndarray, names: dict[str, int]) -> Nominal:
    """Returns a column of names as integers if all names are whole numbers, else as texts."""
    if not all(name.isdecimal() for name in names):
        return sorted_nominal(codes, names)
    plain = np.array([*sorted(names, key=names.__getitem__), "0"]).astype(np.int64)
    values = [None if code < 0 else int(plain[code]) for code in codes.tolist()]
    return Nominal.encode(values)


def _memo(column: MappedColumn) -> Memo:
    """Returns the cache that converts texts of a column to numbers in batchcast's unit."""
    if column.unit == "tres":
        kind = TRES[column.target]
        if kind == "gpu":
            return Memo(tres_gpus)
        if kind == "mem":
            return Memo(lambda text: parse_memory(parse_tres(text).get(kind, "")))
        return Memo(lambda text: _number_or_nan(parse_tres(text).get(kind, "")))
    if column.unit == "slurm":
        from ...units import parse_duration

        return Memo(parse_memory if column.target in ("req_mem_kib", "used_mem_kib") else parse_duration)
    factor = LENGTHS.get(column.unit, SIZES.get(column.unit, 1.0))
    return Memo(lambda text: _number_or_nan(text) * factor)


def _number_or_nan(text: str) -> float:
    """Returns a text as a number, NaN if the text means an unknown value; ValueError if the text is not a number."""
    return float(text) if name_or_null(text) is not None else math.nan


def _number(text: str) -> float:
    """Returns a text as a number, NaN if the text means an unknown value, infinity if the text is not a number."""
    try:
        return _number_or_nan(text)
    except ValueError:
        return math.inf
