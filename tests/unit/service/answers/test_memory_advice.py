"""Tests memory and limits on the live clock: learned when accounting reports them, predicted, suggested and scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from batchcast.errors import NoAnswer
from batchcast.formats.sighting import Sighting, Site, Snapshot
from batchcast.service.answers import disclosure, questions
from batchcast.service.answers.accuracy import MEMORY, advice_record
from batchcast.service.answers.advice import Similar, advise_memory, measured_memory, rules_of
from batchcast.service.answers.disclosure import Viewer, open_site
from batchcast.service.answers.questions import Hints, Like
from batchcast.service.collector.cycle import Collector
from batchcast.service.operations.doctor import gathering, memory_findings
from batchcast.service.settings import Settings, load
from batchcast.store.database import Store
from batchcast.store.reader import Reader

LINUX = {"Type": "jobacct_gather/linux", "Frequency": "30", "Params": ""}
MIB = 1024.0


@dataclass
class Cluster:
    """Jobs of 40 s, one after the other; the queue shows their ends, and accounting also their memory."""

    peaks: list[float]
    asked: float = 1000 * MIB
    status: str = "COMPLETED"
    gathers: dict[str, str] = field(default_factory=lambda: dict(LINUX))
    time: float = 1000.0
    runs: list[float] | None = None
    every: float = 100.0

    def now(self) -> float:
        return self.time

    def ticks(self) -> float:
        return self.time

    def nodes_away(self) -> tuple[()]:
        return ()

    def reservations(self) -> list[dict[str, Any]]:
        return []

    def hides_jobs(self) -> bool:
        return False

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        return Snapshot(self.time, ())

    def site(self) -> Site:
        partitions = {"main": {"node_mem_kib": 4000 * MIB, "max_time_s": 86400.0, "is_default": 1.0}}
        return Site("c", "22.05", 1e6, False, 16.0, True, partitions, gathers=self.gathers)

    def snapshot(self) -> Snapshot:
        jobs = (self._seen(k, False) for k in range(len(self.peaks)))
        return Snapshot(self.time, tuple(s for s in jobs if s.submit_time <= self.time))

    def history(self, since: float, until: float) -> Snapshot:
        jobs = (self._seen(k, True) for k in range(len(self.peaks)))
        return Snapshot(self.time, tuple(s for s in jobs if since <= s.end_time <= min(until, self.time)))

    def _seen(self, k: int, accounted: bool) -> Sighting:
        submit = 1010.0 + self.every * k
        run = 40.0 if self.runs is None else self.runs[k]
        over = submit + 10 + run <= self.time
        asked: dict[str, Any] = {"user_id": "ada", "partition_id": "main", "req_procs": 2.0, "req_time": 600.0,
                                 "req_mem_kib": 2 * self.asked, "req_nodes": 2.0, "job_name": "relax"}  # fmt: skip
        held: dict[str, Any] = {"alloc_procs": 2.0, "alloc_nodes": 2.0}
        if accounted and not math.isnan(self.peaks[k]):
            held["used_mem_kib"] = 2 * self.peaks[k]
        state = self.status if over else "RUNNING" if submit + 10 <= self.time else "PENDING"
        return Sighting(
            str(k), str(k), submit, state, start_time=math.nan if state == "PENDING" else submit + 10,
            end_time=submit + 10 + run if over else math.nan,
            requested=asked, allocated={} if state == "PENDING" else held,
            unmeasured="zero" if accounted and math.isnan(self.peaks[k]) else "",
        )  # fmt: skip


@pytest.fixture
def settings(url: str) -> Settings:
    given = {
        "store": url,
        "history_days": 0.1,
        "runtime": "recent_mean",
        "wait": "recent_wait",
        "memory": "recent_mean",
        "limits": "",
    }
    return load(given, {})


def follow(cluster: Cluster, settings: Settings, since: float = 1000.0, restart: float = math.inf) -> None:
    """Run a cycle every 30 s until the last job has ended; accounting is queried every 300 s."""
    collector = Collector(cluster, Store(settings["store"], create=True), settings)
    for k in range(int((1010 + 100 * len(cluster.peaks) + 700 - since) // 30)):
        cluster.time = since + 30 * k
        if cluster.time - 30 < restart <= cluster.time:
            collector = Collector(cluster, Store(settings["store"]), settings)
        assert collector.cycle().problems == []


def issued(settings: Settings, kind: str) -> list[tuple[Any, ...]]:
    rows = Reader(settings["store"]).rows(
        "SELECT f.point_s, f.outcome_s, f.resolution FROM forecast_outcomes f WHERE kind = :kind ORDER BY row",
        kind=kind,
    )
    return [tuple(row.values()) for row in rows]


def test_a_peak_is_learned_when_accounting_tells_it_and_every_forecast_comes_out(settings: Settings) -> None:
    follow(Cluster([(100.0 + k) * MIB for k in range(8)]), settings)
    forecasts = issued(settings, "memory")
    assert [outcome for _, outcome, _ in forecasts] == [(100.0 + k) * MIB for k in range(8)]
    assert {how for *_, how in forecasts} == {"ended"}
    points = [point / MIB for point, *_ in forecasts]
    assert points[0] == 1000.0  # without history, the request is the prediction
    assert points[-1] < 110.0
    told = next(k for k, point in enumerate(points) if point < 1000.0)
    assert told >= 2  # the queue shows an end at once, but accounting reports the job's memory up to 300 s later


@pytest.mark.long
def test_a_restarted_collector_says_the_same(settings: Settings, tmp_path: Any) -> None:
    """Here accounting is queried in every cycle, because each start triggers a query before the regular interval."""
    peaks = [(100.0 + 7 * k) * MIB for k in range(9)]
    settings = settings.replaced(history_every_s=1.0)
    follow(Cluster(peaks), settings)
    again = settings.replaced(store=str(tmp_path / "other.db"))
    follow(Cluster(peaks), again, restart=1700.0)
    assert issued(settings, "memory") == issued(again, "memory")


def test_nothing_is_forecast_or_issued_where_accounting_measures_none(settings: Settings) -> None:
    follow(Cluster([math.nan] * 3, gathers={"Type": "jobacct_gather/none"}), settings)
    assert issued(settings, "memory") == issued(settings, "request") == []


def test_unmeasured_jobs_are_counted_and_not_learned(settings: Settings) -> None:
    follow(Cluster([math.nan] * 5), settings)
    assert {point for point, *_ in issued(settings, "memory")} == {1000 * MIB}
    reader = Reader(settings["store"])
    (jobs,) = reader.ask("measured", cluster="c", since=0.0)
    assert (jobs["ended"], jobs["measured"], jobs["zero"]) == (5, 0, 5)
    how, found = memory_findings(reader, "c", reader.memory("c"), 2000.0)
    assert how["found"].startswith("jobacct_gather/linux: every 30 s")
    assert "0 of 5 jobs" in found["found"]
    assert "5 ended before a sample" in found["found"]


def test_a_job_that_ran_out_needed_more_than_it_asked_for(settings: Settings) -> None:
    """Memory at the end was sampled earlier, so the request is the better bound."""
    follow(Cluster([90 * MIB] * 8, asked=100 * MIB, status="OUT_OF_MEMORY"), settings)
    forecasts = issued(settings, "memory")
    assert {(outcome, how) for _, outcome, how in forecasts} == {(100 * MIB, "out_of_memory")}


def row(kib: float | None, status: str = "completed", asked: float = 1000 * MIB) -> dict[str, Any]:
    return {"used_mem_kib": kib, "alloc_nodes": 1.0, "req_mem_kib": asked, "req_nodes": 1.0, "status": status}


SITE = {"gathers": LINUX, "partitions": {"main": {"node_mem_kib": 4000 * MIB}}}
DEFAULTS = load({}, {"HOME": "/nowhere"})


def advised(rows: list[dict[str, Any]], site: dict[str, Any] = SITE) -> dict[str, Any]:
    closed: Any = None
    opened = disclosure.Site(closed, "lab", {"site": site}, False, DEFAULTS, Viewer(None), 0.0)
    return advise_memory(opened, Similar(rows, "the name relax", "main", 0.05))


def test_the_smallest_request_that_keeps_the_risk_a_tenth_more_and_up_to_a_step() -> None:
    answer = advised([row((200.0 + k) * MIB) for k in range(40)])
    assert (answer["memory"], answer["memory_risk_kept"], answer["memory_jobs"]) == ("300M", True, 40)
    assert answer["memory_quantile_kib"] == pytest.approx(238 * MIB)
    assert "used 238M per node or less" in answer["memory_why"]


def test_never_more_than_a_node_has() -> None:
    answer = advised([row(3900 * MIB)] * 40)
    assert (answer["memory"], answer["node_memory_kib"]) == ("4000M", 4000 * MIB)
    assert "no node of the partition has more" in answer["memory_why"]


def test_jobs_that_ran_out_raise_the_request_above_theirs() -> None:
    rows = [row(90 * MIB, "out_of_memory", 300 * MIB)] * 5 + [row(100 * MIB)] * 20
    answer = advised(rows)
    assert answer["memory_kib"] > 300 * MIB
    assert (answer["memory_risk_kept"], answer["ran_out_of_memory"]) == (False, 5)


def test_a_copy_of_the_request_is_no_measurement() -> None:
    rows = [row(1000 * MIB)] * 30
    assert measured_memory(rows) is None
    assert advised(rows)["memory"] is None
    assert "memory is not measured" in advised(rows)["memory_why"]


@pytest.mark.parametrize(
    ("gathers", "words"), [({"Type": "jobacct_gather/none"}, "measures no memory"), (LINUX, "5 are needed")]
)
def test_without_measurements_it_is_said_why(gathers: dict[str, str], words: str) -> None:
    answer = advised([row(None)] * 10, {"gathers": gathers})
    assert answer["memory"] is None
    assert words in answer["memory_why"]


@pytest.mark.long
def test_the_record_judges_advice_beside_the_users_own_requests(settings: Settings) -> None:
    follow(Cluster([(100.0 + k % 3) * MIB for k in range(30)]), settings)
    with open_site(settings, Viewer("root", True), 1e9) as site:
        (record,) = advice_record(site, MEMORY, 0.0, math.inf)
    assert record["forecasts"] == 30
    assert record["users_exceeded_rate"] in (0.0,) or math.isnan(record["users_exceeded_rate"])
    said = questions.accuracy(settings, 0.0, math.inf, None, Viewer("root", True), 1e9)
    assert [one["kind"] for one in said.settings["memory"]] == ["memory"]
    assert {one["kind"] for one in said.results} <= {"runtime", "wait"}


def test_where_jobs_are_private_the_record_is_of_several_users(settings: Settings) -> None:
    follow(Cluster([100.0 * MIB] * 5), settings)
    with open_site(settings.replaced(private="yes"), Viewer(None), 1e9) as site:
        assert advice_record(site, MEMORY, 0.0, math.inf) == []


def of_kernel(settings: Settings) -> Settings:
    """Both kinds of suggestions with built-in settings, to the second and the KiB, if accounting is queried in every
    cycle."""
    fine = {"limit_floor": 1.0, "limit_step": 1.0, "memory_floor": 1.0, "memory_step": 1.0, "history_every_s": 1.0}
    return settings.replaced(memory="kernel,largest_recent", limits="calibrated,largest_recent", **fine)


@pytest.mark.long
def test_what_is_advised_is_what_is_kept_and_judged(settings: Settings) -> None:
    """Just before a similar job is submitted, `walltime` gives the suggestion that the collector then stores for that
    job."""
    fine, k = of_kernel(settings), 12
    runs = [25.0 + 7 * (j % 4) for j in range(20)]
    cluster = Cluster([(100.0 + 9 * (j % 5)) * MIB for j in range(20)], runs=runs)
    collector = Collector(cluster, Store(fine["store"], create=True), fine)
    while cluster.time <= 1000.0 + 100 * k:
        assert collector.cycle().problems == []
        cluster.time += 30.0
    (answer,) = questions.walltime(fine, "0", None, "", Viewer("root", True), 0.05, 1010.0 + 100 * k).results
    while cluster.time <= 3800.0:
        assert collector.cycle().problems == []
        cluster.time += 30.0
    rows = Reader(fine["store"]).rows(
        "SELECT f.kind, f.method, f.point_s, f.row FROM forecasts f JOIN jobs j ON j.row = f.row WHERE j.job_id = :job",
        job=str(k),
    )
    kept = {(row["kind"], row["method"]): row["point_s"] for row in rows}
    assert (answer["limit_by"], answer["memory_by"]) == ("calibrated", "kernel")
    assert kept["limit", "calibrated"] == answer["limit_s"]
    assert kept["request", "kernel"] == answer["memory_kib"]
    assert 46.0 <= answer["limit_s"] < 60.0  # their longest run time, without a quarter on top
    said = questions.accuracy(fine, 0.0, math.inf, None, Viewer("root", True), 1e9).settings
    assert [one["predictor"] for one in said["limits"]] == ["calibrated", "largest_recent"]
    advice, rule = said["limits"]
    assert advice["asked_over_used"] < rule["asked_over_used"] < advice["users_asked_over_used"]
    assert advice["coverage_95"] >= 0.8


@pytest.mark.parametrize(("tasks", "learned"), [(2, False), (12, True)])
def test_a_wave_of_tasks_advises_the_next_wave_though_none_of_them_was_advised(
    settings: Settings, tasks: int, learned: bool
) -> None:
    """All tasks of a workflow run are submitted before any has ended; the first task of the next run uses all of
    them."""
    fine = of_kernel(settings)
    cluster = Cluster([(100.0 + k) * MIB for k in range(tasks)], every=0.5)
    collector = Collector(cluster, Store(fine["store"], create=True), fine)
    while cluster.time <= 2000.0:
        assert collector.cycle().problems == []
        cluster.time += 30.0
    reader, hints = Reader(fine["store"]), Hints(rules_of(fine))
    memory = reader.memory("c")
    hints.learn(reader, "c", memory)
    kept = [row["moment"] for row in reader.rows("SELECT moment, method FROM forecasts WHERE kind = 'request'")
            if row["method"] == "kernel"]  # fmt: skip
    assert kept == ["next"] * learned  # there was no suggestion, and one kind of job has one suggestion
    like = Like("ada", "main", "relax", 2.0, 600.0)
    if learned:
        said = hints.about(like, 2100.0, {})
        assert 110 * MIB < said["memory_kib"] < 150 * MIB
        assert 40.0 <= said["limit_s"] < 60.0
        (answer,) = questions.walltime(fine, "0", None, "", Viewer("root", True), 0.05, 2100.0).results
        assert answer["memory_kib"] == said["memory_kib"]
    else:
        with pytest.raises(NoAnswer, match="too few similar jobs have ended"):
            hints.about(like, 2100.0, {})
    judged = reader.ask("issued_memory", cluster="c", since=0.0, until=math.inf, partition=None)
    assert {row["moment"] for row in judged} == {"submit"}


def test_jobs_that_come_to_their_limit_raise_it_and_the_record_cannot_judge_that(settings: Settings) -> None:
    fine = of_kernel(settings)
    cluster = Cluster([100 * MIB] * 12, status="TIMEOUT", runs=[600.0] * 12)
    follow(cluster, fine)
    (answer,) = questions.walltime(fine, "0", None, "", Viewer("root", True), 0.05, 3000.0).results
    assert (answer["limit_s"], answer["risk_kept"], answer["cut_at_limit"]) == (750.0, False, 12)
    assert "reach their limit of 10 min" in answer["why"]
    advice = questions.accuracy(fine, 0.0, math.inf, None, Viewer("root", True), 1e9).settings["limits"][0]
    assert (advice["exceeded_rate"], advice["undecided_rate"], advice["users_exceeded_rate"]) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("gathers", "state", "words"),
    [
        ({"Type": "jobacct_gather/none"}, "warning", "measures no memory"),
        ({"Type": "(null)"}, "warning", "measures no memory"),
        ({"Type": "jobacct_gather/cgroup", "Frequency": "task=15,energy=60"}, "ok", "every 15 s"),
        ({"Type": "jobacct_gather/linux", "Frequency": "0"}, "warning", "only when a step ends"),
        ({**LINUX, "Params": "UsePss,OverMemoryKill"}, "ok", "OverMemoryKill ends jobs by this measurement"),
        ({"Type": "pbs/mom"}, "ok", "resources_used.mem"),
    ],
)
def test_doctor_says_what_the_figure_can_say(gathers: dict[str, str], state: str, words: str) -> None:
    finding = gathering(gathers)
    assert finding["state"] == state
    assert words in finding["found"]
    assert bool(finding["do"]) == (state == "warning")
