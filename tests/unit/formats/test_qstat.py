"""Tests qstat in OpenPBS's documented forms, and as Slurm 22.05's own wrapper printed it."""

from __future__ import annotations

import json
import math
from typing import Any

from batchcast.formats.pbs.qstat import parse_qstat, sighting

TEXT = """Job Id: 1001.pbs01
    Job_Name = relax = twice
    Job_Owner = ada@login
    resources_used.ncpus = 4
    resources_used.walltime = 00:00:50
    job_state = F
    queue = workq
    server = pbs01
    ctime = Sat Nov 21 10:00:00 2026
    etime = Sat Nov 21 10:00:00 2026
    mtime = Sat Nov 21 10:02:05 2026
    qtime = Sat Nov 21 10:00:00 2026
    stime = Sat Nov 21 10:01:10 2026
    Resource_List.mem = 2gb
    Resource_List.ncpus = 4
    Resource_List.nodect = 1
    Resource_List.walltime = 01:00:00
    Variable_List = PBS_O_HOME=/home/ada,PBS_O_PATH=/usr/bin,
\tPBS_O_SHELL=/bin/sh
    Exit_status = 0

Job Id: 1002[3].pbs01
    Job_Name = wait
    Job_Owner = bob@login
    job_state = Q
    queue = workq
    server = pbs01
    ctime = Sat Nov 21 10:00:00 2026
    etime = Sat Nov 21 10:00:00 2026
    mtime = Sat Nov 21 10:00:00 2026
    qtime = Sat Nov 21 10:00:00 2026
    estimated.start_time = Sat Nov 21 11:00:00 2026
    Resource_List.ncpus = 8
    Resource_List.walltime = 00:10:00

Job Id: 1002[].pbs01
    Job_Name = wait
    job_state = B
    server = pbs01
    ctime = Sat Nov 21 10:00:00 2026
"""
SUBMITTED = 1795255200.0  # 2026-11-21T10:00:00Z


def test_openpbs_text() -> None:
    done, waiting, parent = [sighting(*job) for job in parse_qstat(TEXT)]
    assert done is not None
    assert waiting is not None
    assert parent is None
    assert (done.job_id, done.requested["job_name"], done.requested["user_id"], done.state) == (
        "1001",
        "relax = twice",
        "ada",
        "COMPLETED",
    )
    assert (done.submit_time, done.start_time, done.end_time) == (SUBMITTED, SUBMITTED + 70, SUBMITTED + 120)
    assert (done.requested["req_time"], done.requested["req_procs"], done.requested["req_mem_kib"]) == (
        3600.0,
        4.0,
        2 * 1024.0**2,
    )
    assert (waiting.job_id, waiting.state, waiting.expected_start) == ("1002_3", "PENDING", SUBMITTED + 3600)
    assert math.isnan(waiting.start_time)


def test_a_value_goes_on_after_a_tab() -> None:
    assert parse_qstat(TEXT)[0][1]["Variable_List"].endswith("PBS_O_PATH=/usr/bin,PBS_O_SHELL=/bin/sh")


def test_openpbs_json_says_the_same() -> None:
    jobs = {}
    for job_id, flat in parse_qstat(TEXT):
        nested: dict[str, Any] = {}
        for name, value in flat.items():
            head, dot, tail = name.partition(".")
            if dot:
                nested.setdefault(head, {})[tail] = int(value) if value.isdigit() else value
            else:
                nested[name] = value
        jobs[job_id] = nested
    text = json.dumps({"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": "pbs01", "Jobs": jobs})
    assert [str(sighting(*job)) for job in parse_qstat(text)] == [str(sighting(*job)) for job in parse_qstat(TEXT)]


def test_deleted_before_it_ran() -> None:
    attributes = {"job_state": "F", "server": "x", "ctime": "100", "etime": "100", "mtime": "160", "Exit_status": "271"}
    job = sighting("7.x", attributes)
    assert job is not None
    assert (job.state, job.end_time) == ("CANCELLED", 160.0)
    assert math.isnan(job.start_time)


SLURMS_WRAPPER = """Job Id:\t1
\tJob_Name = q1
\tJob_Owner = daemon@localhost
\tjob_state = C
\tqueue = main
\tqtime = Sat Nov 21 03:39:58 2026
\tmtime = Sat Nov 21 03:39:59 2026
\tctime = Sat Nov 21 03:40:03 2026
\texec_host = n1/1
\tResource_List.walltime = 00:10:00
\tResource_List.ncpus = 1

Job Id:\t4
\tJob_Name = q3
\tjob_state = Q
\tqtime = Sat Nov 21 03:39:58 2026
\tmtime = Sat Nov 21 03:59:59 2026
\tctime = Sat Nov 21 04:09:59 2026
\tResource_List.ncpus = 4
"""


def test_slurms_own_wrapper() -> None:
    done, waiting = [sighting(*job) for job in parse_qstat(SLURMS_WRAPPER)]
    assert done is not None
    assert waiting is not None
    assert (done.start_time - done.submit_time, done.end_time - done.start_time) == (1.0, 4.0)
    assert waiting.expected_start - waiting.submit_time == 1201.0
