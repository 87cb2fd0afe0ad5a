"""What is promised of the rest of a wait learns apart at each age of the wait, and keeps its share there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.waits import levels_by_age

from batchcast.predict.hazard.bins import ENDS_S
from batchcast.predict.hazard.calibrated_waits import LEVELS, STEPS, CalibratedWaits
from batchcast.predict.hazard.renewal import AGES_S, MEMORY, PACE, PromisesByAge


@st.composite
def stories(draw):
    """Looks at a few jobs, each longer waited than the look before it, until some of them start."""
    story, now, since = [], 0.0, {}
    for number in range(draw(st.integers(1, 40))):
        now += draw(st.sampled_from([0.0, 7.0, 300.0, 4000.0, 30000.0]))
        job = draw(st.sampled_from("abc"))
        if job in since and draw(st.integers(0, 3)) == 0:
            story.append((now, "start", job))
            del since[job]
            continue
        since.setdefault(job, now)
        bounds = np.sort(draw(st.lists(st.sampled_from([0.0, 60.0, 900.0, 7000.0, 9e4]), min_size=7, max_size=7)))
        story.append((now, "look", number, job, now - since[job], bounds))
    return story


@given(stories())
def test_the_levels_of_each_age_are_what_reading_the_whole_story_says(story):
    promises, open_, rows = PromisesByAge(), {}, {job: row for row, job in enumerate("abc")}
    for now, what, *told in story:
        promises.passes(now)
        if what == "look":
            number, job, waited, bounds = told
            promises.issue(number, rows[job], now, waited, bounds)
            open_.setdefault(job, []).append((number, waited, now))
        else:
            for number, waited, at in open_.pop(told[0]):
                promises.ended(number, waited, now - at)
    naive = levels_by_age(story, AGES_S, LEVELS, [PACE * step for step in STEPS], MEMORY)
    for age, asked in naive.items():
        np.testing.assert_allclose(promises.keepers[age].asked(None), asked, atol=1e-12)


def inside_80(told):
    """Whether each rest of (waited, mean of the rests) lay in the 80 % interval; the forecast has a mean of 1 h."""
    random, promises, inside = np.random.default_rng(1), PromisesByAge(), []
    curve = np.append(1.0 - np.exp(-np.asarray(ENDS_S) / 3600.0), 1.0)[None, :]
    for look, (waited, mean) in enumerate(told):
        rest = random.exponential(mean)
        bounds = CalibratedWaits.bounds(promises.chances(curve, np.array([waited]))[0])
        inside.append(bounds[1] <= rest <= bounds[5])
        now = 1e6 * look
        promises.passes(now)
        promises.issue(look, look, now, waited, bounds)
        promises.passes(now + rest)
        promises.ended(look, waited, rest)
    return np.array(inside)


@pytest.mark.parametrize(("young", "old"), [(1800.0, 7200.0), (7200.0, 1800.0)])
def test_each_age_is_brought_to_what_it_promises_where_forecasts_are_wrong_in_opposite_ways(young, old):
    inside = inside_80([(60.0, young), (7200.0, old)] * 2000)
    for age in (0, 1):
        assert np.mean(inside[2000:][age::2]) == pytest.approx(0.8, abs=0.03)


def test_after_months_of_short_rests_intervals_soon_hold_long_ones():
    inside = inside_80([(7200.0, 360.0)] * 1500 + [(7200.0, 7200.0)] * 500)
    assert np.mean(inside[1500:1800]) > 0.55
    assert np.mean(inside[1700:]) > 0.75
