# SPDX-License-Identifier: Apache-2.0
"""Trace: a log as immutable columns, sorted by submit time, then job id, then row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
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
from .columns import LogInfo, Nominal, Values, as_column, columns_of, frozen, log_order, sound
from .result import FIRST, Picture, Result

_MADE = {"start_time": ("wait_time",), "end_time": ("wait_time", "run_time")}
"""Columns that `trace[name]` adds up from the submission on."""


_ELSEWHERE = {"walltime": ("req_time",), "timelimit": ("req_time",), "elapsed": ("run_time",)}
"""What other programs call a column."""


class Trace(Result):
    """A log of jobs: named columns of one length, read-only, always sorted by submit time, job id, row.

    Parameters
    ----------
    columns
        Arrays and `Nominal`s as they are, `job_id` and `submit_time` among them; `from_arrays` takes plain sequences.
    info
        Where they come from.
    is_sorted
        Whether they are in log order already.

    Raises
    ------
    UsageError
        For columns of different lengths, or without `job_id` or `submit_time`.

    Notes
    -----
    Numbers are float64 with NaN for unknown; nominal columns are `Nominal`. A column that no record knows need not be
    there: `number(name)` and `nominal(name)` then answer "all unknown". Names beyond `columns.COLUMNS` are extra
    columns; they reach predictors, in `JobRequest.extra`, when `columns.py` declares them known at submission or the
    user vouched for them (`knowing`). Selecting rows shares nothing and costs O(n) per column.

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
        """Takes columns as they are (see `from_arrays` for plain sequences); sorts unless told they are sorted."""
        lengths = {len(v) for v in columns.values()}
        if len(lengths) > 1:
            raise UsageError(f"columns differ in length: {sorted(lengths)}")
        if "submit_time" not in columns or "job_id" not in columns:
            raise UsageError("a trace needs the columns job_id and submit_time")
        self._length = lengths.pop() if lengths else 0
        self.info = info or LogInfo()
        order = None if is_sorted else log_order(columns["submit_time"], columns["job_id"])
        self._columns = {name: _rows(values, order) for name, values in columns.items()}

    @classmethod
    def from_arrays(cls, columns: Any, info: LogInfo | None = None, *, procs_total: float | None = None) -> Trace:
        """A trace of plain sequences by column name, or of a pandas DataFrame.

        Parameters
        ----------
        columns
            A mapping of column names to sequences of one length, or a DataFrame. Lengths of time are seconds or
            durations; instants are seconds on the log's clock or dates (without a zone: UTC). Unknown is None, NaN,
            NaT or NA; so are negative numbers where none can be (-1 in many logs). Job ids are numbered from 1 where
            there are none; rows without a submit time are left out. What was changed is in `info`.
        info
            Where the columns come from, the machine's size and the like.
        procs_total
            The machine's processors, where they are known: `evaluate` simulates on no other.

        Raises
        ------
        UsageError
            Names the column, row and value that cannot be used, and a column that is misspelt (`runtime`).
        """
        info = info or LogInfo()
        if procs_total is not None:
            info = replace(info, max_procs=float(procs_total), max_procs_source="--procs-total")
        given = {name: as_column(name, values, info.unix_start) for name, values in columns_of(columns).items()}
        if given and "submit_time" not in given:
            info = info.with_note("no column submit_time: all jobs are submitted at 0 s")
        length = len(next(iter(given.values()))) if given else 0
        defaults: dict[str, Values] = {
            "job_id": np.arange(1, length + 1, dtype=np.int64),
            "submit_time": np.zeros(length),
        }
        return cls(*_checked({**defaults, **given}, info))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Trace of {self._length} jobs from {self.info.source}: {', '.join(self._columns)}>"

    def __str__(self) -> str:
        left_out = sum(self.info.dropped.values())
        said = [f"left out: {left_out:,} records (log.info.dropped)"] if left_out else []
        said += [f"note: {note}" for note in self.info.notes]
        return "\n".join([super().__str__(), *said])

    if TYPE_CHECKING:
        alloc_procs: np.ndarray
        req_procs: np.ndarray
        status: np.ndarray
        user_id: np.ndarray
    else:  # a type checker refuses what is not declared

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name in self._columns or name in COLUMNS:
                return self[name]
            near = [*_ELSEWHERE.get(name, ()), *get_close_matches(name, self._columns, 1)][:1]
            meant = f"; did you mean log[{near[0]!r}]?" if near else ""
            raise AttributeError(f"a log has no {name!r} (columns: {', '.join(self._columns)}){meant}")

    def __iter__(self) -> Iterator[JobRecord]:
        """Every job in log order, as `log[0]` gives it."""
        return self.records()

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...

    @overload
    def __getitem__(self, key: int) -> JobRecord: ...

    @overload
    def __getitem__(self, key: np.ndarray | slice | list[int]) -> Trace: ...

    def __getitem__(self, key: Any) -> np.ndarray | Trace | JobRecord:
        """A column's values by name, one job by its place, or the trace of some rows: a mask, a slice, row numbers.

        Numbers are float64; names plain values, None where unknown; `start_time` and `end_time` are added up from
        submission, wait and run. All unknown where the log does not have one of our own columns; UsageError for a
        name that neither the log nor batchcast knows.

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
        if key in _MADE and key not in self._columns:
            return self.submit_time + sum(self.number(part) for part in _MADE[key])
        self._check_name(key)
        values = self._columns.get(key)
        if values is None:
            return self.number(key) if COLUMNS[key].kind == "number" else np.full(self._length, None, dtype=object)
        return values if isinstance(values, np.ndarray) else np.array([*values.categories, None], object)[values.codes]

    def _job(self, place: int) -> JobRecord:
        """One job with what came of it; a negative place counts from the end."""
        if not -self._length <= place < self._length:
            raise IndexError(f"log[{place}]: the log has {self._length} jobs")
        row = place % self._length
        job = next(self.take(np.array([row])).records())
        return job._replace(request=job.request._replace(row=row))

    def _check_name(self, name: str) -> None:
        """UsageError for a column that neither the log nor batchcast knows: a misspelt one is never all unknown."""
        if name not in self._columns and name not in COLUMNS:
            names = [*self._columns, *(made for made in _MADE if made not in self._columns)]
            near = [*_ELSEWHERE.get(name, ()), *get_close_matches(name, names, 1)][:1]
            hint = f"did you mean {near[0]}?" if near else ""
            raise UsageError(f"the log has no column {name!r} (accepted: {', '.join(names)})", hint=hint)

    def filter(self, **wanted: Any) -> Trace:
        """The jobs whose columns hold what is wanted: a value, one of several, or a function of the column's values.

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
                keep &= np.isin(values, chosen) if values.dtype != object else _is_one_of(values, chosen)
        return self.take(keep)

    def columns(self) -> Mapping[str, Values]:
        """The columns as stored, one row a job: numbers as float64, names as `Nominal`."""
        return dict(self._columns)

    def _attrs(self) -> Mapping[str, Any]:
        return {"info": self.info}

    def _tables(self) -> Mapping[str, Mapping[str, Any]]:
        first = self.take(np.arange(min(self._length, FIRST)))
        beyond = f", the first {FIRST}" if self._length > FIRST else ""
        columns = {name: first[name].tolist() for name in self._columns}
        return {f"{self._length:,} jobs from {self.info.source}{beyond}": columns}

    def _pictures(self) -> Mapping[str, Picture]:
        known = {"run time": self.run_time, "wait": self.wait_time, "limit": self.req_time}
        each = {name: np.where(np.isfinite(v), v, np.nan) for name, v in known.items() if np.isfinite(v).any()}
        return {"times": partial(plots.shares, each, "time (s)")}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are there."""
        return tuple(self._columns)

    @property
    def extra_names(self) -> tuple[str, ...]:
        """The columns that are there beyond the house's own table."""
        return tuple(name for name in self._columns if name not in COLUMNS)

    def column(self, name: str) -> Values:
        """The column as stored; KeyError when it is not there."""
        return self._columns[name]

    def number(self, name: str) -> np.ndarray:
        """A numeric column as float64 (n,), all NaN when the log does not have it; UsageError for no known name."""
        values = self._columns.get(name)
        if values is None:
            self._check_name(name)
            return frozen(np.full(self._length, np.nan))
        if isinstance(values, Nominal):
            raise UsageError(f"column {name} holds names, not numbers")
        return values

    def nominal(self, name: str) -> Nominal:
        """A nominal column, all null when the log does not have it; UsageError for no known name."""
        values = self._columns.get(name)
        if values is None:
            self._check_name(name)
            return Nominal(frozen(np.full(self._length, -1, dtype=np.int32)), ())
        if not isinstance(values, Nominal):
            raise UsageError(f"column {name} holds numbers, not names")
        return values

    @property
    def job_id(self) -> np.ndarray:
        """int64 or text, (n,)."""
        values = self._columns["job_id"]
        assert isinstance(values, np.ndarray)
        return values

    @property
    def submit_time(self) -> np.ndarray:
        """Seconds on the log's clock, ascending, (n,)."""
        return self.number("submit_time")

    @property
    def wait_time(self) -> np.ndarray:
        """Recorded wait, NaN unknown, (n,)."""
        return self.number("wait_time")

    @property
    def run_time(self) -> np.ndarray:
        """Recorded run time, NaN for jobs that never ran, (n,)."""
        return self.number("run_time")

    @property
    def req_time(self) -> np.ndarray:
        """The users' limits, NaN unknown, (n,)."""
        return self.number("req_time")

    def procs(self, rule: str = "req") -> np.ndarray:
        """Processors of each job: requested, else allocated (`req`), or the reverse (`alloc`); 0 is unknown."""
        if rule not in ("req", "alloc"):
            raise UsageError(f"not a processor rule: {rule!r} (accepted: req, alloc)")
        first, second = self.number(f"{rule}_procs"), self.number("alloc_procs" if rule == "req" else "req_procs")
        return np.where(first > 0, first, np.where(second > 0, second, np.nan))

    def take(self, rows: np.ndarray, info: LogInfo | None = None) -> Trace:
        """The trace of the given rows: a boolean mask or ascending row numbers (order is kept)."""
        rows = np.asarray(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return Trace({n: _rows(v, rows) for n, v in self._columns.items()}, info or self.info, is_sorted=True)

    def with_columns(self, columns: Mapping[str, Values], info: LogInfo | None = None) -> Trace:
        """The same rows with columns added or replaced (submit_time and job_id may not be replaced)."""
        if {"submit_time", "job_id"} & set(columns):
            raise UsageError("submit_time and job_id decide the order of a trace and cannot be replaced")
        return Trace({**self._columns, **columns}, info or self.info, is_sorted=True)

    def with_info(self, info: LogInfo) -> Trace:
        """The same rows with another provenance."""
        return Trace(self._columns, info, is_sorted=True)

    def at_submission(self, procs: str = "req") -> dict[str, Values]:
        """What is known of the jobs when they are submitted: the only columns that predictors ever see.

        `procs` by the reading rule, the columns that `columns.py` declares known at submission, and undeclared ones
        that the user vouched for (`info.known_at_submit`).
        """
        vouched = {name for name in self.info.known_at_submit if name not in DECLARED and name not in SUMS}
        seen = {n: v for n, v in self._columns.items() if n in KNOWN_AT_SUBMISSION or n in vouched}
        return {**seen, "procs": self.procs(procs)}

    def knowing(self, names: Iterable[str]) -> Trace:
        """The same rows, where these extra columns count as known at submission: the user vouches for them.

        Raises UsageError for a column the log does not have, and for one that is known later by what it is.
        """
        asked = tuple(dict.fromkeys(names))
        for name in asked:
            later = DECLARED[name].known if name in DECLARED else SUMS.get(name, "submission")
            if later != "submission":
                raise UsageError(f"{name} is known {MOMENT_WORDS[later]}: no word makes it known at submission")
            if name not in self._columns:
                own = ", ".join(n for n in self.extra_names if n not in SUMS) or "it has none but batchcast's own"
                raise UsageError(f"the log has no column {name!r} to be known at submission (its own: {own})")
        both = tuple(dict.fromkeys((*self.info.known_at_submit, *asked)))
        return self.with_info(replace(self.info, known_at_submit=both)) if asked else self

    def requests(self, procs: str = "req") -> Iterator[JobRequest]:
        """Every job as known at submission, in log order; about 1 microsecond each."""
        seen = self.at_submission(procs)
        lists = [self._plain(seen.pop("procs") if name == "procs" else seen.pop(name, None), name)
                 for name in JobRequest._fields[1:-1]]  # fmt: skip
        extras: Iterable[Mapping[str, Any]] = repeat(NO_EXTRA)
        if seen:
            names = tuple(seen)
            extras = (dict(zip(names, row)) for row in zip(*(self._plain(v, n) for n, v in seen.items())))
        new: Any = tuple.__new__  # as the class's own constructor does, without its keywords and defaults
        for row in zip(range(self._length), *lists, extras):
            yield new(JobRequest, row)

    def records(self, procs: str = "req") -> Iterator[JobRecord]:
        """Every job with what came of it, in log order. For clocks, oracles and writers only."""
        outcome = zip(self.wait_time.tolist(), self.run_time.tolist(), self.nominal("status").decode())
        for request, (wait, run, status) in zip(self.requests(procs), outcome):
            yield JobRecord(request, wait, run, status)

    def _plain(self, values: Values | None, name: str) -> Iterable[Any]:
        """A column as plain values, a missing one as unknown."""
        if values is None:
            return repeat(math.nan if DECLARED[name].kind == "number" else None)
        return values.decode() if isinstance(values, Nominal) else values.tolist()


def _checked(columns: Mapping[str, Values], info: LogInfo) -> tuple[dict[str, Values], LogInfo]:
    """Columns of one length, made sound."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise UsageError(f"columns differ in length: {', '.join(f'{n} {length}' for n, length in lengths.items())}")
    return sound(columns, info)


def _is_one_of(values: np.ndarray, chosen: list[Any]) -> np.ndarray:
    """Whether each name is among the chosen."""
    return np.fromiter((value in chosen for value in values.tolist()), dtype=bool, count=len(values))


def _rows(values: Values, rows: np.ndarray | None) -> Values:
    if isinstance(values, Nominal):
        return Nominal(frozen(values.codes), values.categories) if rows is None else values.take(rows)
    return frozen(values if rows is None else values[rows])


def check_log(trace: Trace) -> Trace:
    """The same; UsageError for what is no log, InputError for one without a job."""
    if not isinstance(trace, Trace):
        forms = "a Trace, as read_trace, Trace.from_arrays and from_arrow make it"
        hint = "batchcast.read_trace reads a file" if isinstance(trace, str) or hasattr(trace, "__fspath__") else ""
        raise UsageError(f"trace: a {type(trace).__name__} (accepted: {forms})", hint=hint)
    if not len(trace):
        raise InputError(f"{trace.info.source}: no job is left", hint="a wider selection")
    return trace
