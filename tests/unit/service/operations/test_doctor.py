"""Tests that doctor fails if something is wrong although every part answers."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from batchcast.formats.sighting import Sighting
from batchcast.machines.machine import homogeneous
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.service import batch_system
from batchcast.service.answers import track_record
from batchcast.service.answers.accuracy import accuracy, calibration, calibration_verdicts
from batchcast.service.answers.disclosure import Site, Viewer, open_site
from batchcast.service.operations import doctor
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.place import machine_path
from batchcast.store.reader import Reader
from batchcast.trace.machine_files import toml_of

NOW = 1_000_000.0


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(doctor.time, "time", lambda: NOW)
    store = str(tmp_path / "s.db")
    remember(store, snapshot_at=NOW - 10, cycle_at=NOW - 10, told_until=NOW - 20, site={"private": False})
    return store


def remember(path: str, **values: Any) -> None:
    with Store(path, create=True).begin() as connection:
        clock_jobs.write_meta(connection, "c", **values)


def state(path: str, check: str, **settings: Any) -> str:
    findings = doctor.store_findings(load({"store": path, **settings}, {}))
    return next(f["state"] for f in findings if f["check"] == check)


@pytest.mark.parametrize(("ago", "wanted"), [(10, "ok"), (300, "warning"), (700, "failed"), (86400, "failed")])
def test_nothing_seen_for_long(path: str, ago: float, wanted: str) -> None:
    remember(path, snapshot_at=NOW - ago, cycle_at=NOW - ago, told_until=NOW - ago)
    assert state(path, "collector") == wanted


@pytest.mark.parametrize(("kept", "wanted"), [(0.95, "ok"), (0.88, "ok"), (0.13, "failed"), (0.6, "failed")])
def test_a_track_record_below_its_level(path: str, kept: float, wanted: str) -> None:
    wait, jobs = 100.0, range(100)
    with Store(path).begin() as connection:
        seen = [Sighting(str(k), str(k), NOW - 5000 + k, "RUNNING", start_time=NOW - 5000 + k + wait) for k in jobs]
        history.take_in(connection, "c", seen, NOW)
        rows = [job.request.row for job in clock_jobs.untold_jobs(connection, "c", NOW)]
        for k, row in enumerate(rows):
            bound = 150.0 if k < kept * len(rows) else 50.0
            one = {"row": row, "kind": "wait", "moment": "submit", "method": "recent_wait", "as_of": NOW - 5000}
            prediction = Prediction(40.0, (0.9,), (bound,), "like jobs")
            clock_jobs.issue(connection, [{**one, "issued_at": NOW, "prediction": prediction}])
    assert state(path, "track record") == wanted


def run_times(path: str, jobs: int, fell_back: int) -> None:
    """Run-time predictions of irpa, this many of them from its fallback."""
    with Store(path).begin() as connection:
        seen = [Sighting(str(k), str(k), NOW - 3000 + k, "PENDING", reason="Priority", requested={"user_id": "ada"})
                for k in range(jobs)]  # fmt: skip
        history.take_in(connection, "c", seen, NOW)
        rows = [job.request.row for job in clock_jobs.untold_jobs(connection, "c", NOW)]
        one = {"kind": "runtime", "moment": "submit", "method": "irpa", "as_of": NOW - 3000, "issued_at": NOW - 3000}
        why = "no readable features (kpoints, volume unknown): mean of 3 jobs"
        for k, row in enumerate(rows):
            grounds, basis = (Grounds.FALLBACK, why) if k < fell_back else (Grounds.MODEL, "irpa on 99 finished jobs")
            prediction = Prediction(60.0, basis=basis, grounds=grounds)
            clock_jobs.issue(connection, [{**one, "row": row, "prediction": prediction}])


def site_of(path: str) -> Site:
    return Site(Reader(path), "c", {}, False, load({}, {}), Viewer(None), NOW)


def test_a_method_that_always_falls_back_is_a_warning_with_the_reason(path: str) -> None:
    run_times(path, 30, 30)
    (found,) = [f for f in doctor.store_findings(load({"store": path}, {})) if f["check"] == "fallback"]
    assert found["state"] == "warning"
    assert "irpa fell back for 100% of 30 jobs" in found["found"]
    assert "no readable features (kpoints, volume unknown)" in found["found"]
    (row,) = accuracy(site_of(path), NOW - 5000, NOW)
    assert (row["fell_back_share"], row["fell_back_why"]) == (1.0, "no readable features (kpoints, volume unknown)")


@pytest.mark.parametrize(("jobs", "fell_back"), [(30, 10), (5, 5)])
def test_few_fallbacks_or_few_jobs_are_no_warning(path: str, jobs: int, fell_back: int) -> None:
    run_times(path, jobs, fell_back)
    assert not [f for f in doctor.store_findings(load({"store": path}, {})) if f["check"] == "fallback"]


def growing(path: str, jobs: int) -> None:
    """A growing queue in which every job waits; `short` predicted 50 s and `long` 10,000 s for each."""
    with Store(path).begin() as connection:
        main = {"partition_id": "main"}
        seen = [Sighting(str(k), str(k), NOW - 3000 + k, "PENDING", reason="Priority", requested=main)
                for k in range(jobs)]  # fmt: skip
        history.take_in(connection, "c", seen, NOW)
        rows = [job.request.row for job in clock_jobs.untold_jobs(connection, "c", NOW)]
        for method, bound in (("short", 50.0), ("long", 10_000.0)):
            shared = {
                "kind": "wait",
                "moment": "submit",
                "method": method,
                "as_of": NOW - 3000,
                "issued_at": NOW - 3000,
            }
            prediction = Prediction(40.0, (0.9,), (bound,), "like jobs")
            clock_jobs.issue(connection, [{**shared, "row": row, "prediction": prediction} for row in rows])


def test_a_bound_that_does_not_hold_is_said_before_the_first_job_has_started(path: str) -> None:
    growing(path, 3)
    record = track_record.track_record(Reader(path), "c", "main", "short", 0.0, now=NOW)
    assert (record["forecasts"], record["overdue"], record["coverage_90"]) == (0, 3, 0.0)
    held = track_record.track_record(Reader(path), "c", "main", "short", 0.0, 5, NOW)
    assert held == {}, "where jobs are hidden a few jobs are nobody's figure"


def test_on_a_growing_queue_the_method_answers_whose_bound_holds(path: str) -> None:
    growing(path, 40)
    methods = ["short", "long"]
    assert track_record.best_of(path, "c", methods, NOW) == "short", "the other's promise cannot be judged yet"
    with Store(path).begin() as connection:  # some jobs start, late by one method and in time by the other
        seen = [Sighting(str(k), str(k), NOW - 9000 + k, "RUNNING", start_time=NOW - 5000 + k) for k in range(100, 130)]
        history.take_in(connection, "c", seen, NOW)
        rows = [
            job.request.row for job in clock_jobs.untold_jobs(connection, "c", NOW) if int(job.request.job_id) >= 100
        ]
        for method, bound in (("short", 50.0), ("long", 10_000.0)):
            shared = {
                "kind": "wait",
                "moment": "submit",
                "method": method,
                "as_of": NOW - 9000,
                "issued_at": NOW - 9000,
            }
            prediction = Prediction(40.0, (0.9,), (bound,), "like jobs")
            clock_jobs.issue(connection, [{**shared, "row": row, "prediction": prediction} for row in rows])
    best = track_record.best_of(path, "c", methods, NOW)
    assert best == "long"
    assert track_record.answering_method({"wait_methods": methods, "answers_by": best}) == "long"
    assert track_record.answering_method({"wait_methods": ["short"], "answers_by": best}) == "short", "no longer run"


@pytest.mark.parametrize(("missed", "answers"), [(lambda k: 40 <= k < 70, "first"), (lambda k: k % 10 < 3, "second")])
def test_one_bad_spell_does_not_change_the_method_and_misses_all_along_do(path, missed, answers) -> None:
    """A drained node makes every job late that waits at that time, which says nothing about other days."""
    with Store(path).begin() as connection:
        seen = [Sighting(str(k), str(k), NOW - 9000 + k, "RUNNING", start_time=NOW - 8900 + k) for k in range(100)]
        history.take_in(connection, "c", seen, NOW)
        for k, row in enumerate(job.request.row for job in clock_jobs.untold_jobs(connection, "c", NOW)):
            for method, bound in (("first", 50.0 if missed(k) else 150.0), ("second", 10_000.0)):
                one = {"row": row, "kind": "wait", "moment": "submit", "method": method, "as_of": NOW - 9000 + k}
                prediction = Prediction(40.0, (0.9,), (bound,), "like jobs")
                clock_jobs.issue(connection, [{**one, "issued_at": NOW, "prediction": prediction}])
    assert track_record.best_of(path, "c", ["first", "second"], NOW) == answers


def test_what_is_in_force_is_said_not_what_a_file_says(path: str) -> None:
    remember(path, site={"private": True})
    findings = {f["check"]: f for f in doctor.store_findings(load({"store": path}, {}))}
    assert "yes: users see their own" in findings["jobs are private"]["found"]
    findings = {f["check"]: f for f in doctor.store_findings(load({"store": path, "private": "off"}, {}))}
    assert "no: every user sees all jobs, by private = no" in findings["jobs are private"]["found"]


def test_two_places_that_name_different_stores_are_a_failure(tmp_path: Path) -> None:
    config = tmp_path / "b.toml"
    config.write_text('store = "postgresql://ada:secret@db/jobs"\n')
    settings = load({}, {"BATCHCAST_CONFIG": str(config), "BATCHCAST_STORE": "/var/lib/batchcast/store.db"})
    (one,) = (f for f in doctor.check(settings, ask=False) if f["check"] == "setting store")
    assert one["state"] == "failed"
    assert "secret" not in str(one)
    assert "postgresql://db/jobs" in one["found"]


@pytest.mark.parametrize(("since", "lines"), [("jobacct_gather/none", 1), ("jobacct_gather/linux", 2)])
def test_how_memory_is_measured_is_said_once_unless_it_changed_since_the_last_look(
    path: str, monkeypatch: pytest.MonkeyPatch, since: str, lines: int
) -> None:
    remember(path, site={"private": False, "gathers": {"Type": since}})
    now = doctor.gathering({"Type": "jobacct_gather/none"}) | {"check": "memory now"}
    monkeypatch.setattr(doctor, "_daemons", lambda settings: iter([now]))
    said = [f["check"] for f in doctor.check(load({"store": path}, {})) if f["check"] in ("memory", "memory now")]
    assert said == ["memory now", "memory"][:lines]


@pytest.mark.parametrize(("free", "wanted"), [(1e9, "ok"), (100e6, "warning"), (1e6, "failed")])
def test_a_disk_without_room_is_a_failure(path: str, monkeypatch: pytest.MonkeyPatch, free: float, wanted: str) -> None:
    """Regression: doctor only warned "0.0 GB free" although the collector could no longer write anything."""
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert state(path, "store's disk") == wanted


@pytest.mark.parametrize(
    ("problem", "wanted"),
    [("the disk of /s.db is full (...); nothing was written", "failed"), ("slurmdbd is away", "warning")],
)
def test_what_went_wrong_in_the_last_cycle_is_said_in_the_logs_words(path: str, problem: str, wanted: str) -> None:
    remember(path, problems=[problem])
    found = {f["check"]: f for f in doctor.store_findings(load({"store": path}, {}))}
    assert (found["last cycle"]["state"], found["last cycle"]["found"]) == (wanted, problem)


@pytest.mark.parametrize(
    ("name", "remedy"), [("not_kept", "free disk space there"), ("methods_not_kept", "let pickle save the method")]
)
def test_a_model_that_is_not_saved_is_a_warning_with_the_remedy_of_its_cause(path: str, name: str, remedy: str) -> None:
    def found() -> list[dict[str, Any]]:
        return [f for f in doctor.store_findings(load({"store": path}, {})) if f["check"] == "what was learned"]

    remember(path, not_kept=None, methods_not_kept=None)
    assert found() == []
    remember(path, **{name: "the cause"})
    (finding,) = found()
    assert (finding["state"], finding["found"]) == ("warning", "not kept: the cause")
    assert finding["do"].startswith(remedy)


def test_a_collector_that_cannot_see_jobs_is_a_failure_with_the_command(path: str) -> None:
    assert "collector's sight" not in {f["check"] for f in doctor.store_findings(load({"store": path}, {}))}
    remember(path, blind={"since": NOW - 60, "why": "Slurm hides jobs"}, collected_by="batchcast")
    found = {f["check"]: f for f in doctor.store_findings(load({"store": path}, {}))}["collector's sight"]
    assert found["state"] == "failed"
    assert "sacctmgr add user batchcast account=ACCOUNT adminlevel=operator" in found["do"]


@pytest.mark.parametrize(
    ("kept", "named", "state", "said"),
    [
        (3, "", "ok", "3 nodes, 1 partitions, equal to Slurm's present configuration"),
        (2, "", "failed", "nodes are new: n3"),
        (0, "", "warning", "not captured yet"),
        (2, "none", "warning", "machine = none"),
    ],
)
def test_a_machine_that_is_not_what_slurm_says_is_a_failure(
    path: str, monkeypatch: pytest.MonkeyPatch, kept: int, named: str, state: str, said: str
) -> None:
    """Regression: doctor did not report an outdated machine; jobs ran in a new partition that --test did not know."""
    if kept:
        machine_path(path, "c").write_text(toml_of(homogeneous(kept, 4)))
    now = SimpleNamespace(machine=lambda: homogeneous(3, 4))
    monkeypatch.setattr(batch_system, "open_scheduler", lambda _: (now, dict))
    found = doctor.machine_finding(load({"store": path, "machine": named}, {}), "c", {})
    assert (found["state"], said in found["found"]) == (state, True)


def test_accuracy_and_start_count_the_jobs_that_wait_past_their_bound_alike(path: str) -> None:
    """Regression: at the same time `accuracy` showed 94 % and `start` 77 %, because the headline of `accuracy` counted
    only started jobs."""
    growing(path, 25)
    with Store(path).begin() as connection:
        started = [Sighting(f"90{k}", f"90{k}", NOW - 9000 + k, "COMPLETED", start_time=NOW - 8990 + k,
                            end_time=NOW - 8000, requested={"partition_id": "main"}) for k in range(25)]  # fmt: skip
        history.take_in(connection, "c", started, NOW)
        jobs = [job.request for job in clock_jobs.untold_jobs(connection, "c", NOW)]
        rows = [job.row for job in jobs if str(job.job_id).startswith("90")]
        shared = {"kind": "wait", "moment": "submit", "method": "short", "as_of": NOW - 9000, "issued_at": NOW - 9000}
        said = Prediction(40.0, (0.9,), (50.0,), "like jobs")
        clock_jobs.issue(connection, [{**shared, "row": row, "prediction": said} for row in rows])
    site = {"private": False, "partitions": {"main": {}}}
    remember(path, wait_methods=["short"], answers_by="short", site=site)
    record = track_record.track_record(Reader(path), "c", "main", "short", 0.0, now=NOW)
    shown = calibration(load({"store": path, "cluster": "c"}, {}), Viewer(None, sees_all=True), NOW)
    assert (record["overdue"], record["coverage_90"]) == (25, 0.5)
    for figures in (shown["headline"], shown["partitions"][0]):
        assert (figures["forecasts"], figures["overdue"], figures["coverage_90"]) == (50, 25, 0.5)
        assert figures["median_ae_s"] == 30.0, "of those that started"
    row = next(row for row in accuracy(site_of(path), 0.0, math.inf) if row["predictor"] == "short")
    assert (row["came_out"], row["overdue"], row["coverage_90"]) == (25, 25, 0.5)
    with open_site(load({"store": path, "cluster": "c"}, {}), Viewer(None, sees_all=True), NOW) as site:
        verdicts = {one["of"]: one["verdict"] for one in calibration_verdicts(site, None)}
    assert verdicts == {
        "all jobs (too few had predicted waits of 10 min or more)": "too early",
        "partition main": "too early",
    }
    (found,) = doctor._coverage(Reader(path), "c", {"wait_methods": ["short"]}, NOW)
    assert found["state"] == "failed"
    assert found["found"].startswith(
        "50% of 50 jobs of the last 30 days started by the 90 % time of short; 25 still wait"
    )


def test_doctor_fails_when_accuracy_says_that_long_waits_are_not_reliable(path: str) -> None:
    """Most jobs start at once, as predicted, and hide that the bounds of waiting jobs do not hold."""
    with Store(path).begin() as connection:
        started = [Sighting(f"9{k}", f"9{k}", NOW - 90_000 + k, "COMPLETED", start_time=NOW - 80_000 + k,
                            end_time=NOW - 8000, requested={"partition_id": "main"}) for k in range(25)]  # fmt: skip
        started += [Sighting(f"8{k}", f"8{k}", NOW - 90_000 + k, "COMPLETED", start_time=NOW - 90_000 + k,
                             end_time=NOW - 8000, requested={"partition_id": "main"}) for k in range(500)]  # fmt: skip
        history.take_in(connection, "c", started, NOW)
        jobs = [job.request for job in clock_jobs.untold_jobs(connection, "c", NOW)]
        shared = {
            "kind": "wait",
            "moment": "submit",
            "method": "short",
            "as_of": NOW - 90_000,
            "issued_at": NOW - 90_000,
        }
        for job in jobs:
            point = 700.0 if str(job.job_id).startswith("9") else 40.0
            said = Prediction(point, (0.9,), (point + 10.0,), "like jobs")
            clock_jobs.issue(connection, [{**shared, "row": job.row, "prediction": said}])
    remember(path, wait_methods=["short"], answers_by="short", site={"private": False, "partitions": {"main": {}}})
    with open_site(load({"store": path, "cluster": "c"}, {}), Viewer(None, sees_all=True), NOW) as site:
        first = calibration_verdicts(site, None)[0]
    assert (first["forecasts"], first["verdict"]) == (25, "too early")
    (found,) = doctor._coverage(Reader(path), "c", {"wait_methods": ["short"]}, NOW)
    assert found["state"] == "failed"
    assert "0% of 25 with a predicted wait of 10 min or more" in found["found"]
