"""Tests a thousand real Slurm jobs (shared sample), converted to the dump that sacct would have printed, and read
again."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from batchcast.formats.slurm.sacct import read_sacct
from batchcast.trace.clean import without_repeats
from batchcast.units import format_duration

HEADER = (
    "JobID|User|Account|Partition|QOS|Timelimit|ReqNodes|ReqCPUS|ReqTRES|Submit|Start|End|Elapsed|State|JobName|WorkDir"
)


def as_sacct(path: Path) -> str:
    """Return the sample's columns with sacct's names and forms, in local times, as sacct prints them."""
    lines = [HEADER]
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            gpus = f",gres/gpu={row['gpus_req']}" if int(float(row["gpus_req"] or 0)) else ""
            tres = f"cpu={row['processors_req']},node={row['nodes_req']}{gpus}"
            times = [row[key].replace(" ", "T") or "Unknown" for key in ("submit_time", "start_time", "end_time")]
            limit, elapsed = (format_duration(float(row[key] or 0)) for key in ("wallclock_req", "run_time"))
            fields = [row["job_id"], row["user"], row["account"], row["partition"], row["qos"], limit, row["nodes_req"]]
            lines.append(
                "|".join(
                    [*fields, row["processors_req"], tres, *times, elapsed, row["state"], row["name"], row["work_dir"]]
                )
            )
    return "\n".join(lines)


@pytest.mark.shared
def test_the_sample_is_read_whole_and_as_it_was(shared: Path) -> None:
    path = shared / "traces" / "NREL-eagle-sample1000.csv.gz"
    trace = read_sacct(io.BytesIO(as_sacct(path).encode()), strict=True)
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    expected = sorted((int(r["job_id"]), float(r["run_time"]), float(r["wallclock_req"]), r["name"]) for r in rows)
    names = trace.nominal("job_name").decode()
    found = zip(trace.job_id.tolist(), trace.run_time.tolist(), trace.req_time.tolist(), names)
    assert sorted(found) == expected
    assert len(expected) == 1000
    assert len(trace.nominal("user_id").categories) == 15
    assert len(without_repeats(trace)) == 1000  # tasks of an array share a number in this sample
