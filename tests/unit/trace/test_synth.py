"""Tests that synthetic logs follow the named models and the requested values, and have users who repeat jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.naive import lublin as naive

from batchcast.errors import UsageError
from batchcast.formats.swf import write_chunks
from batchcast.metrics.curves import cdf_distance
from batchcast.simulation import Policy, simulate
from batchcast.table import Trace
from batchcast.trace.synth import (
    ALL,
    BATCH,
    HEAD_SHARE,
    INTERACTIVE,
    Recipe,
    day_weights,
    draw_habits,
    draw_points,
    draw_requests,
    draw_run_times,
    draw_sizes,
    group_jobs,
    make_log,
)
from batchcast.trace.synth import to_clock as clock

N = 100_000
DAY = 86400.0


@pytest.fixture(scope="module")
def log() -> Trace:
    return make_log(np.random.default_rng(5), Recipe(jobs=20_000, procs=128, load=0.75))


@pytest.mark.parametrize("kind", [ALL, BATCH, INTERACTIVE])
def test_sizes_are_serial_powers_of_two_or_any(kind) -> None:
    sizes = draw_sizes(np.random.default_rng(1), kind, N, 128)
    parallel = sizes[sizes > 1]
    assert (sizes == 1).mean() == pytest.approx(kind.serial, abs=0.012)
    assert (np.log2(parallel) % 1 == 0).mean() * len(parallel) / N >= kind.power_of_two - 0.01
    assert sizes.max() == (128 if kind.narrower == 0 else 45)
    rng = np.random.default_rng(7)
    one_by_one = np.array([naive.size(rng, kind, 128) for _ in range(N // 10)])
    # critical value of the Kolmogorov-Smirnov test at 0.1 %
    assert cdf_distance(sizes, one_by_one) < 1.95 / np.sqrt(N / 11)


@pytest.mark.parametrize("kind", [ALL, BATCH, INTERACTIVE])
@pytest.mark.parametrize("size", [1, 40])
def test_run_times_are_the_published_mixture_of_gammas(kind, size) -> None:
    gamma = pytest.importorskip("scipy.stats").gamma
    runs = draw_run_times(np.random.default_rng(2), kind, np.full(N, size))
    share = min(max(kind.short_slope * size + kind.short_share, 0.0), 1.0)

    def mixture(x: np.ndarray) -> np.ndarray:
        short, long = (gamma.cdf(x, shape, scale=scale) for shape, scale in (kind.short, kind.long))
        return share * short + (1 - share) * long

    seconds = np.unique(runs)
    below = np.searchsorted(np.sort(runs), seconds, side="right") / N
    expected = mixture(np.log(seconds + 1)) / mixture(np.array(12.0))  # run times are rounded down to whole seconds
    assert np.abs(below - expected)[seconds > 1].max() < 1.95 / np.sqrt(N)  # Kolmogorov-Smirnov, 0.1 %


def test_arrivals_follow_the_hours_of_the_day_at_the_models_rate() -> None:
    points = draw_points(np.random.default_rng(3), ALL, N)
    gaps = np.diff(points)
    assert np.all(gaps > 0)
    gamma = pytest.importorskip("scipy.stats").gamma
    share = (gaps < 60).mean()
    expected = gamma.cdf(np.log(60.0), ALL.gap[0], scale=ALL.gap[1]) / gamma.cdf(13.0, ALL.gap[0], scale=ALL.gap[1])
    assert share == pytest.approx(expected, abs=0.01)
    submits = clock(ALL, points)
    walked = list(naive.arrivals([points[0], *gaps[:999]], day_weights(ALL).tolist()))
    assert np.allclose(submits[:1000], walked, atol=1e-4)
    assert np.all(np.diff(submits) >= 0)
    slot = (submits % DAY // 1800).astype(int)
    seen = np.bincount(slot, minlength=48) / N * 48
    assert np.corrcoef(seen, day_weights(ALL))[0, 1] > 0.99
    assert np.argmax(day_weights(ALL)) in range(20, 32)  # by day
    assert clock(ALL, np.arange(4) * DAY).tolist() == [0.0, DAY, 2 * DAY, 3 * DAY]


def test_the_load_the_jobs_and_the_machine_are_those_asked_for() -> None:
    for recipe in (Recipe(jobs=3000, procs=100, load=0.5), Recipe(jobs=3000, procs=7, load=3.0, kinds="apart")):
        made = make_log(np.random.default_rng(1), replace(recipe, waits="none"))
        span = made.submit_time[-1] - made.submit_time[0]
        assert len(made) == recipe.jobs
        assert (made.run_time * made.procs()).sum() / span / recipe.procs == pytest.approx(recipe.load, rel=1e-3)
        assert made.procs().max() <= recipe.procs
        assert np.all(np.diff(made.submit_time) >= 0)
        assert np.isnan(made.wait_time).all()


def test_two_kinds_come_apart(log) -> None:
    made = make_log(np.random.default_rng(1), Recipe(jobs=5000, kinds="apart"))
    queue = np.array(made.nominal("queue_id").decode())
    assert set(queue.tolist()) == {0, 1}
    assert made.procs()[queue == 0].max() <= 45
    assert np.median(made.run_time[queue == 0]) < np.median(made.run_time[queue == 1])
    assert log.nominal("queue_id").categories == ()


def test_requests_have_modes_and_are_kept(log) -> None:
    values, count = np.unique(log.req_time, return_counts=True)
    assert np.sort(count)[-20:].sum() / len(log) == pytest.approx(HEAD_SHARE, abs=0.05)
    assert np.all(log.run_time <= log.req_time)
    assert np.all(values % 60 == 0)
    assert values[-1] == 172800.0
    assert count[-1] > 0.03 * len(log)
    killed = np.array(log.nominal("status").decode()) == "timeout"
    assert 0.03 < killed.mean() < 0.12
    assert np.all(log.run_time[killed] == log.req_time[killed])


def test_nobody_is_killed_where_none_is_asked_for() -> None:
    made = make_log(np.random.default_rng(2), Recipe(jobs=4000, killed=0.0, waits="none"))
    assert set(made.nominal("status").decode()) == {"completed"}
    runs = draw_run_times(np.random.default_rng(3), ALL, made.procs())
    one, other = np.sort(made.run_time), np.sort(runs)
    assert np.abs(np.searchsorted(one, other) - np.arange(len(other))).max() / len(other) < 0.05  # as drawn


def test_a_request_covers_the_need_and_the_shares_are_met() -> None:
    rng = np.random.default_rng(4)
    needed, jobs = np.exp(rng.gamma(4.2, 0.94, 20_000)).clip(max=86000), rng.integers(1, 20, 20_000)
    values, shares = draw_habits(rng, needed, jobs, 86400.0)
    asked = draw_requests(rng, needed, jobs, values, shares, np.zeros(20_000, bool))
    assert np.all(asked >= needed)
    got = np.array([jobs[asked == value].sum() for value in values]) / jobs.sum()
    assert np.abs(got - shares).max() < 0.01


def test_users_repeat_what_they_ran(log) -> None:
    user, app = log.nominal("user_id").codes, log.nominal("app_id").codes
    assert 0.25 < np.mean(user[1:] == user[:-1]) < 0.8
    assert np.bincount(user).max() > 20 * np.median(np.bincount(user))
    for number in np.unique(app)[::50]:
        mine = app == number
        assert len(set(zip(user[mine], log.req_time[mine], log.procs()[mine]))) == 1
    last2 = simulate(log, Policy(), "last_2").planned_run_time
    run = log.run_time
    assert np.abs(last2 - run).mean() < 0.7 * np.abs(log.req_time - run).mean()


def test_an_application_is_of_one_kind_and_size() -> None:
    rng = np.random.default_rng(6)
    sizes, kinds, runs = rng.integers(1, 9, 3000), rng.integers(0, 2, 3000), rng.lognormal(6, 2, 3000)
    apps = group_jobs(rng, sizes, kinds, runs, 0.4, 64)
    assert sorted(apps.order.tolist()) == list(range(3000))
    for number in range(int(apps.number[-1]) + 1):
        mine = apps.order[apps.number == number]
        assert len(set(zip(sizes[mine], kinds[mine]))) == 1


def test_recorded_waits_are_those_of_easy(log) -> None:
    assert np.array_equal(simulate(log, Policy(), "requested").wait_time, log.wait_time)


def test_a_seed_is_a_log() -> None:
    recipe = Recipe(jobs=300, procs=32)
    one, same, other = (make_log(np.random.default_rng(seed), recipe) for seed in (1, 1, 2))
    assert list(write_chunks(one)) == list(write_chunks(same)) != list(write_chunks(other))


@pytest.mark.parametrize(("jobs", "procs"), [(2, 1), (3, 3), (50, 2**20)])
def test_small_and_large_are_possible(jobs: int, procs: int) -> None:
    assert len(make_log(np.random.default_rng(0), Recipe(jobs=jobs, procs=procs, users=1))) == jobs


@pytest.mark.parametrize(
    "wrong",
    [{"jobs": 1}, {"procs": 0}, {"load": 0.0}, {"load": float("nan")}, {"users": 0}, {"kinds": "all"}, {"longest": 1.0},
     {"killed": 0.6}, {"spread": -1.0}, {"waits": "fcfs"}],
)  # fmt: skip
def test_a_recipe_must_make_sense(wrong) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(wrong))}.*accepted"):
        Recipe(**wrong)
