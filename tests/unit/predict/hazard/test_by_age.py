"""Tests that bounds are calibrated separately by the time waited and the predicted wait, and reach their coverage
there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.waits import levels_by_age

from batchcast.predict.hazard.bins import ENDS_S
from batchcast.predict.hazard.calibrated_waits import LEVELS, REPAID, SPANS_S, STEPS, CalibratedWaits, LevelsBySpan


@st.composite
def stories(draw):
    """Predictions for a few jobs at growing ages, until some of the jobs start."""
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


@given(stories(), st.sampled_from([0.0, 2.0, 100.0]))
def test_the_levels_of_each_age_are_what_reading_the_whole_story_says(story, borrowed):
    promises, open_, rows = LevelsBySpan(borrowed), {}, {job: row for row, job in enumerate("abc")}
    for now, what, *told in story:
        promises.passes(now)
        if what == "look":
            number, job, waited, bounds = told
            promises.issue(number, rows[job], now, waited, bounds)
            open_.setdefault(job, []).append((number, now))
        else:
            for number, at in open_.pop(told[0]):
                promises.ended(number, now - at)
    naive = levels_by_age(story, SPANS_S, LEVELS, STEPS, REPAID, borrowed)
    for age, asked in naive.items():
        np.testing.assert_allclose(promises.requested_levels(age), asked, atol=1e-12)


@pytest.mark.parametrize(("young", "old"), [(0.5, 2.0), (2.0, 0.5)])
def test_each_age_is_brought_to_what_it_promises_where_forecasts_are_wrong_in_opposite_ways(young, old):
    random, promises = np.random.default_rng(1), LevelsBySpan()
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
        promises.ended(look, rest)
    for age in (60.0, 7200.0):
        assert np.mean(np.array(inside)[2000:][ages[2000:] == age]) == pytest.approx(0.8, abs=0.03)


def test_an_age_of_which_little_is_known_promises_as_all_ages_do_and_later_by_its_own_outcomes():
    curve = np.append(1.0 - np.exp(-np.asarray(ENDS_S) / 3600.0), 1.0)[None, :]

    def late_90(promises, waited):
        return CalibratedWaits.bounds(promises.chances(curve, np.array([waited]))[0])[5]

    alone, borrows = LevelsBySpan(), LevelsBySpan(100.0)
    nominal = late_90(alone, 9e4)
    for look in range(400):
        for promises in (alone, borrows):
            bounds = CalibratedWaits.bounds(promises.chances(curve, np.array([60.0]))[0])
            promises.issue(look, look, 0.0, 60.0, bounds)
            promises.ended(look, 4.0 * 3600.0 * (look % 3 == 0))
    assert late_90(alone, 9e4) == nominal, "nothing is known of jobs that waited a day"
    old = late_90(borrows, 9e4)
    assert old > 1.2 * nominal
    for look in range(400, 1400):
        borrows.issue(look, look, 0.0, 9e4, CalibratedWaits.bounds(borrows.chances(curve, np.array([9e4]))[0]))
        borrows.ended(look, 60.0)
    assert late_90(borrows, 9e4) < 0.5 * min(old, late_90(borrows, 60.0))


def test_what_becomes_of_jobs_told_long_waits_moves_no_promise_of_jobs_told_short_ones():
    promises = CalibratedWaits(("model",))
    short, long = (np.append(1.0 - np.exp(-np.asarray(ENDS_S) / mean), 1.0)[None, :] for mean in (120.0, 40000.0))
    before = promises.chances(short), promises.chances(long)
    for number in range(24):
        promises.issue(number, number, 0.0, long, promises.chances(long))
        promises.ended(number, 9e5)
    np.testing.assert_array_equal(promises.chances(short), before[0])
    assert promises.bounds(promises.chances(long))[5] > 1.2 * promises.bounds(before[1])[5]


def test_a_burst_told_blindly_moves_promises_less_than_as_many_jobs_of_different_people():
    curve = np.append(1.0 - np.exp(-np.asarray(ENDS_S) / 14400.0), 1.0)[None, :]

    def late_90(senders):
        promises = CalibratedWaits(("model",))
        promised = promises.chances(curve)
        for number, sender in enumerate(senders):
            promises.issue(number, sender, 0.0, curve, promised)
        promises.passes(9e5)
        return promises.levels.keepers[2].everybody[5]

    one, several = late_90(["ada"] * 30), late_90(range(30))
    steps = sum(1.0 / k for k in range(1, 31))
    assert one - 0.9 == pytest.approx(STEPS[5] * 0.9 * steps, rel=0.05)
    assert several - 0.9 == pytest.approx(STEPS[5] * 0.9 * 30, rel=0.05)


def test_of_all_jobs_the_promised_share_starts_in_time_where_the_later_ones_of_each_burst_wait_less():
    random, promises = np.random.default_rng(2), LevelsBySpan()
    curve = np.append(1.0 - np.exp(-np.asarray(ENDS_S) / 3600.0), 1.0)[None, :]
    in_time = []
    for burst in range(300):
        now, rests = 1e6 * burst, random.exponential(3600.0, 12) * ([1.0] * 3 + [0.5] * 9)
        bounds = CalibratedWaits.bounds(promises.chances(curve, np.array([600.0]))[0])
        for k in range(12):
            promises.issue(12 * burst + k, "ada", now, 600.0, bounds)
        for rest, number in sorted(zip(rests, range(12 * burst, 12 * burst + 12))):
            promises.passes(now + rest)
            promises.ended(number, rest)
        in_time.append(rests <= bounds[5])
    assert np.mean(in_time[150:]) == pytest.approx(0.9, abs=0.02)
