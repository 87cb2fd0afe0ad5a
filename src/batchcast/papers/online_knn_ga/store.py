# SPDX-License-Identifier: Apache-2.0
"""Stores jobs as arrays, and moves windows over them in log order (Xu et al. 2018, section 2.3)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...events.event import End, Event, Submit, Withdraw
from ...job import JobRequest
from ...predict.fallback import LargestLimit
from ...predict.gate import field_value, finite_or_nan


@dataclass(frozen=True)
class Batches:
    """The windows have h, t1 and t2 submissions; batch b (from 0) begins at submission h + t1 + b * t2.

    Before there are h + t1 submissions, the windows grow: a young batch begins after `first` submissions and whenever
    the number of submissions has doubled. A young batch splits all submissions so far into two thirds of history and
    one third of training, like the paper's 4,500 submissions. Young batches have negative batch numbers. If `first` is
    0, there are no young batches.

    >>> batches = Batches(3000, 1500, 1000)
    >>> batches.due(4499), batches.due(4500), batches.due(6700), batches.windows(1)
    (-1, 0, 2, (1000, 4000, 5500))
    >>> young = Batches(3000, 1500, 1000, first=600)
    >>> young.sizes, young.none, young.due(599), young.due(600), young.due(1300), young.windows(-3)
    ((600, 1200, 2400), -4, -4, -3, -2, (0, 400, 600))
    """

    h: int
    t1: int
    t2: int
    first: int = 0

    def __post_init__(self) -> None:
        if min(self.h, self.t1, self.t2) < 1:
            raise ValueError("h, t1 and t2 are at least 1 job")
        if self.first < 0 or 0 < self.first < 3:
            raise ValueError("first is 0 (windows do not grow) or at least 3 jobs")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of submissions after which the young batches (before h + t1 submissions) begin."""
        sizes, size = [], self.first
        while 0 < size < self.h + self.t1:
            sizes.append(size)
            size *= 2
        return tuple(sizes)

    @property
    def none(self) -> int:
        """The batch number that means that no batch has begun."""
        return -1 - len(self.sizes)

    @property
    def cadence(self) -> int:
        """Number of submissions between two calls of `refit`, so that no batch begins late."""
        return math.gcd(self.h + self.t1, self.t2, *self.sizes[:1])

    def due(self, submitted: int) -> int:
        """Return the batch whose TestSet has the next submission; `none` before the first batch."""
        if submitted >= self.h + self.t1:
            return (submitted - self.h - self.t1) // self.t2
        return bisect_right(self.sizes, submitted) + self.none

    def windows(self, batch: int) -> tuple[int, int, int]:
        """Return the submissions at which the batch's HistSet begins, its TrainingSet begins, and its TestSet
        begins."""
        if batch < 0:
            return 0, 2 * self.sizes[batch] // 3, self.sizes[batch]
        first = batch * self.t2
        return first, first + self.h, first + self.h + self.t1


class Rows:
    """A table of rows that are appended at the end and dropped at the front; an append takes amortised O(1) time."""

    __slots__ = ("columns", "dropped", "length")

    def __init__(self, **columns: tuple[int, type]) -> None:
        """Create an empty table with the given columns, each with its width (0 for a vector) and dtype."""
        self.columns: dict[str, np.ndarray] = {
            name: np.zeros((64, width) if width else 64, dtype) for name, (width, dtype) in columns.items()
        }
        self.length = 0
        self.dropped = 0

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name][: self.length]

    def append(self, *values: Any) -> None:
        """Append a row, with values in the order of the columns."""
        if self.length == len(next(iter(self.columns.values()))):
            for name, column in self.columns.items():
                self.columns[name] = np.concatenate([column, np.zeros_like(column)])
        for column, value in zip(self.columns.values(), values):
            column[self.length] = value
        self.length += 1

    def keep(self, mask: np.ndarray) -> None:
        """Drop the rows for which `mask` (length,) is false."""
        kept = int(mask.sum())
        for column in self.columns.values():
            column[:kept] = column[: self.length][mask]
        self.dropped += self.length - kept
        self.length = kept


@dataclass(eq=False, repr=False)
class Store:
    """Stores requests in order of submission (from 0) and finished jobs in order of completion, with given fields.

    Fields in `nominals` are compared for equality, and stored as codes from 0; an unknown value also has a code. Fields
    in `numbers` are compared by distance; unknown and infinite values are NaN. `instead` names the column that replaces
    a field if a job does not have the field. `run` of a request is NaN until the job's End event. Finished jobs
    submitted before `oldest` are dropped, because no window contains these jobs. If a job's End has no Submit before it
    (because a live clock began later), the job counts as submitted last. O(1) per event.
    """

    nominals: tuple[str, ...]
    numbers: tuple[str, ...]
    instead: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.met: dict[str, str] = {}
        self.codes: tuple[dict[Any, int], ...] = tuple({} for _ in self.nominals)
        shape = {"codes": (len(self.nominals), np.int32), "values": (len(self.numbers), np.float64)}
        self.requests = Rows(
            **shape, limit=(0, np.float64), fallback=(0, np.float64), done=(0, np.int64), run=(0, np.float64)
        )
        self.finished = Rows(
            **shape, number=(0, np.int64), place=(0, np.int64), run=(0, np.float64), total=(0, np.float64)
        )
        self.completions = 0
        self.oldest = 0
        self.limits = LargestLimit()
        self.open: dict[int, int] = {}
        self.low, self.high = np.full(len(self.numbers), np.inf), np.full(len(self.numbers), -np.inf)

    @property
    def submitted(self) -> int:
        """Number of submitted jobs so far."""
        return self.requests.dropped + self.requests.length

    def code(self, job: JobRequest) -> np.ndarray:
        """Return the job's nominal codes (int32); an unknown value gets -1, which equals no finished job's code."""
        codes = [known.get(self.name_value(job, name), -1) for name, known in zip(self.nominals, self.codes)]
        return np.array(codes, dtype=np.int32)

    def name_value(self, job: JobRequest, name: str) -> Any:
        """Return the job's value in a column, or in the column that replaces it; None if both are unknown."""
        value = field_value(job, name)
        if value is not None or name not in self.instead:
            return value
        other = field_value(job, self.instead[name])
        # the pair (column, value) differs from every value of the replaced column
        return None if other is None else (self.instead[name], other)

    def column_of(self, name: str) -> str:
        """Return the column that is at present used for a name: `account` for `group_id` on a log without groups."""
        return self.met.get(name, name)

    def value(self, job: JobRequest) -> np.ndarray:
        """Return the job's numbers (float64), NaN if unknown or infinite."""
        return np.array([finite_or_nan(field_value(job, name)) for name in self.numbers])

    def limit(self, job: JobRequest) -> tuple[float, float]:
        """Return the job's time limit (NaN if it has none), and the run time that is predicted without any history."""
        return finite_or_nan(job.req_time), self.limits.of(job.req_time)

    def observe(self, event: Event) -> None:
        """Store a request and, when it ends, its run time; other events are ignored."""
        if isinstance(event, Submit):
            self._submit(event.job)
        elif isinstance(event, End):
            self._end(event.job, event.run_time)
        elif isinstance(event, Withdraw):
            self.open.pop(event.job.row, None)

    def _submit(self, job: JobRequest) -> None:
        """Store a request."""
        limit, fallback = self.limit(job)
        self.note_names(job)
        self.open[job.row] = self.submitted
        value = self.value(job)
        self.requests.append(self.code(job), value, limit, fallback, self.completions, math.nan)
        self.low, self.high = np.fmin(self.low, value), np.fmax(self.high, value)
        self.limits.note(job.req_time)

    def note_names(self, job: JobRequest) -> None:
        """Give a code to each of the job's names, and record which column each name comes from."""
        for name, known in zip(self.nominals, self.codes):
            value = self.name_value(job, name)
            known.setdefault(value, len(known))
            if isinstance(value, tuple):
                self.met.setdefault(name, value[0])
            elif value is not None:
                self.met[name] = name

    def _end(self, job: JobRequest, run: float) -> None:
        """Store the run time of a job that ended."""
        number = self.open.pop(job.row, None)
        if number is None:
            number = self.submitted
            self.note_names(job)
        elif number >= self.requests.dropped:
            self.requests.columns["run"][number - self.requests.dropped] = run
        if number >= self.oldest:
            before = self.finished["total"][-1] if self.finished.length else 0.0
            self.finished.append(self.code(job), self.value(job), number, self.completions, run, before + run)
        self.completions += 1

    def forget(self, oldest: int) -> None:
        """Drop submissions before number `oldest`, and compute the running totals again."""
        self.oldest = oldest
        self.requests.keep(np.arange(self.requests.length) + self.requests.dropped >= oldest)
        self.finished.keep(self.finished["number"] >= oldest)
        self.finished["total"][:] = np.cumsum(self.finished["run"])

    def scaling_so_far(self) -> tuple[np.ndarray, np.ndarray]:
        """Return minimum and range of the numbers of all requests so far; range 0 if a number is constant."""
        span = self.high - self.low
        return self.low, np.where(np.isfinite(span), span, 0.0)

    def window(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Return the requests numbered first to last - 1 as columns (views)."""
        begin, end = (max(number - self.requests.dropped, 0) for number in (first, last))
        return {name: self.requests[name][begin:end] for name in self.requests.columns}
