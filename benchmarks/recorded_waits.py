"""Predicted waits on recorded schedules of a real Slurm: every method beside Slurm's own estimates.

    python -m benchmarks.recorded_waits FOLDER...

Folders have the form of shared/reference/slurm, each a separate run in which every method starts without history.
Methods predict at submission. Slurm's own estimate is the first estimate of `squeue --start` for a job, in a sample per
minute of the record's clock, so part of the wait has passed by then.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batchcast.evaluation.wait import RecordedClock, crps_of, recorded_wait, run_wait
from batchcast.formats.slurm.scontrol import table
from batchcast.metrics.coverage import is_covered
from batchcast.table import Trace
from batchcast.trace.machine_files import open_machine, read_texts
from batchcast.trace.read import read_trace

PROCESSORS, NODES = "forecast", "forecast, nodes"
OTHERS = ("ibl", "log_uniform", "pqstar", "qbets", "recent_wait", "scheduler_replay")
METHODS = (NODES, PROCESSORS, *OTHERS)
BOUND = 0.9
TITLES = ("key", "offset", "action", "user", "account", "run", "step", "args", "jobid", "sent", "answered", "rc")


class Judged(NamedTuple):
    """Results of one method on one run, by job: absolute error, CRPS of log(1 + wait), whether the wait was within the
    90 % bound."""

    error: np.ndarray
    crps: np.ndarray
    held: np.ndarray


def run(folders: list[str]) -> None:
    """Print, for each run and for all runs together, the CRPS, mean and median error of each method and the coverage of
    its bounds."""
    found: dict[str, list[Judged]] = {name: [] for name in METHODS}
    slurm: list[np.ndarray] = []
    for folder in folders:
        texts, machine = read_texts(Path(folder)), open_machine(folder)
        trace = accounting(texts)
        ran = ~np.isnan(trace.run_time)
        for name in METHODS:
            given = None if name == PROCESSORS else machine
            found[name].append(judged(trace, name.partition(",")[0], given, ran))
        slurm.append(np.abs(estimated(texts, trace) - trace.submit_time - recorded_wait(trace))[ran])
        show(Path(folder).name, {name: runs[-1] for name, runs in found.items()}, slurm[-1])
    together = {name: Judged(*map(np.concatenate, zip(*runs))) for name, runs in found.items()}
    show(f"all {len(folders)} runs", together, np.concatenate(slurm))


def judged(trace: Trace, spec: str, machine: object, ran: np.ndarray) -> Judged:
    """Score a method that has no history at the first job."""
    made = run_wait(trace, spec, np.ones(len(trace), bool), on=RecordedClock(machine=machine)).forecasts
    waited = recorded_wait(trace)
    held = np.full(len(trace), np.nan)
    if BOUND in made.levels:
        held = is_covered(waited, made.quantiles[:, made.levels.index(BOUND)]).astype(float)
    return Judged(np.abs(made.points - waited)[ran], crps_of(waited, made)[ran], held[ran])


def show(title: str, by_name: dict[str, Judged], slurm: np.ndarray) -> None:
    """Print one run's block of lines."""
    said = ~np.isnan(slurm)
    print(f"{title}: {len(slurm)} jobs; Slurm estimated {said.sum()}")
    print(f"{'':18}{'CRPS':>8}{'mean s':>9}{'median s':>10}{'90 % held':>11}{'of those estimated: median s':>31}")
    for name, one in by_name.items():
        held = f"{100 * one.held.mean():.1f}" if not np.isnan(one.held).any() else ""
        print(f"{name:18}{one.crps.mean():8.3f}{one.error.mean():9.0f}{np.median(one.error):10.0f}{held:>11}"
              f"{np.median(one.error[said]):31.0f}")  # fmt: skip
    print(f"{'squeue --start':18}{'':38}{np.median(slurm[said]):31.0f}", flush=True)


def accounting(texts: dict[str, str]) -> Trace:
    """Return the run's accounting as a log, with the command of each submission, as sacct's SubmitLine has it."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "sacct.psv"
        said, (head, *lines) = commands(texts["submissions.tsv"]), texts["sacct.psv"].splitlines()
        job = head.split("|").index("JobID")
        lines = [f"{line}|{said.get(line.split('|')[job].partition('_')[0], '')}" for line in lines]
        path.write_text("\n".join([f"{head}|SubmitLine", *lines, ""]))
        return read_trace(str(path))


def commands(submissions: str) -> dict[str, str]:
    """Return the typed commands by job id; `@k012` in a command stands for that submission's job id."""
    rows = [dict(zip(TITLES, line.split("\t"))) for line in submissions.splitlines()[1:]]
    rows = [row for row in rows if row["action"] == "submit"]
    ids = {row["key"]: row["jobid"] for row in rows}
    return {row["jobid"]: "sbatch " + re.sub(r"@(k\d+)", lambda m: ids[m[1]], row["args"]) for row in rows}


def estimated(texts: dict[str, str], trace: Trace) -> np.ndarray:
    """Return the first start (n,) that Slurm estimated for each job while it waited; NaN if it never did."""
    raw = {row["JobID"]: int(row["JobIDRaw"]) for row in table(texts["sacct.psv"])}
    place = {int(number): row for row, number in enumerate(trace.job_id.tolist())}
    first = np.full(len(trace), np.nan)
    for line in texts["squeue.psv"].splitlines()[1:]:
        _, job, state, _, _, start = line.split("|")
        row = place.get(raw.get(job, -1))
        if state == "PD" and start.isdigit() and row is not None and np.isnan(first[row]):
            first[row] = float(start)
    return first


def main() -> None:
    """Print a block of lines for each run, and one for all."""
    first, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=first, epilog=rest.partition("\n\n")[2])
    parser.add_argument("folder", nargs="+", help="a recorded run")
    run(parser.parse_args().folder)


if __name__ == "__main__":
    main()
