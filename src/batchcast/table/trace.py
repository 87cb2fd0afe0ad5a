# SPDX-License-Identifier: Apache-2.0
"""`Trace`: a log as immutable columns, sorted by submit time, then job id, then row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from .. import plots
from ..columns import COLUMNS, DECLARED, KNOWN_AT_SUBMISSION, MOMENT_WORDS, SUMS
from ..errors import InputError, UsageError
from ..job import NO_EXTRA, JobRecord, JobRequest
from .columns import LogInfo, Nominal, Values, as_column, columns_of, did_you_mean, frozen, log_order, sound
from .result import FIRST, Picture, Result

_COMPUTED = {"start_time": ("wait_time",), "end_time": ("wait_time", "run_time")}
"""Columns that `trace[name]` computes: the submit time plus these columns."""


_ELSEWHERE = {"walltime": "req_time", "timelimit": "req_time", "elapsed": "run_time"}
"""Other programs' names for some columns, for hints in messages."""


class Trace(Result):
    """A log of jobs: named columns of one length, read-only, always sorted by submit time, job id, row.

    Parameters
    ----------
    columns
        Arrays and `Nominal` columns by name, with at least `job_id` and `submit_time`. `from_arrays` takes plain
        sequences.
    info
        The provenance.
    is_sorted
        Whether the rows are in log order already.

    Raises
    ------
    UsageError
        If the columns differ in length, or `job_id` or `submit_time` is missing.

    Notes
    -----
    Numbers are float64 with NaN for unknown; names are `Nominal`. If the log has no value for a declared column, the
    column can be absent, and `number(name)` or `nominal(name)` returns an all-unknown column. Columns that are not in
    `columns.COLUMNS` are extra columns. Predictors receive an extra column in `JobRequest.extra` if `columns.py`
    declares it as known at submission, or if the user marks it as known at submission (`knowing`). Selecting rows
    copies each column, at a cost of O(n).

    Examples
    --------
    >>> t = Trace.from_arrays({"submit_time": [5.0, 0.0], "run_time": [1.0, 2.0], "req_procs": [4, 8]})
    >>> len(t), t.number("submit_time").tolist(), t.number("run_time").tolist()
    (2, [0.0, 5.0], [2.0, 1.0])
    """

    __slots__ = ("_columns", "_length", "info")
    _printed: ClassVar[tuple[str, ...]] = (
        "job_id", "submit_time", "wait_time", "run_time", "req_time", "req_procs", "user_id", "status", "cluster",
        "partition_id",
    )  # fmt: skip

    def __init__(self, columns: Mapping[str, Values], info: LogInfo | None = None, *, is_sorted: bool = False) -> None:
        """Build a trace from columns; sort the rows unless `is_sorted` is true."""
        lengths = {len(v) for v in columns.values()}
        if len(lengths) > 1:
            raise UsageError(f"columns differ in length: {sorted(lengths)} rows (accepted: columns of one length)")
        if "submit_time" not in columns or "job_id" not in columns:
            raise UsageError("a trace needs the columns job_id and submit_time")
        self._length = lengths.pop() if lengths else 0
        self.info = info or LogInfo()
        order = None if is_sorted else log_order(columns["submit_time"], columns["job_id"])
        self._columns = {n: _frozen(v if order is None else v.take(order)) for n, v in columns.items()}

    @classmethod
    def from_arrays(cls, columns: Any, info: LogInfo | None = None, *, procs_total: float | None = None) -> Trace:
        """Build a trace from plain sequences, or from a pandas DataFrame.

        Parameters
        ----------
        columns
            A mapping of column names to sequences of one length, or a DataFrame. Run times, waits and limits are
            seconds or durations. Instants are seconds on the log's clock or dates (UTC if they have no zone). Unknown
            values are None, NaN, NaT or NA; impossible negative numbers (-1 in many logs) are also read as unknown.
            Missing job ids are numbered from 1. Rows without a submit time are left out. The trace's `info` records all
            changed values and dropped rows.
        info
            The provenance: source, size of the machine and so on.
        procs_total
            Processors of the machine. `evaluate` runs simulations only if this number is known.

        Returns
        -------
        Trace

        Raises
        ------
        UsageError
            If a value cannot be used (the message names column, row and value), or a column name looks misspelt
            (`runtime`).

        Examples
        --------
        >>> Trace.from_arrays({"submit_time": [0, 60], "run_time": [30, None]}, procs_total=8).run_time
        array([30., nan])
        """
        info = info or LogInfo()
        if procs_total is not None:
            info = replace(info, max_procs=float(procs_total), max_procs_source="--procs-total")
        given = {name: as_column(name, values, info.unix_start) for name, values in columns_of(columns).items()}
        if given and "submit_time" not in given:
            info = info.with_note("no column submit_time: all jobs are submitted at 0 s")
        length = len(next(iter(given.values()))) if given else 0
        ids, submits = np.arange(1, length + 1, dtype=np.int64), np.zeros(length)
        whole = {"job_id": ids, "submit_time": submits, **given}
        if len({len(values) for values in whole.values()}) > 1:
            lengths = ", ".join(f"{name} {len(values)}" for name, values in whole.items())
            raise UsageError(f"columns differ in length: {lengths}")
        return cls(*sound(whole, info))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Trace of {self._length} jobs from {self.info.source}: {', '.join(self._columns)}>"

    def __str__(self) -> str:
        left_out = sum(self.info.dropped.values())
        notes = [f"left out: {left_out:,} records (log.info.dropped)"] if left_out else []
        notes += [f"note: {note}" for note in self.info.notes]
        return "\n".join([super().__str__(), *notes])

    if TYPE_CHECKING:
        alloc_procs: np.ndarray
        req_procs: np.ndarray
        status: np.ndarray
        user_id: np.ndarray
    else:  # type checkers must not see this method, so that they report undeclared attributes

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name in self._columns or name in COLUMNS:
                return self[name]
            near = _ELSEWHERE.get(name) or "".join(get_close_matches(name, self._columns, 1))
            meant = f"; did you mean log[{near!r}]?" if near else ""
            raise AttributeError(f"a log has no attribute {name!r} (columns: {', '.join(self._columns)}){meant}")

    def __iter__(self) -> Iterator[JobRecord]:
        """Yield every job in log order, as `log[0]` returns it."""
        return self.records()

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...

    @overload
    def __getitem__(self, key: int) -> JobRecord: ...

    @overload
    def __getitem__(self, key: np.ndarray | slice | list[int]) -> Trace: ...

    def __getitem__(self, key: Any) -> np.ndarray | Trace | JobRecord:
        """Return a column by name, one job by its position, or the trace of selected rows.

        Parameters
        ----------
        key
            A column name, a position, or rows as a mask, a slice or row numbers.

        Returns
        -------
        ndarray, JobRecord or Trace
            A column of numbers is float64. A column of names has plain values, with None for unknown. `start_time` and
            `end_time` are computed from submit time, wait and run time. A column that batchcast declares but the log
            does not have contains only unknown values.

        Raises
        ------
        UsageError
            If neither the log nor batchcast has a column of this name.

        Examples
        --------
        >>> log = Trace.from_arrays({"submit_time": [0, 5], "run_time": [60, 90], "user_id": ["ada", None]})
        >>> log["user_id"].tolist(), log[log["run_time"] > 60]["submit_time"].tolist()
        (['ada', None], [5.0])
        >>> log[0].run_time, log[-1].user_id, [job.submit_time for job in log]
        (60.0, None, [0.0, 5.0])
        """
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            return self._job(int(key))
        if not isinstance(key, str):
            return self.take(np.arange(self._length)[key])
        if key in _COMPUTED and key not in self._columns:
            return self.submit_time + sum(self.number(part) for part in _COMPUTED[key])
        self._check_name(key)
        values = self._columns.get(key)
        if values is None:
            return self.number(key) if COLUMNS[key].kind == "number" else np.full(self._length, None, dtype=object)
        return values if isinstance(values, np.ndarray) else np.array([*values.categories, None], object)[values.codes]

    def _job(self, place: int) -> JobRecord:
        """Return the record of one job; a negative position counts from the end."""
        if not -self._length <= place < self._length:
            raise IndexError(f"log[{place}]: the log has {self._length} jobs")
        row = place % self._length
        job = next(self.take(np.array([row])).records())
        return job._replace(request=job.request._replace(row=row))

    def _check_name(self, name: str) -> None:
        """Raise UsageError if neither the log nor batchcast has this column, so that a misspelt name is noticed."""
        if name not in self._columns and name not in COLUMNS:
            names = [*self._columns, *(made for made in _COMPUTED if made not in self._columns)]
            near = _ELSEWHERE.get(name)
            hint = f"did you mean {near}?" if near else did_you_mean(name, names, 1)
            raise UsageError(f"the log has no column {name!r} (accepted: {', '.join(names)})", hint=hint)

    def filter(self, **wanted: Any) -> Trace:
        """Select the jobs whose columns have given values.

        Parameters
        ----------
        wanted
            For each column: a value, a list of values, or a function that maps the column's values to a mask.

        Returns
        -------
        Trace

        Examples
        --------
        >>> log = Trace.from_arrays({"submit_time": [0, 5, 9], "run_time": [60, 90, 9], "user_id": ["a", "b", "a"]})
        >>> len(log.filter(user_id="a")), log.filter(user_id=["a", "b"], run_time=lambda run: run > 10).job_id
        (2, array([1, 2]))
        """
        keep = np.ones(self._length, dtype=bool)
        for name, value in wanted.items():
            values = self[name]
            if callable(value):
                keep &= np.asarray(value(values), dtype=bool)
            else:
                chosen = list(value) if isinstance(value, (list, tuple, set, frozenset, np.ndarray)) else [value]
                is_chosen = [value in chosen for value in values.tolist()] if values.dtype == object else None
                keep &= np.isin(values, chosen) if is_chosen is None else np.array(is_chosen, dtype=bool)
        return self.take(keep)

    def columns(self) -> Mapping[str, Values]:
        """Return the columns as stored: numbers as float64, names as `Nominal`."""
        return dict(self._columns)

    def _attrs(self) -> Mapping[str, Any]:
        return {"info": self.info}

    def _tables(self) -> Mapping[str, Mapping[str, Any]]:
        first = self.take(np.arange(min(self._length, FIRST)))
        beyond = f", the first {FIRST}" if self._length > FIRST else ""
        columns = {name: first[name].tolist() for name in self._columns}
        return {f"{self._length:,} jobs from {self.info.source}{beyond}": columns}

    _summary = Result._described

    def _pictures(self) -> Mapping[str, Picture]:
        known = {"run time": self.run_time, "wait": self.wait_time, "limit": self.req_time}
        each = {name: np.where(np.isfinite(v), v, np.nan) for name, v in known.items() if np.isfinite(v).any()}
        return {"times": partial(plots.shares, each, "time (s)")}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that the log has."""
        return tuple(self._columns)

    @property
    def extra_names(self) -> tuple[str, ...]:
        """Names of the log's columns that are not in `columns.COLUMNS`."""
        return tuple(name for name in self._columns if name not in COLUMNS)

    def column(self, name: str) -> Values:
        """Return a column as stored; KeyError if the log does not have it."""
        return self._columns[name]

    def number(self, name: str) -> np.ndarray:
        """Return a numeric column of the log.

        Parameters
        ----------
        name
            The column.

        Returns
        -------
        ndarray
            The values as float64, shape (n,); all NaN if the log does not have the column.

        Raises
        ------
        UsageError
            If the name is unknown or the column has names.
        """
        values = self._columns.get(name)
        if values is None:
            self._check_name(name)
            return frozen(np.full(self._length, np.nan))
        if isinstance(values, Nominal):
            raise UsageError(f"column {name} contains names, not numbers")
        return values

    def nominal(self, name: str) -> Nominal:
        """Return a nominal column (of names) of the log.

        Parameters
        ----------
        name
            The column.

        Returns
        -------
        Nominal
            All values are unknown if the log does not have the column.

        Raises
        ------
        UsageError
            If the name is unknown or the column has numbers.
        """
        values = self._columns.get(name)
        if values is None:
            self._check_name(name)
            return Nominal(frozen(np.full(self._length, -1, dtype=np.int32)), ())
        if not isinstance(values, Nominal):
            raise UsageError(f"column {name} contains numbers, not names")
        return values

    @property
    def job_id(self) -> np.ndarray:
        """Job ids as int64 or text, shape (n,)."""
        values = self._columns["job_id"]
        assert isinstance(values, np.ndarray)
        return values

    @property
    def submit_time(self) -> np.ndarray:
        """Submit times in seconds on the log's clock, ascending, shape (n,)."""
        return self.number("submit_time")

    @property
    def wait_time(self) -> np.ndarray:
        """Recorded queue waits in seconds, shape (n,); NaN means unknown."""
        return self.number("wait_time")

    @property
    def run_time(self) -> np.ndarray:
        """Recorded run times in seconds, shape (n,); NaN for jobs that never ran."""
        return self.number("run_time")

    @property
    def req_time(self) -> np.ndarray:
        """Requested time limits in seconds, shape (n,); NaN means unknown."""
        return self.number("req_time")

    def procs(self, rule: str = "req") -> np.ndarray:
        """Return the number of processors of each job.

        Parameters
        ----------
        rule
            `req`: the requested number, or the allocated number if the request is unknown. `alloc`: the reverse.

        Returns
        -------
        ndarray
            Shape (n,). Unknown numbers and 0 become NaN.
        """
        if rule not in ("req", "alloc"):
            raise UsageError(f"not a processor rule: {rule!r} (accepted: req, alloc)")
        return self.count("procs", rule)

    def count(self, kind: str, rule: str) -> np.ndarray:
        """Return the number of `procs` or `nodes` of each job, by the rule that `procs` describes."""
        first, second = self.number(f"{rule}_{kind}"), self.number(f"{'alloc' if rule == 'req' else 'req'}_{kind}")
        return np.where(first > 0, first, np.where(second > 0, second, np.nan))

    def take(self, rows: np.ndarray, info: LogInfo | None = None) -> Trace:
        """Select rows.

        Parameters
        ----------
        rows
            A boolean mask, or ascending row numbers.
        info
            The provenance of the new trace. Default: unchanged.

        Returns
        -------
        Trace
        """
        rows = np.asarray(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return Trace({n: v.take(rows) for n, v in self._columns.items()}, info or self.info, is_sorted=True)

    def with_columns(self, columns: Mapping[str, Values], info: LogInfo | None = None) -> Trace:
        """Return a trace with added or replaced columns.

        Parameters
        ----------
        columns
            The new columns, by name. `submit_time` and `job_id` cannot be replaced, because they define the order of
            the rows.
        info
            The provenance of the new trace. Default: unchanged.

        Returns
        -------
        Trace
        """
        if {"submit_time", "job_id"} & set(columns):
            raise UsageError("submit_time and job_id decide the order of a trace and cannot be replaced")
        return Trace({**self._columns, **columns}, info or self.info, is_sorted=True)

    def with_info(self, info: LogInfo) -> Trace:
        """Return the same rows with another provenance."""
        return Trace(self._columns, info, is_sorted=True)

    def at_submission(self, procs: str = "req") -> dict[str, Values]:
        """Return the columns that are known when a job is submitted. Predictors cannot see any other columns.

        Parameters
        ----------
        procs
            The rule for processor counts, see `procs`.

        Returns
        -------
        dict
            The column `procs`, the columns that `columns.py` declares as known at submission, and undeclared columns
            that the user marked as known at submission (`info.known_at_submit`).
        """
        vouched = {name for name in self.info.known_at_submit if name not in DECLARED and name not in SUMS}
        known = {n: v for n, v in self._columns.items() if n in KNOWN_AT_SUBMISSION or n in vouched}
        return {**known, "procs": self.procs(procs)}

    def knowing(self, names: Iterable[str]) -> Trace:
        """Mark extra columns as known at submission, so that predictors can use them.

        The user is responsible for the correctness of the mark: a column that depends on later events would reveal the
        future.

        Parameters
        ----------
        names
            The columns.

        Returns
        -------
        Trace

        Raises
        ------
        UsageError
            If the log does not have a column, or a column is declared as known only after submission.
        """
        wanted = tuple(dict.fromkeys(names))
        for name in wanted:
            later = DECLARED[name].known_at if name in DECLARED else SUMS.get(name, "submission")
            if later != "submission":
                raise UsageError(f"{name} is known {MOMENT_WORDS[later]}: it cannot be marked as known at submission")
            if name not in self._columns:
                extra = ", ".join(n for n in self.extra_names if n not in SUMS) or "none, the log has no extra columns"
                raise UsageError(f"the log has no column {name!r} to mark as known at submission (accepted: {extra})")
        both = tuple(dict.fromkeys((*self.info.known_at_submit, *wanted)))
        return self.with_info(replace(self.info, known_at_submit=both)) if wanted else self

    def requests(self, procs: str = "req") -> Iterator[JobRequest]:
        """Yield the request of every job in log order, at about 1 microsecond per job.

        Parameters
        ----------
        procs
            The rule for processor counts, see `procs`.

        Yields
        ------
        JobRequest
        """
        known = self.at_submission(procs)
        lists = [self._plain(known.pop("procs") if name == "procs" else known.pop(name, None), name)
                 for name in JobRequest._fields[1:-1]]  # fmt: skip
        extras: Iterable[Mapping[str, Any]] = repeat(NO_EXTRA)
        if known:
            names = tuple(known)
            extras = (dict(zip(names, row)) for row in zip(*(self._plain(v, n) for n, v in known.items())))
        new: Any = tuple.__new__  # faster than the named tuple's constructor, which handles keywords and defaults
        for row in zip(range(self._length), *lists, extras):
            yield new(JobRequest, row)

    def records(self, procs: str = "req") -> Iterator[JobRecord]:
        """Yield the record of every job in log order, with its outcome. Records contain outcomes, so predictors must
        not use them; event clocks, oracles and writers may.

        Parameters
        ----------
        procs
            The rule for processor counts, see `procs`.

        Yields
        ------
        JobRecord
        """
        outcome = zip(self.wait_time.tolist(), self.run_time.tolist(), self.nominal("status").decode())
        for request, (wait, run, status) in zip(self.requests(procs), outcome):
            yield JobRecord(request, wait, run, status)

    def _plain(self, values: Values | None, name: str) -> Iterable[Any]:
        """Return a column as plain values; the values of a missing column are all unknown."""
        if values is None:
            return repeat(math.nan if DECLARED[name].kind == "number" else None)
        return values.decode() if isinstance(values, Nominal) else values.tolist()


def _frozen(values: Values) -> Values:
    """Return a column as a read-only column."""
    return Nominal(frozen(values.codes), values.categories) if isinstance(values, Nominal) else frozen(values)


def check_log(trace: Trace) -> Trace:
    """Check that an argument is a log with at least one job."""
    if not isinstance(trace, Trace):
        forms = "a Trace, from read_trace, Trace.from_arrays or from_arrow"
        hint = "batchcast.read_trace reads a file" if isinstance(trace, str) or hasattr(trace, "__fspath__") else ""
        raise UsageError(f"trace: a {type(trace).__name__} (accepted: {forms})", hint=hint)
    if not len(trace):
        raise InputError(f"{trace.info.source}: no job is left", hint="select more jobs")
    return trace


Names = tuple[int | str, ...]


def joined(pieces: Sequence[Trace], info: LogInfo | None = None) -> Trace:
    """Join traces into one, with all rows in log order.

    >>> early = Trace.from_arrays({"submit_time": [0.0], "user_id": ["eve"]})
    >>> late = Trace.from_arrays({"job_id": [2], "submit_time": [5.0], "user_id": ["ada"], "run_time": [9.0]})
    >>> both = joined([early, late])
    >>> both["user_id"].tolist(), both.nominal("user_id").codes.tolist(), both.run_time.tolist()
    (['eve', 'ada'], [1, 0], [nan, 9.0])
    """
    # The categories of a nominal column are the names in all pieces. Rows with the same submit time and id keep the
    # order of the pieces. Costs O(rows), or O(rows log rows) if the pieces overlap.
    if len(pieces) == 1:
        return pieces[0] if info is None else pieces[0].with_info(info)
    columns: dict[str, Values] = {}
    for name in dict.fromkeys(name for piece in pieces for name in piece.names):
        if any(name in piece.names and isinstance(piece.column(name), Nominal) for piece in pieces):
            columns[name] = Nominal.join([_nominal(piece, name) for piece in pieces])
        elif name == "job_id":
            columns[name] = join_ids([piece.job_id for piece in pieces])
        else:
            columns[name] = np.concatenate([_numbers(piece, name) for piece in pieces])
    return Trace(columns, info or pieces[0].info)


def with_categories(trace: Trace, categories: Mapping[str, Names]) -> Trace:
    """Recode the names of some columns with given categories.

    >>> piece = Trace.from_arrays({"submit_time": [0.0, 1.0], "user_id": ["eve", None]})
    >>> with_categories(piece, {"user_id": ("ada", "eve")}).nominal("user_id").codes.tolist()
    [1, -1]
    """
    present = {name: names for name, names in categories.items() if name in trace.names}
    changed = {name: _nominal(trace, name).coded(names) for name, names in present.items()}
    return trace.with_columns(changed) if changed else trace


def summed_notes(notes: Iterable[str]) -> list[str]:
    """Add up notes that differ only in the number at their beginning, and remove repeated notes.

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
    """Return a column of numbers, all NaN if the piece does not have the column."""
    return piece.number(name) if name in piece.names else np.full(len(piece), np.nan)


def _nominal(piece: Trace, name: str) -> Nominal:
    """Return a column as names; numbers become names if another piece has texts in this column."""
    if name in piece.names and not isinstance(values := piece.column(name), Nominal):
        return Nominal.encode(values)
    return piece.nominal(name) if name in piece.names else Nominal(np.full(len(piece), -1, dtype=np.int32), ())


def join_ids(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join pieces of job ids: whole numbers if every piece has whole numbers, else text."""
    are_whole = all(part.dtype.kind in "iu" for part in parts)
    return np.concatenate(parts if are_whole else [part.astype(str) for part in parts])
