"""Tests machines learned from logs of a simulated Slurm: what was put in is found, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.machines import made_caps
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.implied import caps_of, refusal

from batchcast.errors import InputError
from batchcast.machines.machine import Limits, Machine, Qos, homogeneous
from batchcast.simulation.learned import caps, fit
from batchcast.simulation.learned import learn as learned
from batchcast.simulation.learned.caps import Queue, find_held
from batchcast.simulation.on_nodes import simulate_on
from batchcast.table import Nominal, Trace

NODES, CPUS, DAYS = 16, 16, 30


def requests(seed: int, jobs: int = 3000, users: int = 15) -> Trace:
    """Users who submit series of similar jobs, a few users most of them; the machine is well used."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[float, str, int, float, float]] = []
    while len(rows) < jobs:
        user, many, at = int(rng.zipf(1.5)) % users, int(rng.integers(1, 25)), rng.uniform(0.0, DAYS * 86400.0)
        size, limit = int(rng.choice([1, 2, 4, 8, 16, 16, 32, 48])), float(rng.choice([3600, 7200, 14400, 43200]))
        rows += [
            (at + rng.uniform(0.0, 600.0), f"u{user}", size, limit, limit * rng.beta(1, 3) + 5.0) for _ in range(many)
        ]
    submit, user, size, limit, run = zip(*sorted(rows))
    scale = min(1.0, NODES * CPUS * DAYS * 86400.0 / np.dot(size, run))
    return Trace.from_arrays(
        {
            "job_id": range(1, len(rows) + 1),
            "submit_time": np.round(submit),
            "run_time": np.round(np.multiply(run, scale)),
            "req_procs": size,
            "req_time": limit,
            "user_id": list(user),
        }
    )


def recorded(log: Trace, limits: Limits | None) -> Trace:
    """Return the log with the waits that Slurm's loops give under these limits for each user."""
    machine = homogeneous(NODES, CPUS, SchedulerType="sched/backfill")
    if limits is not None:
        machine = replace(
            machine,
            qos=(Qos("normal"), Qos("capped", limits=limits)),
            partitions=(replace(machine.partitions[0], qos="capped"),),
            settings={**machine.settings, "AccountingStorageEnforce": "limits"},
        )
    schedule = simulate_on(machine, log)
    wait = np.full(len(log), np.nan)
    wait[schedule.rows] = schedule.wait_time
    there = ~np.isnan(wait)
    return log.take(np.flatnonzero(there)).with_columns({"wait_time": wait[there]})


def caps_in(machine: Machine) -> Limits | None:
    """Return the limits of the only class of jobs of the learned machine."""
    return next((qos.limits for qos in machine.qos if qos.name.startswith("cap-")), None)


@pytest.fixture
def _unfitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the trial of sizes and intervals, which is one simulation each."""
    monkeypatch.setattr(fit, "SIZES", (1.0,))
    monkeypatch.setattr(fit, "LOOKS_S", ())


@pytest.mark.usefixtures("_unfitted")
@pytest.mark.parametrize("seed", range(3))
def test_a_cap_for_everybody_is_found_exactly(seed: int) -> None:
    by_processors = recorded(requests(seed), Limits(max_tres_per_user={"cpu": 64.0}))
    assert caps_in(learned.learn_machine(by_processors).machine) == Limits(max_tres_per_user={"cpu": 64.0})
    by_jobs = recorded(requests(seed), Limits(max_jobs_per_user=6.0))
    assert caps_in(learned.learn_machine(by_jobs).machine) == Limits(max_jobs_per_user=6.0)


@pytest.mark.usefixtures("_unfitted")
def test_a_learned_cap_binds_jobs_of_a_qos_that_the_machine_does_not_have() -> None:
    log = recorded(requests(0), Limits(max_jobs_per_user=6.0))
    machine = learned.learn_machine(log).machine
    without = simulate_on(machine, log).wait_time
    named = simulate_on(machine, log.with_columns({"qos": Nominal.encode(["normal"] * len(log))})).wait_time
    np.testing.assert_array_equal(named, without)


def test_gpus_are_on_as_many_nodes_as_held_them_and_a_column_without_a_meaning_is_told() -> None:
    log = Trace.from_arrays(
        {
            "submit_time": np.arange(8) * 100.0,
            "wait_time": np.zeros(8),
            "run_time": np.full(8, 5000.0),
            "req_procs": np.full(8, 16),
            "alloc_nodes": np.ones(8),
            "req_gpus": [4, 4, 2, 0, 0, 0, 0, 0],
        }
    ).with_columns({"partition": Nominal.encode(["day"] * 8)})
    found = learned.implied(log)
    assert [(len(group.names), dict(group.gres)) for group in found.machine.nodes] == [
        (2, {"gpu": 4}),
        (1, {"gpu": 2}),
        (5, {}),
    ]
    assert "the column partition was not learned from" in found.in_short()


@pytest.mark.usefixtures("_unfitted")
@pytest.mark.parametrize("seed", range(6))
def test_no_cap_is_invented(seed: int) -> None:
    found = learned.learn_machine(recorded(requests(seed), None))
    assert caps_in(found.machine) is None
    assert not [line for line in found.lines if line.table == "qos" or "alone" in line.says]


@pytest.mark.long
def test_caps_of_processors_jobs_and_gpus_are_found_in_made_logs_and_none_is_invented() -> None:
    verdicts = [made_caps.judged(made_caps.make(seed))[0] for seed in range(2000, 2040)]
    assert verdicts.count("exact") + verdicts.count("few") >= 36
    assert verdicts.count("wrong") <= 1
    bare = [made_caps.judged(made_caps.make(seed, "none"))[0] for seed in range(2040, 2060)]
    assert bare.count("exact") >= 19


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(10, 60))
def test_refusals_and_caps_are_those_of_the_slow_twin(seed: int, users: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 40, jobs) * 900.0)
    start = submit + rng.choice([0.0, 300.0, 1800.0, 7200.0], jobs)
    limit = rng.choice([1800.0, 7200.0, np.nan], jobs)
    size, end = rng.integers(1, 5, jobs) * 1.0, start + rng.integers(1, 9, jobs) * 600.0
    queue = Queue(submit, start, end, size, limit, 24.0, alone=bool(rng.integers(2)))
    if rng.integers(2):
        gpus, memory = rng.integers(0, 3, jobs) * 1.0, rng.choice([1.0, 2.0, np.nan], jobs)
        queue = replace(queue, gpus=gpus, gpus_there=8.0, nodes=np.ones(jobs), nodes_there=16.0, memory=memory)
    codes = rng.integers(-1, users, jobs)
    refused = caps.refusals(queue, codes, np.zeros(jobs, bool))
    np.testing.assert_array_equal(refused, [refusal(queue, codes, j) for j in range(jobs)])
    with pytest.MonkeyPatch.context() as patch:  # the test lowers the required evidence, so that small logs have caps
        for name, least in (("LEAST_JOBS", 3), ("LEAST_GROUPS", 2), ("LEAST_OWN", 3), ("ABOVE", 0.5)):
            patch.setattr(caps, name, least)
        levels = {what: caps.held_levels(queue, codes, size, refused) for what, size in queue.counted.items()}
        peaks = {what: caps.peaks_of(queue, codes, size) for what, size in queue.counted.items()}
        for what in queue.counted:
            others = [levels[name] > peaks[name][codes] for name in levels if name != what]
            found = caps.best_cap("user", what, codes, levels[what], peaks[what], np.logical_or.reduce(others))
            assert (found and (found.value, found.name)) == caps_of(queue, codes, what, refused)


def test_a_held_job_is_told_by_its_like() -> None:
    submit, wait = np.arange(6) * 60.0, np.array([9000.0, 0, 0, 0, 9000.0, 0])
    log = Trace.from_arrays(
        {
            "submit_time": submit,
            "wait_time": wait,
            "run_time": np.full(6, 60.0),
            "req_procs": [1, 1, 1, 1, 2, 1],
            "user_id": ["ada"] * 6,
        }
    )
    assert find_held(log).tolist() == [True, False, False, False, False, False]


def test_an_outage_is_kept_and_a_drain_for_a_wide_job_is_none() -> None:
    day = 86400.0
    quiet = Queue(
        submit=np.array([0.0, 100.0, 200.0, 300.0, 400.0]),
        start=np.array([0.0, day, day + 5, day + 9, day + 12]),
        end=np.array([50.0, day + 50, day + 55, day + 60, day + 70]),
        size=np.full(5, 2.0),
        limit=np.full(5, 3600.0),
        capacity=16.0,
    )
    held = np.zeros(5, bool)
    assert learned.outages(quiet, held) == []  # these jobs arrived after the last start before that instant
    waiting = replace(quiet, submit=np.zeros(5))
    assert learned.outages(waiting, held) == [(0.0, day, 4)]
    busy = replace(
        waiting, end=np.array([2 * day, day + 50, day + 55, day + 60, day + 70]), size=np.array([8.0, 2, 2, 2, 2])
    )
    assert learned.outages(busy, held) == []


def test_partitions_that_never_filled_together_share_nodes() -> None:
    count = 40
    log = Trace.from_arrays(
        {
            "submit_time": np.arange(count) * 1000.0,
            "wait_time": np.zeros(count),
            "run_time": np.full(count, 900.0),
            "req_procs": np.full(count, 64),
            "req_nodes": np.full(count, 4),
            "partition_id": ["day", "night"] * (count // 2),
        }
    )
    machine = learned.learn_machine(log).machine
    assert machine.cpus == 64
    assert [len(p.nodes) for p in machine.partitions] == [4, 4]


def test_a_log_without_waits_is_refused_in_one_sentence() -> None:
    log = Trace.from_arrays({"submit_time": [0, 1, 2, 3], "run_time": [9, 9, 9, 9], "req_procs": [1, 1, 1, 1]})
    with pytest.raises(InputError, match="no job has a recorded wait"):
        learned.split(log)


@pytest.mark.usefixtures("_unfitted")
def test_whole_nodes_are_found_where_parts_of_one_are_never_given() -> None:
    log = requests(1).with_columns({"req_nodes": np.ceil(requests(1).procs() / CPUS)})
    machine = homogeneous(NODES, CPUS, SchedulerType="sched/backfill")
    shared = simulate_on(machine, log)
    whole = simulate_on(replace(machine, partitions=(replace(machine.partitions[0], exclusive=True),)), log)
    for schedule, held in ((shared, log.procs()), (whole, log.number("req_nodes") * CPUS)):
        made = log.take(schedule.rows).with_columns(
            {"wait_time": schedule.wait_time, "alloc_procs": held[schedule.rows]}
        )
        learnt = learned.learn_machine(made).machine
        assert [part.exclusive for part in learnt.partitions] == [schedule is whole]


def test_no_machine_is_tried_that_could_not_do_the_work_of_the_busiest_week() -> None:
    count = 3 * 7 * 24
    busy = Trace.from_arrays(
        {
            "submit_time": np.arange(count) * 3600.0,
            "wait_time": np.zeros(count),
            "run_time": np.full(count, 3600.0),
            "req_procs": np.where(np.arange(count) < 7 * 24, 15, 4),
        }
    )
    assert list(fit.parts_of(homogeneous(16, 1), busy, "req")) == ["100%", "95%"]
