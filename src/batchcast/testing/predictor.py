"""`check_predictor`: what every predictor of batchcast passes, open to anyone's own method.

Each check is a function that takes a maker and raises AssertionError in words; a maker takes the trace (an oracle
needs its answers, nobody else may look) and returns a fresh predictor.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..events.event import Capacity, Change, End, Overdue, Requeue, Start, Submit, Withdraw
from ..events.recorded import Cadence, events, outcome, replay
from ..events.state import SystemState
from ..job import JobRequest
from ..predict.protocol import SHORTEST, Grounds, Prediction
from ..table import Nominal, Trace, Values
from .logs import odd_logs, small_log

Maker = Callable[[Trace], Any]


def check_predictor(make: Maker, log: Trace | None = None) -> list[str]:
    """Run every check on predictors made by `make(trace)`; returns the names of those that ran.

    `log` is the small log to use instead of the suite's own (it should reach a method's first refit). A predictor with
    `is_oracle` is excused from hiding the future. Raises AssertionError at the first failure. Some seconds, most of
    it the method's own.

    >>> from batchcast.predict.runtime.requested import Requested
    >>> check_predictor(lambda trace: Requested())[:2]
    ['answers_are_in_range', 'predict_is_pure']
    """
    ran = []
    for check in CHECKS:
        if check is future_is_hidden and getattr(make(log or small_log()), "is_oracle", False):
            continue
        check(make, log or small_log())
        ran.append(check.__name__)
    return ran


def answers_are_in_range(make: Maker, log: Trace) -> None:
    """Finite points of at least a second; levels in (0, 1) ascending; quantiles as many, finite, monotone; under
    both protocols."""
    for protocol in ("honest", "paper"):
        for job, answer in _answers(make(log), log, protocol):
            _in_range(answer, f"job {job.row}, {protocol} protocol")


def predict_is_pure(make: Maker, log: Trace) -> None:
    """Asking twice gives the same answer, and what was never asked changes none."""
    asked_all = [answer for _, answer in _answers(make(log), log, repeat=2)]
    some = np.arange(len(log)) % 3 == 0
    asked_some = [answer for _, answer in _answers(make(log), log, ask=some)]
    expected = [answer for answer, wanted in zip(asked_all, some) if wanted]
    assert asked_some == expected, "predict changes the predictor: answers depend on who else was asked"


def future_is_hidden(make: Maker, log: Trace) -> None:
    """Whatever is not yet known at an instant, changed beyond recognition, changes no prediction up to it."""
    points = _points(make, log)
    for share in (0.3, 0.6, 0.9):
        instant = float(log.submit_time[int(share * (len(log) - 1))])
        until = log.submit_time <= instant
        poisoned = _points(make, poison(log, instant))
        for row in np.flatnonzero(until).tolist():
            assert points[row] == poisoned[row], f"job {row}, submitted by {instant}, was predicted from the future"


def poison(log: Trace, instant: float) -> Trace:
    """The log with everything changed that nobody can know at `instant`: later ends, waits and submissions.

    Of jobs that have not ended by then every column but those known at submission changes, undeclared ones too.
    """
    submit, wait, run = outcome(log)
    later = submit > instant
    start, end = submit + wait, submit + wait + np.nan_to_num(run, nan=0.0)
    columns: dict[str, Any] = {name: log.column(name) for name in log.names}
    columns["wait_time"] = np.where(start > instant, wait * 3.0 + 977.0, wait)
    unseen = (end > instant) | (start > instant)
    longer = np.where(np.isnan(run), 5.0, run * 7.0 + 1013.0)
    columns["run_time"] = np.where(unseen, longer, run)
    visible = {name for name in log.at_submission() if name != "procs"}
    for name, values in columns.items():
        if name in ("job_id", "submit_time", "wait_time", "run_time"):
            continue
        # allocated processors stand in for unknown requested ones, and are then what was asked for
        shown = name in visible or name == "alloc_procs"
        columns[name] = _changed(values, later if shown else unseen | later)
    return Trace(columns, log.info, is_sorted=True)


def _changed(values: Values, where: np.ndarray) -> Values:
    """The column with other values in some rows; unknown ones stay."""
    if not isinstance(values, Nominal):
        return np.where(where, values * 3.0 + 1.0, values)
    shifted = np.where(values.codes >= 0, (values.codes + 1) % max(len(values.categories), 1), -1)
    return Nominal(np.where(where, shifted, values.codes).astype(np.int32), values.categories)


def survives_pickling(make: Maker, log: Trace) -> None:
    """A predictor stored and loaded in the middle of a log goes on as if nothing had happened."""
    kept = [answer for _, answer in _answers(make(log), log)]
    moved = [answer for _, answer in _answers(make(log), log, pickle_at=len(log) // 2)]
    assert kept == moved, "a predictor that was pickled and loaded answers differently"


def same_seed_same_answer(make: Maker, log: Trace) -> None:
    """Two predictors made alike answer alike."""
    assert _points(make, log) == _points(make, log), "two predictors made alike answer differently"


def answers_on_odd_logs(make: Maker, log: Trace) -> None:
    """One job, no history, no queue, one user, constant and missing fields, absurd values: an answer in range."""
    for name, odd in odd_logs().items():
        for job, answer in _answers(make(odd), odd):
            _in_range(answer, f"{name}, job {job.row}")


def accepts_every_event(make: Maker, log: Trace) -> None:
    """Events of the other clocks, and an End whose Submit nobody saw, do no harm."""
    predictor, state = make(log), SystemState(total=64.0)
    jobs = list(log.requests())[:4]
    odd = JobRequest(0, "12_3+1", 0.0, 2.0, 60.0, math.nan, user_id="eve")
    for event in (
        Capacity(0.0, 32.0),
        Submit(0.0, odd),
        Change(1.0, odd._replace(req_time=90.0), {"req_time": 90.0}),
        Start(2.0, odd, 2.0),
        Overdue(50.0, odd, 48.0),
        Requeue(60.0, odd),
        Start(70.0, odd, 70.0),
        End(80.0, odd, 10.0, 70.0),
        Submit(81.0, jobs[1]),
        Withdraw(82.0, jobs[1], 1.0),
    ):
        state.apply(event)
        predictor.observe(event, state)
    predictor.observe(End(90.0, jobs[2], 33.0, 0.0), state)
    _in_range(predictor.predict(jobs[3], state), "after events of every kind")


def batch_equals_one_by_one(make: Maker, log: Trace) -> None:
    """Where there is a batch path, it gives the very numbers of the one-by-one path."""
    if not hasattr(make(log), "predict_trace"):
        return
    for protocol in ("honest", "paper"):
        one = replay(log, {"it": make(log)}, protocol=protocol)["it"].points
        batch = make(log).predict_trace(log, protocol, "req").points
        np.testing.assert_array_equal(one, batch, f"batch path, {protocol} protocol")


CHECKS: tuple[Callable[[Maker, Trace], None], ...] = (
    answers_are_in_range,
    predict_is_pure,
    future_is_hidden,
    survives_pickling,
    same_seed_same_answer,
    answers_on_odd_logs,
    accepts_every_event,
    batch_equals_one_by_one,
)


def _answers(
    predictor: Any,
    log: Trace,
    protocol: str = "honest",
    *,
    ask: np.ndarray | None = None,
    repeat: int = 1,
    pickle_at: int | None = None,
) -> list[tuple[JobRequest, Prediction]]:
    """Drive one predictor as the recorded clock does; its answers with their jobs, in log order."""
    state, cadence, pairs = SystemState(64.0), Cadence(predictor), []
    for event in events(log, protocol):
        if isinstance(event, Submit):
            job: JobRequest = event.job
            state.now = event.time
            if job.row == pickle_at:
                predictor = cadence.predictor = pickle.loads(pickle.dumps(predictor))
            if hasattr(predictor, "refit"):
                cadence.submitted(event.time)
            if ask is None or ask[job.row]:
                answers = [predictor.predict(job, state) for _ in range(repeat)]
                assert all(a == answers[0] for a in answers), f"job {job.row}: asked twice, two answers"
                pairs.append((job, answers[0]))
        state.apply(event)
        predictor.observe(event, state)
    return pairs


def _points(make: Maker, log: Trace) -> list[tuple[float, Sequence[float]]]:
    return [(answer.point, tuple(answer.quantiles)) for _, answer in _answers(make(log), log)]


def _in_range(answer: Prediction, where: str) -> None:
    assert isinstance(answer, Prediction), f"{where}: not a Prediction: {answer!r}"
    assert isinstance(answer.point, float), f"{where}: the point is not a float: {answer.point!r}"
    assert math.isfinite(answer.point), f"{where}: the point is {answer.point}"
    assert answer.point >= SHORTEST, f"{where}: {answer.point} s is less than {SHORTEST} s"
    assert len(answer.levels) == len(answer.quantiles), f"{where}: {answer.levels} levels for {answer.quantiles}"
    assert all(0 < level < 1 for level in answer.levels), f"{where}: levels {answer.levels} are not in (0, 1)"
    assert list(answer.levels) == sorted(set(answer.levels)), f"{where}: levels {answer.levels} do not ascend"
    assert all(math.isfinite(q) and q >= SHORTEST for q in answer.quantiles), f"{where}: quantiles {answer.quantiles}"
    assert list(answer.quantiles) == sorted(answer.quantiles), f"{where}: quantiles {answer.quantiles} cross"
    assert isinstance(answer.grounds, Grounds), f"{where}: grounds {answer.grounds!r} (accepted: a Grounds)"
