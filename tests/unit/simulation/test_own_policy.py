# SPDX-License-Identifier: Apache-2.0
"""Tests a user's own scheduler: the examples equal the compiled kernels, and errors name the fault."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchcast
from batchcast.errors import BatchcastError, UsageError
from batchcast.events.event import End
from batchcast.simulation import Policy, RunSetup, simulate
from batchcast.simulation.periods import simulate_periods
from batchcast.simulation.scheduler import BestFit, Job, Machine, Node, Profile, Scheduler
from batchcast.table import Trace
from batchcast.testing import check_policy
from batchcast.testing.policy import small_workload

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"
OWN = runpy.run_path(str(EXAMPLES / "my_scheduler.py"), run_name="examples")
TWINS = {
    "easy": (OWN["Easy"], Policy),
    "sjbf": (OWN["Sjbf"], lambda **words: Policy(backfill_order="sjf", **words)),
    "conservative": (OWN["Conservative"], lambda **words: Policy(backfill="conservative", **words)),
}
TOTAL = 8
one_job = st.tuples(st.integers(0, 40), st.integers(1, TOTAL), st.integers(0, 300), st.integers(1, 400),
                    st.integers(0, 3))  # fmt: skip


def log_of(rows: list[tuple[int, ...]]) -> Trace:
    gaps, procs, run, request, user = (np.array(column, dtype=float) for column in zip(*rows))
    return Trace.from_arrays(
        {"submit_time": np.cumsum(np.maximum(gaps - 20, 0)), "req_procs": procs, "run_time": run, "req_time": request,
         "user_id": user.astype(int)}
    )  # fmt: skip


@given(
    st.lists(one_job, min_size=1, max_size=30),
    st.sampled_from(sorted(TWINS)),
    st.sampled_from(["requested", "incremental", "doubling"]),
    st.sampled_from(["requested", "last_2", "recent_mean", "actual"]),
    st.booleans(),
)
@settings(max_examples=150)
def test_every_start_is_the_kernels(
    rows: list[tuple[int, ...]], name: str, correct: str, predictor: str, kill: bool
) -> None:
    own, policy = TWINS[name]
    mine = type("Mine", (own,), {"correct": correct, "kill": kill})
    log = log_of(rows)
    kernel = simulate(log, policy(correct=correct, kill=kill), predictor, total=TOTAL)
    python = simulate(log, mine, predictor, total=TOTAL)
    for column, values in kernel.columns().items():
        np.testing.assert_array_equal(python.columns()[column], values, column)
    assert python.corrections == kernel.corrections


@pytest.mark.parametrize("name", sorted(TWINS))
@pytest.mark.parametrize(("predictor", "loop"), [("kernel", "closed"), ("last_2", "open"), ("recent_mean", "closed")])
def test_on_the_demo_log_the_example_makes_the_kernels_schedule(name: str, predictor: str, loop: str) -> None:
    own, policy = TWINS[name]
    log = batchcast.read_trace(batchcast.demo_path())[:600]
    kernel, python = (simulate(log, each, predictor, loop=loop) for each in (policy(), own))
    assert python.start_time.tolist() == kernel.start_time.tolist()
    assert python.backfilled.tolist() == kernel.backfilled.tolist()


@pytest.mark.parametrize("name", sorted(TWINS))
def test_an_example_is_short_and_passes_the_suite(name: str) -> None:
    own = TWINS[name][0]
    assert isinstance(own(), Scheduler)
    assert "future_is_hidden" in check_policy(own)


def test_examples_are_at_most_sixty_lines_each() -> None:
    text = (EXAMPLES / "my_scheduler.py").read_text()
    assert max(len(part.splitlines()) for part in text.split("\nclass ")) <= 60
    assert len((EXAMPLES / "uarp.py").read_text().splitlines()) <= 60


def test_a_paper_policy_passes_the_suite_and_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    """UARP lets no job pass a head whose limit ends after its reservation, and picks the shortest of the other jobs."""
    example = runpy.run_path(str(EXAMPLES / "uarp.py"), run_name="examples")
    assert "future_is_hidden" in check_policy(example["Uarp"])
    example["table"](log_of([(0, 8, 100, 100, 0), (20, 8, 50, 50, 0)]), {"UARP": example["Uarp"]}, "requested", 9)
    assert capsys.readouterr().out.split()[:2] == ["UARP", "requested"]
    rows = [(0, 6, 100, 100, 0), (20, 8, 50, 50, 0), (20, 2, 90, 90, 0), (20, 2, 20, 20, 0), (20, 2, 500, 500, 0)]
    made = simulate(log_of(rows), example["Uarp"], "requested", total=TOTAL)
    assert made.start_time.tolist() == [0.0, 100.0, 150.0, 0.0, 150.0]


class First:
    """First come, first served, with a list."""

    def start(self, queue: Any, machine: Any, now: float) -> Any:
        chosen, free = [], machine.free
        for job in queue:
            if job.procs > free:
                break
            chosen.append(job)
            free -= job.procs
        return chosen


def test_every_form_is_taken_and_each_simulation_begins_anew() -> None:
    log = small_workload()
    expected = simulate(log, "fcfs", total=16).start_time.tolist()

    class Counts(First):
        calls = 0

        def start(self, queue: Any, machine: Any, now: float) -> Any:
            self.calls += 1
            return super().start(queue, machine, now) if self.calls < 10**6 else None

    counts = Counts()
    for form in (First, First(), lambda: First(), counts):
        assert simulate(log, form, total=16).start_time.tolist() == expected
    assert counts.calls == 0


def test_an_evaluation_takes_it_beside_ours() -> None:
    log = small_workload(400)
    sized = log.with_info(log.info.__class__(max_procs=16.0))
    found = batchcast.evaluate(sized, predictor="last_2", policy=["fcfs", First])
    waits = {(row["policy"], row["predictor"]): row["mean_wait_s"] for row in found.schedule_rows()}
    assert waits["First", "last_2"] == waits["fcfs", "last_2"]


def test_a_scheduler_sees_each_end_once_also_of_jobs_that_end_while_no_job_waits() -> None:
    class Counts(First):
        def __init__(self) -> None:
            self.running: set[int] = set()

        def start(self, queue: Any, machine: Any, now: float) -> Any:
            for event in machine.events:
                if isinstance(event, End):
                    self.running.remove(event.job.row)
            assert self.running == {job.row for job in machine.running}
            chosen = super().start(queue, machine, now)
            self.running |= {job.row for job in chosen}
            return chosen

    simulate(small_workload(), Counts, total=64)


def test_the_forecast_the_event_and_the_reservations_are_at_hand() -> None:
    seen: dict[str, set[Any]] = {"events": set(), "bases": set(), "reserved": set()}

    class Looks(First):
        def start(self, queue: Any, machine: Any, now: float) -> Any:
            seen["events"] |= {type(event).__name__ for event in machine.events} or {"woken"}
            seen["bases"] |= {job.forecast.basis for job in queue if job.forecast is not None}
            if not machine.running:
                machine.reserve(queue[0], now + 5.0)
                machine.wake_at(now + 3.0)
            seen["reserved"] |= set(machine.reservations.values())
            return super().start(queue, machine, now) if now % 2 or machine.running else None

    simulate(small_workload(), Looks, "recent_mean", total=16)
    assert {"Submit", "End", "woken", "Overdue"} <= seen["events"]
    assert any(seen["bases"])
    assert seen["reserved"]


def test_nodes_are_filled_by_the_scheduler_or_by_the_allocator() -> None:
    columns = {"submit_time": [0, 0, 0], "run_time": [9, 9, 9], "req_time": [9, 9, 9], "req_procs": [3, 1, 4]}
    log = Trace.from_arrays(columns)
    assert simulate(log, First, nodes=[4, 4]).nodes == ({0: 3}, {0: 1}, {1: 4})

    class Spread(First):
        def start(self, queue: Any, machine: Any, now: float) -> Any:
            for job in queue:
                free = {node.number: node.free for node in machine.nodes if node.free >= job.procs}
                if free:
                    emptiest = max(free, key=lambda number: (free[number], -number))
                    yield job, {emptiest: job.procs}

    assert simulate(log, Spread, nodes=[4, 4]).nodes == ({0: 3}, {1: 1}, {0: 4})
    assert simulate(log, Spread, nodes=[4, 4]).start_time.tolist() == [0.0, 0.0, 9.0]
    best = type("Best", (First,), {"allocator": BestFit()})
    assert simulate(log, best, nodes=[4, 8]).nodes[2] == {1: 4}
    two = Trace.from_arrays({**columns, "req_nodes": [1, 1, 2]})
    assert simulate(two, OWN["Easy"], nodes=[4, 4]).nodes[2] == {0: 2, 1: 2}
    with pytest.raises(UsageError, match="easy plans a pool"):
        simulate(log, "easy", nodes=[4, 4])
    with pytest.raises(UsageError, match="nodes: 3"):
        simulate(log, First, nodes=3)


def test_a_described_machine_has_its_nodes_names() -> None:
    from batchcast.machines.machine import homogeneous

    names: list[str] = []

    class Names(First):
        def start(self, queue: Any, machine: Any, now: float) -> Any:
            names[:] = [node.name for node in machine.nodes]
            return super().start(queue, machine, now)

    simulate(small_workload(20), Names, nodes=homogeneous(2, 8))
    assert names == ["n1", "n2"]


def wrong(start: Any) -> Any:
    return type("Wrong", (), {"start": lambda self, queue, machine, now: start(queue, machine, now)})


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (wrong(lambda q, m, n: [q[0], q[0]]), "job 1, which does not wait .*at most once"),
        (wrong(lambda q, m, n: q), "on 4 processors where 0 are free .*machine.fits"),
        (wrong(lambda q, m, n: ["1"]), "it started '1' .*accepted: jobs of the queue"),
        (wrong(lambda q, m, n: 7), "start answered 7 .*pairs of a job"),
        (wrong(lambda q, m, n: None), "200 jobs never start, the first is 1"),
        (wrong(lambda q, m, n: [(q[0], {0: 1})]), "this machine is a pool"),
    ],
)
def test_what_is_wrong_is_said_by_name_and_found_by_the_suite(policy: Any, says: str) -> None:
    with pytest.raises(BatchcastError, match=f"Wrong.*{says}"):
        simulate(small_workload(), policy, total=16)
    with pytest.raises(AssertionError):
        check_policy(policy, on_nodes=False)


def test_a_policy_that_draws_without_a_seed_is_said_to_and_not_to_know_the_future() -> None:
    draw = np.random.default_rng()

    def any_of(queue: Any, machine: Any, now: float) -> Any:
        for place in draw.permutation(len(queue)):
            if machine.fits(queue[place]):
                yield queue[place]

    with pytest.raises(AssertionError, match="two schedules: a random policy needs a seed"):
        check_policy(wrong(any_of), on_nodes=False)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({9: 2}, "node 9, where there is no such node"),
        ({0: 1}, "accepted: 2 whole processors by the numbers of their nodes"),
        ({0: 3, 1: -1}, "on -1 processors of node 1"),
        ({0: 1.0, 1: 1.0}, "accepted: 2 whole processors"),
        ("n1", "on 'n1'"),
    ],
)
def test_a_wrong_place_is_named(where: Any, says: str) -> None:
    log = Trace.from_arrays({"submit_time": [0], "run_time": [9], "req_time": [9], "req_procs": [2]})
    with pytest.raises(BatchcastError, match=says):
        simulate(log, wrong(lambda q, m, n: [(q[0], where)]), nodes=[4, 4])


class TooFew:
    def place(self, job: Any, nodes: Any) -> Any:
        return {nodes[0].number: 1}


def test_a_wrong_answer_of_an_allocator_is_its_own_and_has_its_line() -> None:
    log = Trace.from_arrays({"submit_time": [0], "run_time": [9], "req_time": [9], "req_procs": [2]})
    policy = type("Mine", (First,), {"allocator": TooFew})
    with pytest.raises(BatchcastError, match=r"Mine: the allocator TooFew \(test_own_policy.py, line \d+\), at 0 s: "):
        simulate(log, policy, nodes=[4, 4])


def test_what_is_no_scheduler_is_refused_with_what_is_accepted() -> None:
    with pytest.raises(UsageError, match=r"int has no start .*class with start\(queue, machine, now\)"):
        simulate(small_workload(), 7, total=16)
    with pytest.raises(UsageError, match="no policy no_such_module:Mine"):
        simulate(small_workload(), "no_such_module:Mine", total=16)
    with pytest.raises(UsageError, match=r"is a queue order, not a policy[^$]*easy:order=tests.naive.orders:odd"):
        simulate(small_workload(), "tests.naive.orders:odd", total=16)
    with pytest.raises(UsageError, match="correct: 'never' is not"):
        simulate(small_workload(), type("Odd", (First,), {"correct": "never"}), total=16)
    with pytest.raises(UsageError, match="needs the whole log at once"):
        list(simulate_periods([small_workload()], First, setup=RunSetup(total=16)))


def test_the_profile_is_read_and_changed() -> None:
    machine = Machine(8, [Node(0, 8)])
    job = Job(0, next(iter(small_workload(1).requests())), 60.0)
    machine.take(job, {0: job.procs})
    job.planned_end = 60.0
    profile = machine.profile()
    assert (profile.times, profile.free) == ([0.0, 60.0], [8 - job.procs, 8])
    profile.hold(10.0, 20.0, 1)
    assert [profile.free_at(t) for t in (0.0, 10.0, 29.0, 30.0)] == [8 - job.procs, 7 - job.procs, 7 - job.procs,
                                                                     8 - job.procs]  # fmt: skip
    assert Profile(0.0, 2).earliest(3, 1.0) == float("inf")


def test_a_policy_of_ours_is_not_checked_as_ones_own() -> None:
    with pytest.raises(UsageError, match=r"'easy' is a policy of batchcast's own \(accepted: a class"):
        check_policy("easy")
