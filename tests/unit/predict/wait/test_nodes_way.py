"""Tests `forecast` on a described machine, where a simulation of Slurm's loops on the nodes joins the mixture."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batchcast.evaluation.wait import RecordedClock, run_wait
from batchcast.events.event import End, Event, Start, Submit
from batchcast.events.live import LiveClock
from batchcast.events.recorded import events, replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest, as_submitted
from batchcast.machines.machine import Association, Machine, homogeneous
from batchcast.predict.wait.forecast import MOST_ANEW, Forecast, NodesComponent
from batchcast.predict.wait.scheduler_replay import start_on
from batchcast.service.answers import model_store as files
from batchcast.service.answers.model_store import Unusable, make_predictors, use_machine
from batchcast.table import Trace
from batchcast.testing.logs import small_log

MACHINE = homogeneous(4, 16, 64000.0, SchedulerType="sched/backfill")


def job(row: int, procs: float, limit: float, **more: Any) -> JobRequest:
    return JobRequest(row, row, 0.0, procs, limit, math.nan, **more)


def test_on_the_first_day_a_job_of_whole_nodes_is_told_of_the_nodes() -> None:
    state = SystemState(32.0)
    for row, procs in ((0, 16.0), (1, 1.0)):
        held = job(row, procs, 7200.0)
        for event in (Submit(0.0, held), Start(0.0, held, 0.0)):
            state.apply(event)
    asked = job(9, 15.0, 600.0, req_nodes=1.0)
    free, whole = Forecast(), Forecast(machine=homogeneous(2, 16))
    assert free.predict(asked, state).point <= 60
    assert whole.predict(asked, state).point <= 60
    wide = job(9, 15.0, 600.0, req_nodes=2.0)  # fifteen processors are free, but not on one node
    assert free.predict(wide, state).point <= 60
    said = whole.predict(wide, state)
    assert said.point >= 3600
    assert "nodes" in said.basis


@pytest.mark.lightgbm
def test_a_log_and_the_clock_say_the_same_on_a_machine() -> None:
    kept = ("submit_time", "wait_time", "run_time", "req_procs", "req_time", "user_id")
    # without the log's partitions, which the machine does not have
    log = Trace.from_arrays({name: small_log(60).column(name) for name in kept})
    ask = np.ones(len(log), bool)
    whole = run_wait(log, "forecast:first=20,every=20,step=10", ask, on=RecordedClock(machine=MACHINE)).forecasts
    again = replay(log, {"it": Forecast(first=20, every=20, step=10, machine=MACHINE)}, total=log.info.max_procs)["it"]
    assert np.array_equal(whole.points, again.points)
    assert np.array_equal(whole.quantiles, again.quantiles)
    without = run_wait(log, "forecast:first=20,every=20,step=10", ask).forecasts
    assert not np.array_equal(whole.points, without.points)


def test_at_looks_a_log_and_the_clock_learn_the_same_of_the_nodes() -> None:
    kept = ("submit_time", "wait_time", "run_time", "req_procs", "req_time", "user_id")
    log = Trace.from_arrays({name: small_log(90).column(name) for name in kept})
    machine = homogeneous(1, 16, 64000.0, SchedulerType="sched/backfill")
    whole, clock = Forecast(machine=machine), Forecast(machine=machine)
    whole.predict_trace(log, total=log.info.max_procs, renew=True)
    replay(log, {"it": clock}, total=log.info.max_procs)
    assert whole.renewal.number == clock.renewal.number > 0
    assert np.array_equal(whole.renewal.pool.score, clock.renewal.pool.score)
    assert whole.renewal.pool.outcomes[1] > 0, "some looks were told of the nodes"


def test_those_that_wait_are_told_one_after_another_what_is_left() -> None:
    state, way = SystemState(16.0), NodesComponent(homogeneous(1, 16))
    for row in range(3):
        state.apply(Submit(0.0, job(row, 16.0, 1000.0)))
    state.apply(Start(0.0, job(0, 16.0, 1000.0), 0.0))
    state.now = 400.0
    first, second = (np.expm1(way.of_waiting(state)[row]) for row in (1, 2))
    assert 600 <= round(min(first)) <= round(max(first)) <= 690
    assert round(min(second)) >= 1600
    assert way.of_waiting(SystemState(16.0)) == {}


def test_a_job_that_waits_already_is_not_ahead_of_itself() -> None:
    state, way = SystemState(64.0), NodesComponent(homogeneous(1, 16))
    mine = job(3, 16.0, 600.0)
    before = way.predict(mine, state).point
    state.apply(Submit(0.0, mine))
    assert way.predict(mine, state).point == before == 0.0


def test_one_that_never_fits_is_answered_by_the_other_ways() -> None:
    way, state = NodesComponent(homogeneous(1, 16)), SystemState(64.0)
    large = job(0, 64.0, 600.0)
    assert math.isnan(way.predict(large, state).point)
    assert np.isnan(way.curves(way.simulated(large, state), (0, 0, 0, 0))).all()
    assert Forecast(machine=homogeneous(1, 16)).predict(large, state).point >= 1.0


def test_a_few_futures_answer_and_each_job_that_runs_is_likely_over_at_another_time_in_each() -> None:
    way, state = NodesComponent(homogeneous(1, 16)), SystemState(16.0)

    def tell(event: Event) -> None:
        state.now = event.time
        state.apply(event)
        way.observe(event, state)

    for row, run in enumerate((100.0, 1000.0, 3000.0) * 8):
        past = job(row, 16.0, 7200.0, user_id="ada")._replace(submit_time=4000.0 * row)
        tell(Submit(4000.0 * row, past))
        tell(Start(4000.0 * row, past, 0.0))
        tell(End(4000.0 * row + run, past, run, 0.0))
    at = 4000.0 * 24
    held = job(24, 16.0, 7200.0, user_id="ada")._replace(submit_time=at)
    tell(Submit(at, held))
    tell(Start(at, held, 0.0))
    waits = way.predict(job(30, 16.0, 600.0, user_id="bo"), state).quantiles
    assert waits[0] <= 1100 < 2900 < waits[-1] <= 3100
    state.now = at + 1500.0  # the job has run longer than two of the three known run times
    waits = way.predict(job(30, 16.0, 600.0, user_id="bo"), state).quantiles
    assert 1400 <= waits[0] <= waits[-1] <= 1600


def test_jobs_are_let_past_by_their_limits_not_by_how_long_they_are_likely_to_run() -> None:
    """As in Slurm, a job that would end before a reserved start only by its prediction, not by its limit, is not
    backfilled."""
    state, machine = SystemState(32.0), homogeneous(2, 16, SchedulerType="sched/backfill")
    state.apply(Submit(0.0, held := job(0, 16.0, 1000.0, req_nodes=1.0)))
    state.apply(Start(0.0, held, 0.0))
    state.apply(Submit(0.0, job(1, 32.0, 1000.0, req_nodes=2.0)))

    def wait(limit: float) -> float:
        found = start_on(machine, job(2, 16.0, limit, req_nodes=1.0), state, lambda each, _: min(each.req_time, 900.0))
        assert not isinstance(found, str)
        return found[0]

    assert wait(800.0) <= 60
    assert wait(5000.0) >= 900


def test_what_was_learned_on_a_machine_is_kept_when_the_machine_changes(tmp_path: Path) -> None:
    made = make_predictors("kernel", "forecast,recent_wait", machine=MACHINE)
    clock = LiveClock(made, 64.0)
    log = small_log(40)
    told: list[Event] = list(events(log))
    for event in told:
        clock.tell(event)
    files.save(tmp_path / "clock", files.SavedClock(clock, 0.0, 0, 0.0, {}))

    def fresh(machine: Machine | None) -> dict[tuple[str, str], Any]:
        return make_predictors("kernel", "forecast,recent_wait", machine=machine)

    again = files.load(tmp_path / "clock", fresh(MACHINE))
    asked = next(iter(log.requests()))._replace(row=1000)
    one, two = (c.predictors["wait", "forecast"].predict(asked, c.state) for c in (again.clock, clock))
    assert one == two
    with pytest.raises(Unusable, match="machine description that is now missing"):
        files.load(tmp_path / "clock", fresh(None))
    larger = homogeneous(64, 1)
    onto = files.load(tmp_path / "clock", fresh(larger)).clock.predictors["wait", "forecast"]
    assert (onto.machine, onto.components.nodes.machine) == (larger, larger)
    use_machine(again.clock.predictors.values(), larger)
    method = again.clock.predictors["wait", "forecast"]
    assert (method.machine, method.components.nodes.machine) == (larger, larger)
    assert method.predict(asked, again.clock.state).levels == two.levels
    use_machine([method], None)
    assert method.components.nodes is None
    use_machine([method], larger)  # for a new machine, run times begin with the method's run times
    assert method.components.nodes.run_times.predict(asked, again.clock.state) == method.run_time.predict(
        asked, again.clock.state
    )


def test_who_has_used_much_waits_behind_who_has_used_little() -> None:
    """The simulation takes each user's past usage from Slurm; without it, both users would have equal fair share, and
    the first job would go first."""
    tree = (Association("root"), Association("a", parent="root"), *(Association("a", who) for who in ("ada", "bob")))
    fair = {
        "PriorityType": "priority/multifactor",
        "PriorityWeightFairShare": "1000",
        "SchedulerType": "sched/backfill",
    }
    machine = replace(homogeneous(1, 4, **fair), associations=tree)

    def job_of(row: int, user: str, at: float) -> JobRequest:
        asked = {"req_time": 600.0, "account": "a", "user_id": user, "partition_id": "all"}
        return as_submitted(row, {"job_id": str(row), "submit_time": at, **asked}, procs=4.0)

    state = SystemState(4.0)
    runs, waits, new = job_of(1, "cid", 0.0), job_of(2, "ada", 10.0), job_of(3, "bob", 20.0)
    for event in (Submit(0.0, runs), Start(0.0, runs, 0.0), Submit(10.0, waits)):
        state.apply(event)
    state.now = 20.0

    def start(usage: dict[tuple[str, str], float]) -> float:
        state.usage = usage
        found = start_on(machine, new, state, lambda each, _: each.req_time)
        assert not isinstance(found, str)
        return found[0]

    assert start({("a", "ada"): 1e6, ("a", "bob"): 1.0}) < start({("a", "ada"): 1.0, ("a", "bob"): 1e6})


@pytest.mark.parametrize(("queued", "is_anew"), [(20, True), (MOST_ANEW + 1, False)])
def test_a_short_queue_is_told_what_ended_since_and_a_long_one_keeps_what_was_known(queued: int, is_anew: bool) -> None:
    way, state = NodesComponent(homogeneous(1, 16)), SystemState(16.0)

    def tell(event: Event) -> None:
        state.now = event.time
        state.apply(event)
        way.observe(event, state)

    def runs(rows: range, start: float, seconds: float) -> float:
        for row in rows:
            past = job(row, 16.0, 7200.0, user_id="ada")._replace(submit_time=start)
            tell(Submit(start, past))
            tell(Start(start, past, 0.0))
            tell(End(start := start + seconds, past, seconds, 0.0))
        return start

    at = runs(range(1000, 1040), 0.0, 100.0)
    for row in range(queued):
        tell(Submit(at, job(row, 16.0, 7200.0, user_id="ada")._replace(submit_time=at)))
    asked = job(5000, 16.0, 600.0, user_id="bo")
    before = way.predict(asked, state).point
    assert 100 * queued <= before <= 130 * queued
    runs(range(2000, 2040), at, 1000.0)
    assert (way.predict(asked, state).point > 3 * before) is is_anew


def submit_burst(way: NodesComponent, count: int, ask_between: bool = False) -> list[float]:
    """The predicted waits of equal jobs that arrive one after another on a full machine."""
    state, waits = SystemState(16.0), []

    def tell(event: Event) -> None:
        state.apply(event)
        way.observe(event, state)

    running = job(0, 16.0, 1000.0)
    tell(Submit(0.0, running))
    tell(Start(0.0, running, 0.0))
    for row in range(1, count + 1):
        equal = job(row, 16.0, 1000.0)
        waits.append(way.predict(equal, state).point)
        if ask_between:
            way.predict(job(count + row, 1.0, 60.0), state)
            way.predict(job(2 * count + row, 16.0, 1000.0), state)
        tell(Submit(0.0, equal))
    return waits


def test_a_long_burst_of_equal_jobs_is_simulated_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = 0

    def counted(*words: Any) -> object:
        nonlocal simulated
        simulated += 1
        return start_on(*words)

    monkeypatch.setattr("batchcast.predict.wait.forecast.start_on", counted)
    waits = submit_burst(NodesComponent(homogeneous(1, 16)), 200)
    assert simulated < 3 * 70  # three simulated futures for several jobs at once; job by job, there would be 3 * 200
    assert waits == sorted(waits)
    alone = np.arange(1, 201) * 1000.0  # one job runs at a time, and none is known to end before its limit
    assert np.all(waits <= alone)
    assert np.all(waits >= alone * (1 - 1 / 16))


def test_questions_during_a_burst_change_no_answer() -> None:
    way = NodesComponent(homogeneous(1, 16))
    assert submit_burst(way, 60) == submit_burst(NodesComponent(homogeneous(1, 16)), 60, ask_between=True)


def test_another_job_or_event_ends_a_burst() -> None:
    way = NodesComponent(homogeneous(1, 16))
    submit_burst(way, 40)
    assert way.burst is not None
    assert way.burst.jobs == 40
    state = SystemState(16.0)
    way.observe(Submit(0.0, job(90, 1.0, 60.0)), state)
    assert way.burst.jobs == 1
    way.observe(End(5.0, job(0, 16.0, 1000.0), 5.0, "completed"), state)
    assert way.burst is None
