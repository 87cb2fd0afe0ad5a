"""Tests that `sacct -P -o ALL` and `sacct --json` give the same columns for the same jobs of a real Slurm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import labs_on
from slurm_lab import Lab
from snakemake_lab import CONF

from batchcast.table import Nominal, Trace
from batchcast.trace import read_trace

pytestmark = [pytest.mark.slurm, pytest.mark.lab]

HOLD = "/usr/bin/perl -e 'my $x = chr(97) x ($ARGV[0] << 20); select undef, undef, undef, $ARGV[1]'"
OF_THE_COMMAND = {"exclusive", "array_throttle", "nice", "cpus_per_task", "app_id"}
"""Columns from SubmitLine, which the JSON of Slurm 22.05 does not contain."""


def test_sacct_prints_the_same_columns_as_text_and_as_json(tmp_path: Path) -> None:
    for _ in labs_on("here", speed=1.0):
        with Lab(nodes=2, cpus=4, conf=CONF) as lab:
            plain = ("--parsable", "--uid=daemon", "--gid=daemon", "--chdir=/tmp", "-o", "/dev/null")
            lab.run("sbatch", *plain, "-t", "5", "-J", "a|b", "-n1", "--mem=300M", "--wrap", f"{HOLD} 60 2 | cat")
            lab.run("sbatch", *plain, "-t", "7", "-a", "0-1", "-n1", "--mem-per-cpu=100M", "--wrap", "true")
            lab.run("sbatch", *plain, "-n1", "--mem=100M", "--wrap", "exit 3")
            withdrawn = lab.run("sbatch", *plain, "-t", "9", "-N2", "--exclusive", "--wrap", "true").strip()
            lab.run("scancel", withdrawn)
            lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split(), "ended jobs", 60)
            lab.wait(lambda: lab.run("sacct", "-naPX", "-o", "End").count("T") >= 5, "accounting", 60)
            lab.wait(lambda: "Unknown" not in lab.run("sacct", "-naP", "-o", "End"), "the end of every step", 60)
            lab.run("sbatch", *plain, "-t", "9", "-n1", "-J", "runs", "--wrap", "sleep 99")
            lab.wait(lambda: "RUNNING" in lab.run("sacct", "-naPX", "-o", "State"), "the running job", 60)
            lab.run("sbatch", *plain, "-t", "9", "-N2", "--exclusive", "-J", "waits", "--wrap", "true")
            lab.wait(lambda: "PENDING" in lab.run("sacct", "-naPX", "-o", "State"), "the waiting job", 60)
            (tmp_path / "sacct.txt").write_text(lab.run("sacct", "-aP", "-o", "ALL"))
            (tmp_path / "sacct.json").write_text(lab.run("sacct", "-a", "--json"))
            (tmp_path / "squeue.json").write_text(lab.run("squeue", "-a", "--json"))
    text, as_json, queue = (read_trace(tmp_path / name) for name in ("sacct.txt", "sacct.json", "squeue.json"))
    assert len(text) == 7
    assert differing(text, as_json) == {}
    assert np.nanmax(as_json.number("used_mem_kib")) > 60 * 1024
    assert queue.nominal("status").decode()[-1] == "pending"
    assert np.isnan(queue.run_time[-1])


def differing(one: Trace, other: Trace) -> dict[str, tuple[object, object]]:
    """Return the columns that differ between two readings."""
    unequal = {}
    for name in sorted({*one.names, *other.names} - OF_THE_COMMAND):
        first, second = (values(trace, name) for trace in (one, other))
        # the text form gives jobs that never started their requested values
        if name in ("alloc_procs", "avg_cpu_time"):
            first = [value if ran else None for value, ran in zip(first, values(one, "alloc_nodes"))]
        if first != second:
            unequal[name] = (first, second)
    return unequal


def values(trace: Trace, name: str) -> list[object]:
    """Return a column as plain values, with None for unknown."""
    if name not in trace.names:
        return [None] * len(trace)
    column = trace.column(name)
    plain = column.decode() if isinstance(column, Nominal) else column.tolist()
    return [None if value != value else value for value in plain]
