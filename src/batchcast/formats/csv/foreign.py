# SPDX-License-Identifier: Apache-2.0
"""Read a foreign CSV file through a column map."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any

import numpy as np

from ...job import is_slurm_state, status_from_sacct, status_from_swf
from ...table import LogInfo, Nominal, Trace, Values
from ...units import parse_duration, parse_memory
from ..chunks import Codes, LogColumns, Problems, as_ids, in_house_order, rows_of, rows_where
from ..memo import STRANGE_STATE, UNLIMITED, Memo, either, name_or_null
from ..slurm.sacct import PARSERS
from ..times import BAD_STAMP, STAMP_FORMS, LocalClock, Stamps, parse_stamps, run_and_wait, unfinished, without_zeros
from .column_map import LENGTHS, SIZES, TRES, ColumnMap, MappedColumn, find_columns
from .rows import CsvRows, no_rows

_ABOVE_ZERO = ("req_procs", "alloc_procs", "req_nodes", "alloc_nodes", "req_time", "req_mem_kib")
"""Columns in which 0 means unknown."""
_FORMS = {
    "slurm": "Slurm's forms, e.g. 1-12:00:00 or 4000M",
    "tres": "Slurm's TRES, e.g. cpu=4,gres/gpu=2",
    "whole": "a whole number",
}


def read_mapped_csv(
    blocks: Iterable[bytes], mapped: ColumnMap, source: str = "(memory)", *, strict: bool = False, zone: tzinfo = UTC
) -> Trace:
    """Read a CSV text through a column map; times are epoch seconds.

    >>> from batchcast.formats.csv.column_map import make_map
    >>> plain = {"columns": {"submit_time": "sub", "req_time": {"from": "wall", "unit": "hours"}}}
    >>> read_mapped_csv([b"sub,wall\\n60,2\\n"], make_map(plain, "m")).req_time.tolist()
    [7200.0]
    """
    # A row without a submit time or with another number of cells is dropped and counted; other values that cannot be
    # read are unknown and counted. Columns that the map does not name are ignored and counted.
    #
    # Run time and wait are the mapped columns, or are computed from `start_time` and `end_time` as for a Slurm dump
    # (`times`).
    problems = Problems(source, strict)
    rows = CsvRows(blocks, source, problems, delimiter=mapped.delimiter, encoding=mapped.encoding)
    order = find_columns(mapped, rows.header, source)
    table = _Table(mapped, problems, LocalClock(zone))
    submit = rows.header.index(next(c.source for c in mapped.columns if c.target == "submit_time"))
    for lines, columns in rows.batches(
        order, lambda cells: np.isfinite(table.stamps("submit_time", [cells[submit]])[0][0])
    ):
        table.add(columns, lines)
    if not table.columns.jobs:
        raise no_rows(source, problems, f"check the map {mapped.name} against the file")
    unread = [name for name in rows.header if name not in {column.source for column in mapped.columns}]
    return table.trace(source, unread)


class _Table:
    """Collects the mapped columns, batch by batch."""

    def __init__(self, mapped: ColumnMap, problems: Problems, clock: LocalClock) -> None:
        self.unfinished = self.unlimited = 0
        self._mapped, self._problems, self._clock = mapped, problems, clock
        self._by_target = {column.target: column for column in mapped.columns}
        self._memos = {column.target: _memo(column) for column in mapped.columns}
        names = [c for c in mapped.columns if c.target == "status" or c.unit in ("text", "whole")]
        self.columns = LogColumns({c.target: _words(c, mapped) for c in names if c.target != "job_id"})

    def add(self, columns: Sequence[Sequence[str]], lines: Sequence[int]) -> None:
        """Add the mapped columns of some rows; drop rows without a submit time."""
        texts = dict(zip(self._by_target, columns))
        submit, later = self.stamps("submit_time", texts["submit_time"])
        missing = np.isnan(submit)
        if missing.any():
            what = f"no submit time (accepted: {STAMP_FORMS})"
            for k in np.flatnonzero(missing).tolist():
                self._problems.drop(lines[k], what, texts["submit_time"][k])
            if not missing.all():
                self.add(*rows_of(np.flatnonzero(~missing).tolist(), columns, lines))
            return
        times: dict[str, Stamps] = {"submit_time": (submit, later)}
        measured: dict[str, np.ndarray] = {}
        codes: dict[str, np.ndarray] = {}
        translated = self._mapped.status
        for target, values in texts.items():
            if target in ("eligible_time", "start_time", "end_time"):
                epoch, later = self.stamps(target, values, lines)
                times[target] = without_zeros(epoch, submit), later
            elif target in self.columns.words:
                codes[target] = self.columns.words[target].encode(values)
                if target == "status" and self._by_target[target].unit == "slurm":
                    what = f"{STRANGE_STATE}; [status] in the map can translate it"
                    rows = rows_where(lambda text: text.strip() not in translated and not is_slurm_state(text), values)
                    self._problems.unknown_at(rows, lines, what, values)
            elif target not in times and target != "job_id":
                measured[target] = self._measure(self._by_target[target], values, lines)
        states = self.columns.words["status"].names if "status" in codes else ()
        status = Nominal(codes.get("status", np.full(len(submit), -1, dtype=np.int32)), tuple(states))
        measured |= self._outcome(times, measured, status, lines)
        measured |= {name: times[name][0] for name in ("submit_time", "eligible_time") if name in times}
        ids = texts.get("job_id")
        if ids is not None and not all(ids):
            ids = [text or f"row{line}" for text, line in zip(ids, lines)]
        first = self.columns.jobs + 1
        self.columns.add(np.arange(first, first + len(lines)) if ids is None else as_ids(ids), measured | codes)

    def stamps(self, target: str, texts: Sequence[str], lines: Sequence[int] = ()) -> Stamps:
        """Return epoch seconds; report unreadable times if line numbers (`lines`) are given."""
        column = self._by_target[target]
        if column.unit == "epoch_ms":
            values = np.array([_number(text) for text in texts]) / 1000.0
            epoch, later = np.where(np.isinf(values), np.nan, values), np.zeros(len(texts))
            bad = np.flatnonzero(np.isinf(values)).tolist()
        else:
            epoch, later, bad = parse_stamps(texts, self._clock)
        what = f"{column.source}: {BAD_STAMP}"
        self._problems.unknown_at(bad if lines else (), lines, what, texts)
        return epoch, later

    def _measure(self, column: MappedColumn, texts: Sequence[str], lines: Sequence[int]) -> np.ndarray:
        """Return a column of numbers in batchcast's unit; NaN for unlimited values, and for 0 in some columns."""
        forms = _FORMS.get(column.unit, f"{column.unit}, as a number of 0 or more")
        what = f"{column.source}: not a valid value, read as unknown (accepted: {forms})"
        values = self._memos[column.target].read(texts, lines, what, self._problems)
        if column.target == "req_time":
            self.unlimited += int((values == UNLIMITED).sum())
        values = np.where(np.isinf(values), np.nan, values)
        return np.where(values == 0, np.nan, values) if column.target in _ABOVE_ZERO else values

    def _outcome(
        self, times: dict[str, Stamps], measured: dict[str, np.ndarray], status: Nominal, lines: Sequence[int]
    ) -> dict[str, np.ndarray]:
        """Return run time and wait from the mapped columns; empty if these columns do not suffice."""
        submit = times["submit_time"][0]
        unknown = np.full(len(submit), np.nan)
        start, end = times.get("start_time"), times.get("end_time")
        lengths = (end is not None) + ("run_time" in measured)
        self.unfinished += int(unfinished(status, unknown if end is None else end[0]).sum())
        if start is None and lengths < 2:
            return {}
        held = measured.get("alloc_procs", measured.get("alloc_nodes", unknown)) > 0
        run, wait = run_and_wait(submit, start, end, measured.get("run_time", unknown), status, held)
        outcome = {"run_time": (run, "run time (end before start)")} if lengths else {}
        outcome |= {} if "wait_time" in measured else {"wait_time": (wait, "wait (start before submission)")}
        return {
            name: self._problems.without_negative(values, lines, f"{what}: negative, read as unknown")
            for name, (values, what) in outcome.items()
        }

    def trace(self, source: str, unread: Sequence[str]) -> Trace:
        """Return all rows as a sorted trace, with notes."""
        mapped, columns = self._mapped, self.columns.join()
        for name, values in columns.items():
            if isinstance(values, Nominal) and self._by_target[name].unit == "whole":
                names = list(map(str, values.categories))  # whole numbers if all names are whole numbers
                columns[name] = Nominal.recode(values.codes, as_ids(names).tolist())
        columns |= _whole_jobs(mapped, columns)
        notes = [f"the columns are read through the map {mapped.name}", *mapped.notes, *self._problems.notes()]
        if unread:
            shown = ", ".join(unread[:6]) + (", ..." if len(unread) > 6 else "")
            notes.append(f"{len(unread)} columns are not in the map and were not read: {shown}")
        if self.unfinished:
            notes.append(f"{self.unfinished} jobs had not finished when the file was written: run time unknown")
        if self.unlimited:
            notes.append(f"{self.unlimited} jobs have no time limit (UNLIMITED): requested time unknown")
        info = LogInfo(
            source=source,
            format="csv",
            header={"map": mapped.name, **self._clock.header()},
            dropped=self._problems.counts(),
            notes=(*notes, *self._clock.notes()),
            max_procs=mapped.procs_total,
            max_procs_source="unknown" if math.isnan(mapped.procs_total) else f"the map {mapped.name}",
        )
        return Trace(in_house_order(columns), info)


def _whole_jobs(mapped: ColumnMap, columns: Mapping[str, Any]) -> dict[str, Values]:
    """Return memory columns that are per node or processor in the file as memory of the whole job."""
    whole: dict[str, Values] = {}
    for column in mapped.columns:
        if column.per != "job" and column.target in columns:
            order = ("req", "alloc") if column.target == "req_mem_kib" else ("alloc", "req")
            names = [f"{which}_{'nodes' if column.per == 'node' else 'procs'}" for which in order]
            counts = [columns[name] for name in names if name in columns]
            whole[column.target] = columns[column.target] * (either(counts[0], counts[-1]) if counts else np.nan)
    return whole


def _words(column: MappedColumn, mapped: ColumnMap) -> Codes:
    """Return the object that assigns codes to a column's names; job states are translated to status words first."""
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


def _memo(column: MappedColumn) -> Memo:
    """Return the cache that converts texts of a column to numbers in batchcast's unit."""
    if column.unit == "tres":
        return Memo(PARSERS[f"tres_{TRES[column.target]}"])
    if column.unit == "slurm":
        return Memo(parse_memory if column.target in ("req_mem_kib", "used_mem_kib") else parse_duration)
    factor = LENGTHS.get(column.unit, SIZES.get(column.unit, 1.0))
    return Memo(lambda text: _number_or_nan(text) * factor)


def _number_or_nan(text: str) -> float:
    """Return a text as a number, NaN if the text means an unknown value; ValueError if the text is not a number."""
    return float(text) if name_or_null(text) is not None else math.nan


def _number(text: str) -> float:
    """Return a text as a number, NaN if the text means an unknown value, infinity if the text is not a number."""
    try:
        return _number_or_nan(text)
    except ValueError:
        return math.inf
