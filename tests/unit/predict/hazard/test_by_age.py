"""What is promised of the rest of a wait learns apart at each age of the wait, and keeps its share there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.waits import levels_by_age

from batchcast.predict.hazard.bins import ENDS_S
from batchcast.predict.hazard.calibrated_waits import LEVELS, STEPS, CalibratedWaits
from batchcast.predict.hazard.renewal import AGES_S, PromisesByAge


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
    naive = levels_by_age(story, AGES_S, LEVELS, [0.5 * step for step in STEPS])
    for age, asked in naive.items():
        np.testing.assert_allclose(promises.keepers[age].asked(None), asked, atol=1e-12)


@pytest.mark.parametrize(("young", "old"), [(0.5, 2.0), (2.0, 0.5)])
def test_each_age_is_brought_to_what_it_promises_where_forecasts_are_wrong_in_opposite_ways(young, old):
    random, promises = np.random.default_rng(1), PromisesByAge()
    curve = np.append(1.0 - np.exp(-np.asarray(ENDS_S) / 3600.0), 1.0)[None, :]
    ages, inside = np.tile([60.0, 7200.0], 2000), []
    for look, waited in enumerate(ages):
        rest = random.exponential(3600.0) * (young if waited < 600 else old)
        bounds = CalibratedWaits.bounds(promises.chances(curve, np.array([waited]))[0])
        inside.append(bounds[1] <= rest <= bounds[5])
        now = 1e6 * look
        promises.passes(now)
        promises.issue(look, look, now, waited, bounds)
        promises.passes(now + rest)
        promises.ended(look, waited, rest)
    for age in (60.0, 7200.0):
        assert np.mean(np.array(inside)[2000:][ages[2000:] == age]) == pytest.approx(0.8, abs=0.03)
