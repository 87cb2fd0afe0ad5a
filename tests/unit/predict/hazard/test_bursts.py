"""Tests that a burst counts as one piece of evidence: which of its predictions count, and the effect on the bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.waits import counts_blindly

from batchcast.events.recorded import replay
from batchcast.predict.hazard.bins import ENDS_S, quantiles
from batchcast.predict.hazard.calibrated_waits import (
    DEEP_STEPS,
    EACH,
    LEVELS,
    USUAL_WEIGHT,
    Bursts,
    CalibratedWaits,
    LevelsBySpan,
    as_kept,
)
from batchcast.predict.wait.forecast import Forecast
from batchcast.table import Trace

from .test_looks import told_one_by_one


@st.composite
def stories(draw):
    """Submissions of two senders, and the outcome of some of them, in any possible order."""
    story, open_, name = [], [], 0
    for _ in range(draw(st.integers(0, 70))):
        kind = draw(st.sampled_from(["submit", "submit", "submit", "known", "gone"]))
        if kind == "submit":
            story.append(("submit", draw(st.sampled_from("ab")), name))
            open_.append(name)
            name += 1
        elif open_:
            story.append((kind, open_.pop(draw(st.integers(0, len(open_) - 1)))))
    return story


@given(stories(), st.integers(1, 4))
def test_what_counts_is_what_reading_the_whole_story_says(story, each):
    bursts, counts = Bursts(each), {}
    for kind, *told in story:
        if kind == "submit":
            counts[told[1]] = bursts.counts(told[1], told[0])
        else:
            bursts.resolved(told[0], is_known=kind == "known")
    assert counts == counts_blindly(story, each)


def test_votes_lie_along_the_whole_of_an_array_and_others_keep_theirs():
    bursts = Bursts(20)
    votes = np.flatnonzero([bursts.counts(task, "ada") for task in range(5000)])
    assert len(votes) < 200
    for low, high in ((39, 80), (600, 1200), (2500, 5000)):
        assert ((votes >= low) & (votes < high)).sum() >= 15
    assert all(bursts.counts(5000 + job, "bo") for job in range(39))


def test_who_is_answered_counts_in_full_however_many_jobs_wait_since_long():
    bursts = Bursts(20)
    for job in range(500):
        bursts.counts(job, "ada")
    for job in range(500, 600):
        counted = bursts.counts(job, "ada")
        bursts.resolved(job, is_known=True)
        assert counted or job == 500


def test_nothing_is_remembered_of_who_has_nothing_open():
    bursts = Bursts(20)
    for job in range(100):
        bursts.counts(job, "ada")
    for job in range(100):
        bursts.resolved(job, is_known=job % 2 == 0)
    bursts.resolved(7, is_known=True)
    assert not bursts.senders
    assert not bursts.predictions


CURVE = np.append(1.0 - np.exp(-np.asarray(ENDS_S) / 3600.0), 1.0)


def test_a_forecast_is_deep_in_a_burst_from_where_not_every_one_counts_until_a_later_one_is_known():
    bursts = Bursts(20)
    deep = [(bursts.is_deep("ada"), bursts.counts(task, "ada")) for task in range(45)]
    assert [one for one, _ in deep] == [False] * 40 + [True] * 5
    assert all(counted for _, counted in deep[:39])
    assert not bursts.is_deep("bo")
    bursts.resolved(44, is_known=True)
    assert not bursts.is_deep("ada")


@given(st.lists(st.sampled_from([10.0, 900.0, 7000.0, 9e4, None]), max_size=60))
def test_levels_in_bursts_are_what_reading_the_whole_story_says(waits):
    others = np.array(LEVELS) ** 2
    levels, own, known = LevelsBySpan(), np.array(LEVELS), 0
    for job, wait in enumerate(waits):
        bounds = CalibratedWaits.bounds(as_kept(levels.levels_in_bursts(others), CURVE))
        levels.issue(job, "ada", 0.0, None, bounds)
        if wait is None:
            levels.left(job)
            continue
        levels.ended(job, wait)
        kept = wait - (0.5 + job * 0.6180339887498949) % 1.0 <= bounds
        step = np.array(DEEP_STEPS) / np.sqrt(max(known / EACH, 1.0))
        own, known = np.clip(own + step * (np.array(LEVELS) - kept) / EACH, 0.0, 1.0), known + 1
    share = known / EACH / (known / EACH + USUAL_WEIGHT)
    expected = share * np.maximum.accumulate(own) + (1.0 - share) * others
    np.testing.assert_allclose(levels.levels_in_bursts(others), expected, atol=1e-9)


def test_an_array_that_waits_long_lengthens_what_the_next_is_told_and_moves_nobody_else_s_levels():
    promises, curves = CalibratedWaits(("model",)), CURVE[None, :]

    def by_90(is_deep):
        return quantiles(promises.chances(curves, is_deep)[None, :], np.array([[0.9]]))[0, 0]

    assert by_90(is_deep=True) == by_90(is_deep=False)
    for vote in range(20 * EACH):  # twenty doublings, all far beyond the bound
        promises.issue(vote, "ada", 0.0, curves, promises.chances(curves, True), True)
        promises.ended(vote, 40_000.0)
    assert by_90(is_deep=True) > 1.1 * by_90(is_deep=False)
    for span in range(5):
        np.testing.assert_array_equal(promises.levels.requested_levels(span), LEVELS)
    promises.issue(9999, "bo", 40_000.0, curves, promises.chances(curves))
    promises.passes(9e7)
    assert max(promises.levels.requested_levels(span)[5] for span in range(5)) > LEVELS[5]


def log_with_bursts(seed, jobs=1500):
    """Jobs of five users that wait minutes, and after every 300 jobs an array of 400 tasks that wait most of a day."""
    random = np.random.default_rng(seed)
    submit = np.cumsum(random.integers(60, 600, jobs)).astype(float)
    wait, user = np.exp(random.normal(6.0, 1.0, jobs)).round(), random.choice(list("abcde"), jobs)
    for at in submit[299::300]:
        submit, user = np.append(submit, np.full(400, at)), np.append(user, np.full(400, "array"))
        wait = np.append(wait, np.sort(random.integers(40_000, 80_000, 400)))
    order = np.argsort(submit, kind="stable")
    columns = {"submit_time": submit, "wait_time": wait, "user_id": user}
    columns = {name: values[order] for name, values in columns.items()}
    nothing = np.ones(len(submit))
    return Trace.from_arrays({**columns, "run_time": 60.0 * nothing, "req_time": 600.0 * nothing, "req_procs": nothing})


@pytest.mark.long
def test_an_array_does_not_break_what_others_are_promised():
    """If every task counts in full, the 80 % intervals of the other jobs cover .61 to .66."""
    log = log_with_bursts(1)
    said = Forecast(window=2000, first=300, every=600, step=50).predict_trace(log, total=1e6)
    names = log.nominal("user_id")
    others = names.codes != names.categories.index("array")
    others[: len(log) // 3] = False
    low, high = (said.quantiles[others, said.levels.index(level)] for level in (0.1, 0.9))
    kept = (low <= log.wait_time[others]) & (log.wait_time[others] <= high)
    assert 0.72 <= kept.mean() <= 0.88
    assert np.median(high) < 3600.0


@pytest.mark.long
def test_a_log_with_bursts_told_one_by_one_and_at_once_is_told_the_same():
    log = log_with_bursts(3, 400)[:760]
    small = {"window": 150, "first": 60, "every": 50, "step": 10}
    one, whole = Forecast(**small), Forecast(**small)
    said = replay(log, {"forecast": told_one_by_one(one)}, total=1e6)["forecast"]
    at_once = whole.predict_trace(log, total=1e6)
    np.testing.assert_array_equal(said.quantiles, at_once.quantiles)
    assert one.votes == whole.votes < 600 < one.number == 760
    assert one.model is not None
