# SPDX-License-Identifier: Apache-2.0
"""The recorded clock: replays a log event by event, either the whole log or one period after another.

The queue, the running jobs and the predictors' history carry over from one period to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import plots
from ..errors import UsageError
from ..job import JobRequest
from ..table import Trace
from ..table.result import Picture, Result
from ..table.trace import joined
from .driver import Driver
from .event import END, START, SUBMIT, WITHDRAW, End, Event, Start, Submit, Withdraw
from .record import EVENT, Columns, requests_of
from .state import SystemState, columns_after

PROTOCOLS = ("honest", "paper", "starts_first")


@dataclass(frozen=True, slots=True)
class Timeline:
    """All events of a log in order, as arrays of shape (events,)."""

    time: np.ndarray  # Instants in seconds on the log's clock
    kind: np.ndarray  # Kinds of event, as ranks of `events.event`
    index: np.ndarray  # Row of each event's job in the log


def timeline(trace: Trace, protocol: str = "honest") -> Timeline:
    """Return all events of a log in the order of a protocol."""
    # `honest` is the order that `events.event` defines. `paper`: the start and end of each job directly follow its
    # submission, in log order. `starts_first`: a submission comes after all starts and ends up to its instant, also
    # those of jobs that were submitted earlier at that instant (Kumar & Vadhiyar 2012).
    #
    # Under `honest`, a job with a run time of 0 ends in a further round at the instant of its start, and a job with a
    # wait of 0 that never runs leaves in a further round at the instant of its submission. O(n log n).
    if protocol not in PROTOCOLS:
        raise UsageError(f"not a protocol: {protocol!r} (accepted: {', '.join(PROTOCOLS)})")
    submit, wait, run = outcome(trace)
    n = len(trace)
    rows = np.arange(n)
    ran, withdrawn = rows[~np.isnan(run)], rows[np.isnan(run)]
    index = np.concatenate([rows, ran, ran, withdrawn])
    kind = np.repeat(np.array([SUBMIT, START, END, WITHDRAW], dtype=np.int8), [n, len(ran), len(ran), len(withdrawn)])
    start = submit + wait
    end = start + np.where(np.isnan(run), 0.0, run)
    time = np.concatenate([submit, start[ran], end[ran], start[withdrawn]])
    at_once = [np.zeros(n + len(ran), bool), end[ran] == start[ran], start[withdrawn] == submit[withdrawn]]
    round_ = np.concatenate(at_once)
    step = np.where(kind == SUBMIT, 0, np.where(kind == END, 2, 1))  # of a job: submission, start or withdrawal, end
    keys: tuple[np.ndarray, ...] = (index, kind, round_, time)
    if protocol == "paper":
        time, keys = submit[index], (step, index)
    elif protocol == "starts_first":
        same = time == submit[index]
        early = np.where(same, n + index, np.where(round_, 2, np.where(kind == END, 0, 1)))
        keys = (index, step, early, time)
    order = np.lexsort(keys)
    return Timeline(time[order], kind[order], index[order])


def event_table(trace: Trace, plan: Timeline) -> np.ndarray:
    """Convert a timeline to the kernel's array of `EVENT`, shape (events,)."""
    # An unknown queue wait is NaN, so that predictors do not learn from it.
    table = np.zeros(len(plan.time), EVENT)
    table["time"], table["rank"], table["entry"] = plan.time, plan.kind, plan.index
    table["value"] = np.where(trace.wait_time >= 0, trace.wait_time, np.nan)[plan.index]
    return table


def after_the_log(trace: Trace, protocol: str = "honest", procs: str = "req", *, total: float) -> Columns:
    """Compute the state after the whole log.

    The state contains, for each job, the wait that predictors may learn, and the number of outages.
    """
    return columns_after(total, *requests_of(trace, procs), event_table(trace, timeline(trace, protocol)))


def outcome(trace: Trace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return submit times, waits and run times as replays use them, in seconds: an unknown or negative wait is 0, and
    the run time of a job that never ran is NaN.
    """
    wait = np.nan_to_num(np.maximum(trace.wait_time, 0.0), nan=0.0)
    return trace.submit_time, wait, trace.run_time


def irregular(trace: Trace) -> dict[str, int]:
    """Return the number of jobs to which each rule for irregular data applies, by rule."""
    ran = ~np.isnan(trace.run_time)
    return {
        "never ran: withdrawn": int((~ran).sum()),
        "ran without a recorded wait: started at submit": int((ran & np.isnan(trace.wait_time)).sum()),
        "negative wait: taken as 0": int((trace.wait_time < 0).sum()),
    }


def events(trace: Trace, protocol: str = "honest", procs: str = "req") -> Iterator[Event]:
    """Yield every event of a log in order, at about 2 microseconds per event."""
    return events_of(trace, timeline(trace, protocol), list(trace.requests(procs)))


def events_of(trace: Trace, plan: Timeline, jobs: Sequence[JobRequest]) -> Iterator[Event]:
    """Yield the events of a timeline."""
    _, wait, run = (column.tolist() for column in outcome(trace))
    # NaN marks waits that predictors must not learn.
    waits = np.where(trace.wait_time >= 0, trace.wait_time, np.nan).tolist()
    status, nodes = trace.nominal("status").decode(), trace.nominal("node_list").decode()
    new: Any = tuple.__new__  # the named tuples' own constructors take twice as long, because they handle keywords
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
    """The predictions of one predictor for the jobs of a log."""

    points: np.ndarray  # Point predictions, shape (n,). NaN for jobs that were not predicted.
    levels: tuple[float, ...]  # Levels of the predicted quantiles
    quantiles: np.ndarray  # Predicted quantiles, shape (n, levels). NaN for jobs that were not predicted.
    # Text that describes the evidence for each prediction. The text is empty for jobs that were not predicted.
    basis: Sequence[str]
    # The kind of evidence behind each prediction (`Grounds`). The array may be empty, because some predictors do not
    # report grounds for whole logs.
    grounds: Sequence[str] = ()

    def __repr__(self) -> str:
        bounds = f", with bounds at {', '.join(f'{level:g}' for level in self.levels)}" if self.levels else ""
        return f"<Forecasts of {len(self.points)} jobs{bounds}>"

    def columns(self) -> dict[str, Any]:
        """Return the predictions as columns: `point`, one column per level (`q0.9`), and `basis`.

        >>> Forecasts(np.array([9.0]), (0.9,), np.array([[20.0]]), ["the request"]).columns()
        {'point': array([9.]), 'q0.9': array([20.]), 'basis': ['the request']}
        """
        levels = {f"q{level:g}": self.quantiles[:, k] for k, level in enumerate(self.levels)}
        return {"point": self.points, **levels, "basis": list(self.basis) or [""] * len(self.points)}

    _summary = Result._described

    def _pictures(self) -> Mapping[str, Picture]:
        near = (0.1, 0.5, 0.9) if self.levels else ()  # some predictors have 15 levels, whose curves would overlap
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
    """Replay a log and return the `Forecasts` of each predictor for the jobs in `ask`, by the predictor's name."""
    # One pass over 3 n events takes about a microsecond per event, plus the time of the predictors.
    is_predicted = np.ones(len(trace), bool).tolist() if ask is None else np.asarray(ask, bool).tolist()
    predictions: dict[str, list[Any]] = {name: [None] * len(trace) for name in predictors}
    jobs: list[JobRequest] = list(trace.requests(procs))
    plan = timeline(trace, protocol)
    state = SystemState(total, jobs, lambda: requests_of(trace, procs), lambda: event_table(trace, plan))
    tell, submissions = Driver(predictors, state).tell, 0
    for event in events_of(trace, plan, jobs):
        if type(event) is not Submit:
            tell(event)
            continue
        row = event.job.row
        for name, prediction in tell(event, is_predicted[row]).items():
            predictions[name][row] = prediction
        submissions += 1
        if tick is not None and submissions % 1000 == 0:
            tick(submissions)
    return {name: collect(given) for name, given in predictions.items()}


def collect(predictions: Sequence[Any]) -> Forecasts:
    """Convert predictions to arrays; None stands for a job that was not predicted."""
    levels: tuple[float, ...] = next((p.levels for p in predictions if p is not None and p.levels), ())
    points = np.array([np.nan if p is None else p.point for p in predictions], dtype=float)
    quantiles = np.full((len(predictions), len(levels)), np.nan)
    if levels:
        for row, p in enumerate(predictions):
            if p is not None and p.levels == levels:
                quantiles[row] = p.quantiles
    words = [("", "") if p is None else (p.basis, p.grounds) for p in predictions]
    return Forecasts(points, levels, quantiles, [basis for basis, _ in words], [grounds for _, grounds in words])


class Stretch(NamedTuple):
    """The events from a period's first submission until just before the next period's first submission.

    `first` is the row of the period's first job in the whole log.
    """

    period: Trace
    first: int
    events: Iterator[Event]


def stretches(periods: Iterable[Trace], protocol: str = "honest", procs: str = "req") -> Iterator[Stretch]:
    """Yield the events of a log that is given in periods.

    All returned stretches together contain exactly the events of the whole log, in the same order. The caller must use
    all events of a stretch before requesting the next stretch.

    >>> log = Trace.from_arrays({"submit_time": [0, 5, 9], "wait_time": [0, 0, 0], "run_time": [7, 1, 1]})
    >>> [[(e.time, type(e).__name__, e.job.row) for e in s.events] for s in stretches([log[:1], log[1:]])]
    [[(0.0, 'Submit', 0), (0.0, 'Start', 0)],
     [(5.0, 'Submit', 1), (5.0, 'Start', 1), (6.0, 'End', 1), (7.0, 'End', 0),
      (9.0, 'Submit', 2), (9.0, 'Start', 2), (10.0, 'End', 2)]]
    """
    # Two periods, and the jobs that have not ended, are in memory at the same time.
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
    """Replay a log that is given in periods, as `replay` does with a whole log.

    The history of the predictors, the queue, the running jobs and the clock carry over from one period to the next. So
    the predictions equal those for the whole log.

    Yields each period, the row of its first job in the whole log, and the forecasts by predictor name.
    """
    driver = Driver(predictors, SystemState(total))
    for period, first, events in stretches(periods, protocol, procs):
        predictions: dict[str, list[Any]] = {name: [] for name in predictors}
        for event in events:
            for name, prediction in driver.tell(event).items():
                predictions[name].append(prediction)
        if forget:
            driver.state.forget()
        if tick is not None:
            tick(first + len(period))
        yield period, first, {name: collect(given) for name, given in predictions.items()}


def _with_next_begin(periods: Iterable[Trace]) -> Iterator[tuple[Trace, float]]:
    """Yield each period that has jobs, with the first submit time of the next period (infinity after the last
    period)."""
    for period, after in pairwise(chain((period for period in periods if len(period)), [None])):
        assert period is not None
        begin = math.inf if after is None else float(after.submit_time[0])
        if not period.submit_time[-1] < begin:
            raise UsageError(
                "the periods of a log must be in order of submission and must not overlap "
                f"(one ends at {period.submit_time[-1]:g} s, the next begins at {begin:g} s)"
            )
        yield period, begin
