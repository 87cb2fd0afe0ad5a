"""Tests that answers know why a job waits: each of Slurm's reasons has its own rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from batchcast.formats.sighting import Sighting
from batchcast.formats.slurm.reasons import Rule, rule
from batchcast.predict.protocol import Prediction
from batchcast.service.answers.disclosure import Site, Viewer, disclosed
from batchcast.service.answers.start import latest_start, own_queue, release, start_answer
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.reader import Reader
from batchcast.store.rows import as_values

NOW = 10_000.0
PRINTED = {  # recorded in the lab with Slurm 22.05.8: see tests/slurm/test_why_it_waits.py
    "Resources": Rule.MACHINE,
    "Priority": Rule.MACHINE,
    "None": Rule.MACHINE,
    "ReqNodeNotAvail, UnavailableNodes:n2": Rule.ADMIN,
    "ReqNodeNotAvail, Reserved for maintenance": Rule.RESERVATION,
    "ReqNodeNotAvail, UnavailableNodes:": Rule.RESERVATION,
    "ReqNodeNotAvail, May be reserved for other job": Rule.RESERVATION,
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": Rule.MACHINE,
    "PartitionNodeLimit": Rule.NEVER,
    "PartitionDown": Rule.ADMIN,
    "PartitionInactive": Rule.ADMIN,
    "JobHeldAdmin": Rule.ADMIN,
    "JobHeldUser": Rule.ELIGIBLE,
    "Dependency": Rule.ELIGIBLE,
    "BeginTime": Rule.ELIGIBLE,
    "DependencyNeverSatisfied": Rule.NEVER,
    "PartitionConfig": Rule.NEVER,
    "PartitionTimeLimit": Rule.NEVER,
    "QOSMaxCpuPerJobLimit": Rule.NEVER,
    "QOSMaxJobsPerUserLimit": Rule.LIMIT,
    "AssocMaxJobsLimit": Rule.LIMIT,
    "AssocGrpCpuLimit": Rule.LIMIT,
    "QOSGrpNodeLimit": Rule.LIMIT,
    "Licenses": Rule.LIMIT,
    "JobArrayTaskLimit": Rule.LIMIT,
    "AssocGrpCPUMinutesLimit": Rule.ADMIN,
    "Reservation": Rule.RESERVATION,
    "launch failed requeued held": Rule.ELIGIBLE,
    "job requeued in held state": Rule.ELIGIBLE,
    "user env retrieval failed requeued held": Rule.ELIGIBLE,
    "JobHoldMaxRequeue": Rule.ELIGIBLE,
    "QOSMinGRES": Rule.NEVER,
    "QOSMinCpuNotSatisfied": Rule.NEVER,
    "DeadLine": Rule.NEVER,
}


@pytest.mark.parametrize(("reason", "wanted"), PRINTED.items())
def test_the_rule_of_every_reason(reason: str, wanted: Rule) -> None:
    assert rule(reason) is wanted


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(url: str) -> Ask:
    """Return the answer for the last of these jobs; every job has a predicted wait of 100 s and run time of 600 s."""

    def answer(*jobs: Sighting, **memory: Any) -> dict[str, Any]:
        store = Store(url, create=True)
        with store.begin() as connection:
            history.take_in(connection, "c", jobs, NOW)
            for job in clock_jobs.untold_jobs(connection, "c", NOW):
                for kind, point in (("wait", 100.0), ("runtime", 600.0)):
                    prediction = Prediction(point, (0.9,), (2 * point,), "like jobs")
                    one = {"row": job.request.row, "kind": kind, "moment": "submit", "method": "m", "as_of": NOW}
                    clock_jobs.issue(connection, [{**one, "issued_at": NOW, "prediction": prediction}])
        reader = Reader(url)
        (row,) = reader.waiting("c", "m", [jobs[-1].job_id])
        site = Site(reader, "c", memory, False, load({"store": url}, {}), Viewer(None), NOW)
        held, reservations = release(site, row), memory.get("reservations", ())
        return start_answer(row, NOW, held, reservations=reservations)

    return answer


def job(job_id: str, reason: str = "", started: float = math.nan, **more: Any) -> Sighting:
    asked = {"user_id": "ada", "account": "physics", "qos": "normal", "req_procs": 2.0, "req_time": 1000.0}
    state = "PENDING" if math.isnan(started) else "RUNNING"
    own = {k: more.pop(k) for k in ("reservation", "licenses") if k in more}
    return Sighting(
        job_id, job_id, NOW - 300, state, start_time=started, reason=reason, requested={**asked, **more}, **own
    )


def waiting_row(**more: object) -> dict[str, object]:
    """A job that waits for the machine, predicted from a class whose jobs waited for weeks."""
    said = Prediction(40 * 86400.0, (0.1, 0.5, 0.9), (86400.0, 40 * 86400.0, 90 * 86400.0), "recent waits")
    asked = {
        "row": 7,
        "req_procs": 1.0,
        "job_id": "201",
        "partition_id": "main",
        "job_name": "x",
        "submit_time": 0.0,
        "eligible_time": 0.0,
    }
    shown = {"reason": "Priority", "expected_start": None, "method": "forecast", "as_of": 0.0}
    return {**asked, **shown, **as_values(said), **more}


BOUND = {"latest": {"at": 0.0, "jobs": {"7": 5000}, "new": {"main": [80_000.0, 8.0]}}}
"""Limits imply that job 7 starts by 5000, and a job submitted now by 80,000."""


@pytest.mark.parametrize(
    ("row", "memory", "latest"),
    [
        ({"expected_start": 7200.0}, {}, 600.0 + 1.5 * 6600.0 + 3600.0),
        ({}, BOUND, 600.0 + 1.5 * 4400.0 + 3600.0),
        ({"expected_start": 90_000.0}, BOUND, 600.0 + 1.5 * 4400.0 + 3600.0),
        ({"expected_start": 2000.0}, BOUND, 600.0 + 1.5 * 1400.0 + 3600.0),
        ({"row": 8}, BOUND, 600.0 + 1.5 * 79_400.0 + 3600.0),  # newer than BOUND: all other jobs are before it
        ({"row": 8, "req_procs": 9.0}, BOUND, math.inf),  # with nine processors, it also waits for a drained node
        ({}, {"latest": {**BOUND["latest"], "at": -4000.0}}, math.inf),  # BOUND is too old: the collector has stopped
        ({}, {}, math.inf),
    ],
)
def test_no_answer_is_later_than_limits_imply_and_a_margin(
    row: dict[str, object], memory: dict[str, object], latest: float
) -> None:
    """Regression: a job that started in seconds was predicted for 6 January, because such jobs had once waited for
    weeks."""
    row = waiting_row(**row)
    answer = disclosed(start_answer(row, 600.0, latest=latest_start(row, memory, 600.0)), hidden=False)
    told = max(answer["likely_start_s"], answer["by_90_start_s"])
    assert told == pytest.approx(latest) if latest < math.inf else told > 80 * 86400.0
    assert ("the wait that Slurm's limits imply" in answer["basis"]) == (latest < math.inf)


def test_what_only_an_administrator_ends_has_no_answer(ask: Ask) -> None:
    answer = ask(job("1", "ReqNodeNotAvail, UnavailableNodes:n2"))
    assert math.isnan(answer["likely_start_s"])
    assert math.isnan(answer["likely_wait_s"])
    assert answer["basis"] == "no answer until an administrator acts"
    assert "drained or down: n2" in answer["reason_in_words"]


def test_tasks_of_a_throttled_array_come_one_after_the_other(ask: Ask) -> None:
    """With %1, the third waiting task starts when the running task and the two earlier ones have ended."""
    tasks = [job(f"7_{k}", "JobArrayTaskLimit") for k in (2, 3, 4)]
    answer = ask(job("7_1", started=NOW - 100), *tasks)
    assert answer["likely_start_s"] == NOW + 500 + 600 + 600
    assert answer["by_90_start_s"] == NOW + 900 + 1000 + 1000
    assert answer["counts_from"] == "the end of jobs under the same limit"


def test_other_peoples_jobs_do_not_hold_a_users_limit(ask: Ask) -> None:
    others = [job(str(k), started=NOW - 100, user_id="bob") for k in (1, 2, 3)]
    answer = ask(*others, job("8", started=NOW - 200), job("9", "AssocMaxJobsLimit"))
    assert answer["likely_start_s"] == NOW + 400


def test_a_limit_on_processors_frees_as_many_as_are_needed(ask: Ask) -> None:
    running = [job(str(k), started=NOW - 100 * k, req_procs=2.0) for k in (1, 2)]
    answer = ask(*running, job("9", "AssocGrpCpuLimit", req_procs=4.0))
    assert answer["likely_start_s"] == NOW + 500


def test_a_licence_comes_from_those_who_hold_it(ask: Ask) -> None:
    answer = ask(job("1", started=NOW - 100, user_id="bob", licenses="vasp:2"), job("2", started=NOW - 500),
                 job("9", "Licenses", licenses="vasp:1"))  # fmt: skip
    assert answer["likely_start_s"] == NOW + 500


def test_a_holder_that_outlived_its_forecast_ends_at_its_limit_at_the_latest(ask: Ask) -> None:
    answer = ask(job("7_1", started=NOW - 800), job("7_2", "JobArrayTaskLimit"))
    assert NOW < answer["likely_start_s"] < answer["by_90_start_s"] == NOW + 200


RESERVED = [{"name": "course", "start": NOW + 3600, "end": NOW + 7200, "maintenance": False},
            {"name": "update", "start": NOW - 60, "end": NOW + 9000, "maintenance": True}]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "more", "at"),
    [
        ("Reservation", {"reservation": "course"}, NOW + 3600),
        ("ReqNodeNotAvail, Reserved for maintenance", {}, NOW + 9000),
    ],
)
def test_a_reservation_begins_and_a_maintenance_ends(ask: Ask, reason: str, more: dict[str, str], at: float) -> None:
    assert ask(job("1", reason, **more), reservations=RESERVED)["likely_start_s"] == at


AHEAD = [{"name": "power", "start": NOW + 3 * 86400, "end": NOW + 4 * 86400, "maintenance": True}]
WAITS_FOR_IT = "ReqNodeNotAvail, Reserved for maintenance"


@pytest.mark.parametrize(
    ("limit", "reason", "own", "advised"),
    [
        (5 * 86400.0, WAITS_FOR_IT, {}, "2-23:50:00"),  # ten minutes are left for the scheduler
        (math.nan, WAITS_FOR_IT, {}, "2-23:50:00"),  # a job without a limit also runs into the maintenance
        (3600.0, WAITS_FOR_IT, {}, ""),  # the job would end long before the maintenance
        (5 * 86400.0, "Priority", {}, ""),  # the job waits for another reason
        (5 * 86400.0, "Reservation", {"reservation": "power"}, ""),  # the job is to run in this reservation
    ],
)
def test_a_limit_that_fits_before_the_maintenance_is_named(
    ask: Ask, limit: float, reason: str, own: dict[str, str], advised: str
) -> None:
    """The page gives the advice that support staff write by hand. Before a reservation that is already active there is
    no room."""
    said = str(ask(job("1", reason, req_time=limit, **own), reservations=[*RESERVED[1:], *AHEAD])["maintenance"])
    assert (f"a time limit of at most {advised} the job can start" in said) if advised else said == ""


def test_the_queue_behind_a_maintenance_counts(ask: Ask) -> None:
    """Regression: seven jobs were all predicted at the second at which the maintenance ends, and none started long
    after it."""
    reserved, part = "ReqNodeNotAvail, Reserved for maintenance", {"partition_id": "main", "req_procs": 4.0}
    jobs = [job(str(k), reserved, **part) for k in range(1, 6)]
    held = job("77", "JobHeldUser", **part)
    site = {"partitions": {"main": {"procs": 8.0}}}
    answer = ask(held, *jobs, reservations=RESERVED, site=site)
    assert answer["likely_start_s"] == NOW + 9000 + 2 * 600  # two jobs at a time, with a predicted run time of 600 s
    assert answer["by_90_start_s"] == NOW + 9000 + 2 * 1000  # two jobs at a time, with a time limit of 1000 s
    assert "4 waiting jobs of main that go first" in disclosed(answer, hidden=False)["basis"]


def test_behind_a_maintenance_a_job_that_shares_no_node_holds_all_its_processors(ask: Ask) -> None:
    """squeue shows one processor for `-N1 --exclusive`, so that seven of them seemed to fit on four nodes at once."""
    reserved, part = "ReqNodeNotAvail, Reserved for maintenance", {"partition_id": "main", "req_procs": 1.0}
    jobs = [job(str(k), reserved, **part, req_nodes=1.0, exclusive=1.0) for k in range(1, 6)]
    site = {"partitions": {"main": {"procs": 8.0, "node_procs": 4.0}}}
    assert ask(*jobs, reservations=RESERVED, site=site)["likely_start_s"] == NOW + 9000 + 2 * 600


def test_the_queue_behind_a_maintenance_is_in_order_of_priority(ask: Ask) -> None:
    """A later job of higher priority goes first, and an earlier job of lower priority does not."""
    reserved, part = "ReqNodeNotAvail, Reserved for maintenance", {"partition_id": "main", "req_procs": 8.0}
    others = [job(str(k), reserved, **part)._replace(priority=p) for k, p in ((1, 10.0), (2, 30.0))]
    mine = job("3", reserved, **part)._replace(priority=20.0)
    answer = ask(*others, mine, reservations=RESERVED, site={"partitions": {"main": {"procs": 8.0}}})
    assert answer["likely_start_s"] == NOW + 9000 + 600
    assert "1 waiting jobs of main" in disclosed(answer, hidden=False)["basis"]


def test_a_limit_whose_holders_nobody_knows_has_no_answer(ask: Ask) -> None:
    answer = ask(job("9", "QOSGrpNodeLimit"))
    assert math.isnan(answer["likely_start_s"])
    assert "no running job of this QOS" in answer["basis"]


def naive(holders: list[tuple[float, float]], ahead: list[tuple[float, float]], amount: float, now: float) -> float:
    """Computed second by second: the first job in the queue starts as soon as enough is free."""
    running, queue, t = list(holders), [*ahead, (math.inf, amount)], int(now)
    capacity = sum(a for _, a in holders)
    while True:
        running = [(end, a) for end, a in running if end > t]
        while queue and capacity - sum(a for _, a in running) >= min(queue[0][1], capacity):
            length, wanted = queue.pop(0)
            if not queue:
                return float(t)
            running.append((t + length, min(wanted, capacity)))
        t += 1


def test_the_own_queue_against_second_by_second() -> None:
    import numpy as np

    rng = np.random.default_rng(7)
    for _ in range(200):
        holders = [(float(rng.integers(1, 50)), float(rng.integers(1, 4))) for _ in range(rng.integers(1, 5))]
        most = sum(a for _, a in holders)
        ahead = [(float(rng.integers(1, 30)), float(rng.integers(1, most + 1))) for _ in range(rng.integers(0, 5))]
        amount = float(rng.integers(1, most + 1))
        assert own_queue(holders, ahead, amount, 0.0) == naive(holders, ahead, amount, 0.0), (holders, ahead, amount)
