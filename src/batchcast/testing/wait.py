"""`check_wait_predictor`: what every wait predictor passes beside the checks of any predictor.

Waits have their own ways to go wrong: the wait of a job still queued is known only as "at least so far", a machine
shrinks under its jobs, a log holds records that are no waits. Each check takes a maker and a log as in `predictor`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..events.event import Capacity, Start, Submit
from ..events.recorded import Cadence, events, replay
from ..events.state import SystemState
from ..job import JobRequest
from ..table import Trace
from .logs import small_log
from .predictor import CHECKS as GENERAL
from .predictor import Maker, _in_range, poison

CLOCKS = ("honest", "starts_first", "paper")


def check_wait_predictor(make: Maker, log: Trace | None = None) -> list[str]:
    """Run every check, the general ones first; returns their names. Raises AssertionError at the first failure.

    >>> from batchcast.predict.wait.recent_wait import RecentWait
    >>> check_wait_predictor(lambda trace: RecentWait())[-1]
    'batch_path_on_every_clock'
    """
    for check in CHECKS:
        check(make, log or small_log())
    return [check.__name__ for check in CHECKS]


def queued_waits_are_censored(make: Maker, log: Trace) -> None:
    """How long a queued job goes on waiting changes no answer given while it is queued, on any clock."""
    for clock in CLOCKS[:2]:
        points = _points(make, log, clock)
        for row in range(3, len(log), max(len(log) // 8, 1)):
            instant = float(log.submit_time[row])
            until = log.submit_time <= instant
            changed = _points(make, poison(log, instant), clock)
            np.testing.assert_array_equal(
                points[until], changed[until], f"{clock}: an answer knew a wait before its end"
            )


def bound_is_not_below_the_point(make: Maker, log: Trace) -> None:
    """The highest quantile, at a level of a half or more, is at least the point."""
    predictor, state = make(log), SystemState(total=64.0)
    for event in events(log):
        if isinstance(event, Submit):
            state.now = event.time
            answer = predictor.predict(event.job, state)
            if answer.levels and answer.levels[-1] >= 0.5:
                assert answer.quantiles[-1] >= answer.point, f"job {event.job.row}: bound below the point: {answer}"
        state.apply(event)
        predictor.observe(event, state)


def answers_without_history_or_queue(make: Maker, log: Trace) -> None:
    """A machine nobody has used, of known and of unknown size, and a job it cannot hold."""
    for total in (0.0, 1.0, 64.0, math.nan):
        for job in list(log.requests())[:5]:
            _in_range(make(log).predict(job, SystemState(total)), f"empty machine of {total}")


def survives_a_shrinking_machine(make: Maker, log: Trace) -> None:
    """Nodes drain away under running jobs and come back: answers stay in range, and so does what follows."""
    predictor, state = make(log), SystemState(total=64.0)
    cadence = Cadence(predictor) if hasattr(predictor, "refit") else None
    for count, event in enumerate(events(log)):
        if count % 20 == 10:
            shrunk = Capacity(event.time, (0.0, 3.0, 64.0)[count // 20 % 3])
            state.apply(shrunk)
            predictor.observe(shrunk, state)
        if isinstance(event, Submit):
            state.now = event.time
            if cadence is not None:
                cadence.submitted(event.time)
            _in_range(
                predictor.predict(event.job, state),
                f"job {event.job.row}, {state.total} processors left",
            )
        state.apply(event)
        predictor.observe(event, state)


def spoiled_waits_teach_nothing(make: Maker, log: Trace) -> None:
    """Negative and unknown waits, a job larger than the machine, and a wait across an outage leave answers as before.

    The same events are told with and without an absurd value in the wait: the answer must not tell them apart.
    """
    for name, start in (("negative", (-5.0, -9e5)), ("unknown", (math.nan, math.nan)), ("too large", (7.0, 9e5))):
        answers = []
        for wait in start:
            predictor, state = make(log), SystemState(total=64.0)
            _tell(predictor, state, log)
            job = JobRequest(10**6, 10**6, state.now, 65.0 if name == "too large" else 1.0, 600.0, math.nan)
            _event(predictor, state, Submit(state.now, job))
            _event(predictor, state, Start(state.now + 10.0, job, wait))
            answers.append(predictor.predict(job._replace(row=10**6 + 1, procs=1.0), state).point)
        assert answers[0] == answers[1], f"{name} wait was learned from"
    answers = []
    for outage in (2e5, 4e5):
        predictor, state = make(log), SystemState(total=64.0)
        job = JobRequest(0, 1, 0.0, 1.0, 600.0, math.nan)
        _event(predictor, state, Submit(0.0, job))
        _event(predictor, state, Start(outage, job, outage))
        answers.append(predictor.predict(job._replace(row=1), state).point)
    assert answers[0] == answers[1], "a wait through an outage was learned from"


def goes_on_when_attached_late(make: Maker, log: Trace) -> None:
    """A predictor that missed the first half of the events still answers, and learns from the rest."""
    predictor, state = make(log), SystemState(total=64.0)
    stream = list(events(log))
    for count, event in enumerate(stream):
        if isinstance(event, Submit) and count >= len(stream) // 2:
            state.now = event.time
            _in_range(predictor.predict(event.job, state), f"job {event.job.row}, attached late")
        state.apply(event)
        if count >= len(stream) // 2:
            predictor.observe(event, state)


def batch_path_on_every_clock(make: Maker, log: Trace) -> None:
    """Where there is a batch path: the same points, bounds and bases as one by one, on a machine of known size."""
    if not hasattr(make(log), "predict_trace"):
        return
    for clock in CLOCKS:
        for total in (24.0, math.nan):
            one = replay(log, {"it": make(log)}, protocol=clock, total=total)["it"]
            batch = make(log).predict_trace(log, clock, "req", total=total)
            np.testing.assert_array_equal(one.points, batch.points, f"points, {clock}, {total} processors")
            if one.levels:
                np.testing.assert_array_equal(one.quantiles, batch.quantiles, f"bounds, {clock}, {total} processors")
            assert list(one.basis) == list(batch.basis), f"bases, {clock}, {total} processors"


CHECKS: tuple[Callable[[Maker, Trace], None], ...] = (
    *GENERAL,
    queued_waits_are_censored,
    bound_is_not_below_the_point,
    answers_without_history_or_queue,
    survives_a_shrinking_machine,
    spoiled_waits_teach_nothing,
    goes_on_when_attached_late,
    batch_path_on_every_clock,
)


def _points(make: Maker, log: Trace, clock: str) -> np.ndarray:
    return replay(log, {"it": make(log)}, protocol=clock, total=64.0)["it"].points


def _tell(predictor: Any, state: SystemState, log: Trace) -> None:
    for event in events(log):
        _event(predictor, state, event)


def _event(predictor: Any, state: SystemState, event: Any) -> None:
    state.apply(event)
    predictor.observe(event, state)
