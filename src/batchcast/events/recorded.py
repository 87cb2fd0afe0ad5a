# SPDX-License-Identifier: Apache-2.0
"""The recorded clock: replays a log, event by event, in the one order of events.

Whole, or in periods with what one leaves unfinished carried into the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .. import plots
from ..errors import UsageError
from ..job import JobRequest
from ..table import Trace
from ..table.joined import joined
from ..table.result import Picture, Result
from .driver import Driver
from .event import END, START, SUBMIT, WITHDRAW, End, Event, Start, Submit, Withdraw
from .record import EVENT, Columns, requests_of
from .state import SystemState

PROTOCOLS = ("honest", "paper", "starts_first")


@dataclass(frozen=True, slots=True)
class Timeline:
    """Every event of a log as arrays, in order: instant, kind, and the job's row."""

    time: np.ndarray
    kind: np.ndarray
    index: np.ndarray


def timeline(trace: Trace, protocol: str = "honest") -> Timeline:
    """The events of a log in the order of DESIGN, Events. `paper`: each job's End right after its Submit, log order.

    `starts_first` (papers/quick-starters.md, State): every end and start up to the instant of a submission comes
    before it, those of jobs submitted earlier in that instant too. Otherwise a zero-length job ends, and a job
    withdrawn at once leaves, in a further round of its instant. O(n log n).
    """
    if protocol not in PROTOCOLS:
        raise UsageError(f"not a protocol: {protocol!r} (accepted: {', '.join(PROTOCOLS)})")
    submit, wait, run = outcome(trace)
    n = len(trace)
    rows = np.arange(n)
    ran, never = rows[~np.isnan(run)], rows[np.isnan(run)]
    index = np.concatenate([rows, ran, ran, never])
    kind = np.repeat(np.array([SUBMIT, START, END, WITHDRAW], dtype=np.int8), [n, len(ran), len(ran), len(never)])
    if protocol == "paper":
        rank = np.repeat(np.array([0, 1, 2, 1], dtype=np.int8), [n, len(ran), len(ran), len(never)])
        order = np.lexsort((rank, index))
        return Timeline(submit[index][order], kind[order], index[order])
    start = submit + wait
    end = start + np.where(np.isnan(run), 0.0, run)
    time = np.concatenate([submit, start[ran], end[ran], start[never]])
    if protocol == "starts_first":
        same = time == submit[index]
        rank = np.where(same & (kind == SUBMIT), 0, np.where(kind == END, 2, 1)).astype(np.int8)
        ends_here = np.concatenate([np.zeros(n + len(ran), bool), end[ran] == start[ran], np.zeros(len(never), bool)])
        early = np.where(same, n, 0) + np.where(same, index, np.where(ends_here, 2, np.where(kind == END, 0, 1)))
        order = np.lexsort((index, rank, early, time))
        return Timeline(time[order], kind[order], index[order])
    round_ = np.concatenate([np.zeros(n + len(ran), bool), end[ran] == start[ran], start[never] == submit[never]])
    order = np.lexsort((index, kind, round_, time))
    return Timeline(time[order], kind[order], index[order])


def event_table(trace: Trace, plan: Timeline) -> np.ndarray:
    """A timeline as the kernel takes it (EVENT); an unknown wait teaches no predictor."""
    table = np.zeros(len(plan.time), EVENT)
    table["time"], table["rank"], table["entry"] = plan.time, plan.kind, plan.index
    table["value"] = np.where(trace.wait_time >= 0, trace.wait_time, np.nan)[plan.index]
    return table


def after_the_log(trace: Trace, protocol: str = "honest", procs: str = "req", *, total: float) -> Columns:
    """The state after the whole log: what every job's wait taught, and how many outages there were."""
    from .kernel import apply_events

    requests, codes = requests_of(trace, procs)
    columns = Columns(total, len(trace))
    columns.make_room(len(trace), len(codes["user_id"]) + 1)
    table = event_table(trace, timeline(trace, protocol))
    apply_events(columns.record, requests, table, 0, len(table))
    return columns


def outcome(trace: Trace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Submit, wait and run as the recorded clock takes them: waits known and not negative, run NaN = never ran."""
    wait = np.nan_to_num(np.maximum(trace.wait_time, 0.0), nan=0.0)
    return trace.submit_time, wait, trace.run_time


def irregular(trace: Trace) -> dict[str, int]:
    """How many records needed each rule of this clock, by rule."""
    ran = ~np.isnan(trace.run_time)
    return {
        "never ran: withdrawn": int((~ran).sum()),
        "ran without a recorded wait: started at submit": int((ran & np.isnan(trace.wait_time)).sum()),
        "negative wait: taken as 0": int((trace.wait_time < 0).sum()),
    }


def events(trace: Trace, protocol: str = "honest", procs: str = "req") -> Iterator[Event]:
    """Every event of a log, in order; about 2 microseconds each."""
    return events_of(trace, timeline(trace, protocol), list(trace.requests(procs)))


def events_of(trace: Trace, plan: Timeline, jobs: Sequence[JobRequest]) -> Iterator[Event]:
    _, wait, run = (column.tolist() for column in outcome(trace))
    waits = np.where(trace.wait_time >= 0, trace.wait_time, np.nan).tolist()  # an unknown wait teaches no predictor
    status, nodes = trace.nominal("status").decode(), trace.nominal("node_list").decode()
    new: Any = tuple.__new__  # as the classes' own constructors do, without their keywords and defaults: half the time
    for time, kind, i in zip(plan.time.tolist(), plan.kind.tolist(), plan.index.tolist()):
        job = jobs[i]
        if kind == SUBMIT:
            yield new(Submit, (time, job))
        elif kind == START:
            yield new(Start, (time, job, waits[i], nodes[i]))
        elif kind == END:
            yield new(End, (time, job, run[i], wait[i], status[i], math.nan))
        else:
            yield new(Withdraw, (time, job, waits[i]))


@dataclass(frozen=True, slots=True, repr=False)
class Forecasts(Result):
    """What one predictor said of a log: points (n,), quantiles (n, levels), bases, grounds; NaN and "" where not asked.

    `grounds` may be empty where a batch path has none.
    """

    points: np.ndarray
    levels: tuple[float, ...]
    quantiles: np.ndarray
    basis: Sequence[str]
    grounds: Sequence[str] = ()

    def __repr__(self) -> str:
        bounds = f", with bounds at {', '.join(f'{level:g}' for level in self.levels)}" if self.levels else ""
        return f"<Forecasts of {len(self.points)} jobs{bounds}>"

    def columns(self) -> dict[str, Any]:
        """Columns (n,) by name: point, one `q` per level (q0.9), and basis.

        >>> Forecasts(np.array([9.0]), (0.9,), np.array([[20.0]]), ["the request"]).columns()
        {'point': array([9.]), 'q0.9': array([20.]), 'basis': ['the request']}
        """
        levels = {f"q{level:g}": self.quantiles[:, k] for k, level in enumerate(self.levels)}
        return {"point": self.points, **levels, "basis": list(self.basis) or [""] * len(self.points)}

    def _pictures(self) -> Mapping[str, Picture]:
        near = (0.1, 0.5, 0.9) if self.levels else ()  # all fifteen of a method hide each other
        few = {min(range(len(self.levels)), key=lambda k: abs(self.levels[k] - level)) for level in near}
        levels = {f"{100 * self.levels[k]:g} %": self.quantiles[:, k] for k in sorted(few)}
        return {"forecasts": partial(plots.shares, {"point": self.points, **levels}, "forecast (s)")}


def replay(
    trace: Trace,
    predictors: Mapping[str, Any],
    *,
    protocol: str = "honest",
    procs: str = "req",
    total: float = float("nan"),
    ask: np.ndarray | None = None,
    tick: Any = None,
) -> dict[str, Forecasts]:
    """Drive predictors through a log on the recorded clock; each is asked at every submission (or where `ask` is true).

    Returns each one's `Forecasts`. `tick(done)` is called now and then with the number of submissions so far. Cost: one
    pass over 3 n events, about a microsecond each, plus the predictors' own.
    """
    want = np.ones(len(trace), bool).tolist() if ask is None else np.asarray(ask, bool).tolist()
    answers: dict[str, list[Any]] = {name: [None] * len(trace) for name in predictors}
    jobs: list[JobRequest] = list(trace.requests(procs))
    plan = timeline(trace, protocol)
    state = SystemState(total, jobs, lambda: requests_of(trace, procs), lambda: event_table(trace, plan))
    tell, submissions = Driver(predictors, state).tell, 0
    for event in events_of(trace, plan, jobs):
        if type(event) is not Submit:
            tell(event)
            continue
        row = event.job.row
        for name, answer in tell(event, want[row]).items():
            answers[name][row] = answer
        submissions += 1
        if tick is not None and submissions % 1000 == 0:
            tick(submissions)
    return {name: collect(given) for name, given in answers.items()}


def collect(given: Sequence[Any]) -> Forecasts:
    """Predictions as arrays; the levels are those of the first prediction that has any."""
    levels: tuple[float, ...] = next((p.levels for p in given if p is not None and p.levels), ())
    points = np.array([np.nan if p is None else p.point for p in given], dtype=float)
    quantiles = np.full((len(given), len(levels)), np.nan)
    if levels:
        for row, p in enumerate(given):
            if p is not None and p.levels == levels:
                quantiles[row] = p.quantiles
    words = [("", "") if p is None else (p.basis, p.grounds) for p in given]
    return Forecasts(points, levels, quantiles, [basis for basis, _ in words], [grounds for _, grounds in words])


class Stretch(NamedTuple):
    """The events from a period's first submission to before the next one's; `first` is its first job's row."""

    period: Trace
    first: int
    events: Iterator[Event]


def stretches(periods: Iterable[Trace], protocol: str = "honest", procs: str = "req") -> Iterator[Stretch]:
    """The events of a log's periods in order of submission: together exactly those of the log at once, in that order.

    Rows are those of the whole log. In memory are two periods and the jobs that have not ended. Of one stretch all
    events are to be taken before the next.

    >>> log = Trace.from_arrays({"submit_time": [0, 5, 9], "wait_time": [0, 0, 0], "run_time": [7, 1, 1]})
    >>> [[(e.time, type(e).__name__, e.job.row) for e in s.events] for s in stretches([log[:1], log[1:]])]
    [[(0.0, 'Submit', 0), (0.0, 'Start', 0)],
     [(5.0, 'Submit', 1), (5.0, 'Start', 1), (6.0, 'End', 1), (7.0, 'End', 0),
      (9.0, 'Submit', 2), (9.0, 'Start', 2), (10.0, 'End', 2)]]
    """
    unfinished: list[Trace] = []
    rows = np.zeros(0, np.int64)
    first, since = 0, -math.inf
    for period, until in _with_next_begin(periods):
        trace = joined([*unfinished, period])
        rows = np.concatenate([rows, np.arange(first, first + len(period))])
        plan = timeline(trace, protocol)
        now = (plan.time >= since) & (plan.time < until)
        jobs = [job._replace(row=row) for job, row in zip(trace.requests(procs), rows.tolist())]
        yield Stretch(period, first, events_of(trace, Timeline(plan.time[now], plan.kind[now], plan.index[now]), jobs))
        left = np.unique(plan.index[plan.time >= until])
        unfinished = [trace.take(left)] if len(left) else []
        rows, first, since = rows[left], first + len(period), until


def replay_periods(
    periods: Iterable[Trace],
    predictors: Mapping[str, Any],
    *,
    protocol: str = "honest",
    procs: str = "req",
    total: float = math.nan,
    forget: bool = True,
    tick: Callable[[int], None] | None = None,
) -> Iterator[tuple[Trace, int, dict[str, Forecasts]]]:
    """`recorded.replay` over a log's periods: each with its first row and what the predictors said of its jobs.

    The predictors' histories, the queue, the running jobs and the clock are carried on: the forecasts are those of the
    whole log at once. With `forget` the state drops jobs that have left (`SystemState.forget`).
    """
    driver = Driver(predictors, SystemState(total))
    for period, first, events in stretches(periods, protocol, procs):
        said: dict[str, list[Any]] = {name: [] for name in predictors}
        for event in events:
            for name, answer in driver.tell(event).items():
                said[name].append(answer)
        if forget:
            driver.state.forget()
        if tick is not None:
            tick(first + len(period))
        yield period, first, {name: collect(given) for name, given in said.items()}


def _with_next_begin(periods: Iterable[Trace]) -> Iterator[tuple[Trace, float]]:
    """Each period that has jobs, and when the next one begins; infinity after the last."""
    before: Trace | None = None
    for period in chain(periods, [None]):
        if period is not None and not len(period):
            continue
        if before is not None:
            begin = math.inf if period is None else float(period.submit_time[0])
            if not before.submit_time[-1] < begin:
                raise UsageError("periods must follow each other, and no instant may lie in two of them")
            yield before, begin
        before = period
