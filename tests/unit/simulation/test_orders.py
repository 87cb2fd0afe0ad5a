"""Tests orders from text and from functions, reservations by request, separate machines, and the cost of a pass."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.orders import odd

from batchcast.errors import UsageError
from batchcast.events.machine_size import partition_sizes
from batchcast.schedule.advance import advance
from batchcast.schedule.state import GIVEN, make_jobs, make_state
from batchcast.simulation import Policy, simulate, simulate_split
from batchcast.simulation.policies import policy_of
from batchcast.table import LogInfo, Trace


def start_order(order, jobs):
    """Return rows in order of start on one processor that is busy until all jobs have arrived; jobs are (procs,
    planned)."""
    rows = [(4, 100.0), *jobs]
    columns = {"submit_time": np.arange(len(rows), dtype=float), "req_procs": [p for p, _ in rows]}
    lengths = [length for _, length in rows]
    log = Trace.from_arrays({**columns, "run_time": lengths, "req_time": lengths})
    return np.argsort(simulate(log, Policy(order, "none"), total=4).start_time, kind="stable")[1:].tolist()


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fcfs", [1, 2, 3]),
        ("sjf", [3, 2, 1]),
        ("ljf", [1, 2, 3]),
        ("saf", [2, 3, 1]),
        ("sjf:ageing=1000", [1, 2, 3]),
        (odd, [1, 3, 2]),
    ],
)
def test_heads_go_in_order(order, expected):
    assert start_order(order, [(4, 90.0), (3, 30.0), (4, 25.0)]) == expected


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("f1", lambda r, n, s: math.log10(r) * n + 870 * math.log10(s)),
        ("f2", lambda r, n, s: math.sqrt(r) * n + 25600 * math.log10(s)),
        ("f3", lambda r, n, s: r * n + 6.86e6 * math.log10(s)),
        ("f4", lambda r, n, s: r * math.sqrt(n) + 5.30e5 * math.log10(s)),
    ],
)
def test_the_learned_orders_do_not_depend_on_where_the_clock_starts(name, key):
    rng = np.random.default_rng(3)
    submit, procs = np.cumsum(rng.integers(1, 90, 60)).astype(float), rng.integers(1, 5, 60)
    run = rng.integers(500, 90000, 60).astype(float)
    procs[0], run[0] = 4, 1e5  # all other jobs have arrived when the first one ends
    starts = []
    for epoch in (0.0, 1.7e9):
        columns = {"submit_time": submit + epoch, "req_procs": procs, "run_time": run, "req_time": run}
        starts.append(simulate(Trace.from_arrays(columns), Policy(name, "none"), total=4).start_time - epoch)
    assert np.array_equal(*starts)
    by_key = sorted(range(1, 60), key=lambda k: key(run[k], procs[k], submit[k] - submit[0]))
    assert (np.diff(starts[0][by_key]) >= 0).all()


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ("shortest", "accepted: fcfs, sjf"),
        ("sjf:on=guessed", "on=requested"),
        ("sjf:ageing=-1", "ageing=WEIGHT"),
        ("fcfs:ageing=1", "no parameters"),
        ("no.such.module:order", "No module named"),
        ("tests.naive.orders:even", "even"),
        (lambda now, submit: now, "plain function of"),
    ],
)
def test_what_is_no_order_is_explained(order, told):
    with pytest.raises(UsageError, match=told):
        Policy(order)


def test_a_function_that_does_not_compile_says_why_and_what_would():
    def impossible(now, submit, procs, planned, wait):
        return open("/dev/null")

    with pytest.raises(UsageError, match=r"impossible does not compile: .*open.*\n.*plain arithmetic"):
        Policy(impossible)


def test_conservative_refuses_what_it_cannot_heed():
    with pytest.raises(UsageError, match="order and head_after cannot apply"):
        Policy("sjf", "conservative", head_after=60.0)


def test_first_after_is_refused_where_it_means_nothing():
    with pytest.raises(UsageError, match="first_after: not -1"):
        Policy("sjf", first_after=-1.0)


@pytest.mark.parametrize("words", ["risk_budget=-1", "risk_budget=nan", "risk_budget=much", "due_ends=soon"])
def test_a_budget_is_a_number_and_a_shadow_ends_in_one_of_two_ways(words):
    with pytest.raises(UsageError, match=words.split("=")[0] + ".*accepted"):
        policy_of(f"forecast:{words}")
    with pytest.raises(UsageError, match="first_after cannot apply"):
        Policy(backfill="conservative", first_after=60.0)


def test_the_policy_forecast_lets_nobody_wait_for_ever():
    """A stream of short jobs passes the long job until it has waited for the age, and no longer."""
    short = [(10.0 * k, 4, 20.0) for k in range(400)]
    rows = sorted([*short, (15.0, 8, 1000.0)])
    submit, procs, run = (np.array(c, dtype=float) for c in zip(*rows))
    log = Trace.from_arrays({"submit_time": submit, "req_procs": procs, "run_time": run, "req_time": run})
    wide = int(np.flatnonzero(procs == 8)[0])
    waits = {age: simulate(log, f"forecast:first_after={age}", total=8).wait_time[wide] for age in ("10m", "30m")}
    never = simulate(log, Policy("sjf", backfill_order="sjf", running_ends="requested"), total=8).wait_time[wide]
    assert 600.0 < waits["10m"] <= 640.0
    assert 1800.0 < waits["30m"] <= 1840.0
    assert waits["30m"] < never


def test_an_old_head_is_not_held_up_by_forecasts():
    """Every job runs for its whole request but is predicted to be short, so without an age a stream of jobs passes the
    wide job for ever."""

    class Hopeful:
        def predict(self, job, at):
            from batchcast import Prediction

            return Prediction(min(10.0, job.req_time))

        def observe(self, event, at): ...

    short = [(float(10 * k), 1, 300.0) for k in range(200)]
    rows = sorted([*short, (35.0, 8, 100.0)])
    submit, procs, run = (np.array(c, dtype=float) for c in zip(*rows))
    log = Trace.from_arrays({"submit_time": submit, "req_procs": procs, "run_time": run, "req_time": run})
    wide = int(np.flatnonzero(procs == 8)[0])
    waits = {
        after: simulate(log, Policy(head_after=after), Hopeful(), total=8).wait_time[wide]
        for after in (0.0, 60.0, math.inf)
    }
    assert waits[0.0] <= 300.0
    assert waits[60.0] <= 400.0
    assert waits[60.0] < waits[math.inf]


def split_log():
    columns = {
        "submit_time": [0.0, 1.0, 2.0, 3.0],
        "req_procs": [4, 4, 2, 2],
        "run_time": [50.0] * 4,
        "req_time": [50.0] * 4,
        "partition_id": [1, 1, 2, None],
    }
    header, names = {"MaxProcs": "5 (4, 1)"}, {"partition_id": {1: "big", 2: "small"}}
    return Trace.from_arrays(columns, LogInfo(max_procs=5.0, header=header, names=names))


def test_partitions_are_machines_of_their_own():
    log = split_log()
    sizes = partition_sizes(log)
    assert sizes == {1: (4.0, "header"), 2: (2.0, "widest job")}
    schedule = simulate_split(log, sizes)
    assert schedule.start_time.tolist() == [0.0, 50.0, 2.0]
    assert schedule.rows.tolist() == [0, 1, 2]
    assert schedule.total == 6
    assert schedule.left_out["no partition"] == 1
    assert "partition 2: 2 processors (widest job)" in schedule.notes


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy(backfill_order="sjf"), Policy("saf", backfill_order="f1"), Policy("wfp", backfill_order="wfp")],
    ids=lambda policy: policy.name,
)
def test_a_long_queue_does_not_turn_a_pass_quadratic(policy):
    """One pass that starts many of many waiting jobs examines each slot a bounded number of times."""
    looked_at = []
    for waiting in (5_000, 20_000):
        submit = np.zeros(waiting + 2)
        submit[2:] = 1.0
        procs = np.where(np.arange(waiting + 2) < 1, 512, 1)
        procs[1] = 1024
        rng = np.random.default_rng(1)
        run = np.concatenate([[1000.0, 10.0], rng.integers(5000, 9000, waiting).astype(float)])
        run[2::2] = 900.0  # half of the jobs fit before the shadow time, scattered over every block
        jobs = make_jobs(submit, procs, run, run, run)
        state = make_state(jobs, 1024, planner=GIVEN, **policy.rules())
        advance(state)
        passes = len(np.unique(np.concatenate([jobs["submit"], jobs["start"] + jobs["run"]])))
        looked_at.append(int(state.record["looked_at"][0]) / passes / waiting)
    assert looked_at[1] < 12
    assert looked_at[1] < 1.5 * looked_at[0] + 0.5


def test_f1_to_f4_are_the_authors_fits_divided_by_their_first_factors():
    """The coefficients that their simulator was published with; the paper prints the quotient cut to three digits."""
    fits = {  # coefficients of r's function, of n's function, of log10(s)
        "f1": (-0.0155183403, -0.0005149209, 0.0069596182),
        "f2": (0.0000342717, 0.0076562110, 0.0067364626),
        "f3": (-0.2188093701, -0.0000000049, 0.0073580361),
        "f4": (0.0056500287, 0.0000024814, 0.0074444355),
    }
    from batchcast.schedule.orders import NAMES, order_key

    for name, (of_length, of_width, of_submission) in fits.items():
        printed = order_key.py_func(
            NAMES[name], 0, 0.0, 0.0, 10.0, 0.0, 1.0, 0.0
        )  # s = 10, no processors: the factor alone
        assert printed == pytest.approx(of_submission / (of_length * of_width), rel=0.005)
