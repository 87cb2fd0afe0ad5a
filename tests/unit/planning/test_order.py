"""Tests the planned queue order: it equals the slow reference version, old jobs go first, and other programs' factors
stay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.order import Row, ages, factors

from batchcast.errors import UsageError
from batchcast.planning.order import LEVELS, AgeFinder, OrderRule, Queue, Ran, decide_order, level_factors, overrunning

BANDS = (128, 1000, 10_000)
NOW = 50_000.0


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[Row], int]:
    """Draw waiting jobs of one to three tasks; their SiteFactor is 0, a level, an earlier factor or another's."""
    band = draw(st.sampled_from(BANDS))
    ladder = level_factors(band).tolist()
    rows = []
    for group in range(draw(st.integers(0, 12))):
        factor = draw(st.sampled_from([0, 0, *ladder]) | st.integers(-50, band))
        ours = factor != 0 and draw(st.booleans())
        own, party = draw(st.integers(1, 500) | st.just(1)), draw(st.integers(0, 2))
        for _ in range(draw(st.integers(1, 3))):
            arrival = draw(st.sampled_from([math.nan]) | st.integers(0, int(NOW)).map(float))
            forecast = draw(st.floats(1, 1e6) | st.just(math.inf))
            size = draw(st.sampled_from([1.0, 4.0, 9.0, 256.0]))
            rows.append(Row(group, arrival, size, float(own + factor), factor, ours, forecast, party))
    return rows, band


def columns(rows: list[Row]) -> Queue:
    kinds = (int, float, float, float, int, bool, float, int)
    return Queue(*(np.array([row[k] for row in rows], kind) for k, kind in enumerate(kinds)))


@given(queues(), st.sampled_from(["queue", "account", "user"]), st.integers(1, 60_000))
def test_equals_the_naive_twin(case: tuple[list[Row], int], within: str, age: int) -> None:
    rows, band = case
    order = decide_order(columns(rows), OrderRule(within, float(age), band), NOW)
    assert order.factor.tolist() == factors(rows, within, float(age), band, NOW)


@given(queues(), st.sampled_from(["queue", "account", "user"]))
def test_leaves_alone_what_is_somebody_elses_and_moves_arrays_whole(case: tuple[list[Row], int], within: str) -> None:
    rows, band = case
    factor = decide_order(columns(rows), OrderRule(within, 20_000.0, band), NOW).factor.tolist()
    by_record: dict[int, set[int]] = {}
    for row, now in zip(rows, factor):
        by_record.setdefault(row.group, set()).add(now)
        if row.factor != 0 and not row.ours:
            assert now == row.factor
        else:
            assert -band <= now <= band
    assert all(len(some) == 1 for some in by_record.values())


@given(queues())
def test_few_factors_and_none_changes_while_nothing_does(case: tuple[list[Row], int]) -> None:
    rows, band = case
    rows = [row for row in rows if row.factor == 0]
    for within in ("queue", "account"):
        rule = OrderRule(within, 20_000.0, band)
        factor = decide_order(columns(rows), rule, NOW).factor.tolist()
        assert len(set(factor)) <= LEVELS
        set_now = [
            r._replace(factor=f, priority=r.priority + f, ours=f != 0, forecast=r.forecast * 1.08)
            for r, f in zip(rows, factor)
        ]
        if within == "queue":  # a prediction that changed by less than half a level changes nothing
            assert decide_order(columns(set_now), rule, NOW).factor.tolist() == factor


@pytest.mark.parametrize("within", ["queue", "account"])
def test_ten_thousand_jobs_share_few_factors(within: str) -> None:
    rng, n = np.random.default_rng(0), 10_000
    rows = np.arange(n), rng.uniform(0, NOW, n), np.ones(n), rng.integers(1, 20_000, n).astype(float)
    queue = Queue(*rows, np.zeros(n), np.zeros(n, bool), rng.lognormal(7, 2, n), rng.integers(0, 50, n))
    factor = decide_order(queue, OrderRule(within, 172_800.0), NOW).factor
    assert 20 < len(np.unique(factor)) <= 2 * LEVELS


@given(queues())
def test_within_an_account_no_other_is_passed(case: tuple[list[Row], int]) -> None:
    """Within an account, the k-th highest priority is at most the k-th highest priority before planning."""
    rows, band = case
    singles = [row for k, row in enumerate(rows) if k == 0 or rows[k - 1].group != row.group]
    order = decide_order(columns(singles), OrderRule("account", 20_000.0, band), NOW)
    for party in range(3):
        mine = [(r.priority - r.factor, f) for r, f in zip(singles, order.factor.tolist()) if r.party == party]
        if any(r.party == party and r.factor != 0 and not r.ours for r in singles):
            continue
        before = sorted((own for own, _ in mine), reverse=True)
        after = sorted((own + f for own, f in mine), reverse=True)
        assert all(b <= a for b, a in zip(after, before))


@given(st.data())
def test_the_age_that_is_found_equals_the_naive_twin(data: st.DataObject) -> None:
    """Draw successive states of a queue that jobs enter and leave; a job may be held for a while."""
    looks, now, waiting = [], 0.0, {}
    for key in range(0, 3 * data.draw(st.integers(1, 12)), 3):
        now += data.draw(st.integers(1, 20_000))
        for new in range(key, key + data.draw(st.integers(0, 3))):
            waiting[new] = now - data.draw(st.integers(0, 60)), data.draw(st.floats(1.0, 1e6) | st.just(math.inf))
        waiting = {k: v for k, v in waiting.items() if data.draw(st.integers(0, 3))}
        held = {k: (math.nan, v[1]) if data.draw(st.integers(0, 9)) == 0 else v for k, v in waiting.items()}
        looks.append((now, held))
    finder, found = AgeFinder(16.0), []
    for now, jobs in looks:
        columns_of = (np.array([job[k] for job in jobs.values()], float) for k in (0, 1))
        found.append(finder.look(jobs, *columns_of, now))
    assert found == pytest.approx(ages(looks, 16.0))
    assert AgeFinder(math.nan).look([1], np.zeros(1), np.ones(1), 0.0) == 172_800.0


def test_a_job_without_a_limit_does_not_undo_the_age() -> None:
    finder, endless = AgeFinder(10.0), np.array([math.inf])
    assert finder.look(["a"], np.zeros(1), endless, 0.0) == 172_800.0
    assert finder.look(["b"], np.array([60.0]), endless, 60.0) == 172_800.0
    assert finder.look(["c"], np.array([120.0]), np.array([36_000.0]), 120.0) == 3600.0


def test_an_age_that_is_still_to_be_found_is_refused() -> None:
    with pytest.raises(UsageError, match="not been determined yet"):
        decide_order(columns([]), OrderRule(), NOW)


def test_of_two_as_long_the_one_that_takes_less_of_the_machine_goes_first() -> None:
    rows = [Row(k, 0.0, size, 1.0, 0, False, 600.0, 0) for k, size in enumerate((64.0, 1.0))]
    wide, narrow = decide_order(columns(rows), OrderRule(age=1e6), NOW).factor
    assert wide < narrow
    wide, narrow = decide_order(columns(rows), OrderRule(age=1e6, size=0.0), NOW).factor
    assert wide == narrow


@pytest.mark.long
@settings(max_examples=60)
@given(st.data())
def test_nobody_is_left_behind(data: st.DataObject) -> None:
    """On one machine with cycles of 30 s, a job past the age limit waits only for running and earlier jobs."""
    age, count = float(data.draw(st.integers(60, 2000))), data.draw(st.integers(1, 40))
    submit = sorted(data.draw(st.lists(st.integers(0, 3000), min_size=count, max_size=count)))
    run = data.draw(st.lists(st.integers(1, 900), min_size=count, max_size=count))
    said = data.draw(st.lists(st.integers(1, 9000), min_size=count, max_size=count))
    factor, start = [0] * count, [math.nan] * count
    rule, now, free_at = OrderRule("queue", age, 10_000), 0.0, 0.0
    while any(math.isnan(at) for at in start):
        waiting = [k for k in range(count) if submit[k] <= now and math.isnan(start[k])]
        if waiting and now % 30 == 0:
            rows = [
                Row(k, float(submit[k]), 1.0, 1.0 + factor[k], factor[k], factor[k] != 0, float(said[k]), 0)
                for k in waiting
            ]
            for k, new in zip(waiting, decide_order(columns(rows), rule, now).factor.tolist()):
                factor[k] = new
        if waiting and now >= free_at:
            k = min(waiting, key=lambda k: (-factor[k], submit[k], k))
            start[k], free_at = now, now + run[k]
        now += 1
    for k in range(count):
        before = sum(run[other] for other in range(k))
        # the scheduler starts one job per second
        assert start[k] - submit[k] <= age + 30 + 1 + max(run) + before + k + 1


@pytest.mark.parametrize(
    ("given_words", "said"),
    [
        ({"within": "all"}, "accepted: queue, account, user"),
        ({"band": 10}, "accepted: 128 or more"),
        ({"age": -1.0}, "above 0"),
        ({"size": 2.0}, "0, shortest first, to 1"),
    ],
)
def test_says_what_it_accepts(given_words: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        OrderRule(**given_words)


def test_users_who_run_past_what_ordered_them_are_found_by_their_work() -> None:
    """Jobs ran past predictions: a little (user 0), far on few processors (1), far (2), far if ordered by limit (3)."""
    rows = [
        (0, 4000.0, 3600.0, 7200.0, 4.0), (1, 7200.0, 60.0, 28_800.0, 1.0), (1, 7200.0, 7200.0, 28_800.0, 64.0),
        (2, 7200.0, 60.0, np.nan, 1.0), (3, 9000.0, 7200.0, 7200.0, 8.0),
    ]  # fmt: skip
    whose, *more = (np.array(column) for column in zip(*rows))
    ran = Ran(whose.astype(np.int64), *more)
    assert overrunning(ran, 0.25).tolist() == [2]
    assert overrunning(ran, 0.0).tolist() == [0, 1, 2]
    assert overrunning(ran, 1.0).tolist() == []
