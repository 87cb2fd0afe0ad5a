"""Cost of the queue order for slurmctld with 10,000 waiting jobs: calls per cycle, and the time of `sbatch`.

    python benchmarks/order_load.py --jobs 10000 --sbatch 150

The program runs a real Slurm on the real clock, with a queue of single jobs with limits from 5 min to 2 days, and a
collector that orders by limit. Rows: without a collector, while factors are set for the first time, and after all are
set. Columns: milliseconds of wall time for `sbatch --hold` from one process, which are comparable only within one run,
and processor seconds of slurmctld per second.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from planning_gain import show  # this import also adds the lab's folder to the path
from planning_lab import agent, factors, steps
from slurm_lab import Lab, missing

from batchcast.service.planning.order import TOGETHER

CONF = {"PriorityType": "priority/multifactor", "MaxArraySize": "20001", "MaxJobCount": "30000"}
# do not import the tests' predictor whose predictions are far too short
CONF["SchedulerParameters"] = "bf_interval=30,bf_continue,batch_sched_delay=0"
INTERVAL = 30.0


def fill(lab: Lab, jobs: int) -> None:
    """Submit this many single waiting jobs behind one that occupies the machine: an array whose tasks get individual
    limits."""
    lab.submit("-t", "2800", "-N4", "--exclusive", seconds=100_000)
    array = lab.submit("-t", "2880", f"--array=1-{jobs}", seconds=60)
    limits = np.exp(np.random.default_rng(1).uniform(np.log(5), np.log(2879), jobs)).astype(int)
    words = "".join(f"update jobid={array}_{k + 1} timelimit={limit}\n" for k, limit in enumerate(limits.tolist()))
    subprocess.run(["scontrol"], input=words.encode(), env=lab.env, capture_output=True, check=False)


def phase(lab: Lab, name: str, count: int, until: float = math.inf) -> dict[str, Any]:
    """Submit at least `count` jobs, two per second, and return their durations."""
    used, began, took = _cpu(lab), time.monotonic(), []
    while len(took) < count:
        at = time.perf_counter()
        lab.submit("--hold", "-t", "5", seconds=1.0)
        took.append(1000 * (time.perf_counter() - at))
        time.sleep(max(0.0, 0.5 - took[-1] / 1000))
        if time.monotonic() > until:
            break
    share = (_cpu(lab) - used) / (time.monotonic() - began)
    middle, high = np.quantile(took, (0.5, 0.95)).tolist()
    return {
        "collector": name,
        "submitted": len(took),
        "median_ms": middle,
        "p95_ms": high,
        "slurmctld_cpu": f"{share:.3f}",
    }


def _cpu(lab: Lab) -> float:
    """Return the processor seconds of slurmctld so far."""
    pid = int(lab.pid_file("slurmctld").read_text())
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def looks(done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each cycle that set factors: records, levels and calls."""
    by_look: dict[float, Counter[float]] = {}
    for step in done:
        if step["what"] == "order sets":
            by_look.setdefault(step["at"], Counter())[step["limit_to"]] += 1
    return [
        {
            "look": k,
            "records": sum(n.values()),
            "levels": len(n),
            "calls": sum(math.ceil(v / TOGETHER) for v in n.values()),
        }
        for k, (_, n) in enumerate(sorted(by_look.items()), 1)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--sbatch", type=int, default=150, help="submissions in each phase")
    given = parser.parse_args()
    if reason := missing(1.0):
        print(f"order_load: {reason}", file=sys.stderr)
        return 1
    with Lab(nodes=4, cpus=4, conf=CONF) as lab:
        fill(lab, given.jobs)
        waiting = len(lab.run("squeue", "-h", "-t", "PD", "-o", "%i").split())
        print(f"{waiting} waiting records", flush=True)
        rows = [phase(lab, "none", given.sbatch)]
        more = {
            "PLAN": "order",
            "PLAN_PARTITIONS": "main",
            "RUNTIME": "requested",
            "PLAN_ORDER_BY": "limits",
            "MEMORY": "",
        }
        follower = agent(lab, "load", interval=INTERVAL, **more)
        follower.start()
        try:
            lab.wait(lambda: factors(lab), f"first factors\n{follower.tail()}", 600)
            rows.append(phase(lab, "sets factors", given.sbatch))
            lab.wait(lambda: len(factors(lab)) >= waiting - 1, f"all factors\n{follower.tail()}", 600)
            rows.append(phase(lab, "all are set", given.sbatch))
        finally:
            follower.kill(signal.SIGTERM)
        print(show(looks(steps(follower))))
        print(show(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
