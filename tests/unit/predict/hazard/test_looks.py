"""Tests predictions for waiting jobs: one by one and for a whole log they are equal, and they predict the remaining
wait."""

import numpy as np
import pytest

from batchcast.events.recorded import replay
from batchcast.predict.hazard.bins import BINS, ENDS_S, reached, rest_of
from batchcast.predict.hazard.calibrated_waits import LEVELS
from batchcast.predict.hazard.components import DRAWS
from batchcast.predict.hazard.model import ENDED, LEFT, SPOILED
from batchcast.predict.hazard.renewal import EVERY, MODEL, MODELS, MOST, Renewal, Snapshot, sampled_positions
from batchcast.predict.wait.forecast import Forecast
from batchcast.table import Trace


def busy_log(n, seed):
    """An overloaded machine of 16 processors, first come, first served."""
    random = np.random.default_rng(seed)
    submit = np.cumsum(random.integers(0, 300, n)).astype(float)
    procs, run = random.integers(1, 9, n), random.integers(200, 3000, n)
    free = np.zeros(16)
    wait = np.zeros(n)
    for job in range(n):
        free.sort()
        begin = max(submit[job], free[procs[job] - 1], submit[job - 1] + wait[job - 1] if job else 0.0)
        wait[job] = np.ceil(begin) - submit[job]
        free[: procs[job]] = submit[job] + wait[job] + run[job]
    return Trace.from_arrays(
        {
            **{"submit_time": submit, "wait_time": wait, "run_time": run, "req_procs": procs},
            **{"req_time": run * random.integers(1, 5, n), "user_id": random.choice(list("abc"), n)},
        }
    )


def told_one_by_one(method):
    """The method without `predict_trace`, so that jobs are predicted one by one."""

    class Alone:
        target, answers_by, levels, uses = method.target, method.answers_by, method.levels, method.uses
        refit_every_jobs = method.refit_every_jobs
        predict, observe, refit = method.predict, method.observe, method.refit

    return Alone()


@pytest.mark.long
def test_looks_and_all_they_teach_are_the_same_told_one_by_one_and_as_a_whole_log():
    log = busy_log(400, 1)
    small = {"window": 200, "first": 60, "every": 50, "step": 10}
    one, whole = Forecast(**small), Forecast(**small)
    said = replay(log, {"forecast": told_one_by_one(one)}, total=16.0)["forecast"]
    at_once = whole.predict_trace(log, total=16.0, renew=True)
    np.testing.assert_array_equal(said.quantiles, at_once.quantiles)
    assert one.renewal.number == whole.renewal.number > 60
    assert len(one.renewal.models) == MODELS
    for name in ("features", "number", "born", "submit", "waited", "fate"):
        np.testing.assert_array_equal(getattr(one.renewal.ring, name), getattr(whole.renewal.ring, name))
    for one_keeper, keeper in zip(one.renewal.calibration.keepers, whole.renewal.calibration.keepers):
        np.testing.assert_array_equal(one_keeper.everybody, keeper.everybody)
    assert any((keeper.everybody != LEVELS).any() for keeper in whole.renewal.calibration.keepers)
    last = whole.snapshots[-1][1]
    expected = whole.renewal.expected(last, np.tile(np.linspace(0.01, 1.0, BINS), (len(last.row), 1)))
    assert (expected.component == MODEL).all()


@pytest.mark.long
@pytest.mark.lightgbm
def test_looking_changes_nothing_that_is_said_at_a_submission():
    log = busy_log(300, 4)
    small = {"window": 200, "first": 60, "every": 50, "step": 10}
    looking, blind = Forecast(**small), Forecast(**small)
    said = looking.predict_trace(log, total=16.0, renew=True), blind.predict_trace(log, total=16.0)
    np.testing.assert_array_equal(said[0].quantiles, said[1].quantiles)
    assert (looking.renewal.number > 60, blind.renewal.number) == (True, 0)


def one_look(looks: Renewal) -> Snapshot:
    """Return a look at job 5, which has waited a minute, without simulated starts on nodes."""
    features = np.zeros((1, looks.ring.features.shape[1] - BINS), np.float32)
    return Snapshot(np.array([5]), np.array([60.0]), features, np.full((1, DRAWS), np.nan))


def test_a_look_learns_what_was_left_of_the_wait_and_counts_a_job_that_still_waits():
    log = busy_log(300, 2)
    method = Forecast()
    method.predict_trace(log, total=16.0, renew=True)
    ring, wait = method.renewal.ring, log.wait_time
    rows = np.concatenate([look.row for _, look, _ in method.snapshots])
    waited = np.concatenate([look.waited for _, look, _ in method.snapshots])
    assert (ring.fate[: len(rows)] == ENDED).all()
    np.testing.assert_array_equal(ring.waited[: len(rows)], wait[rows] - waited)
    assert (waited >= 1).all()
    looks = Renewal(300)
    looks.take(one_look(looks), np.linspace(0.01, 1.0, BINS)[None, :], 100.0, 0)
    for now in (100.0, 500.0):
        waits = looks.training_set(now, 100.0, 0)[1]
        assert (waits.waited[0], waits.ended[0]) == (now - 100.0, False)
    looks.resolve(5, None, SPOILED)
    assert len(looks.training_set(500.0, 100.0, 0)[1].waited) == 0


def test_a_job_that_left_counts_as_having_waited_so_long_unless_that_is_to_teach_nothing():
    looks = Renewal(300)
    looks.take(one_look(looks), np.linspace(0.01, 1.0, BINS)[None, :], 100.0, 0)
    looks.resolve(5, 90.0, LEFT)
    waits = looks.training_set(500.0, 100.0, 0)[1]
    assert (waits.waited[0], waits.ended[0]) == (30.0, False), "it waited 30 s more, and did not start"


@pytest.mark.parametrize("waited", [0.0, 59.0, 3600.0, 1e5])
def test_the_rest_of_a_curve_is_the_curve_given_the_time(waited):
    curve = np.sort(np.random.default_rng(3).random(BINS))
    curve[-1] = 1.0
    rest = rest_of(curve[None, :], np.array([waited]))[0]
    gone = reached(curve[None, :], np.array([waited]))[0]
    for end, chance in zip(ENDS_S, rest):
        assert chance == pytest.approx((reached(curve[None, :], np.array([waited + end]))[0] - gone) / (1 - gone))
    assert rest[-1] == 1.0


def test_few_are_looked_at_and_nobody_who_has_just_come():
    waited = np.concatenate([np.arange(100.0) + 1.0, np.zeros(50)])
    places = sampled_positions(waited, EVERY, 0)
    assert len(places) == MOST == len(set(places.tolist()))
    assert (np.diff(places) > 0).all()
    assert waited[places].min() >= 1
    assert (sampled_positions(waited, EVERY, 0) == places).all()
    assert (sampled_positions(waited, 2 * EVERY, 0) != places).any()
