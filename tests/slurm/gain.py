"""What planning gains on the lab: one seeded workload twice, by users' limits and planned with forecasts.

`python tests/slurm/gain.py [SEED] [JOBS]` prints waits and bounded slowdowns by size; five minutes on a quiet machine.
A single seed says nothing certain: the interval is over jobs of one run.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from follow import Follower
from slurm_lab import Lab, missing

SPEED, MINUTE, TAU = 60.0, 60.0, 10.0
SIZES = (1, 2, 4, 8, 12)


def workload(seed: int, jobs: int) -> list[tuple[float, int, int, float, str]]:
    """(at, processors, limit, minutes, name): people repeat themselves, limits are 2 to 8 times what jobs need."""
    rng = np.random.default_rng(seed)
    habits = [(int(rng.choice(SIZES)), float(rng.uniform(2, 10)), float(rng.uniform(2, 8))) for _ in range(8)]
    span = 0.6 * sum(size * need for size, need, _ in habits) / len(habits) * jobs / 16
    made = []
    for at in np.sort(rng.uniform(0, span, jobs)):
        k = int(rng.integers(len(habits)))
        size, need, padding = habits[k]
        made.append((float(at), size, int(min(need * padding + 5, 75)), need * float(rng.lognormal(0, 0.15)), f"h{k}"))
    return made


def run(seed: int, jobs: int, plans: bool) -> np.ndarray:
    """Processors, wait and run (minutes) of every job, in the order of submission."""
    with Lab(nodes=4, cpus=4, speed=SPEED, conf={"OverTimeLimit": "60"}) as lab:
        more = {"PLAN": "plan", "PLAN_PARTITIONS": "main"} if plans else {}
        agent = Follower(
            lab, str(lab.root / "gain.db"), HISTORY_DAYS="0.01", RUNTIME="kernel", WAIT="recent_wait:need=1",
            PLAN_CALL_S="3600", PLAN_LAG_S="86400", TIMEOUT_S="900", **more,
        )  # fmt: skip
        agent.start()
        time.sleep(6)
        start, ids = lab.now(), []
        for at, size, limit, need, name in workload(seed, jobs):
            time.sleep(max(start + at * MINUTE - lab.now(), 0.0) / SPEED)
            ids.append(lab.submit(f"-n{size}", "-t", str(limit), seconds=need * MINUTE, name=name))
        lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split(), "ended jobs", 600)
        agent.kill(signal.SIGTERM)
        words = ("sacct", "-XnPa", "--starttime=2000-01-01", "--format=JobID,NCPUS,Submit,Start,End,State")
        text = lab.run(*words, env={**lab.env, "SLURM_TIME_FORMAT": "%s"})
        rows = {r[0]: r for r in (line.split("|") for line in text.splitlines())}
        assert all(rows[i][5] == "COMPLETED" for i in ids)
        if plans:
            print(agent.run("plan", "--audit").count(" planned "), "limits planned", file=sys.stderr)
        values = [[float(x) for x in rows[i][1:5]] for i in ids]
    return np.array([[cpus, (begun - came) / 60, (ended - begun) / 60] for cpus, came, begun, ended in values])


def main() -> int:
    """Both arms, one table."""
    if reason := missing(SPEED):
        print(f"gain: {reason}", file=sys.stderr)
        return 1
    given = [int(word) for word in sys.argv[1:]]
    seed, jobs = (given + [1, 80][len(given) :])[:2]
    without, planned = run(seed, jobs, False), run(seed, jobs, True)
    print("| processors | jobs | mean wait, own limits | planned | difference, 90 % | bounded slowdown | planned |")
    print("|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(seed)
    for label, of in (
        ("all", lambda c: c > 0),
        ("1 to 2", lambda c: c <= 2),
        ("4", lambda c: c == 4),
        ("8 and more", lambda c: c >= 8),
    ):
        mine = of(without[:, 0])
        a, b = without[mine], planned[mine]
        gain = b[:, 1] - a[:, 1]
        means = [rng.choice(gain, len(gain)).mean() for _ in range(2000)] if len(gain) else [np.nan]
        low, high = np.quantile(means, [0.05, 0.95])
        slow = [np.maximum(1, (x[:, 1] + x[:, 2]) / np.maximum(x[:, 2], TAU / 60)).mean() for x in (a, b)]
        print(
            f"| {label} | {mine.sum()} | {a[:, 1].mean():.1f} min | {b[:, 1].mean():.1f} min | {gain.mean():+.1f} "
            f"({low:+.1f} to {high:+.1f}) | {slow[0]:.2f} | {slow[1]:.2f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
