"""Tests the synthetic workload: requested values, habits, daily rhythm, recorded waits; the bundled demo comes from
it."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pytest
from tools.demo_log import ROUND_LIMITS, SITE, Site, demo_workload, draw_arrivals, synthesize

from batchcast.errors import UsageError
from batchcast.formats.swf import write_chunks
from batchcast.simulation.policy import Policy
from batchcast.simulation.simulate import simulate
from batchcast.trace import demo_path, read_trace


@pytest.fixture(scope="module")
def demo():
    return read_trace(demo_path(), strict=True)


def test_the_generator_makes_the_bundled_file_again() -> None:
    text = "".join(write_chunks(demo_workload()))
    assert gzip.decompress(demo_path().read_bytes()).decode() == text


def test_the_demo_is_the_site_that_was_asked_for(demo) -> None:
    assert len(demo) == SITE.jobs
    assert demo.info.max_procs == SITE.procs
    assert demo.info.notes == ()
    run, procs = np.nan_to_num(demo.run_time), demo.procs()
    span = demo.submit_time[-1] - demo.submit_time[0]
    assert 0.7 < (run * procs).sum() / (span * SITE.procs) < 0.85
    assert set(demo.req_time.tolist()) <= set(ROUND_LIMITS)
    assert np.all(demo.run_time[~np.isnan(demo.run_time)] <= demo.req_time[~np.isnan(demo.run_time)])


def test_users_repeat_themselves_and_pad_their_limits(demo) -> None:
    ran = ~np.isnan(demo.run_time)
    assert np.median(demo.run_time[ran] / demo.req_time[ran]) < 0.3
    user, app = demo.nominal("user_id").codes, demo.nominal("app_id").codes
    last: dict[int, int] = {}
    repeats = 0
    for u, a in zip(user.tolist(), app.tolist()):
        repeats += last.get(u) == a
        last[u] = a
    assert repeats > len(demo) / 2


def test_recorded_waits_are_those_of_a_scheduler_planning_with_the_limits(demo) -> None:
    ran = ~np.isnan(demo.run_time)
    schedule = simulate(demo, Policy(), "requested")
    assert np.array_equal(schedule.wait_time, demo.wait_time[ran])
    assert demo.wait_time.mean() > 3600  # the queue is long enough to make predictions useful
    gone = demo.take(~ran)
    assert set(gone.nominal("status").decode()) == {"cancelled"}
    assert np.all(gone.wait_time >= 60)


def test_fewer_jobs_come_at_night_and_on_weekends() -> None:
    drawn = np.array(draw_arrivals(np.random.default_rng(3), 20000, 4 * 7 * 86400.0))
    hour, day = drawn // 3600 % 24, drawn // 86400 % 7
    assert (hour == 10).sum() > 3 * (hour == 3).sum()
    assert 5 * (day >= 5).sum() < 2 * (day < 5).sum() * 2
    assert np.all(np.diff(drawn) >= 0)


def test_a_seed_is_a_workload() -> None:
    site = replace(SITE, jobs=60, users=5, procs=16)
    one, same, other = (synthesize(np.random.default_rng(seed), site) for seed in (1, 1, 2))
    assert list(write_chunks(one)) == list(write_chunks(same)) != list(write_chunks(other))


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"load": 1.0}, {"users": 0}, {"cancelled": 1.0}])
def test_a_site_must_make_sense(wrong) -> None:
    with pytest.raises(UsageError):
        Site(**wrong)


@pytest.mark.parametrize("site", [Site(jobs=1, users=1, procs=1), Site(jobs=3, users=1, procs=2, cancelled=0.0)])
def test_the_smallest_sites_work(site: Site) -> None:
    assert len(synthesize(np.random.default_rng(0), site)) == site.jobs
