"""Tests planning on a past week: which jobs would have been planned, which not and why, and the effect."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import insert, update

from batchcast.errors import NoAnswer
from batchcast.machines.machine import Machine, NodeGroup, Partition
from batchcast.planning.record import Terms
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.service.planning.effects import SHORT, by_partition, sentences, simulated, week
from batchcast.service.planning.terms import TOO_SHORT
from batchcast.service.settings import load
from batchcast.store import clock_jobs
from batchcast.store.database import Store
from batchcast.store.reader import Reader
from batchcast.store.schema import jobs

HOUR = 3600.0
TERMS = Terms(
    0.0, {"main": 2 * HOUR, "exact": 0.0}, {"main": 1e6, "exact": 1e6}, partitions=frozenset({"main", "exact"})
)  # fmt: skip


def store(tmp_path: Path, count: int = 40, step: float = 600.0, run: float = HOUR) -> str:
    """Every `step` seconds a one-hour job that requests four hours, alternately wide and narrow; all but the first
    waited."""
    place = str(tmp_path / "s.db")
    opened = Store(place, create=True)
    with opened.begin() as connection:
        clock_jobs.write_meta(connection, "c", total_procs=8.0)
        for k in range(count):
            submit = 1000.0 + step * k
            start = submit + (0.0 if k == 0 else 900.0)
            key = {"row": k + 1, "cluster": "c", "job_id": str(k + 1), "submit_time": submit, "first_seen": submit}
            asked = {"req_time": 4 * HOUR, "req_procs": 8.0 if k % 2 else 2.0, "user_id": f"u{k % 5}", "qos": "normal"}
            place_of = {"partition_id": "exact" if k % 10 == 9 else "main", "account": "a"}
            ended = {
                "open": 0,
                "state": "completed",
                "status": "completed",
                "start_time": start,
                "end_time": start + run,
            }
            connection.execute(insert(jobs).values(**key, **asked, **place_of, **ended))
            said = Prediction(run, (0.5, 0.9), (run, 1.1 * run), "", Grounds.NO_HISTORY if k == 3 else Grounds.CLASS)
            shared = {"kind": "runtime", "moment": "submit", "method": "kernel", "as_of": submit, "issued_at": submit}
            clock_jobs.issue(connection, [{"row": k + 1, **shared, "prediction": said}])
    opened.close()
    return place


def test_each_job_is_judged_by_its_own_forecast_and_left_alone_for_a_reason(tmp_path: Path) -> None:
    place = store(tmp_path)
    settings = load({"store": place, "runtime": "kernel"}, {})
    one = week(settings, Reader(place), "c", TERMS, 0.0, 1e9)
    assert one.planned[1] == 2 * HOUR  # the prediction is 1.1 h, and OverTimeLimit covers at most two hours
    assert math.isnan(one.planned[0])
    assert one.why[0] == SHORT
    assert one.why[3] == "no similar job has ended yet"
    exact, main = by_partition(one)
    assert (exact["jobs"], exact["planned"], exact["left_alone"]) == (
        4,
        0,
        {"OverTimeLimit is 0 in partition exact": 4},
    )
    assert (main["jobs"], main["planned"], main["mean_cut_s"], main["mean_share_of_limit"]) == (36, 34, 2 * HOUR, 0.5)
    assert sentences([main])[0] == "main: 34 of 36 jobs, shortened to 50% of their limits on average"
    with pytest.raises(NoAnswer, match="no job of c"):
        week(settings, Reader(place), "c", TERMS, 2e9, 3e9)


def test_jobs_that_are_over_before_a_look_are_counted_or_left_alone(tmp_path: Path) -> None:
    place = store(tmp_path, run=10.0)
    rows = {}
    for shortest in (0.0, 30.0):
        settings = load({"store": place, "runtime": "kernel", "plan_shortest_s": shortest}, {})
        rows[shortest] = by_partition(week(settings, Reader(place), "c", TERMS, 0.0, 1e9))[1]
    assert (rows[0.0]["planned"], rows[0.0]["never_seen"]) == (34, pytest.approx(34 * 2 / 3))
    assert "  23 of these jobs end before a cycle, so that the planned limit stays in accounting" in sentences(
        [rows[0.0]]
    )
    assert (rows[30.0]["planned"], rows[30.0]["never_seen"]) == (0, 0)
    assert rows[30.0]["left_alone"][TOO_SHORT] == 35  # including the first job, which started at once


def test_jobs_cancelled_while_they_waited_are_summed_up_with_the_others(tmp_path: Path) -> None:
    """Regression: `plan --dry-run` with the guide's settings ended with "cannot convert float NaN to integer"."""
    place = store(tmp_path)
    opened = Store(place)
    with opened.begin() as connection:
        gone = {"open": 0, "state": "cancelled", "status": "cancelled", "start_time": None, "end_time": 9000.0}
        connection.execute(update(jobs).where(jobs.c.row.in_([5, 7])).values(**gone))
    opened.close()
    settings = load({"store": place, "runtime": "kernel", "plan": "limits", "plan_partitions": "main"}, {})
    one = week(settings, Reader(place), "c", TERMS, 0.0, 1e9)
    rows = by_partition(one)
    assert sentences(rows)[-1]
    assert sum(row["jobs"] for row in rows) == 40
    assert all(row["never_seen"] == 0 for row in rows)


def test_on_a_machine_the_same_week_is_planned_with_either_and_no_job_is_cut(tmp_path: Path) -> None:
    place = store(tmp_path)
    settings = load({"store": place, "runtime": "kernel", "plan": "limits"}, {})
    one = week(settings, Reader(place), "c", TERMS, 0.0, 1e9)
    nodes = ("n1",)
    machine = Machine((NodeGroup(nodes, 8),), (Partition("main", nodes, default=True), Partition("exact", nodes)))
    rows, validity, _ = simulated(one, machine, settings)
    own, planned = (row for row in rows if row["part"] == "simulated" and row["size"] == "all")
    assert (own["policy"], planned["policy"], planned["planned"]) == ("own limits", "planned limits", 34)
    assert planned["mean_wait_s"] < own["mean_wait_s"]
    assert planned["differences"]["mean_wait_s"].value == pytest.approx(planned["mean_wait_s"] - own["mean_wait_s"])
    assert {row["size"] for row in rows if row["part"] == "simulated"} == {"all", "2-4", "5-16"}
    assert validity.verdict
    users = [row for row in rows if row["part"] == "group" and row["by"] == "user_id"]
    assert users == []  # no rows by user: with eight jobs each, a single job would decide the result
    sizes = {row["group"]: row for row in rows if row["part"] == "group" and row["by"] == "size class"}
    assert sizes["2-4"]["bursts"] == 5  # one burst per user (a job every 50 min): too few for an interval
    assert math.isnan(sizes["2-4"]["differences"]["wait_s"].low)


def test_who_gains_and_who_pays_is_said_with_an_interval_over_bursts(tmp_path: Path) -> None:
    place = store(tmp_path, 240, 1800.0)  # each user submits every two and a half hours
    settings = load({"store": place, "runtime": "kernel", "plan": "limits"}, {})
    one = week(settings, Reader(place), "c", TERMS, 0.0, 1e9)
    nodes = ("n1",)
    machine = Machine((NodeGroup(nodes, 8),), (Partition("main", nodes, default=True), Partition("exact", nodes)))
    rows, *_ = simulated(one, machine, settings)
    users = [row for row in rows if row["part"] == "group" and row["by"] == "user_id"]
    assert {(row["jobs"], row["bursts"]) for row in users} == {(48, 48)}
    for row in users:
        assert row["differences"]["wait_s"].value == pytest.approx(row["then_s"] - row["now_s"])
        change = row["differences"]["wait_s"]
        assert change.low <= change.value <= change.high
    assert {row["differences"]["wait_s"].verdict for row in users} & {"ahead", "behind"}


def test_the_order_of_a_past_week_is_by_the_forecasts_of_then(tmp_path: Path) -> None:
    place = store(tmp_path)
    settings = load({"store": place, "runtime": "kernel"}, {})  # planning is off, so the simulation shows every mode
    one = week(settings, Reader(place), "c", TERMS, 0.0, 1e9)
    known = one.forecast[~np.isnan(one.forecast)]
    assert 0 < len(known) < len(one.forecast)  # the first jobs have no prediction, so their limits order them
    assert known == pytest.approx(1.1 * HOUR)  # the 90 % quantile, not the point prediction
    by_limits = load({"store": place, "runtime": "kernel", "plan_order_by": "limits"}, {})
    assert np.isnan(week(by_limits, Reader(place), "c", TERMS, 0.0, 1e9).forecast).all()
    one = one._replace(forecast=np.where(np.arange(len(one.trace)) % 2 == 0, 60.0, HOUR))
    nodes = ("n1",)
    machine = Machine((NodeGroup(nodes, 8),), (Partition("main", nodes, default=True), Partition("exact", nodes)))
    rows, *_ = simulated(one, machine, settings)
    whole = {row["policy"]: row for row in rows if row["part"] == "simulated" and row["size"] == "all"}
    reserving = "order, bf_min_prio_reserve"
    assert list(whole) == ["own limits", "planned limits", "order by forecast", "limits and order", reserving]
    assert whole["order by forecast"]["mean_wait_s"] < whole["own limits"]["mean_wait_s"]
    assert whole["order by forecast"]["planned"] == 0
    assert whole[reserving]["mean_wait_s"] <= whole["order by forecast"]["mean_wait_s"]
    set_already = replace(machine, settings={"bf_min_prio_reserve": "5000"})
    assert reserving not in {row["policy"] for row in simulated(one, set_already, settings)[0]}
    narrow = {r["policy"]: r["change_s"] for r in rows if r["part"] == "group" and r["group"] == "2-4"}
    assert narrow["order by forecast"] < 0  # these jobs are predicted to be short, and go before the wide ones
