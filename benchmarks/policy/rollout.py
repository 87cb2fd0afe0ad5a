"""Rollout: `python benchmarks/policy/rollout.py LOG [--replicates 3] [--seed 2026] [--every 15m]`.

At a submission, at most once every so often, the queue is simulated forward from that instant to its end under each of
a few orders, and the one that gives the least mean bounded slowdown decides until the next look. Run times there are
forecasts; one that a running job has outlived becomes half of what is left to its limit; nobody else comes. Whoever has
waited 48 hours goes first under every order, as in the policy `forecast`, which each replicate is also run under.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from study import EASY, PERFECT, compared, figures

from batchcast.evaluation.resampling import replicate
from batchcast.events.state import SystemState
from batchcast.job import JobRequest, Name
from batchcast.predict.protocol import Prediction
from batchcast.predict.runtime.kernel import Kernel
from batchcast.records import point_to
from batchcast.schedule.advance import advance
from batchcast.schedule.orders import NAMES
from batchcast.schedule.state import ASKED, BLOCK, GIVEN, GONE, PASS, KernelState, make_jobs, make_state
from batchcast.simulation import Schedule, simulate
from batchcast.simulation.clock import drive
from batchcast.simulation.policies import policy_of
from batchcast.simulation.workload import Workload, make_workload
from batchcast.table import Trace
from batchcast.trace import clean, read_trace
from batchcast.units import parse_duration

CHOICES = "sjf@48h,saf@48h,wfp@48h,fcfs@48h"
POLICY = "forecast"
PREDICTOR = "kernel:point=geometric"


class Choice(NamedTuple):
    """An order, and the age from which a job goes before it."""

    order: str
    age: float


class Rollout:
    """`kernel`, which before it answers looks forward and sets the order that the schedule goes by."""

    def __init__(self, state: KernelState, every: float, choices: Sequence[Choice]) -> None:
        self.state, self.every, self.last, self.choices = state, every, -np.inf, choices
        self.kernel = Kernel(point="geometric")
        self.looks, self.chosen = 0, dict.fromkeys(choices, 0)
        self.observe, self.revise = self.kernel.observe, self.kernel.revise

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Kernel's own answer."""
        if self.state.record["waiting"][0] > 1 and at.now >= self.last + self.every:
            self.last = at.now
            self.choose(at)
        return self.kernel.predict(job, at)

    def choose(self, at: SystemState) -> None:
        """Set the order with the least sum of slowdowns of the jobs that wait; the first named where they are level."""
        part = live_part(self.state, self.lengths(at))
        cost = {choice: forward(self.state, part, choice) for choice in self.choices}
        best = min(cost, key=lambda choice: cost[choice])
        set_choice(self.state.rules, best)
        self.state.record["dirty"] = 1
        self.looks += 1
        self.chosen[best] += 1

    def lengths(self, at: SystemState) -> np.ndarray:
        """For how long each submitted job runs in all, as far as is known."""
        jobs, count = self.state.jobs, int(self.state.record["next_submit"][0])
        known = jobs["planned"][:count].copy()
        running = self.state.arrays["endings"]["item"][: int(self.state.record["ending"][0])]
        for row in running.tolist():
            elapsed = at.now - float(jobs["start"][row])
            first, request = float(jobs["first"][row]), float(jobs["request"][row])
            known[row] = first if first > elapsed else max(0.5 * (elapsed + request), elapsed + 1.0)
        return known


def set_choice(rules: np.ndarray, choice: Choice) -> None:
    """Another order and age from the next pass on: keys are computed anew in each."""
    for word in ("head", "candidate"):
        rules[f"{word}_order"], rules[f"{word}_varying"] = NAMES[choice.order], 1
    rules["first_after"] = rules["head_after"] = choice.age


def live_part(state: KernelState, lengths: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """A copy of the state that holds only who runs and who waits, each as long as given; its record, whose wait counts.

    The next pass is due, nobody else will be submitted.
    """
    record, old = state.record.copy(), state.arrays
    ending, running = int(record["ending"][0]), int(record["running"][0])
    base = int(record["head"][0]) // BLOCK * BLOCK
    slots = old["slots"][base : int(record["tail"][0])].copy()
    slots["procs"][: int(record["head"][0]) - base] = GONE
    waits = slots["procs"] != GONE
    ends, plan = old["endings"][:ending].copy(), old["plan"][:running].copy()
    live = np.sort(np.concatenate([ends["item"], slots["job"][waits]]))
    jobs = old["jobs"][live].copy()
    jobs["run"] = lengths[live]
    ends["item"] = ends["tie"] = np.searchsorted(live, ends["item"])
    ends["key"] = jobs["start"][ends["item"]] + jobs["run"][ends["item"]]
    ends = np.sort(ends, order=("key", "tie"))
    plan["job"] = np.searchsorted(live, plan["job"])
    slots["job"][waits] = np.searchsorted(live, slots["job"][waits])
    n = len(live)
    asides = old["asides"][live] if len(old["asides"]) > 1 else old["asides"]
    arrays = {
        "jobs": jobs, "slots": slots, "blocks": old["blocks"][base // BLOCK :][: len(slots) // BLOCK + 1].copy(),
        "plan": np.resize(plan, n + 1), "endings": np.resize(ends, 2 * n + 2), "instant": np.empty(n, np.int32),
        "choices": np.empty(2 * n + 64, old["choices"].dtype), "asides": asides,
        "log": np.empty(0, old["log"].dtype), "nodes": old["nodes"],
    }  # fmt: skip
    for word in ("head", "tail", "newest"):
        record[word] -= base
    record["next_submit"], record["phase"], record["dirty"], record["indexed"] = n, PASS, 1, 0
    return record, arrays, np.isnan(jobs["start"])


def forward(state: KernelState, part: Any, choice: Choice) -> float:
    """The sum of bounded slowdowns of all who wait, were the queue to run empty from now under a choice."""
    record, arrays, waiting = part[0].copy(), {name: array.copy() for name, array in part[1].items()}, part[2]
    rules = state.rules.copy()
    point_to(record, **arrays)
    rules["planner"], rules["ask_overdue"], rules["long_queue"] = GIVEN, 0, 1 << 40
    set_choice(rules, choice)
    advance(KernelState(record, rules, arrays, None))
    mine = arrays["jobs"][waiting]
    wait = mine["start"] - mine["submit"]
    return float(np.maximum((wait + mine["run"]) / np.maximum(mine["run"], 10.0), 1.0).sum())


class Asked(NamedTuple):
    """A log ready to be simulated with a predictor outside the kernel."""

    work: Workload
    state: KernelState
    requests: list[JobRequest]
    statuses: list[Name]

    def schedule(self) -> Schedule:
        """What came out."""
        jobs, work = self.state.jobs, self.work
        start = jobs["start"].copy()
        return Schedule(
            rows=work.rows, job_id=work.rows + 1, submit_time=work.submit, start_time=start,
            end_time=start + work.run, procs=work.procs, planned_run_time=jobs["first"].copy(),
            backfilled=jobs["backfilled"].astype(bool), total=work.total, corrections=0, left_out=work.left_out,
            notes=(), kernel_s=float("nan"),
        )  # fmt: skip


def asked(trace: Trace, policy: str) -> Asked:
    """As `simulate` makes it."""
    work = make_workload(trace, None, procs="alloc")
    jobs = make_jobs(work.submit, work.procs, work.run, work.request, np.maximum(work.request, 1.0))
    rules = policy_of(policy).rules()
    state = make_state(jobs, work.total, planner=ASKED, ask_overdue=1, log_size=1 << 14, **rules)
    everyone, statuses = list(trace.requests("alloc")), trace.nominal("status").decode()
    rows = work.rows.tolist()
    plain = zip(rows, work.procs.tolist(), work.request.tolist())
    requests = [everyone[row]._replace(row=k, procs=float(p), req_time=q) for k, (row, p, q) in enumerate(plain)]
    return Asked(work, state, requests, [statuses[row] for row in rows])


def rolled(trace: Trace, every: float, choices: Sequence[Choice]) -> tuple[Schedule, Rollout]:
    """A schedule of a log by rollout."""
    log = asked(trace, POLICY)
    set_choice(log.state.rules, choices[0])
    predictor = Rollout(log.state, every, choices)
    drive(log.state, log.requests, log.statuses, predictor, log.work.total)
    return log.schedule(), predictor


def main() -> None:
    """Print each replicate, and how often each order was chosen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", nargs="+")
    parser.add_argument("--replicates", type=int, default=3)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--every", default="15m")
    parser.add_argument("--choices", default=CHOICES, help="ORDER@AGE, the first where several are level")
    given = parser.parse_args()
    choices = [Choice(o, parse_duration(age)) for o, _, age in (c.partition("@") for c in given.choices.split(","))]
    for path in given.log:
        trace = clean(read_trace(path), ["reference"])
        print(f"{path.rsplit('/', 1)[-1]}: {given.replicates} replicates, seed {given.seed}, every {given.every}")
        lines: dict[str, list[dict[str, float]]] = {"forecast": [], "rollout": [], "rollout - forecast": []}
        for number in range(1, given.replicates + 1):
            log = replicate(trace, np.random.default_rng([given.seed, number]))
            easy, perfect = (figures(log, simulate(log, p, spec, procs="alloc")) for p, spec in (EASY, PERFECT))
            usual = compared(figures(log, simulate(log, POLICY, PREDICTOR, procs="alloc")), easy, perfect)
            begun = time.process_time()
            schedule, predictor = rolled(log, parse_duration(given.every), choices)
            took = time.process_time() - begun
            mine = compared(figures(log, schedule), easy, perfect)
            for name, line in (("forecast", usual), ("rollout", mine)):
                lines[name].append(line)
                print(f"  {number} {name:9}" + "  ".join(f"{key} {line[key]:.2f}" for key in SHOWN), file=sys.stderr)
            lines["rollout - forecast"].append({key: mine[key] - usual[key] for key in mine})
            chosen = " ".join(f"{c.order}@{c.age / 3600:.0f}h {count}" for c, count in predictor.chosen.items())
            print(
                f"  {number} {predictor.looks:,} looks, {took:.0f} s of CPU; chosen {chosen}",
                file=sys.stderr,
                flush=True,
            )
        for name, rows in lines.items():
            show(name, rows)


SHOWN = ("mean", "mean - perfect", "geometric / perfect", "p99 / easy", "maximum / easy", "users above 1.10")


def show(name: str, rows: list[dict[str, float]]) -> None:
    """A schedule's figures: mean, 5th and 95th percentile over the replicates."""
    print(f"  {name}")
    for key in SHOWN:
        values = np.array([row[key] for row in rows])
        low, high = np.percentile(values, [5, 95])
        print(f"    {key:20} {values.mean():8.3f}   5 to 95 %: {low:8.3f} to {high:8.3f}", flush=True)


if __name__ == "__main__":
    main()
