"""Tests the evaluation: reference and perfect knowledge are always included, gains have their sign, validity uses the
same jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batchcast.errors import UsageError
from batchcast.evaluation.evaluation import evaluate
from batchcast.evaluation.findings import share_of_perfect_knowledge
from batchcast.evaluation.validity import Recorded, judge, not_covered
from batchcast.simulation import Policy, simulate
from batchcast.simulation.models import Pool
from batchcast.simulation.policies import policy_of
from batchcast.table import LogInfo, Trace


def workload(jobs: int = 200, total: float = 8.0, **columns) -> Trace:
    rng = np.random.default_rng(5)
    run = rng.integers(1, 500, jobs).astype(float)
    base = {
        "submit_time": np.sort(rng.integers(0, 40 * jobs, jobs)).astype(float),
        "wait_time": rng.integers(0, 900, jobs).astype(float),
        "run_time": run,
        "req_time": run * rng.integers(1, 6, jobs),
        "req_procs": rng.integers(1, 8, jobs),
        "user_id": rng.integers(0, 5, jobs),
    }
    return Trace.from_arrays({**base, **columns}, LogInfo(max_procs=total))


def test_yardstick_and_oracle_run_beside_what_was_chosen() -> None:
    found = evaluate(workload(), predictor=["last_2:need=2"], policy=["easy-sjbf"])
    assert [row["predictor"] for row in found.accuracy_rows()] == ["requested", "last_2:need=2"]
    rows = found.schedule_rows()
    assert [(r["policy"], r["predictor"]) for r in rows] == [
        ("easy-sjbf", "requested"),
        ("easy-sjbf", "last_2:need=2"),
        ("easy-sjbf", "actual"),
    ]
    requests, _, actual = (row["mean_wait_s"] for row in rows)
    assert requests - actual < 0.05 * requests  # the possible gain is so small that a share of it is noise
    assert all(row["share_of_perfect"] != row["share_of_perfect"] for row in rows)


def test_the_yardstick_has_none_and_the_oracle_all_of_what_there_is_to_gain() -> None:
    times = {"submit_time": [0, 1, 2, 3], "run_time": [600, 600, 60, 60], "req_time": [900, 900, 900, 900]}
    log = Trace.from_arrays({**times, "req_procs": [3, 4, 1, 1], "user_id": [1, 2, 3, 4]}, LogInfo(max_procs=4.0))
    found = evaluate(log, predictor=["last_2"], policy=["easy"])
    shares = {row["predictor"]: row["share_of_perfect"] for row in found.schedule_rows()}
    assert (shares["requested"], shares["actual"]) == (0, 1)


def test_schedules_are_those_of_simulate() -> None:
    trace = workload()
    found = evaluate(trace)
    alone = simulate(trace, Policy(backfill_order="sjf"), "recent_mean")
    mine = next(o.schedule for o in found.outcomes if (o.policy, o.predictor) == ("easy-sjbf", "recent_mean"))
    assert mine.start_time.tolist() == alone.start_time.tolist()


def test_scoring_a_part_schedules_everything() -> None:
    trace = workload()
    late = np.arange(len(trace)) >= 150
    found = evaluate(trace, mask=late, policy=["easy"])
    assert {row["jobs"] for row in found.schedule_rows()} == {50}
    assert {len(o.schedule) for o in found.outcomes} == {200}
    assert found.validity is not None
    assert found.validity.jobs == 50


def test_without_a_machine_size_forecasts_are_scored_and_the_reason_is_said() -> None:
    found = evaluate(workload(total=float("nan")))
    assert found.outcomes == ()
    assert found.validity is None
    assert "--procs-total" in found.why_not
    assert found.accuracy_rows()[0]["jobs"] == 200
    assert found.why_not in found.warnings()


def test_without_any_request_forecasts_are_scored_and_the_reason_is_said() -> None:
    found = evaluate(workload(req_time=np.full(200, np.nan)))
    assert found.outcomes == ()
    assert "default_request" in found.why_not
    assert found.accuracy_rows()[1]["jobs"] == 200


def test_validity_compares_the_same_jobs() -> None:
    wait = np.full(200, 100.0)
    wait[:50] = np.nan
    trace = workload(wait_time=wait)
    schedule = simulate(trace, Policy(), "requested")
    checked = judge(Pool(), Recorded.of(trace))
    assert checked.jobs == 150
    assert checked.recorded_mean_wait_s == 100
    assert checked.simulated_mean_wait_s == pytest.approx(schedule.wait_time[50:].mean())
    assert checked.ratio == pytest.approx(100 / schedule.wait_time[50:].mean())


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "close"), (1.6, "rough"), (1.99, "rough"), (2.01, "far"), (0.49, "far")]
)
def test_more_than_a_factor_of_two_either_way_is_far(factor: float, verdict: str) -> None:
    trace = workload(400)
    schedule = simulate(trace, Policy(), "requested")
    as_simulated = trace.with_columns({"wait_time": schedule.wait_time * factor})
    found = evaluate(as_simulated, policy=["easy"])
    assert found.validity is not None
    assert found.validity.ratio == pytest.approx(factor)
    assert found.validity.verdict == verdict
    assert found.validity.trusted is (verdict == "close")
    assert any("not to be trusted" in w for w in found.warnings()) is (verdict == "far")


def test_no_recorded_waits_is_no_reason_for_trust() -> None:
    found = evaluate(workload(wait_time=np.full(200, np.nan)), policy=["easy"])
    assert found.validity is not None
    assert math.isnan(found.validity.ratio)
    assert not found.validity.trusted


def test_what_the_model_leaves_out_is_counted() -> None:
    trace = Trace.from_arrays(
        {
            "submit_time": [0.0, 1.0, 2.0, 3.0],
            "req_mem_kib": [1.0, None, None, 0.0],
            "req_gpus": [2.0, 1.0, None, 0.0],
            "partition_id": ["a", "a", "b", None],
        }
    )
    assert {name: mask.tolist() for name, mask in not_covered(trace).items() if mask.any()} == {
        "memory": [True, False, False, False],
        "GPUs": [True, True, False, False],
        "partitions": [False, False, True, False],
    }


def test_gain_is_not_clipped_and_absent_where_truth_gains_nothing() -> None:
    assert share_of_perfect_knowledge(100, 10, 50) == pytest.approx(1.8)
    assert share_of_perfect_knowledge(100, 150, 50) == -1
    assert math.isnan(share_of_perfect_knowledge(100, 90, 100))


def test_policies_by_name_with_parameters() -> None:
    assert policy_of("fcfs") == Policy(backfill="none")
    assert policy_of("easy-sjbf:correct=incremental,event_order=pyss").correct == "incremental"
    with pytest.raises(UsageError, match="fcfs, easy, easy-sjbf"):
        policy_of("best")
    with pytest.raises(UsageError, match="no parameter 'colour'"):
        policy_of("easy:colour=red")
