"""Tests a prediction that is conditioned on the time a job has waited."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from batchcast.predict.conditional import chance_to_start, given_waited
from batchcast.predict.protocol import Prediction

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def exponential(mean: float) -> Prediction:
    quantiles = tuple(-mean * math.log(1 - level) for level in LEVELS)
    return Prediction(quantiles[2], LEVELS, quantiles)


@given(st.floats(1, 1e5), st.floats(0, 3), st.floats(0, 3))
def test_the_longer_it_waited_the_later_it_starts_and_never_in_the_past(mean: float, a: float, b: float) -> None:
    early, late = sorted((a * mean, b * mean))
    first, second = given_waited(exponential(mean), early), given_waited(exponential(mean), late)
    assert first.point <= second.point
    assert first.point >= early
    assert second.quantiles[1] >= second.point >= late


def test_without_waiting_it_is_the_forecast_itself() -> None:
    assert given_waited(exponential(100.0), 0.0, LEVELS).quantiles == exponential(100.0).quantiles


def test_an_exponential_wait_forgets_about_as_far_as_the_levels_reach() -> None:
    """The remaining wait has the same median; linear pieces between levels change it by less than a third."""
    again = given_waited(exponential(100.0), 50.0, (0.5,))
    assert abs(again.point - 50.0 - 100.0 * math.log(2)) < 25


def test_the_point_counts_as_the_median_where_none_was_issued() -> None:
    assert given_waited(Prediction(60.0, (0.95,), (600.0,)), 0.0).point == 60.0


def test_without_quantiles_a_forecast_says_nothing_beyond_its_point() -> None:
    assert given_waited(Prediction(60.0), 70.0).point == math.inf
    assert given_waited(Prediction(60.0), 50.0).point == 60.0
    # the job has not waited yet
    assert given_waited(Prediction(60.0, (0.9,), (600.0,)), 0.0, (0.95,)).point == math.inf


@given(st.floats(0.3, 1.0), st.floats(120, 1e5), st.floats(1, 50), st.sampled_from([0.1, 0.5, 0.9]))
def test_beyond_the_highest_level_waits_of_a_power_are_forecast_exactly(
    power: float, scale: float, times: float, level: float
) -> None:
    """With P(wait > x) = (scale / (x + a minute)) ** power, the true quantile of the remaining wait is known for any
    time waited."""
    quantiles = tuple(scale * (1 - f) ** (-1 / power) - 60.0 for f in LEVELS)
    issued, waited = Prediction(quantiles[2], LEVELS, quantiles), quantiles[-1] * times
    true = scale * ((1 - level) * (scale / (waited + 60.0)) ** power) ** (-1 / power) - 60.0
    assert math.isclose(given_waited(issued, waited, (level,)).point, true, rel_tol=1e-6)
    assert math.isclose(chance_to_start(issued, waited, true - waited), level, rel_tol=1e-6)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6), st.integers(0, 2), st.floats(1, 1e7))
def test_whoever_has_waited_has_an_answer(found: list[float], unknown: int, waited: float) -> None:
    """For any prediction, also with unknown highest levels, there is a likely time and a 90 % time, in this order."""
    quantiles = (*sorted(found), *[math.inf] * unknown)[: len(LEVELS)]
    issued = Prediction(max(quantiles[0], 1.0), LEVELS[: len(quantiles)], quantiles)
    likely, by_90 = given_waited(issued, waited, (0.5, 0.9)).quantiles
    assert waited <= likely <= by_90 < math.inf
    assert 0.0 <= chance_to_start(issued, waited, 3600.0) <= chance_to_start(issued, waited, 86_400.0) <= 1.0


@given(st.floats(0.01, 0.99), st.lists(st.floats(1, 1e6), min_size=1, max_size=60), st.data())
def test_an_advised_limit_follows_the_sites_rules(risk: float, runs: list[float], data: st.DataObject) -> None:
    from batchcast.predict.recommend import recommend_limit

    cut = data.draw(st.lists(st.booleans(), min_size=len(runs), max_size=len(runs)))
    advice = recommend_limit(runs, cut, risk, floor=600, step=300, most=2e6)
    assert advice.limit_s >= 600
    assert advice.limit_s % 300 == 0
    if advice.reached:
        held = sum(run <= advice.limit_s for run in runs)
        assert held / (len(runs) + 1) >= 1 - risk - 1e-9
    else:
        assert advice.limit_s >= min(1.25 * max(runs), 2e6) - 1e-6
