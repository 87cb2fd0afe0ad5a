"""The full tables of docs/evidence/live.md, on a real Slurm: `make slurm-lab-experiments` (about twenty minutes).

The program measures every figure; its checks are the checks of the tests, on more jobs and more faults. Each table
names the Slurm on which it was measured: this machine's, or with `BATCHCAST_LAB=newer` the Slurm of `newer.sh`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lab"))

import test_queue
import test_replay
from follow import Follower, stored
from slurm_lab import Lab, missing

from batchcast.store.reader import Reader

JOBS, KILLS = 200, 30
"""Default number of jobs and kills in each replay (`experiments.py faults 100` sets another number, `calm load=1.3` a
load)."""


def main() -> int:
    """Run the named experiments (calm, nodes, faults, queue; default all but nodes) and print Markdown tables."""
    reason = missing(speed=test_replay.SPEED)
    if reason:
        print(f"experiments: {reason}", file=sys.stderr)
        return 1
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    jobs = numbers[0] if numbers else JOBS
    loads = [float(word.removeprefix("load=")) for word in sys.argv[1:] if word.startswith("load=")]
    load = loads[0] if loads else None
    chosen = [word for word in sys.argv[1:] if word.isalpha()] or ["calm", "faults", "queue"]
    if "calm" in chosen:
        with test_replay.calm(jobs, load=load) as followed, tempfile.TemporaryDirectory() as place:
            test_replay.check_jobs(followed)
            test_replay.check_names(followed)
            test_replay.check_outcomes(followed)
            test_replay.check_in_time(followed)
            test_replay.check_recorded_clock_agrees(followed, Path(place))
            _replay_table("1. Replay, undisturbed", followed)
            print(followed.run("accuracy"))
    if "nodes" in chosen:
        with test_replay.calm(jobs, on_nodes=True, load=load) as followed:
            test_replay.check_jobs(followed)
            test_replay.check_outcomes(followed)
            _replay_table("1. Replay, undisturbed, with the setting machine", followed, compared=False)
            print(followed.run("accuracy"))
    if "faults" in chosen:
        with test_replay.troubled(jobs, KILLS) as followed, tempfile.TemporaryDirectory() as place:
            test_replay.check_faults(followed, KILLS)
            test_replay.check_jobs(followed)
            test_replay.check_outcomes(followed)
            test_replay.check_recorded_clock_agrees(followed, Path(place))
            _replay_table("2. Replay under faults", followed)
    if "queue" in chosen:
        _queue_table()
    return 0


def _replay_table(title: str, followed: Follower, compared: bool = True) -> None:
    reader = Reader(followed.store)
    memory = reader.memory("lab")
    forecasts = reader.rows("SELECT count(*) AS n, count(resolution) AS resolved FROM forecast_outcomes")[0]
    health = memory["health"]
    print(f"\n### {title}\n\n| | |\n|---|---|")
    for name, value in (
        ("Slurm", _version(followed.lab)),
        ("jobs sacct gives, in the store once each, times equal", len(stored(followed.store))),
        ("SIGKILLs of the collector", followed.killed),
        ("forecasts issued, with their outcome", f"{forecasts['n']}, {forecasts['resolved']}"),
        ("events that came late", memory["late"]),
        ("predictions of the recorded clock over the export that differ", 0 if compared else "not compared"),
        (
            "calls to slurmctld, slurmdbd by the last collector",
            f"{health['slurmctld']['calls']}, {health['slurmdbd']['calls']}",
        ),
        ("clock speed-up", f"{followed.lab.speed:g}"),
    ):
        print(f"| {name} | {value} |")
    print(flush=True)


def _version(lab: Lab) -> str:
    """Slurm's own word, `22.05.8`."""
    return lab.run("sinfo", "--version").split()[-1]


def _queue_table() -> None:
    print("\n### 3. Jobs in the queue, one cycle\n")
    print("| Slurm | jobs waiting | forecasts issued | slurmctld CPU s | its clients wall s | whole cycle wall s |")
    print("|---|---|---|---|---|---|")
    conf = {"MaxArraySize": "3000", "SchedulerParameters": "bf_interval=3600,sched_interval=3600"}
    for waiting, alone in ((200, 200), (2000, 1000), (5000, 100)):
        with Lab(nodes=4, cpus=2, conf=conf) as lab:
            cost, version = test_queue.cycle_cost(lab, waiting, alone), _version(lab)
        cells = (
            version,
            cost.jobs,
            cost.forecasts,
            f"{cost.slurmctld_cpu_s:.2f}",
            f"{cost.calls_s:.2f}",
            f"{cost.cycle_s:.2f}",
        )
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(json.dumps({"seconds": round(time.monotonic() - began)}), file=sys.stderr)
    sys.exit(code)
