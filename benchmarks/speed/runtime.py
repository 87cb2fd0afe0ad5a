"""Run-time predictions on the four data sets of the kNN-GA paper: accuracy, and the cost of a replay."""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path

from click.testing import CliRunner

REPEATS = 3
SETS = {
    "HPC2N04": ("HPC2N-2002-2.2-cln", ["--from", "2004-01-01", "--to", "2005-01-01"]),
    "HPC2N05": ("HPC2N-2002-2.2-cln", ["--from", "2005-01-01"]),
    "SDSC02": ("SDSC-BLUE-2000-4.2-cln", ["--from", "2002-01-01", "--timezone", "+01:00", "--status", "1"]),
    "SDSC04": ("SDSC-DS-2004-2.1-cln", ["--status", "1"]),
}


def run() -> None:
    """Print jobs, MAE, underestimates and the median CPU seconds of the whole warm command, without start-up."""
    from batchcast.cli.main import cli

    shared = Path(os.environ.get("BATCHCAST_SHARED", Path(__file__).parents[3] / "shared"))
    if not shared.is_dir():
        print("skipped: the real logs are not in the repository (BATCHCAST_SHARED names their folder)")
        return
    print("batchcast runtime LOG SELECTION --predictor last_2,recent_mean --json")
    print(f"{'set':9}{'predictor':13}{'jobs':>7}{'MAE, s':>8}{'under':>7}{'apa':>7}{'CPU, s':>8}{'jobs/s':>9}")
    for name, (log, selection) in SETS.items():
        command = ["runtime", str(shared / "traces" / f"{log}.swf.gz"), *selection]
        command += ["--predictor", "last_2,recent_mean", "--json"]
        took = []
        for _ in range(REPEATS):
            begun = time.process_time()
            result = CliRunner().invoke(cli, command)
            took.append(time.process_time() - begun)
        seconds = statistics.median(took)
        for row in json.loads(result.stdout)["results"]:
            figures = f"{row['jobs']:7}{row['mae_s']:8.0f}{row['underestimate_rate']:7.3f}{row['apa']:7.3f}"
            print(f"{name:9}{row['predictor']:13}{figures}{seconds:8.2f}{row['jobs'] / seconds:9.0f}")
            if "against" in row:
                stated = row["differences"]["mae_s"]
                middle, low, high = (f"{stated[part]:+,.0f}" for part in ("value", "low", "high"))
                print(f"{'':9}{stated['verdict']} against {row['against']}: {middle} s (90 %: {low} to {high})")
