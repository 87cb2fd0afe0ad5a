"""Trace: a log as immutable columns, sorted by submit time, then job id, then row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .columns import COLUMNS
from .errors import UsageError
from .job import NO_EXTRA, JobRecord, JobRequest


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
        return Nominal(_frozen(self.codes[rows]), self.categories)

    def decode(self) -> list[int | str | None]:
        """Plain values, null as None."""
        names = [*self.categories, None]
        return [names[code] for code in self.codes.tolist()]

    def is_known(self) -> np.ndarray:
        """Boolean mask of the rows that hold a value."""
        return self.codes >= 0


Values = np.ndarray | Nominal


@dataclass(frozen=True, slots=True)
class LogInfo:
    """Where a trace came from and what was done to it on the way: what the report prints as provenance.

    `unix_start` is the epoch second at which the log's clock reads 0; `max_procs_source` is `header`, `--procs-total`,
    `peak` or `unknown`; `dropped` counts records by the rule that left
    them out, `notes` are sentences for people (unsorted input, a header that lies), in the order they arose.
    """

    source: str = "(memory)"
    format: str = "memory"
    sha256: str = ""
    unix_start: float = 0.0
    timezone: str = "UTC"
    timezone_source: str = "default"
    max_procs: float = float("nan")
    max_procs_source: str = "unknown"
    max_nodes: float = float("nan")
    header: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Mapping[int | str, str]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def with_dropped(self, rule: str, count: int) -> LogInfo:
        """The same, with `count` more records left out by `rule` (0 is recorded too: the rule was applied)."""
        return replace(self, dropped={**self.dropped, rule: self.dropped.get(rule, 0) + int(count)})

    def with_note(self, note: str) -> LogInfo:
        """The same, with one more sentence."""
        return replace(self, notes=(*self.notes, note))


class Trace:
    """A log of jobs: named columns of one length, read-only, always sorted by submit time, job id, row.

    Numbers are float64 with NaN for unknown; nominal columns are `Nominal`. A column that no record knows need not be
    there: `number(name)` and `nominal(name)` then answer "all unknown". Names beyond `columns.COLUMNS` are extra
    columns and reach predictors in `JobRequest.extra` (they must be known at submission). Selecting rows shares
    nothing and costs O(n) per column.

    >>> t = Trace.from_arrays({"submit_time": [5.0, 0.0], "run_time": [1.0, 2.0], "req_procs": [4, 8]})
    >>> len(t), t.number("submit_time").tolist(), t.number("run_time").tolist()
    (2, [0.0, 5.0], [2.0, 1.0])
    """

    __slots__ = ("_columns", "_length", "info")

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
    def from_arrays(cls, columns: Mapping[str, Any], info: LogInfo | None = None) -> Trace:
        """From plain sequences by column name; job ids are numbered from 1 when absent. Unknown: None or NaN."""
        length = len(next(iter(columns.values()))) if columns else 0
        made: dict[str, Values] = {"job_id": np.arange(1, length + 1, dtype=np.int64), "submit_time": np.zeros(length)}
        for name, values in columns.items():
            made[name] = _as_column(name, values)
        return cls(made, info)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Trace of {self._length} jobs from {self.info.source}: {', '.join(self._columns)}>"

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
        """A numeric column as float64 (n,), all NaN when the log does not have it."""
        values = self._columns.get(name)
        if values is None:
            return _frozen(np.full(self._length, np.nan))
        if isinstance(values, Nominal):
            raise UsageError(f"column {name} holds names, not numbers")
        return values

    def nominal(self, name: str) -> Nominal:
        """A nominal column, all null when the log does not have it."""
        values = self._columns.get(name)
        if values is None:
            return Nominal(_frozen(np.full(self._length, -1, dtype=np.int32)), ())
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

    def requests(self, procs: str = "req") -> Iterator[JobRequest]:
        """Every job as known at submission, in log order; about 1 microsecond each."""
        nominal = ("user_id", "group_id", "app_id", "queue_id", "partition_id", "account", "qos", "job_name")
        lists: list[Any] = [range(self._length), self.job_id.tolist(), self.submit_time.tolist()]
        lists += [self.procs(procs).tolist(), self.req_time.tolist(), self.number("req_mem_kib").tolist()]
        lists += [self.nominal(name).decode() for name in nominal]
        for row, extra in zip(zip(*lists), self._extras()):
            yield JobRequest._make((*row, extra))

    def records(self, procs: str = "req") -> Iterator[JobRecord]:
        """Every job with what came of it, in log order. For clocks, oracles and writers only."""
        outcome = zip(self.wait_time.tolist(), self.run_time.tolist(), self.nominal("status").decode())
        for request, (wait, run, status) in zip(self.requests(procs), outcome):
            yield JobRecord(request, wait, run, status)

    def _extras(self) -> Iterator[Mapping[str, Any]]:
        names = self.extra_names
        if not names:
            for _ in range(self._length):
                yield NO_EXTRA
            return
        lists = [v.decode() if isinstance(v, Nominal) else v.tolist() for v in (self._columns[n] for n in names)]
        for row in zip(*lists):
            yield dict(zip(names, row))


def log_order(submit_time: Values, job_id: Values) -> np.ndarray:
    """Row numbers in log order: submit time, then job id, then row. O(n log n), O(n) when already in order."""
    submit, ids = np.asarray(submit_time, dtype=float), np.asarray(job_id)
    major, minor = (ids, np.zeros(len(ids))) if ids.dtype.kind in "iu" else _id_numbers(ids)
    before = submit[:-1], major[:-1], minor[:-1]
    after = submit[1:], major[1:], minor[1:]
    later = before[0] < after[0]
    same = before[0] == after[0]
    later |= same & (before[1] < after[1])
    later |= same & (before[1] == after[1]) & (before[2] <= after[2])
    if later.all():
        return np.arange(len(submit))
    return np.lexsort((np.arange(len(submit)), minor, major, submit))


def _id_numbers(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Text ids such as 12_3 or 12+1 as (12, 3); ids without a leading number sort last, by row."""
    parts = [re.match(r"(\d+)(?:\D+(\d+))?", str(text)) for text in ids.tolist()]
    major = np.array([float(m[1]) if m else np.inf for m in parts])
    minor = np.array([float(m[2]) if m and m[2] else -1.0 for m in parts])
    return major, minor


def _as_column(name: str, values: Any) -> Values:
    if isinstance(values, Nominal):
        return values
    known = COLUMNS.get(name)
    if known is not None and known.kind == "id":
        array = np.asarray(values)
        return array.astype(np.int64) if array.dtype.kind in "iuf" else array.astype(str)
    if known is not None and known.kind == "nominal":
        return Nominal.encode(values)
    array = np.asarray([np.nan if v is None else v for v in values])
    return array.astype(np.float64) if array.dtype.kind in "iufb" else Nominal.encode(values)


def _rows(values: Values, rows: np.ndarray | None) -> Values:
    if isinstance(values, Nominal):
        return Nominal(_frozen(values.codes), values.categories) if rows is None else values.take(rows)
    return _frozen(values if rows is None else values[rows])


def _frozen(array: np.ndarray) -> np.ndarray:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
