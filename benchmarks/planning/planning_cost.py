"""Cost of planning 2,000 waiting jobs for slurmctld: its CPU and calls, cycle by cycle, and the cost of undoing it.

    python benchmarks/planning/planning_cost.py [JOBS] [ALONE]

ALONE of the jobs are submitted singly with fifty different limits, the others are tasks of arrays. Real time.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "slurm" / "lab"))

from follow import cpu_seconds
from planning_lab import agent, limits_now
from slurm_lab import Lab, missing

from batchcast.service.planning.agent import Planner
from batchcast.service.settings import NAMES, load
from batchcast.slurm.transport import Commands
from batchcast.store.clock_jobs import write_meta
from batchcast.store.database import Store
from batchcast.store.planned import SWITCH

CONF = {
    "MaxArraySize": "3000",
    "SchedulerParameters": "bf_interval=3600,sched_interval=3600",
    "OverTimeLimit": "60",
}


class Cost(NamedTuple):
    """The cost of some cycles: number of cycles, limits changed, CPU of slurmctld (s), calls by kind, wall-clock
    seconds."""

    looks: int
    changed: int
    cpu_s: float
    calls: dict[str, int]
    wall_s: float


def calls(lab: Lab) -> dict[str, int]:
    """Return the calls to slurmctld so far, by kind."""
    text = lab.run("sdiag").partition("Remote Procedure Call statistics by message type")[2]
    found = re.finditer(r"(REQUEST_\w+)\s*\(\s*\d+\)\s+count:(\d+)", text.partition("by user")[0])
    return {m[1]: int(m[2]) for m in found}


def queue(lab: Lab, jobs: int, alone: int) -> None:
    """Submit this many waiting jobs behind one that occupies the machine."""
    first = lab.submit("-N4", "--exclusive", "-t", "600", seconds=3600)
    lab.wait(lambda: lab.run("squeue", "-h", "-j", first, "-o", "%t").strip() == "R", "the machine to be taken")
    for k in range(alone):
        lab.submit("-n1", "-t", str(100 + k % 50), seconds=60, name=f"job{k % 30}")
    for done in range(alone, jobs, 1000):
        lab.submit("-n1", "-t", "90", f"--array=1-{min(1000, jobs - done)}", seconds=60, name="array")


def spent(lab: Lab, planner: Planner, until: int) -> Iterator[Cost]:
    """Run cycles until this many jobs have a planned limit."""
    last = -1
    while last != until:
        cpu, before, began = cpu_seconds(lab), calls(lab), time.monotonic()
        done = planner.cycle("lab")
        after, wall = calls(lab), time.monotonic() - began
        new = {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}
        changed = done.planned + done.restored
        yield Cost(1, changed, cpu_seconds(lab) - cpu, new, wall)
        if done.problems:
            print(done.problems[:3], file=sys.stderr)
        if done.standing == last and not changed:
            raise RuntimeError(f"{done.standing} of {until} stand, and nothing changes")
        last = done.standing


def summed(costs: list[Cost]) -> Cost:
    """Return the sum of all cycles."""
    names = sorted({name for one in costs for name in one.calls})
    calls_of = {name: sum(one.calls.get(name, 0) for one in costs) for name in names}
    return Cost(
        len(costs), sum(c.changed for c in costs), sum(c.cpu_s for c in costs), calls_of, sum(c.wall_s for c in costs)
    )


def main() -> int:
    given = [int(word) for word in sys.argv[1:3]]
    jobs, alone = given + [2000, 1000][len(given) :]
    if reason := missing():
        print(f"planning_cost: {reason}", file=sys.stderr)
        return 1
    with Lab(nodes=4, cpus=2, conf=CONF) as lab:
        queue(lab, jobs, alone)
        collector = agent(lab, "cost", PLAN="off", PLAN_PARTITIONS="main", TIMEOUT_S="60", SETTLE_S="0")
        collector.env["BATCHCAST_MEMORY"] = ""
        idle = cpu_seconds(lab)
        for _ in range(3):
            collector.run("collect", "--once", "--quiet")
            time.sleep(2.0)
        print(f"three looks of the collector without planning: {(cpu_seconds(lab) - idle) / 3:.2f} s of CPU each")
        words = {k: v for k in NAMES if (v := collector.env.get(f"BATCHCAST_{k.upper()}")) is not None}
        store = Store(collector.store)
        planner = Planner(Commands(floor_s=0.0, environment=lab.outside), store, load({**words, "plan": "plan"}, {}))
        planning = list(spent(lab, planner, jobs))
        standing = list(spent(lab, planner, jobs))
        assert sum(now in (30, *range(40, 90)) for now in limits_now(lab).values()) == jobs
        with store.begin() as connection:
            write_meta(connection, "lab", **{SWITCH: {"by": "cost", "at": 0.0}})
        back = list(spent(lab, planner, 0))
    print("| | looks | limits changed | slurmctld CPU s | of the dearest look | calls | updates | wall s |")
    print("|---|---|---|---|---|---|---|---|")
    for name, costs in (("planning all", planning), ("one look more", standing), ("--off", back)):
        whole = summed(costs)
        most = max(c.cpu_s for c in costs)
        updates = sum(n for kind, n in whole.calls.items() if kind.startswith("REQUEST_UPDATE_JOB"))
        print(
            f"| {name} | {whole.looks} | {whole.changed} | {whole.cpu_s:.2f} | {most:.2f} |"
            f" {sum(whole.calls.values()) - whole.looks} | {updates} | {whole.wall_s:.1f} |"
        )
        print(f"<!-- {whole.calls} -->")
    return 0


if __name__ == "__main__":
    sys.exit(main())
