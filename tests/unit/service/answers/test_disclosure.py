"""Tests figures at a private site: no two answers reveal one job by subtraction."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchcast.formats.sighting import Sighting
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.http import api
from batchcast.service.settings import Settings, load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store

DAY = 86400.0
NOW = 30 * DAY + 5000.0


def finished(job_id: int, user: str, end: float, limit: float = 3600.0) -> Sighting:
    asked = {"user_id": user, "partition_id": "main", "account": "physics", "req_time": limit, "req_procs": 4.0}
    return Sighting(str(job_id), str(job_id), end - 500, "COMPLETED", start_time=end - 400, end_time=end,
                    requested=asked, allocated={"alloc_procs": 4.0})  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Settings:
    """Six users have jobs on each of 29 days. A seventh user, `victim`, alone has a job that ended today, and a job on
    the day before, on which no other job ended."""
    path = str(tmp_path / "s.db")
    store = Store(path, create=True)
    jobs = [finished(10 * day + k, f"user{k}", day * DAY + 1000 + k) for day in range(29) for k in range(6)]
    jobs += [finished(9000, "victim", NOW - 2.0, limit=77777.0), finished(9001, "victim", 29 * DAY + 500, 66666.0)]
    with store.begin() as connection:
        history.take_in(connection, "c", jobs, NOW)
        clock_jobs.write_meta(connection, "c", site={"private": True, "partitions": {}}, cycle_at=NOW, told_until=NOW)
    return load({"store": path, "private": "yes"}, {})


def report(settings: Settings, **given: Any) -> dict[str, Any]:
    target = "/v1/report?" + "&".join(f"{k}={v}" for k, v in {"partition": "main", **given}.items())
    answer = api.reply(settings, target, Viewer("mallory"), now=NOW)
    assert answer.status == 200, answer.body
    (only,) = json.loads(answer.body)["results"]
    return only


def test_reports_a_second_apart_are_the_same(site: Settings) -> None:
    before, after = (report(site, starttime="uts0", endtime=f"uts{NOW - ago:.0f}") for ago in (3, 1))
    assert before == after


def test_spans_differ_by_days_of_several_users_or_not_at_all(site: Settings) -> None:
    whole = report(site, starttime="uts0")
    quiet = report(site, starttime="uts0", endtime=f"uts{30 * DAY:.0f}")
    assert whole == quiet, "the day on which one user alone ended a job is in no figure"
    assert whole["users"] == 6


def test_figures_are_rounded_to_two_digits(site: Settings) -> None:
    for name, value in report(site, starttime="uts0").items():
        if isinstance(value, int | float):
            assert len(f"{abs(value):e}".split("e")[0].rstrip("0").replace(".", "")) <= 2, name


@pytest.mark.parametrize("of", ["jobs", "hours"])
def test_a_sum_in_which_one_user_has_nearly_all_is_not_shown(of: str, tmp_path: Path) -> None:
    """Six users, where the second largest could compute the largest user's amount to within a tenth: the p % rule."""
    path = str(tmp_path / "s.db")
    jobs = [finished(k, f"user{k}", DAY + 1000 + k) for k in range(6)]
    if of == "jobs":
        jobs += [finished(100 + k, "victim", DAY + 900 + k) for k in range(60)]
    else:
        jobs += [finished(100, "victim", DAY + 60_000)._replace(start_time=DAY - 10_000)]
    with Store(path, create=True) as store, store.begin() as connection:
        history.take_in(connection, "c", jobs, NOW)
        clock_jobs.write_meta(connection, "c", site={"private": True, "partitions": {}}, cycle_at=NOW, told_until=NOW)
    settings = load({"store": path, "private": "yes"}, {})
    target = "/v1/report?partition=main&starttime=uts0"
    assert api.reply(settings, target, Viewer("mallory"), now=NOW).status == 404
    shared = api.reply(load({"store": path, "private": "no"}, {}), target, Viewer("mallory"), now=NOW)
    assert len(json.loads(shared.body)["results"]) == 7, "an open site shows each user"


@pytest.mark.parametrize("who", [Viewer("mallory"), Viewer(None)])
def test_a_day_of_one_user_is_no_answer(site: Settings, who: Viewer) -> None:
    target = f"/v1/report?partition=main&starttime=uts{29 * DAY:.0f}"
    assert api.reply(site, target, who, now=NOW).status == 404


def test_ones_own_figures_are_exact_and_of_now(site: Settings) -> None:
    answer = api.reply(site, "/v1/report?user=victim&starttime=uts0", Viewer("victim"), now=NOW)
    (only,) = json.loads(answer.body)["results"]
    assert only["jobs"] == 2


def test_a_private_export_is_of_ones_own_jobs(site: Settings, make_export: Callable[..., Any]) -> None:
    assert set(make_export(site, Viewer("victim")).nominal("user_id").decode()) == {"victim"}
    assert len(make_export(site, Viewer("root", sees_all=True))) == 29 * 6 + 2


@pytest.fixture
def make_export() -> Callable[..., Any]:
    from batchcast.service.answers.disclosure import exported

    return lambda settings, asker: exported(settings, asker).trace


def figures(settings: Settings, query: str) -> tuple[int, Any]:
    """Return status and results, or else the error, of a report about the days before today."""
    answer = api.reply(settings, f"/v1/report?starttime=uts0{query}", Viewer("mallory"), now=NOW)
    document = json.loads(answer.body)
    return answer.status, document.get("results") or document


@pytest.mark.parametrize(("jobs", "run_s"), [(1, 3600.0), (5, 1800.0), (12, 60.0)])
def test_no_pair_of_reports_tells_the_jobs_of_one_account_or_partition(tmp_path: Path, jobs: int, run_s: float) -> None:
    """Two sites, of which one has jobs of one more user, alone in an account and a partition, answer all alike."""
    sites = []
    for name in ("without", "with"):
        told = [finished(k, f"user{k}", DAY + 1000 + k) for k in range(8)]
        if name == "with":
            alone = {"user_id": "bob", "account": "phys", "partition_id": "gpu", "req_time": 7200.0, "req_procs": 4.0}
            told += [
                Sighting(str(100 + k), str(100 + k), DAY, "COMPLETED", start_time=DAY + 10, end_time=DAY + 10 + run_s,
                         requested=alone, allocated={"alloc_procs": 4.0})
                for k in range(jobs)
            ]  # fmt: skip
        path = str(tmp_path / name)
        with Store(path, create=True) as store, store.begin() as connection:
            history.take_in(connection, "c", told, NOW)
            meta = {"cycle_at": NOW, "told_until": NOW}
            clock_jobs.write_meta(connection, "c", site={"private": True, "partitions": {}}, **meta)
        sites.append(load({"store": path, "private": "yes"}, {}))
    for query in ("", "&partition=main", "&partition=gpu", "&account=physics", "&account=phys",
                  "&partition=main&account=physics"):  # fmt: skip
        without, with_bob = (figures(site, query) for site in sites)
        assert without == with_bob, query
    assert figures(sites[0], "&partition=main")[0] == 200, "the control: a report is answered"
    assert figures(sites[0], "&account=physics")[0] == 403
