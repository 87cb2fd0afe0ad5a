"""Levels that are kept: on what follows a law, on bursts, and with values that become known late."""

import numpy as np
import pytest

from batchcast.events.recorded import replay
from batchcast.predict.calibration.keeper import Keeper, bounds_at
from batchcast.predict.runtime.calibrated import LEVELS, Calibrated
from batchcast.testing.logs import small_log


def kept(keeper, values, owners, bound):
    """The share of values within the bound asked, told one after the other."""
    held = 0
    for row, (value, owner) in enumerate(zip(values, owners)):
        bounds = bound(keeper.asked(owner))
        keeper.issue(row, owner, bounds, np.inf)
        held += value <= bounds[0]
        keeper.known(row, value)
    return held / len(values)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_a_method_that_is_too_sure_of_itself_is_brought_to_what_it_promises(level):
    values = np.random.default_rng(0).exponential(100.0, 5000)
    too_short = lambda asked: -50.0 * np.log1p(-np.minimum(asked, 1 - 1e-9))  # noqa: E731
    assert np.mean(values <= too_short(np.array([level]))[0]) < level - 0.05
    assert kept(Keeper((level,)), values, [0] * 5000, too_short) == pytest.approx(level, abs=0.02)


def test_owners_are_kept_nearer_to_the_level_than_by_one_shift_for_all():
    rng = np.random.default_rng(1)
    owners = rng.integers(0, 2, 8000)
    values = rng.exponential(np.where(owners, 60.0, 180.0))
    apart = {}
    for own_step in (0.0, 0.02):
        keeper, held = Keeper((0.8,), own_step=own_step), [[], []]
        for row, (value, owner) in enumerate(zip(values, owners)):
            bounds = -100.0 * np.log1p(-np.minimum(keeper.asked(owner), 1 - 1e-9))
            keeper.issue(row, owner, bounds, np.inf)
            held[owner].append(value <= bounds[0])
            keeper.known(row, value)
        apart[own_step] = max(abs(np.mean(h[1000:]) - 0.8) for h in held)
    assert apart[0.02] < 0.5 * apart[0.0]


def test_what_runs_past_its_bound_is_a_miss_before_it_ends():
    keeper = Keeper((0.9,))
    keeper.issue(1, "ada", np.array([10.0]), 100.0)
    keeper.begin(1, 50.0)
    keeper.waited(60.0)
    assert keeper.asked("ada")[0] == 0.9
    keeper.waited(60.5)
    moved = keeper.asked("ada")[0]
    assert moved > 0.9
    keeper.known(1, 70.0)
    assert keeper.asked("ada")[0] == moved


def test_a_bound_at_the_limit_holds():
    keeper = Keeper((0.9,))
    keeper.issue(1, "ada", np.array([100.0]), 100.0)
    keeper.begin(1, 0.0)
    keeper.waited(1000.0)
    keeper.known(1, 130.0)
    assert keeper.asked("ada")[0] < 0.9


def test_a_burst_weighs_no_more_than_some_dozens():
    levels = {}
    for jobs in (100, 3000):
        keeper = Keeper((0.9,), own_step=0.0)
        for row in range(jobs):
            keeper.issue(row, "ada", np.array([10.0]), 1e9)
        for row in range(jobs):
            keeper.known(row, 5.0)
        levels[jobs] = keeper.everybody[0]
        assert not keeper.unresolved
        assert keeper.asked("eve")[0] > 0.77
    assert 0.87 < levels[3000] < levels[100] < 0.9


def test_what_a_burst_missed_is_paid_back_afterwards_and_no_more():
    keeper = Keeper((0.9,), own_step=0.0)
    for row in range(500):
        keeper.issue(row, "ada", np.array([10.0]), 1e9)
    for row in range(500):
        keeper.known(row, 20.0)
    assert keeper.asked("eve")[0] == 1.0
    for row in range(500, 10_000):
        keeper.issue(row, "eve", np.array([10.0]), 1e9)
        keeper.known(row, 20.0 if row % 10 == 0 else 5.0)
    assert keeper.asked("eve")[0] < keeper.everybody[0] + 0.03


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


def test_an_oracle_is_refused():
    with pytest.raises(ValueError, match="oracle"):
        Calibrated(of="actual")


def test_a_value_that_equals_its_bound_but_for_rounding_is_kept():
    keeper = Keeper((0.9,), own_step=0.0)
    for row in range(50):
        bound = bounds_at(np.array([0.9]), (0.5, 0.9), (61.0, 733.0), 1e6)
        keeper.issue(row, "ada", bound, 1e6)
        keeper.begin(row, 1e9)
        keeper.waited(1e9 + 733.0)
        keeper.known(row, 733.0)
    assert keeper.asked("ada")[0] < 0.9
