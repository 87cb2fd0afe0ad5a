"""Tests the collector against a scripted batch system: gaps, unreachable daemons, kills, and a clock that never
advances too early."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from batchcast.errors import BatchcastError, NoAnswer, Refused, Unreachable, WrongCluster
from batchcast.formats.sighting import Sighting, Site, Snapshot
from batchcast.formats.slurm.sbatch import Request
from batchcast.machines.machine import Machine, homogeneous
from batchcast.service.answers.accuracy import accuracy
from batchcast.service.answers.answer import staleness
from batchcast.service.answers.disclosure import Viewer, open_site, refuse_open_store
from batchcast.service.answers.script import answer_options
from batchcast.service.answers.start import MARGIN_S
from batchcast.service.batch_system import open_scheduler
from batchcast.service.collector.cycle import Collector, Cycle, run
from batchcast.service.operations.doctor import store_findings
from batchcast.service.settings import Settings, is_private, keep_since, load
from batchcast.store.database import Connection, Store
from batchcast.store.place import asked_path, machine_path
from batchcast.store.reader import Reader
from batchcast.trace.machine_files import open_machine


@dataclass
class Job:
    """The true times of one job."""

    job_id: str
    submit: float
    start: float
    end: float


@dataclass
class Script:
    """A batch system that answers from the true times, as far as its daemons run."""

    jobs: list[Job]
    time: float = 1000.0
    keeps: float = 300.0
    ctld: bool = True
    dbd: bool = True
    ahead: float = 0.0
    unsure: float = 0.0
    private: bool = False
    blind: bool = False
    machines: list[Machine] = field(default_factory=list)
    captures: int = 0
    by_id: tuple[Sighting, ...] = ()
    asked: list[tuple[float, float]] = field(default_factory=list)

    def now(self) -> float:
        return self.time + self.ahead

    def ticks(self) -> float:
        return self.time

    def nodes_away(self) -> tuple[()]:
        return ()

    def reservations(self) -> list[dict]:
        return []

    def hides_jobs(self) -> bool:
        return self.private

    def shape(self) -> str:
        if not self.machines:
            raise BatchcastError("sinfo: exit 1")
        return repr(self.machines[-1])

    def machine(self) -> Machine:
        self.captures += 1
        return self.machines[-1]

    def why_blind(self, user: str) -> str:
        return f"Slurm hides jobs, and {user} has the level None" if self.private and self.blind else ""

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        whole = self.history(since, self.now())
        return whole._replace(jobs=tuple(s for s in whole.jobs if s.job_id in ids) + self.by_id)

    def snapshot(self) -> Snapshot:
        if not self.ctld:
            raise Unreachable("slurmctld is away")
        shown = [self._seen(j) for j in self.jobs if j.submit <= self.time < j.end + self.keeps and not self.blind]
        return Snapshot(self.now(), tuple(shown))

    def history(self, since: float, until: float) -> Snapshot:
        if not self.dbd:
            raise Unreachable("slurmdbd is away")
        self.asked.append((since, until))
        ended = [j for j in self.jobs if since <= j.end <= min(until, self.time) and not self.blind]
        return Snapshot(self.now(), tuple(map(self._seen, ended)))

    def site(self) -> Site:
        return Site("c", "22.05", self.keeps, self.private, 16.0, True, {}, self.ahead - self.unsure)

    def _seen(self, j: Job) -> Sighting:
        asked = {"user_id": "ada", "partition_id": "main", "req_procs": 1.0, "req_time": 600.0}
        common: dict[str, Any] = {"requested": asked, "allocated": {"alloc_procs": 1.0}}
        if self.time < j.start:
            return Sighting(j.job_id, j.job_id, j.submit, "PENDING", **common)
        if self.time < j.end:
            return Sighting(j.job_id, j.job_id, j.submit, "RUNNING", start_time=j.start, **common)
        return Sighting(j.job_id, j.job_id, j.submit, "COMPLETED", start_time=j.start, end_time=j.end, **common)


@pytest.fixture
def settings(url: str) -> Settings:
    given = {
        "store": url,
        "history_days": 0.1,
        "runtime": "recent_mean",
        "wait": "recent_wait:need=1",
        "limits": "",
    }
    return load(given, {})


def step(script: Script, collector: Collector, *times: float) -> Cycle:
    for time in times:
        script.time = time
        cycle = collector.cycle()
    return cycle


def stored(settings: Settings, columns: str = "job_id, start_time, end_time, open, told") -> list[tuple]:
    return [
        tuple(r.values())
        for r in Reader(settings["store"]).rows(f"SELECT {columns} FROM jobs ORDER BY submit_time, row")
    ]


def collect(script: Script, settings: Settings) -> Collector:
    return Collector(script, Store(settings["store"], create=True), settings)


def test_jobs_come_in_once_and_every_forecast_comes_out(settings: Settings) -> None:
    script = Script([Job("1", 1005, 1050, 1100), Job("2", 1010, 1100, 1150), Job("3", 1011, 1012, 1013)])
    collector = collect(script, settings)
    step(script, collector, *range(1000, 1300, 30))
    assert stored(settings) == [("1", 1050, 1100, 0, 7), ("2", 1100, 1150, 0, 7), ("3", 1012, 1013, 0, 7)]
    outcomes = Reader(settings["store"]).rows(
        "SELECT kind, outcome_s FROM forecast_outcomes WHERE moment = 'submit' ORDER BY row, kind"
    )
    assert [o["outcome_s"] for o in outcomes] == [50, 45, 50, 90, 1, 1]


def test_a_new_collector_goes_on_where_a_killed_one_was(settings: Settings, new_url: Callable[[], str]) -> None:
    jobs = [Job(str(k), 1000 + 7 * k, 1050 + 9 * k, 1100 + 13 * k) for k in range(20)]
    whole, pieces = Script(jobs), Script(jobs)
    step(whole, collect(whole, settings), *range(1000, 1700, 30))
    wanted = Reader(settings["store"]).rows(
        "SELECT row, kind, point_s, basis, outcome_s FROM forecast_outcomes WHERE moment = 'submit' ORDER BY id"
    )
    other = load({**asdict(settings.values), "store": new_url()}, {})
    for time in range(1000, 1700, 30):
        step(pieces, collect(pieces, other), time)
    again = Reader(other["store"]).rows(
        "SELECT row, kind, point_s, basis, outcome_s FROM forecast_outcomes WHERE moment = 'submit' ORDER BY id"
    )
    assert again == wanted
    assert len(wanted) == 40


def test_the_clock_waits_for_accounting_when_looks_were_too_far_apart(settings: Settings) -> None:
    script = Script([Job("1", 1005, 1006, 1010), Job("2", 2100, 2600, 2700)])
    collector = collect(script, settings)
    step(script, collector, 1000)
    script.dbd = False
    cycle = step(script, collector, 2200)  # no cycle saw job 1
    assert "slurmdbd is away" in cycle.problems[0]
    assert cycle.step.events == 0
    script.dbd = True
    cycle = step(script, collector, 2230)
    assert cycle.step.events == 4
    assert [r[0] for r in stored(settings)] == ["2", "1"] or [r[0] for r in stored(settings)] == ["1", "2"]
    assert Reader(settings["store"]).memory("c")["late"] == 0


def test_forecasts_go_on_without_accounting_while_looks_are_close(settings: Settings) -> None:
    script = Script([Job("1", 1005, 1050, 1100)])
    collector = collect(script, settings)
    step(script, collector, 1000)
    script.dbd = False
    step(script, collector, *range(1030, 1200, 30))
    assert stored(settings) == [("1", 1050, 1100, 0, 7)]


def test_while_slurmctld_is_away_the_clock_stands_and_then_closes_the_gap(settings: Settings) -> None:
    script = Script([Job("1", 1005, 1050, 1100), Job("2", 1060, 1061, 1070)])
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    script.ctld = False
    cycle = step(script, collector, 1100, 1600)
    assert cycle.problems == ["slurmctld is away"]
    script.ctld = True
    step(script, collector, 1630)
    assert stored(settings) == [("1", 1050, 1100, 0, 7), ("2", 1061, 1070, 0, 7)]
    assert Reader(settings["store"]).memory("c")["late"] == 0


def test_a_job_that_vanished_holds_the_clock_until_accounting_tells_its_end(settings: Settings) -> None:
    jobs = [Job("1", 1005, 1010, 1500), Job("2", 1100, 1110, 1400)]
    script = Script(jobs)
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    jobs[0].end = 1045  # the job was requeued: squeue no longer shows it, and accounting does not know it yet
    script.keeps, script.dbd = -1.0, False
    step(script, collector, 1060, 1090, 1120)
    assert stored(settings)[0][3:] == (1, 3)
    assert Reader(settings["store"]).memory("c")["told_until"] < 1045
    script.dbd = True
    step(script, collector, 1150)
    assert stored(settings)[0] == ("1", 1010, 1045, 0, 7)
    assert Reader(settings["store"]).memory("c")["late"] == 0


def test_what_nobody_can_tell_is_given_up_after_a_while_and_marked(settings: Settings) -> None:
    jobs = [Job("1", 1005, 1010, 9e9)]
    script = Script(jobs)
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    jobs.clear()
    step(script, collector, 1060, *range(1100, 6000, 200))
    assert stored(settings, "status, end_time, open") == [("lost", 1030.0, 0)]


def test_history_is_read_in_overlapping_windows_and_resumed(settings: Settings) -> None:
    long = load({**asdict(settings.values), "history_days": 3, "window_s": 86400, "overlap_s": 3600}, {})
    old = [Job(str(k), 1_000_000 - 3600 * k, 1_000_001 - 3600 * k, 1_000_060 - 3600 * k) for k in range(1, 60)]
    script = Script(old, time=1_000_000.0)
    collector = collect(script, long)
    while collector.cycle().behind_s != collector.cycle().behind_s:
        collector = collect(script, long)  # killed and started again
    starts, ends = zip(*script.asked)
    assert all(later < earlier_end for later, earlier_end in zip(starts[1:], ends))
    assert len(stored(long)) == 59
    assert Reader(long["store"]).rows("SELECT count(*) AS n FROM forecasts") == [{"n": 0}], "the past is no forecast"


def test_a_predictor_that_fails_costs_no_history(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from batchcast.predict.runtime.baselines import RecentMean

    script = Script([Job("1", 1005, 1050, 1100)])
    collector = collect(script, settings)
    step(script, collector, 1000)
    with monkeypatch.context() as patch:
        patch.setattr(RecentMean, "predict", lambda *_: 1 / 0)
        cycle = step(script, collector, 1030, 1060)
        assert "ZeroDivisionError" in cycle.problems[0]
        assert len(stored(settings)) == 1
    step(script, collector, 1090, 1120)
    assert stored(settings) == [("1", 1050, 1100, 0, 7)]
    came = Reader(settings["store"]).rows(
        "SELECT resolution FROM forecast_outcomes WHERE resolution IS NOT NULL AND moment = 'submit'"
    )
    assert len(came) == 2


@pytest.mark.parametrize("ahead", [-40.0, 40.0])
def test_a_clock_that_goes_wrong_makes_nothing_late_and_is_said(settings: Settings, ahead: float) -> None:
    script = Script([Job(str(k), 1000 + 7 * k, 1004 + 9 * k, 1005 + 11 * k) for k in range(20)], ahead=ahead)
    collector = collect(script, settings)
    step(script, collector, *range(1000, 1400, 30))
    memory = Reader(settings["store"]).memory("c")
    assert memory["late"] == 0
    assert [r[4] for r in stored(settings)] == [7] * 20
    assert any("NTP" in said for said in staleness(memory, script.now()))


def test_a_batch_system_that_was_never_seen_is_a_problem_not_an_end(settings: Settings) -> None:
    script = Script([])
    collector = collect(script, settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Script, "site", lambda _: (_ for _ in ()).throw(Unreachable("there is no scontrol")))
        cycle = step(script, collector, 1000)
    assert (cycle.problems, cycle.unreachable) == (["there is no scontrol"], True)
    assert step(script, collector, 1030).problems == []


def test_privacy_switched_on_is_in_force_at_the_next_look(settings: Settings) -> None:
    script = Script([])
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    assert not is_private(settings, Reader(settings["store"]).memory("c"))
    script.private = True
    step(script, collector, 1060)
    assert is_private(settings, Reader(settings["store"]).memory("c"))


def test_a_job_given_up_and_seen_again_is_open_again_and_ends_as_it_did(settings: Settings) -> None:
    jobs = [Job("1", 1005, 1010, 5000)]
    script = Script(jobs)
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    (hidden,) = jobs
    jobs.clear()
    step(script, collector, *range(1060, 2000, 60))
    assert stored(settings, "status, open") == [("lost", 0)]
    jobs.append(hidden)
    step(script, collector, 2030)
    assert stored(settings, "status, open, start_time, end_time, vanished") == [(None, 1, 1010, None, None)]
    step(script, collector, 5030, 5060)
    assert stored(settings, "status, open, end_time") == [("completed", 0, 5000)]


def test_what_is_shown_is_never_lost_however_long_it_passes_from_state_to_state(settings: Settings) -> None:
    script = Script([Job("1", 1005, 1010, 9e9)])
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    seen = Script._seen
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Script, "_seen", lambda s, j: seen(s, j)._replace(state="COMPLETING", certain=False))
        cycle = step(script, collector, *range(1060, 5000, 100))
    assert stored(settings, "status, open") == [(None, 1)]
    assert cycle.behind_s < 400, "and it does not hold up the others for ever"


def test_a_job_that_only_a_question_by_id_explains_holds_nobody_up(settings: Settings) -> None:
    """A job cancelled before it was ever eligible: sacct does not show it among the jobs of a time span."""
    jobs = [Job("1", 1005, 9e9, 9e9), Job("2", 1006, 1100, 1200)]
    script = Script(jobs)
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    script.by_id = (Sighting("1", "1", 1005, "CANCELLED", end_time=1045.0),)
    del jobs[0]
    cycle = step(script, collector, 1060, 1090)
    assert stored(settings, "job_id, status, end_time")[0] == ("1", "cancelled", 1045.0)
    assert cycle.behind_s < 60


def test_a_task_cancelled_alone_in_the_queue_is_cancelled_and_holds_nobody_up(settings: Settings) -> None:
    """After `scancel 7_2` of a waiting array, accounting of 22.05 never records the task."""
    jobs = [Job(f"7_{k}", 1005, 9e9, 9e9) for k in (1, 2, 3)]
    script = Script(jobs)
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    del jobs[1]
    cycle = step(script, collector, 1060, 1090, 1120)
    assert stored(settings, "job_id, status, end_time")[1] == ("7_2", "cancelled", 1030.0)
    assert cycle.behind_s < 60
    jobs.clear()  # a missing task without a reason counts as cancelled alone only if another task is shown
    step(script, collector, 1150, 1180, 1240)
    assert {status for _, status, _ in stored(settings, "job_id, status, end_time")} == {"cancelled", None}


def test_a_job_that_nothing_explains_holds_the_others_five_minutes_at_most(settings: Settings) -> None:
    jobs = [Job("1", 1005, 9e9, 9e9), Job("2", 1006, 1100, 1200)]
    script = Script(jobs)
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    del jobs[0]
    cycle = step(script, collector, *range(1060, 1500, 30))
    assert cycle.behind_s < 60


@pytest.mark.parametrize("ahead", [86400.0, 600.0])
def test_a_clock_ahead_for_one_reading_leaves_nothing_ahead(settings: Settings, ahead: float) -> None:
    script = Script([Job(str(k), 1000 + 30 * k, 1010 + 30 * k, 1040 + 30 * k) for k in range(20)])
    collector = collect(script, settings)
    step(script, collector, 1000, 1030, 1060)
    script.ahead = ahead
    step(script, collector, 1090)
    script.ahead = 0.0
    cycle = step(script, collector, 1120, 1150)
    memory = Reader(settings["store"]).memory("c")
    assert memory["history_until"] <= 1150
    assert memory["told_until"] <= 1150
    assert cycle.behind_s < 60
    step(script, collector, *range(1180, 1800, 30))
    assert [r[4] for r in stored(settings)] == [7] * 20
    assert Reader(settings["store"]).memory("c")["late"] == 0


@pytest.mark.parametrize("unsure", [0.0, 0.5, 0.99])
def test_a_second_that_may_not_be_over_is_not_told_though_the_clock_is_ahead(settings: Settings, unsure: float) -> None:
    """The clock's offset is read from whole seconds: at least this much, and up to one second more."""
    script = Script([Job("1", 1005, 1010, 1034)], ahead=600.0, unsure=unsure)
    given = {"store": settings["store"], "runtime": "recent_mean", "wait": "recent_wait", "limits": "", "settle_s": 0.0}
    step(script, collect(script, load(given, {})), 1034.02)
    assert Reader(settings["store"]).memory("c")["told_until"] < 1034


def test_once_ends_though_the_clock_was_ahead_when_it_began(settings: Settings) -> None:
    script = Script([Job("1", 1005, 1010, 1020)], ahead=600.0)
    step(script, collect(script, settings), 1000)
    script.ahead, script.time = 0.0, 1030.0
    cycles: list[Cycle] = []

    def stop(_: float) -> bool:
        return len(cycles) > 5

    run(collect(script, settings), stop, cycles.append, once=True)
    assert len(cycles) <= 3


def test_a_requeued_run_asks_for_what_was_asked_for_at_first(settings: Settings) -> None:
    """An administrator's later limit is not the user's request; Slurm shows it for every later run."""
    first = Job("1", 1005, 1010, 1100)
    script = Script([first])
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    seen = Script._seen
    with pytest.MonkeyPatch.context() as patch:
        changed = {"user_id": "ada", "partition_id": "main", "req_procs": 1.0, "req_time": 9999.0}
        patch.setattr(Script, "_seen", lambda s, j: seen(s, j)._replace(requested=changed))
        script.jobs = [Job("1", 1101, 1230, 1300)]
        step(script, collector, 1130, 1160)
    assert stored(settings, "submit_time, req_time, limit_now") == [(1005, 600.0, 600.0), (1101, 600.0, 9999.0)]


def test_what_was_not_written_is_not_counted(settings: Settings) -> None:
    script = Script([Job("1", 1005, 1050, 1100)])
    collector = collect(script, settings)
    step(script, collector, 1000)
    begin = Store.begin

    @contextmanager
    def full(store: Store) -> Iterator[Connection]:
        with begin(store) as connection:
            yield connection
            raise BatchcastError("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "begin", full)
        cycle = step(script, collector, 1030)
    assert cycle.problems
    assert cycle.seen.new + cycle.ended.new == 0
    assert stored(settings) == []


def test_what_is_older_than_a_site_keeps_goes_by_itself(settings: Settings) -> None:
    day = 86400.0
    script = Script([Job(str(k), k * day + 5, k * day + 50, k * day + 100) for k in range(8)])
    keeping = settings.replaced(retention_days=3.0, memory_days=2.0)
    collector = collect(script, keeping)
    for k in range(8):
        step(script, collector, *(k * day + s for s in (0, 30, 60, 90, 120, 150, 180)))
    assert [job_id for job_id, *_ in stored(settings)] == ["4", "5", "6", "7"]
    for k in (9, 10):
        done = step(script, collector, *(k * day + s for s in (0, 30, 60)))
    assert (done.problems, [job_id for job_id, *_ in stored(settings)]) == ([], ["7"])
    memory = Reader(settings["store"]).memory("c")
    assert (memory["purged_jobs"], sum(one["forecasts"] for one in memory["purged"].values())) == (7, 14)


def test_less_than_predictors_are_taught_with_is_refused() -> None:
    with pytest.raises(BatchcastError, match="shorter than the history that predictors learn from"):
        keep_since(load({"retention_days": 10}, {}), 0.0)


def test_the_clock_remembers_a_window_and_what_if_hears_the_same(settings: Settings) -> None:
    """Jobs that ended before the window are not read again, so memory depends on the window, not on the whole
    history."""
    day = 86400.0
    short = load({**asdict(settings.values), "memory_days": 2, "history_days": 30}, {})
    old = [Job(str(k), 40 * day - k * day, 40 * day - k * day + 10, 40 * day - k * day + 60) for k in range(1, 30)]
    script = Script(old, time=40 * day)
    collector = collect(script, short)
    while collector.cycle().behind_s != collector.cycle().behind_s:
        pass
    again = collect(script, short)
    step(script, again, 40 * day + 30)
    memory = Reader(short["store"]).memory("c")
    assert memory["heard_since"] == pytest.approx(38 * day, abs=100)
    clock = again._clock
    assert clock is not None
    recent = clock._clock.predictors["runtime", "recent_mean"]
    assert sum(len(v) for v in recent.__dict__.values() if isinstance(v, dict)) <= 3
    step(script, again, *(40 * day + 3600 * h for h in range(1, 24 * 4, 6)))
    assert Reader(short["store"]).memory("c")["heard_since"] > 40 * day, "and the window moves on"


def test_a_collector_that_may_not_see_jobs_loses_none_and_renews_all_when_it_may(settings: Settings) -> None:
    """Regression: PrivateData was set before the collector was an operator; 141 jobs were lost and stayed lost when
    visible again."""
    settings = settings.replaced(wait="forecast", patience_s=60.0)
    jobs = [Job(str(k), 1005 + k, 1050 + k, 1100 + k) for k in range(3)]
    jobs += [Job("7", 1200, 9000, 9100), Job("8", 1210, 2500, 2600), Job("9", 1220, 1700, 1800)]
    script = Script(jobs)
    collector = collect(script, settings)
    step(script, collector, *range(1000, 1300, 30))
    script.private = script.blind = True
    cycle = step(script, collector, *range(1300, 2200, 30))
    assert "has the level None" in cycle.problems[0]
    rows = dict(stored(settings, "job_id, status"))
    assert rows["7"] is rows["8"] is rows["9"] is None
    memory = Reader(settings["store"]).memory("c")
    assert memory["told_until"] < 1300
    assert any("has not seen other users' jobs" in note for note in staleness(memory, 2200.0))
    script.blind = False
    step(script, collector, *range(2200, 2300, 30))
    assert stored(settings, "job_id, status, start_time, end_time")[5] == ("9", "completed", 1700, 1800)
    assert Reader(settings["store"]).memory("c")["blind"] is None
    with Store(settings["store"]).begin() as connection:
        assert [name for (name,) in connection.exec_driver_sql(RENEWED)] == ["7", "8"]


RENEWED = "SELECT job_id FROM renewed JOIN jobs ON jobs.row = renewed.row ORDER BY job_id"


def test_a_right_that_is_taken_away_is_noticed_in_the_cycle_that_shows_nobody(settings: Settings) -> None:
    script = Script([Job("7", 1005, 9000, 9100)], private=True)
    collector = collect(script, settings)
    step(script, collector, *range(1000, 1100, 30))
    script.blind = True
    assert "has the level None" in step(script, collector, 1120).problems[0]
    assert stored(settings) == [("7", None, None, 1, 1)]


def test_a_job_given_up_for_lost_and_seen_again_is_renewed_like_the_others(settings: Settings) -> None:
    settings = settings.replaced(wait="forecast", patience_s=60.0)
    script = Script([Job("7", 1005, 9000, 9100), Job("8", 1010, 9000, 9100)])
    collector = collect(script, settings)
    step(script, collector, *range(1000, 1100, 30))
    script.blind = True  # jobs are hidden, and the batch system does not report this
    step(script, collector, *range(1100, 1600, 30))
    assert dict(stored(settings, "job_id, status")) == {"7": "lost", "8": "lost"}
    script.blind = False
    step(script, collector, *range(1600, 1800, 30))
    with Store(settings["store"]).begin() as connection:
        assert [name for (name,) in connection.exec_driver_sql(RENEWED)] == ["7", "8"]
        asked = "SELECT count(*) FROM forecasts WHERE kind = 'wait' AND moment = 'submit'"
        assert connection.exec_driver_sql(asked).scalar() == 2


def test_the_machine_is_captured_by_the_collector_and_anew_only_when_it_changed(settings: Settings) -> None:
    """Regression: without a machine, bounds were days wide, and a machine captured by hand became outdated
    unnoticed."""
    settings = settings.replaced(wait="forecast")
    script = Script([Job("1", 1005, 9000, 9100)], machines=[homogeneous(4, 4)])
    collector = collect(script, settings)
    step(script, collector, *range(1000, 2000, 30))
    assert script.captures == 1
    place = machine_path(settings["store"], "c")
    assert len(open_machine(place).node_names()) == 4
    assert place.stat().st_mode & 0o777 == 0o600
    script.machines.append(homogeneous(5, 4))
    step(script, collector, *range(2000, 2400, 30))
    assert script.captures == 2
    assert len(open_machine(place).node_names()) == 5
    waits = collector._clock._clock.predictors["wait", "forecast"]
    assert len(waits.components.nodes.machine.node_names()) == 5
    assert Reader(settings["store"]).memory("c")["machine"]["trouble"] == ""


def test_a_job_in_a_partition_that_no_look_has_shown_has_the_machine_looked_at_at_once(settings: Settings) -> None:
    script = Script([Job("1", 1005, 9000, 9100)], machines=[homogeneous(4, 4)])
    collector = collect(script, settings)
    step(script, collector, 1000)
    script.machines.append(homogeneous(5, 4))
    step(script, collector, 1030)  # the first job of partition main
    assert script.captures == 2


def test_a_machine_that_cannot_be_captured_leaves_the_last_one_and_is_said(settings: Settings) -> None:
    script = Script([Job("1", 1005, 9000, 9100)], machines=[homogeneous(4, 4)])
    collector = collect(script, settings)
    step(script, collector, 1000)
    script.machines.clear()
    cycle = step(script, collector, *range(1030, 1500, 30))
    assert cycle.problems == []
    assert Reader(settings["store"]).memory("c")["machine"]["trouble"] == "sinfo: exit 1"
    assert len(open_machine(machine_path(settings["store"], "c")).node_names()) == 4
    again = Collector(script, Store(settings["store"]), settings)
    step(script, again, 1530)
    assert len(again._machine.machine.node_names()) == 4


def mode_of_files(settings: Settings) -> set[int]:
    path = Path(settings["store"])
    return {one.stat().st_mode & 0o777 for end in ("", "-wal", "-shm") if (one := Path(f"{path}{end}")).exists()}


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_store_is_made_as_open_as_the_site_is(tmp_path: Path, private: bool, mode: int) -> None:
    settings = load({"store": str(tmp_path / "s.db"), "wait": "recent_wait", "limits": ""}, {})
    before = os.umask(0o022)
    try:
        script = Script([Job("1", 1005, 9000, 9100)], private=private)
        collector = collect(script, settings)
        assert mode_of_files(settings) == {0o600}, "before anybody knows"
        step(script, collector, 1000, 1030)
    finally:
        os.umask(before)
    assert mode_of_files(settings) == {mode}


def test_a_store_is_closed_when_jobs_become_private_and_nothing_is_served_from_an_open_one(tmp_path: Path) -> None:
    """Regression: the store stayed 0644, so users could read each other's jobs with sqlite3, and doctor said ok."""
    settings = load({"store": str(tmp_path / "s.db"), "wait": "recent_wait", "limits": ""}, {})
    script = Script([Job("1", 1005, 9000, 9100)])
    collector = collect(script, settings)
    step(script, collector, 1000, 1030)
    Path(settings["store"]).chmod(0o644)
    refuse_open_store(settings)
    script.private = True
    assert "was open to others and is closed" in step(script, collector, 1060).notices[0]
    assert mode_of_files(settings) == {0o600}
    Path(settings["store"]).chmod(0o640)
    with pytest.raises(Refused, match="is open to others"):
        refuse_open_store(settings)
    found = {one["check"]: one for one in store_findings(settings)}["store's owner"]
    assert (found["state"], found["do"][:9]) == ("failed", "chmod 600")
    step(script, collector, 1090)
    script.private = False
    step(script, collector, 1120)
    assert mode_of_files(settings) == {0o600}, "what was hidden is in it"


def test_what_start_test_said_is_judged_by_the_job_that_was_then_submitted(settings: Settings) -> None:
    script = Script([Job("1", 1005, 1010, 1200), Job("2", 1010, 1030, 1210), Job("7", 1505, 1565, 1900)])
    collector = collect(script, settings)
    step(script, collector, *range(1000, 1500, 30))
    request = Request({"partition": "main", "ntasks": "1", "time": "10"})
    with pytest.raises(NoAnswer, match="it would never start: larger than main") as refused:
        answer_options(settings, request.replaced({"ntasks": "999999"}), Viewer("ada"), 1500.0)
    assert refused.value.exit_code == 3
    answer = answer_options(settings, request, Viewer("ada"), 1500.0).results[0]
    answer_options(settings, request.replaced({"time": "20"}), Viewer("ada"), 1500.0)  # never submitted
    assert asked_path(settings["store"], "c").stat().st_mode & 0o777 == 0o600
    step(script, collector, *range(1510, 2000, 30))
    assert not asked_path(settings["store"], "c").exists()
    with open_site(settings, Viewer(None, sees_all=True), 9000.0) as site:
        (asked,) = [r for r in accuracy(site, 0.0, 9000.0) if r["moment"] == "asked"]
    assert (asked["kind"], asked["forecasts"], asked["came_out"]) == ("wait", 1, 1)
    assert asked["mae_s"] == pytest.approx(abs(answer["likely_wait_s"] - 60.0))


def test_what_start_test_says_is_no_later_than_limits_imply_and_a_margin(settings: Settings) -> None:
    """Regression: on an empty machine, the answer named the hours that jobs had waited before."""
    script = Script([Job("1", 1005, 50_000, 50_600), Job("2", 1010, 50_030, 50_610)])
    collector = collect(script, settings)
    step(script, collector, *range(1000, 51_000, 1000))
    request = Request({"partition": "main", "ntasks": "1", "time": "10"})
    answer = answer_options(settings, request, Viewer("ada"), 51_000.0).results[0]
    assert answer["likely_start_s"] == pytest.approx(51_000.0 + MARGIN_S)
    assert "the wait that Slurm's limits imply" in answer["basis"]


@pytest.mark.parametrize("way", ["setting", "variable"])
def test_a_collector_named_after_another_cluster_stores_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    """Regression: alpha's clients with -M beta (or SLURM_CLUSTERS=beta) filled a store with alpha's jobs under beta's
    name."""
    clients = tmp_path / "bin"
    clients.mkdir()
    for name in ("scontrol", "squeue", "sacct", "sdiag", "sinfo"):
        (clients / name).write_text("#!/bin/sh\necho 'ClusterName             = alpha'\n")
        (clients / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{clients}:{os.environ['PATH']}")
    if way == "variable":
        monkeypatch.setenv("SLURM_CLUSTERS", "beta")
    given = settings.replaced(cluster="beta" if way == "setting" else "", floor_s=0.0)
    scheduler, health = open_scheduler(given)
    collector = Collector(scheduler, Store(given["store"], create=True), given, health)
    with pytest.raises(WrongCluster, match="the settings name cluster beta, but Slurm's clients query alpha"):
        collector.cycle()
    assert stored(given) == []


def test_a_configuration_that_is_replaced_by_another_clusters_ends_the_collector(settings: Settings) -> None:
    script = Script([Job("1", 0.0, 5.0, 50.0)])
    collector = Collector(script, Store(settings["store"], create=True), settings)
    step(script, collector, 10.0)
    before = stored(settings)
    script.answered_by = "d"
    with pytest.raises(WrongCluster, match="the settings name cluster c, but Slurm's clients query d"):
        step(script, collector, 60.0)
    assert stored(settings) == before
