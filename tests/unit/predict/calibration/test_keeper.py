"""Tests calibrated levels on values that follow a distribution, on bursts, and on values that become known late."""

import numpy as np
import pytest

from batchcast.events.event import End, Submit
from batchcast.events.recorded import replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.calibration.keeper import OnlineCalibration, bounds_at
from batchcast.predict.recommend import LimitAdvice
from batchcast.predict.runtime.calibrated import LEVELS, Calibrated
from batchcast.table import Nominal
from batchcast.testing.logs import small_log


def kept(keeper, values, owners, bound):
    """Return the share of values within the requested bound, if values become known one after the other."""
    held = 0
    for row, (value, owner) in enumerate(zip(values, owners)):
        bounds = bound(keeper.requested_levels(owner))
        keeper.issue(row, owner, bounds, np.inf)
        held += value <= bounds[0]
        keeper.resolve(row, value)
    return held / len(values)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_a_method_that_is_too_sure_of_itself_is_brought_to_what_it_promises(level):
    values = np.random.default_rng(0).exponential(100.0, 5000)

    def too_short(asked):
        return -50.0 * np.log1p(-np.minimum(asked, 1 - 1e-9))

    assert np.mean(values <= too_short(np.array([level]))[0]) < level - 0.05
    assert kept(OnlineCalibration((level,)), values, [0] * 5000, too_short) == pytest.approx(level, abs=0.02)


def test_owners_are_kept_nearer_to_the_level_than_by_one_shift_for_all():
    rng = np.random.default_rng(1)
    owners = rng.integers(0, 2, 8000)
    values = rng.exponential(np.where(owners, 60.0, 180.0))
    apart = {}
    for own_step in (0.0, 0.02):
        keeper, held = OnlineCalibration((0.8,), own_step=own_step), [[], []]
        for row, (value, owner) in enumerate(zip(values, owners)):
            bounds = -100.0 * np.log1p(-np.minimum(keeper.requested_levels(owner), 1 - 1e-9))
            keeper.issue(row, owner, bounds, np.inf)
            held[owner].append(value <= bounds[0])
            keeper.resolve(row, value)
        apart[own_step] = max(abs(np.mean(h[1000:]) - 0.8) for h in held)
    assert apart[0.02] < 0.5 * apart[0.0]


def test_what_runs_past_its_bound_is_a_miss_before_it_ends():
    keeper = OnlineCalibration((0.9,))
    keeper.issue(1, "ada", np.array([10.0]), 100.0)
    keeper.begin(1, 50.0)
    keeper.waited(60.0)
    assert keeper.requested_levels("ada")[0] == 0.9
    keeper.waited(60.5)
    moved = keeper.requested_levels("ada")[0]
    assert moved > 0.9
    keeper.resolve(1, 70.0)
    assert keeper.requested_levels("ada")[0] == moved


def test_a_bound_at_the_limit_holds():
    keeper = OnlineCalibration((0.9,))
    keeper.issue(1, "ada", np.array([100.0]), 100.0)
    keeper.begin(1, 0.0)
    keeper.waited(1000.0)
    keeper.resolve(1, 130.0)
    assert keeper.requested_levels("ada")[0] < 0.9


def test_a_burst_weighs_no_more_than_some_dozens():
    levels = {}
    for jobs in (100, 3000):
        keeper = OnlineCalibration((0.9,), own_step=0.0)
        for row in range(jobs):
            keeper.issue(row, "ada", np.array([10.0]), 1e9)
        for row in range(jobs):
            keeper.resolve(row, 5.0)
        levels[jobs] = keeper.everybody[0]
        assert not keeper.open
        assert keeper.requested_levels("eve")[0] > 0.77
    assert 0.87 < levels[3000] < levels[100] < 0.9


def test_what_a_burst_missed_is_paid_back_afterwards_and_no_more():
    keeper = OnlineCalibration((0.9,), own_step=0.0)
    for row in range(500):
        keeper.issue(row, "ada", np.array([10.0]), 1e9)
    for row in range(500):
        keeper.resolve(row, 20.0)
    assert keeper.requested_levels("eve")[0] == 1.0
    for row in range(500, 10_000):
        keeper.issue(row, "eve", np.array([10.0]), 1e9)
        keeper.resolve(row, 20.0 if row % 10 == 0 else 5.0)
    assert keeper.requested_levels("eve")[0] < keeper.everybody[0] + 0.03


@pytest.mark.parametrize("value", [5.0, 500.0])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_a_burst_whose_jobs_all_end_alike_keeps_its_share_by_lot(level, value):
    keeper, held = OnlineCalibration((level,)), {"lots": 0, "steady": 0}

    def curve(asked):
        return 50.0 + 40.0 * asked + 910.0 * (asked >= 1.0)

    for row in range(2000):
        steady, levels = curve(keeper.requested_levels("ada")), keeper.drawn("ada")
        drawn = None if levels is None else np.where(levels > 0.0, curve(levels), 1.0)
        keeper.issue(row, "ada", steady, 1000.0, drawn)
        held["lots"] += value <= (steady if drawn is None else drawn)[0]
        held["steady"] += value <= steady[0]
    assert held["steady"] in (0, 2000)
    assert held["lots"] / 2000 == pytest.approx(level, abs=0.05)


def test_lots_fall_only_where_nothing_of_a_burst_is_known_and_the_same_until_the_next_is_issued():
    keeper, lots = OnlineCalibration((0.5, 0.9)), []
    for row in range(400):
        lots.append(keeper.drawn("ada"))
        np.testing.assert_array_equal(lots[-1], keeper.drawn("ada"))
        keeper.issue(row, "ada", np.array([10.0, 20.0]), 100.0)
    assert all(lot is None for lot in lots[:50])
    assert all(lot is not None for lot in lots[100:])
    assert any(lot is None for lot in lots[50:100])
    assert not all(lot is None for lot in lots[50:100])
    assert all((np.diff(lot) >= 0).all() for lot in lots[100:])
    assert keeper.drawn("eve") is None
    keeper.resolve(380, 5.0)
    assert keeper.blind("ada") == 19
    assert keeper.drawn("ada") is None
    for row in range(399):
        keeper.forget(row)
    assert keeper.blind("ada") == 1


def test_levels_learn_from_the_bounds_without_lots_and_the_account_from_those_with():
    keeper = OnlineCalibration((0.9,), own_step=0.0)
    keeper.issue(1, "ada", np.array([10.0]), 100.0, np.array([100.0]))
    keeper.begin(1, 0.0)
    keeper.waited(11.0)
    assert keeper.everybody[0] > 0.9
    assert keeper.owed[0] == 0.0
    keeper.resolve(1, 50.0)
    assert keeper.owed[0] == pytest.approx(-0.1)


def test_an_owner_with_old_long_jobs_learns_from_the_new_ones_in_full():
    """Fifty-six jobs run for days while hundreds come and go: old unresolved jobs must not stop the learning."""
    moved = {}
    for old in (0, 56):
        keeper = OnlineCalibration((0.8,))
        for row in range(old):
            keeper.issue(row, "ada", np.array([1e6]), 1e9)
        for row in range(100, 400):
            keeper.issue(row, "ada", np.array([1e3]), 1e9)
            keeper.resolve(row, 3.0)
        moved[old] = keeper.requested_levels("ada")[0]
    assert moved[56] == pytest.approx(moved[0], abs=0.01)
    assert moved[0] < 0.6


def test_advice_of_a_limit_takes_no_part_in_lots():
    job = JobRequest(1, 1, 0.0, 1.0, 3600.0, float("nan"), user_id="ada")
    state, method = SystemState(), LimitAdvice("calibrated:lots=yes", 0.1)
    for row in range(300):
        like = JobRequest(row, row, 0.0, 1.0, 3600.0, float("nan"), user_id="ada")
        if row < 20:
            method.observe(End(0.0, like, 100.0 + row, 0.0), state)
        method.observe(Submit(0.0, like), state)
    advised, drawn = set(), []
    for row in range(300, 340):
        like = job._replace(row=row)
        advised.add(method.predict(like, state).point)
        drawn.append(method.inner.predict(like, state).quantiles[LEVELS.index(0.8)])
        method.observe(Submit(0.0, like), state)
    assert len(advised) == 1
    assert max(drawn) == pytest.approx(3600.0)
    assert min(drawn) == 1.0


def test_bounds_between_known_quantiles():
    levels, quantiles = (0.1, 0.5, 0.9), (10.0, 100.0, 1000.0)
    asked = np.linspace(0, 1, 101)
    bounds = bounds_at(asked, levels, quantiles, 5000.0)
    assert (np.diff(bounds) >= 0).all()
    assert bounds[[0, 10, 50, 90, 100]] == pytest.approx([1.0, *quantiles, 5000.0])


def test_answers_never_exceed_the_limit_and_the_point_is_the_methods_own():
    log = small_log(150)
    told = replay(log, {"kernel": Calibrated().inner, "calibrated": Calibrated()})
    np.testing.assert_array_equal(told["kernel"].points, told["calibrated"].points)
    known = np.isfinite(log.req_time)
    assert (told["calibrated"].quantiles[known] <= log.req_time[known, None] * (1 + 1e-12)).all()
    assert told["calibrated"].levels == LEVELS


def test_a_whole_log_at_once_is_told_the_very_numbers_of_one_job_after_the_other():
    # the last value again and again at one instant: a burst, for which random numbers decide
    many = [*range(40), *([39] * 260)]
    for log in (small_log(150), small_log(40).take(np.array(many))):
        one = replay(log, {"calibrated": Calibrated(lots=True)})["calibrated"]
        told, steady = Calibrated(lots=True).drawn_and_steady(log)
        np.testing.assert_array_equal(told.quantiles, one.quantiles)
        np.testing.assert_array_equal(told.points, one.points)
        assert list(told.basis) == list(one.basis)
        assert (told.quantiles != steady).any() == (len(log) == 300)
        without = Calibrated().drawn_and_steady(log)
        np.testing.assert_array_equal(without[0].quantiles, without[1])


def test_an_oracle_is_refused():
    with pytest.raises(ValueError, match="oracle"):
        Calibrated(of="actual")


def test_a_value_that_equals_its_bound_but_for_rounding_is_kept():
    keeper = OnlineCalibration((0.9,), own_step=0.0)
    for row in range(50):
        bound = bounds_at(np.array([0.9]), (0.5, 0.9), (61.0, 733.0), 1e6)
        keeper.issue(row, "ada", bound, 1e6)
        keeper.begin(row, 1e9)
        keeper.waited(1e9 + 733.0)
        keeper.resolve(row, 733.0)
    assert keeper.requested_levels("ada")[0] < 0.9


def test_without_limits_nothing_is_certain_and_both_ways_agree():
    log = small_log(200)
    log = log.with_columns({"req_time": np.full(len(log), np.nan), "run_time": log.run_time + 2 * 86400.0})
    one = replay(log, {"calibrated": Calibrated(of="last_2")})["calibrated"]
    told, _ = Calibrated(of="last_2").drawn_and_steady(log)
    np.testing.assert_array_equal(told.quantiles, one.quantiles)
    keeper = OnlineCalibration((0.9,), own_step=0.0)
    keeper.issue(0, "ada", np.array([86400.0]), certain=np.inf)
    before = keeper.requested_levels("ada")[0]
    keeper.resolve(0, 2 * 86400.0)
    assert keeper.requested_levels("ada")[0] > before, "a day is no limit: a run of two has failed"


def some_unnamed(log):
    """Values of which a third have no user, and which have few kinds of queue and size."""
    row = np.arange(len(log))
    users = Nominal.encode([None if k % 3 == 0 else f"user{k % 5}" for k in row])
    queues = Nominal.encode([None if k % 7 == 0 else f"queue{k % 2}" for k in row])
    return log.with_columns({"user_id": users, "queue_id": queues, "req_procs": 2.0 ** (row % 4)})


def test_where_no_user_is_named_both_ways_agree():
    log = some_unnamed(small_log(250))
    one = replay(log, {"calibrated": Calibrated(of="last_2", lots=True)})["calibrated"]
    told, _ = Calibrated(of="last_2", lots=True).drawn_and_steady(log)
    np.testing.assert_array_equal(told.quantiles, one.quantiles)


def test_unnamed_jobs_of_another_queue_have_bounds_of_their_own():
    """The first queue's jobs run ever longer, the second's do not: the first queue's misses must not lengthen the
    second's bounds."""
    bounds = {}
    for second in ("first", "second"):
        state, method = SystemState(), Calibrated(of="kernel", step=1e-9)
        kinds = [JobRequest(0, 1, 0.0, 4.0, 1e6, float("nan"), queue_id=name) for name in ("first", second)]
        for k in range(100):
            for row, (job, run) in enumerate(zip(kinds, (100.0 * 1.1**k, 100.0)), 2 * k):
                method.observe(Submit(0.0, job._replace(row=row)), state)
                method.observe(End(0.0, job._replace(row=row), run, 0.0), state)
        bounds[second] = method.keeper.requested_levels(method._owner(kinds[1]))[LEVELS.index(0.9)]
    assert bounds["second"] < bounds["first"]
