"""Planning under fire: SIGKILLs of agent, service, slurmctld and slurmdbd, and the store's disk full, on a real Slurm.

    python tests/slurm/under_fire.py --seeds 1,2,3 --jobs 300 --kills 67 --forecasts hasty,kernel,none -o fire.jsonl

The output file has one line per run; a run whose line is already there is skipped. `none` is the same workload under
the same kills of Slurm's daemons without batchcast, `hasty` a predictor that predicts one minute for every job; with an
order (`--mode both`) it predicts one minute per processor, and `plan --off` must leave no factor at the end.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "lab"))

from fire import Run, carry_out
from planning_lab import SPEED
from slurm_lab import missing

KEY = ("seed", "forecasts", "jobs", "kills", "at_start", "mode")
COLUMNS = (
    "seed", "forecasts", "jobs", "kills", "at_start", "early", "lost", "doubled", "planned", "restored",
    "over_before_look", "accounting_planned", "accounting_differs", "accounting_silent", "unrecorded",
    "planned_while_full", "stood_while_full", "stood_started_anew", "mode", "factors", "factors_unrecorded",
    "factors_left", "seconds",
)  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *(tuple(row.get(name, "") for name in COLUMNS) for row in rows)]
    return "\n".join("| " + " | ".join(str(cell).replace("_", " ") for cell in line) + " |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--kills", type=int, default=67, help="of each run; all kinds together")
    parser.add_argument("--forecasts", default="hasty,none", help="hasty, none, or a run-time method")
    parser.add_argument("--at-start", action="store_true", help="batchcast-start gives limits back as jobs start")
    parser.add_argument("--mode", default="plan", help="the setting plan: plan, order, both, time-min, advise")
    parser.add_argument("-o", "--output", type=Path, default=Path("under_fire.jsonl"))
    parser.add_argument("--logs", type=Path, help="a folder for the daemons' logs and the stores")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # SIGTERM also stops the lab
    if reason := missing(SPEED):
        print(f"under_fire: {reason}", file=sys.stderr)
        return 1
    runs = [
        Run(int(s), f, given.jobs, given.kills, mode=given.mode, at_start=given.at_start)
        for s in given.seeds.split(",")
        for f in given.forecasts.split(",")
    ]
    there = given.output.read_text().splitlines() if given.output.exists() else []
    rows = {Run(**{name: row[name] for name in KEY if name in row}): row for row in map(json.loads, there)}
    for run in runs:
        if run not in rows:
            keep = given.logs / "-".join(str(getattr(run, name)) for name in KEY) if given.logs else None
            rows[run] = carry_out(run, keep)
            with given.output.open("a") as out:
                out.write(json.dumps(rows[run]) + "\n")
            print(json.dumps(rows[run]), file=sys.stderr, flush=True)
    print(table([rows[run] for run in runs]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
