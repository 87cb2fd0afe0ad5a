"""Tests that a simulation is trusted only if nothing in the log contradicts it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.evaluation.evaluation import evaluate
from batchcast.evaluation.validity import Doubt, Recorded, Validity, Verdict, judge
from batchcast.report.validity import judgement
from batchcast.simulation import Policy, RunSetup, simulate
from batchcast.simulation.models import Pool
from batchcast.table import LogInfo, Trace


def log(total: float = 8.0, jobs: int = 400, load: float = 1.0, **columns: object) -> Trace:
    """A busy machine whose recorded waits are exactly the waits of EASY with the users' limits."""
    rng = np.random.default_rng(4)
    run = rng.integers(60, 3000, jobs).astype(float)
    trace = Trace.from_arrays(
        {
            "submit_time": np.sort(rng.uniform(0, 900 * jobs / load, jobs)).round(),
            "run_time": run,
            "req_time": run * rng.integers(1, 5, jobs),
            "req_procs": rng.integers(1, 8, jobs),
            "user_id": rng.integers(0, 9, jobs),
            **columns,
        },
        LogInfo(max_procs=total, max_procs_source="header", header={"MaxProcs": f"{total:g}"}),
    )
    waits = simulate(trace, Policy()).wait_time
    return trace.with_columns({"wait_time": waits})


def validity(trace: Trace, *, kill: bool = True, **options: object) -> Validity:
    """The validity of a pool of processors."""
    return judge(Pool(RunSetup(**options)), Recorded.of(trace), kill=kill)


def test_what_was_recorded_exactly_so_is_close() -> None:
    checked = validity(log())
    assert checked.verdict is Verdict.CLOSE
    assert (checked.wait_distance, checked.ratio) == (0.0, 1.0)
    assert checked.rank_correlation == pytest.approx(1.0)
    assert judgement(checked).tone == "good"


def test_equal_means_of_other_waits_fool_nobody() -> None:
    """Every job's recorded wait is the mean: the means agree to the second, the distributions do not."""
    trace = log()
    trace = trace.with_columns({"wait_time": np.full(len(trace), trace.wait_time.mean())})
    checked = validity(trace)
    assert checked.ratio == pytest.approx(1.0)
    assert {Doubt.DISTRIBUTION, Doubt.RANK} <= set(checked.doubts)
    assert checked.verdict is Verdict.FAR
    assert not checked.trusted
    assert "close to the record" not in judgement(checked).text


def test_work_cut_at_limits_is_said_and_can_be_kept() -> None:
    trace = log()
    trace = trace.with_columns({"req_time": np.minimum(trace.req_time, 900.0)})
    checked = validity(trace)
    assert checked.cut_jobs == int((trace.run_time > 900).sum())
    procs = trace.procs("req")
    lost = (procs * np.maximum(trace.run_time - trace.req_time, 0)).sum() / (procs * trace.run_time).sum()
    assert checked.cut_share == pytest.approx(lost)
    assert Doubt.WORK_CUT in checked.doubts
    assert "--no-kill keeps them" in judgement(checked).text
    kept = validity(trace, kill=False)
    assert kept.cut_jobs == 0
    assert Doubt.WORK_CUT not in kept.doubts
    own = evaluate(trace, predictor=["last_2"], policy=["easy:kill=no"]).validity
    assert own is not None
    assert own.cut_jobs == 0


def test_a_what_if_is_judged_on_the_recorded_machine() -> None:
    trace = log(total=8.0)
    asked = trace.with_info(LogInfo(max_procs=64.0, max_procs_source="--procs-total", header={"MaxProcs": "8 (batch)"}))
    found = evaluate(asked, predictor=["last_2"], policy=["easy"])
    assert found.validity is not None
    assert found.validity.verdict is Verdict.CLOSE
    assert found.validity.procs == 8
    assert found.outcomes[0].schedule.total == 64
    assert "the tables simulate 64 processors, which no record can confirm" in judgement(found.validity, 64.0).text


def test_a_header_that_is_far_too_small_is_no_machine() -> None:
    trace = log(total=8.0)
    wrong = trace.with_info(LogInfo(max_procs=8.0, max_procs_source="--procs-total", header={"MaxProcs": "2"}))
    assert Recorded.of(wrong).size() == (8.0, "--procs-total")
    small = trace.with_info(LogInfo(max_procs=2.0, max_procs_source="--procs-total"))
    assert Doubt.MACHINE in validity(small, wide="widen").doubts or Doubt.WORK_LEFT_OUT in validity(small).doubts


def test_work_that_was_not_simulated_is_counted_in_core_hours() -> None:
    trace = log(total=8.0)
    procs = trace.procs("req").copy()
    small = trace.with_info(LogInfo(max_procs=4.0, max_procs_source="--procs-total"))
    work = procs * trace.run_time
    assert validity(small).left_out_share == pytest.approx(work[procs > 4].sum() / work.sum())
    assert Doubt.WORK_LEFT_OUT in validity(small).doubts


@pytest.mark.parametrize(
    ("column", "values", "name"),
    [
        ("qos", ["normal", "urgent"], "priorities"),
        ("partition_id", ["batch", "fat"], "partitions"),
        ("req_gpus", [float("nan"), 2.0], "GPUs"),
    ],
)
def test_what_the_model_leaves_out_is_a_doubt_unless_the_same_jobs_wait(column, values, name) -> None:
    named = [values[k % 2] for k in range(400)]
    exact = validity(log(**{column: named}))
    assert exact.uncovered[name] == 200
    assert exact.verdict is Verdict.CLOSE
    assert "the same jobs wait (rank correlation 1.00)" in judgement(exact).text
    trace = log(**{column: named})
    order = np.random.default_rng(1).permutation(len(trace))
    # the same waits, assigned to other jobs
    shuffled = validity(trace.with_columns({"wait_time": trace.wait_time[order]}))
    assert shuffled.wait_distance == 0
    assert Doubt.UNCOVERED in shuffled.doubts
    assert shuffled.verdict is Verdict.ROUGH


def test_time_on_hold_is_not_the_queues() -> None:
    trace = log()
    held = trace.with_columns({"eligible_time": trace.submit_time + 7200.0})
    checked = validity(held)
    assert checked.uncovered["holds"] == 400
    assert "had a dependency, a hold or a begin time" in judgement(checked).text


def test_a_few_absurd_requests_plan_nobody_else(tmp_path) -> None:
    """Waits of INT_MAX seconds and of 23 years count as unknown; jobs without a request get the largest real
    request."""
    lines = [f"{k} {60 * k} 0 100 1 -1 -1 1 {3600 if k % 2 else -1} -1 1 1 1 -1 1 -1 -1 -1" for k in range(1, 41)]
    lines += ["41 9000 0 5 1 -1 -1 1 2147483647 -1 1 1 1 -1 1 -1 -1 -1"]
    lines += [f"42 9060 0 5 1 -1 -1 1 {23 * 365 * 86400} -1 1 1 1 -1 1 -1 -1 -1"]
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 4\n" + "\n".join(lines) + "\n")
    document = json.loads(CliRunner().invoke(cli, ["simulate", str(path), "--json"]).stdout)
    told = " ".join(document["warnings"])
    assert "2 values of req_time: more than 3 years, read as unknown (first: job 41: 2.14748e+09)" in told
    assert "22 jobs without a request planned with 1 h" in told
    assert document["log"]["validity"]["doubts"] == "rank few_waited", "42 jobs are too few to be called close"


def test_a_log_without_limits_has_no_row_for_them() -> None:
    trace = log()
    none = trace.with_columns({"req_time": np.full(len(trace), np.nan)})
    found = evaluate(none, predictor=["last_2"], policy=["easy"])
    assert [row["predictor"] for row in found.accuracy_rows()] == ["last_2"]


def test_an_invented_limit_is_not_scored_as_a_users() -> None:
    trace = log()
    some = trace.with_columns({"req_time": np.where(np.arange(len(trace)) < 100, trace.req_time, np.nan)})
    rows = {r["predictor"]: r for r in evaluate(some, predictor=["last_2"], policy=["easy"]).accuracy_rows()}
    assert (rows["requested"]["jobs"], rows["last_2"]["jobs"]) == (100, 400)
    assert rows["requested"]["mae_s"] == pytest.approx(np.abs(trace.req_time - trace.run_time)[:100].mean())


def test_simulate_says_what_the_page_says(tmp_path) -> None:
    from batchcast.trace.write import write_by_ending

    write_by_ending(log(), tmp_path / "log.swf")
    out = CliRunner().invoke(cli, ["simulate", str(tmp_path / "log.swf"), "--policy", "easy-sjbf", "--details"])
    page = CliRunner().invoke(cli, ["evaluate", str(tmp_path / "log.swf"), "-o", str(tmp_path / "r"), "--details"])
    line = next(line for line in out.stdout.splitlines() if line.startswith("Validity."))
    assert "close to the record" in line
    assert page.exit_code == 0, page.output
    assert line.rstrip() in page.stdout
