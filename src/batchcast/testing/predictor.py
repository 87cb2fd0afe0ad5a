# SPDX-License-Identifier: Apache-2.0
"""`check_predictor` and `check_wait_predictor`: the checks for predictors, both batchcast's own and users'
predictors."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..events.driver import Driver
from ..events.event import Capacity, Change, End, Event, Overdue, Requeue, Start, Submit, Withdraw
from ..events.recorded import events, outcome, replay
from ..events.state import SystemState
from ..job import JobRequest
from ..predict.adapters import Checked, Numbers
from ..predict.protocol import SHORTEST, Grounds, Prediction
from ..predict.registry import fresh, method_of
from ..table import Nominal, Trace, Values
from .logs import odd_logs, small_log

Maker = Callable[[Trace], Any]


def check_predictor(predictor: Any, log: Trace | None = None) -> list[str]:
    """Run every check on a run-time predictor. The checks take some seconds.

    Parameters
    ----------
    predictor
        A name, a class, an object (it is copied), or a function of the log that returns a predictor. Estimators of
        river and scikit-learn are checked through their adapters.
    log
        The log to use instead of `small_log()`. The log should be long enough for the predictor's first refit.

    Returns
    -------
    list of str
        Names of the checks that were run. A predictor with `is_oracle` skips the check that it does not use future
        data.

    Raises
    ------
    AssertionError
        At the first check that fails.

    Examples
    --------
    >>> from batchcast.predict.runtime.baselines import Requested
    >>> check_predictor(Requested)[:2]
    ['answers_are_in_range', 'predict_is_pure']
    """
    make, log = maker_of(predictor, "runtime"), log or small_log()
    skipped = {future_is_hidden} if getattr(make(log), "is_oracle", False) else set()
    checks = [check for check in CHECKS if check not in skipped]
    for check in checks:
        check(make, log)
    return [check.__name__ for check in checks]


def maker_of(predictor: Any, kind: str) -> Maker:
    """Return a function of the log that creates a new predictor, without the checks of `adapters.Checked`."""

    def make(log: Trace) -> Any:
        answers = {"answers": log.run_time.tolist()}
        method = method_of(kind, fresh(predictor), known_at_submit=None, trace=log, seed=0, **answers)
        return Numbers(method.inner, method.predictor_name) if isinstance(method, Checked) else method

    return make


def answers_are_in_range(make: Maker, log: Trace) -> None:
    """Points are finite and at least one second; levels and quantiles are valid and ascending, in both orders of
    events.
    """
    for protocol in ("honest", "paper"):
        for job, answer in _answers(make(log), log, protocol):
            asked = f"req_time={job.req_time:g}, procs={job.procs:g}"
            _in_range(answer, f"job {job.row} ({asked}), {protocol} protocol")


def predict_is_pure(make: Maker, log: Trace) -> None:
    """Predicting a job twice gives the same result, and predicting fewer jobs does not change the other predictions."""
    asked_all = [answer for _, answer in _answers(make(log), log, repeat=2)]
    some = np.arange(len(log)) % 3 == 0
    asked_some = [answer for _, answer in _answers(make(log), log, ask=some)]
    expected = [answer for answer, wanted in zip(asked_all, some) if wanted]
    assert asked_some == expected, "predict changes the predictor: its predictions depend on earlier calls of predict"


def future_is_hidden(make: Maker, log: Trace) -> None:
    """Predictions up to an instant do not change if everything that is unknown at that instant is changed."""
    points = _points(make, log)
    for share in (0.3, 0.6, 0.9):
        instant = float(log.submit_time[int(share * (len(log) - 1))])
        until = log.submit_time <= instant
        poisoned = _points(make, poison(log, instant))
        for row in np.flatnonzero(until).tolist():
            assert points[row] == poisoned[row], f"job {row}, submitted by {instant}, was predicted with later data"


def poison(log: Trace, instant: float) -> Trace:
    """Change everything in a log that is unknown at an instant: later ends, waits and submissions.

    Parameters
    ----------
    log
        The log.
    instant
        The instant, in seconds on the log's clock.

    Returns
    -------
    Trace
        A changed log. For jobs that have not ended at the instant, all columns change except those known at submission.
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
        # If requested processors are unknown, predictors see the allocated processors as the request.
        shown = name in visible or name == "alloc_procs"
        columns[name] = _changed(values, later if shown else unseen | later)
    return Trace(columns, log.info, is_sorted=True)


def _changed(values: Values, where: np.ndarray) -> Values:
    """Return the column with changed values in the rows of `where`; unknown values stay unknown."""
    if not isinstance(values, Nominal):
        return np.where(where, values * 3.0 + 1.0, values)
    shifted = np.where(values.codes >= 0, (values.codes + 1) % max(len(values.categories), 1), -1)
    return Nominal(np.where(where, shifted, values.codes).astype(np.int32), values.categories)


def survives_pickling(make: Maker, log: Trace) -> None:
    """A predictor that is pickled and loaded in the middle of a log makes the same predictions as a predictor that is
    not pickled."""
    kept = [answer for _, answer in _answers(make(log), log)]
    moved = [answer for _, answer in _answers(make(log), log, pickle_at=len(log) // 2)]
    assert kept == moved, "a predictor that was pickled and loaded predicts differently"


def same_seed_same_answer(make: Maker, log: Trace) -> None:
    """Two predictors that are created with the same parameters make the same predictions."""
    assert _points(make, log) == _points(make, log), "two predictors with the same parameters predict differently"


def answers_on_odd_logs(make: Maker, log: Trace) -> None:
    """Predictions are valid for all logs of `odd_logs`."""
    for name, odd in odd_logs().items():
        for job, answer in _answers(make(odd), odd):
            _in_range(answer, f"{name}, job {job.row}")


def accepts_every_event(make: Maker, log: Trace) -> None:
    """The predictor accepts events that occur only in simulations and live systems, and an End without a Submit."""
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
        _event(predictor, state, event)
    predictor.observe(End(90.0, jobs[2], 33.0, 0.0), state)
    _in_range(predictor.predict(jobs[3], state), "after events of every kind")


def batch_equals_one_by_one(make: Maker, log: Trace) -> None:
    """`predict_trace`, if it exists, returns exactly the same points as `predict` called job by job."""
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
    """Return the jobs and predictions of a replay of the log, in log order."""
    driver, pairs = Driver({"it": predictor}, SystemState(64.0)), []
    for event in events(log, protocol):
        if not isinstance(event, Submit):
            driver.tell(event)
            continue
        row = event.job.row
        driver = _moved(driver) if row == pickle_at else driver
        answers = list(driver.submitted(event, ask is None or bool(ask[row])).values())
        answers += [driver.predictors["it"].predict(event.job, driver.state) for _ in range(repeat - 1)]
        assert all(a == answers[0] for a in answers), f"job {row}: two calls of predict gave two predictions"
        pairs += [(event.job, answer) for answer in answers[:1]]
        driver.state.apply(event)
        driver.observe(event)
    return pairs


def _points(make: Maker, log: Trace) -> list[tuple[float, Sequence[float]]]:
    """Return points and quantiles of all predictions of a replay."""
    return [(answer.point, tuple(answer.quantiles)) for _, answer in _answers(make(log), log)]


def _in_range(answer: Prediction, where: str) -> None:
    """Raise AssertionError if `answer` is not a valid prediction."""
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


CLOCKS = ("honest", "starts_first", "paper")


def check_wait_predictor(predictor: Any, log: Trace | None = None) -> list[str]:
    """Run every check on a wait predictor, including all checks of `check_predictor`.

    Parameters
    ----------
    predictor, log
        The predictor and the log, as in `check_predictor`.

    Returns
    -------
    list of str
        Names of the checks that were run.

    Raises
    ------
    AssertionError
        At the first check that fails.

    Examples
    --------
    >>> from batchcast.predict.wait.recent_wait import RecentWait
    >>> check_wait_predictor(RecentWait)[-1]
    'batch_path_on_every_clock'
    """
    make = maker_of(predictor, "wait")
    for check in WAIT_CHECKS:
        check(make, log or small_log())
    return [check.__name__ for check in WAIT_CHECKS]


def queued_waits_are_censored(make: Maker, log: Trace) -> None:
    """Predictions made while a job is queued do not depend on how long the job will still wait, in any order of
    events.
    """

    def points_of(log: Trace, clock: str) -> np.ndarray:
        """Return the points of all predictions in an order of events."""
        return replay(log, {"it": make(log)}, protocol=clock, total=64.0)["it"].points

    for clock in CLOCKS[:2]:
        points = points_of(log, clock)
        for row in range(3, len(log), max(len(log) // 8, 1)):
            instant = float(log.submit_time[row])
            until = log.submit_time <= instant
            changed = points_of(poison(log, instant), clock)
            np.testing.assert_array_equal(
                points[until], changed[until], f"{clock}: a prediction used a wait before the wait had ended"
            )


def bound_is_not_below_the_point(make: Maker, log: Trace) -> None:
    """The highest quantile is not below the point, if the quantile's level is at least 0.5."""
    driver = Driver({"it": make(log)}, SystemState(total=64.0))
    for event in events(log):
        for answer in driver.tell(event).values():
            if answer.levels and answer.levels[-1] >= 0.5:
                assert answer.quantiles[-1] >= answer.point, f"bound below the point prediction at {event}: {answer}"


def answers_without_history_or_queue(make: Maker, log: Trace) -> None:
    """Predictions are valid on an empty machine of known or unknown size, also for a job that is larger than the
    machine.
    """
    for total in (0.0, 1.0, 64.0, math.nan):
        for job in list(log.requests())[:5]:
            _in_range(make(log).predict(job, SystemState(total)), f"empty machine of {total}")


def survives_a_shrinking_machine(make: Maker, log: Trace) -> None:
    """Predictions stay valid while nodes with running jobs are drained and return."""
    driver = Driver({"it": make(log)}, SystemState(total=64.0))
    for count, event in enumerate(events(log)):
        if count % 20 == 10:
            driver.tell(Capacity(event.time, (0.0, 3.0, 64.0)[count // 20 % 3]))
        for answer in driver.tell(event).values():
            _in_range(answer, f"{event}, {driver.state.total} processors left")


def spoiled_waits_teach_nothing(make: Maker, log: Trace) -> None:
    """The predictor does not learn from negative or unknown waits, from jobs larger than the machine, or from waits
    across an outage.

    The same events are delivered with two different values of a wait that must not be learned, and the predictions must
    be equal.
    """

    def point_after(history: Iterable[Event], procs: float, later: float, wait: float) -> float:
        """Return the prediction for a small job after a job of `procs` processors starts `later` seconds after its
        submission, with the wait `wait`."""
        predictor, state = make(log), SystemState(total=64.0)
        for event in history:
            _event(predictor, state, event)
        job = JobRequest(10**6, 10**6, state.now, procs, 600.0, math.nan)
        for event in (Submit(state.now, job), Start(state.now + later, job, wait)):
            _event(predictor, state, event)
        return float(predictor.predict(job._replace(row=10**6 + 1, procs=1.0), state).point)

    spoiled = {"negative": (-5.0, -9e5), "unknown": (math.nan, math.nan), "too large": (7.0, 9e5)}
    for name, waits in spoiled.items():
        points = {point_after(events(log), 65.0 if name == "too large" else 1.0, 10.0, wait) for wait in waits}
        assert len(points) == 1, f"the predictor learned from a wait that it must ignore: {name}"
    points = {point_after((), 1.0, outage, outage) for outage in (2e5, 4e5)}
    assert len(points) == 1, "the predictor learned from a wait during an outage"


def goes_on_when_attached_late(make: Maker, log: Trace) -> None:
    """A predictor that receives only the second half of the events makes valid predictions and accepts these events."""
    state, stream = SystemState(total=64.0), list(events(log))
    half = len(stream) // 2
    for event in stream[:half]:
        state.apply(event)
    driver = Driver({"it": make(log)}, state)
    for event in stream[half:]:
        for answer in driver.tell(event).values():
            _in_range(answer, f"{event}, attached late")


def batch_path_on_every_clock(make: Maker, log: Trace) -> None:
    """`predict_trace`, if it exists, returns the same points, bounds and bases as `predict` called job by job, in every
    order of events.
    """
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


WAIT_CHECKS: tuple[Callable[[Maker, Trace], None], ...] = (
    *CHECKS,
    queued_waits_are_censored,
    bound_is_not_below_the_point,
    answers_without_history_or_queue,
    survives_a_shrinking_machine,
    spoiled_waits_teach_nothing,
    goes_on_when_attached_late,
    batch_path_on_every_clock,
)


def _event(predictor: Any, state: SystemState, event: Any) -> None:
    """Deliver one event to the state and to a predictor."""
    state.apply(event)
    predictor.observe(event, state)


def _moved(predictor: Any) -> Any:
    """Return the predictor after pickling and loading, as studies and the collector do to move predictors between
    processes.
    """
    try:
        return pickle.loads(pickle.dumps(predictor))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        accepted = "accepted: a class or a function at the top of a module, no lambda"
        raise AssertionError(f"the predictor cannot be pickled: {error} ({accepted})") from None
