"""Runs a workflow three times with a real Snakemake on a real Slurm: as written, with suggestions, with suggestions
under kills.

    python benchmarks/workflow_gain.py --samples 50 --kills 20

Four rules per sample, so 200 tasks on two nodes of four processors and 4,000 MiB whose clock runs `--speed` times as
fast. Every task is written with 1,500 MiB and 40 min and needs far less. The collector learns from the first run. In
the second and third run each task asks `batchcast.client` for its request; in the third the service is killed `--kills`
times, and is unavailable for some seconds each time. Each run has one line: jobs and failed attempts, GiB-hours and
core-hours requested (request times limit), the mean wait, and the duration of answers. The last line says whether all
three runs wrote the same result.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "slurm" / "lab"))

import snakemake_lab
from slurm_lab import Lab, missing
from snakemake_lab import CONF, Helped, Workflow, sums


def under_kills(helped: Helped, workflow: Workflow, kills: int, seed: int) -> Path:
    """Run the workflow the third time: the service is killed at random moments, and restarted after up to 5 s."""
    rng, over = np.random.default_rng(seed), threading.Event()
    started = workflow.start("killed", advised=True, service=helped.socket)

    def trouble() -> None:
        while not over.is_set() and helped.killed < kills:
            over.wait(float(rng.uniform(1.0, 12.0)))
            helped.kill()
            over.wait(float(rng.uniform(0.0, 5.0)))
            helped.serve()

    thread = threading.Thread(target=trouble)
    thread.start()
    try:
        return workflow.wait(started)
    finally:
        over.set()
        thread.join()


def row(name: str, workflow: Workflow, folder: Path) -> dict[str, Any]:
    """The measured results of a run."""
    asked = folder / "questions.jsonl"
    questions = [json.loads(line) for line in asked.read_text().splitlines()] if asked.exists() else []
    took = [1000 * seconds for *_, seconds in questions]
    return {
        "run": name,
        **sums(workflow.jobs(name)),
        "answered": sum(answer < written for _, _, written, answer, _ in questions) / max(len(questions), 1),
        "median_ms": float(np.median(took)) if took else 0.0,
        "longest_ms": max(took, default=0.0),
        "result": hashlib.sha256((folder / "all.txt").read_bytes()).hexdigest()[:12],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--speed", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if why := missing(given.speed) or snakemake_lab.missing():
        sys.exit(why)
    with Lab(nodes=2, cpus=4, speed=given.speed, conf=CONF) as lab, Helped(lab) as helped:
        workflow = Workflow(lab, given.samples, given.seed)
        rows = []
        for name in ("written", "advised", "killed"):
            begun = time.monotonic()
            if name == "killed":
                folder = under_kills(helped, workflow, given.kills, given.seed)
            else:
                folder = workflow.run(name, name == "advised", helped.socket)
            helped.caught_up()
            rows.append(row(name, workflow, folder))
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        table(rows, helped.killed)


def table(rows: list[dict[str, Any]], killed: int) -> None:
    heads = {"jobs": 6, "failed": 8, "GiB-h": 8, "core-h": 8, "wait, min": 11, "shorter": 9, "ms": 6, "most": 6}
    print("run".ljust(9) + "".join(name.rjust(width) for name, width in heads.items()))
    for one in rows:
        print(
            f"{one['run']:9}{one['jobs']:6}{one['failed']:8}{one['gib_h_asked']:8.1f}{one['core_h_asked']:8.1f}"
            f"{one['mean_wait_min']:11.2f}{one['answered']:9.0%}{one['median_ms']:6.1f}{one['longest_ms']:6.0f}"
        )
    same = len({one["result"] for one in rows}) == 1
    print(f"{'the same result three times' if same else 'results DIFFER'}; the service was killed {killed} times")


if __name__ == "__main__":
    main()
