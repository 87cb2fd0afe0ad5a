"""The recorded clock over a log that comes in periods: what a period leaves unfinished is carried into the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..errors import UsageError
from ..table import Trace
from ..table.joined import joined
from .event import Event, Submit
from .recorded import Cadence, Forecasts, Timeline, collect, events_of, timeline
from .state import SystemState


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
    state = SystemState(total)
    cadences = [Cadence(p) for p in predictors.values() if hasattr(p, "refit")]
    observers = [p.observe for p in predictors.values()]
    for period, first, events in stretches(periods, protocol, procs):
        said: dict[str, list[Any]] = {name: [] for name in predictors}
        asked = [(p.predict, said[name].append) for name, p in predictors.items()]
        for event in events:
            if isinstance(event, Submit):
                state.now = event.time
                for cadence in cadences:
                    cadence.submitted(event.time)
                for predict, keep in asked:
                    keep(predict(event.job, state))
            state.apply(event)
            for observe in observers:
                observe(event, state)
        if forget:
            state.forget()
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

