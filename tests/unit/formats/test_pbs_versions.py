"""Tests one small input for each version of PBS, written after its public manual.

| version | what only it has |
|---|---|
| PBS Pro 10, accounting | no run_count, exec_host with slots, no project |
| OpenPBS 20 to 23, accounting | microseconds in the stamp, run_count, project, exec_vnode |
| Torque 2.5 and 4, accounting | every slot of exec_host by itself, owner |
| Torque 6, accounting | ranges of slots, total_execution_slots, Exit_status -11 at the time limit |
| PBS Pro 2021, qstat -f | select, a value that goes on after a tab |
| OpenPBS 23, qstat -f -F json | numbers, nested resources |
| Torque 4, qstat -f | exit_status, start_time, comp_time, nodes and ppn, wrapped values |
| Slurm's qstat | test_qstat.py |
"""

from __future__ import annotations

import json

import pytest

from batchcast.formats.pbs.accounting import read as read_pbs
from batchcast.formats.pbs.qstat import parse_qstat, sighting

SUBMITTED = 1795255200.0  # 2026-11-21T10:00:00Z
TIMES = f"ctime={SUBMITTED:.0f} qtime={SUBMITTED:.0f} etime={SUBMITTED:.0f} start={SUBMITTED + 60:.0f}"
ENDED = f"end={SUBMITTED + 660:.0f}"
ACCOUNTING = {
    "PBS Pro 10": f"11/21/2026 10:11:00;E;7.pbs01;user=ada group=chem jobname=relax queue=workq {TIMES} "
    "exec_host=n1/0*4+n2/0*4 Resource_List.ncpus=8 Resource_List.nodect=2 Resource_List.place=free "
    "Resource_List.select=2:ncpus=4 Resource_List.walltime=00:10:00 session=99 "
    f"{ENDED} Exit_status=-29 resources_used.cput=00:40:00 resources_used.mem=1048576kb resources_used.ncpus=8 "
    "resources_used.walltime=00:10:00",
    "OpenPBS 23": "11/21/2026 10:11:00.123456;E;7.pbs01;user=ada group=chem project=_pbs_project_default jobname=relax "
    f"queue=workq {TIMES} exec_host=n1/0*4+n2/0*4 exec_vnode=(n1:ncpus=4)+(n2:ncpus=4) Resource_List.ncpus=8 "
    "Resource_List.nodect=2 Resource_List.place=scatter Resource_List.select=2:ncpus=4 Resource_List.walltime=00:10:00 "
    f"session=99 {ENDED} Exit_status=-29 resources_used.cpupercent=400 resources_used.mem=1048576kb "
    "resources_used.walltime=00:10:00 eligible_time=00:01:00 run_count=1",
    "Torque 2.5": f"11/21/2026 10:11:00;E;7.pbs01;user=ada group=chem jobname=relax queue=workq {TIMES} "
    "owner=ada@login exec_host=n1/3+n1/2+n1/1+n1/0+n2/3+n2/2+n2/1+n2/0 Resource_List.neednodes=2:ppn=4 "
    "Resource_List.nodect=2 Resource_List.nodes=2:ppn=4 Resource_List.walltime=00:10:00 session=99 "
    f"{ENDED} Exit_status=-11 resources_used.cput=00:40:00 resources_used.mem=1048576kb "
    "resources_used.walltime=00:10:00",
    "Torque 6": f"11/21/2026 10:11:00;E;7.pbs01;user=ada group=chem jobname=relax queue=workq {TIMES} start_count=1 "
    "owner=ada@login exec_host=n1/0-3+n2/0-3 Resource_List.nodes=2:ppn=4 Resource_List.nodect=2 "
    "Resource_List.walltime=00:10:00 session=99 total_execution_slots=8 unique_node_count=2 "
    f"{ENDED} Exit_status=-11 resources_used.cput=2400 resources_used.mem=1048576kb resources_used.walltime=00:10:00",
}


@pytest.mark.parametrize("flavour", ACCOUNTING)
def test_accounting_of_each_flavour_describes_the_same_job(flavour: str) -> None:
    trace = read_pbs([ACCOUNTING[flavour].encode()], flavour)
    (job_id,) = trace.job_id.tolist()
    names = ("wait_time", "run_time", "req_time", "req_procs", "alloc_procs", "alloc_nodes", "used_mem_kib")
    assert (str(job_id), *(float(trace.number(name)[0]) for name in names)) == (
        "7", 60.0, 600.0, 600.0, 8.0, 8.0, 2.0, 1048576.0,
    )  # fmt: skip
    words = [trace.nominal(name).decode()[0] for name in ("status", "user_id", "queue_id", "job_name")]
    assert words == ["timeout", "ada", "workq", "relax"]
    assert not trace.info.dropped


TEXTS = {
    "PBS Pro 2021": """Job Id: 7.pbs01
    Job_Name = relax
    Job_Owner = ada@login.site.org
    resources_used.ncpus = 8
    resources_used.walltime = 00:10:00
    job_state = F
    queue = workq
    server = pbs01
    ctime = Sat Nov 21 10:00:00 2026
    etime = Sat Nov 21 10:00:00 2026
    exec_vnode = (n1:ncpus=4)+
\t(n2:ncpus=4)
    mtime = Sat Nov 21 10:11:00 2026
    qtime = Sat Nov 21 10:00:00 2026
    stime = Sat Nov 21 10:01:00 2026
    Resource_List.ncpus = 8
    Resource_List.nodect = 2
    Resource_List.select = 2:ncpus=4
    Resource_List.walltime = 00:10:00
    substate = 92
    Exit_status = -29
""",
    "Torque 4": """Job Id: 7.pbs01
    Job_Name = relax
    Job_Owner = ada@login.site.org
    resources_used.cput = 00:40:00
    resources_used.walltime = 00:10:00
    job_state = C
    queue = workq
    server = pbs01
    Checkpoint = u
    ctime = Sat Nov 21 10:00:00 2026
    exec_host = n1/3+n1/2+n1/1+n1/0+n2/3+n2/2+n2/1
\t+n2/0
    mtime = Sat Nov 21 10:11:00 2026
    qtime = Sat Nov 21 10:00:00 2026
    Resource_List.neednodes = 2:ppn=4
    Resource_List.nodect = 2
    Resource_List.nodes = 2:ppn=4
    Resource_List.walltime = 00:10:00
    etime = Sat Nov 21 10:00:00 2026
    exit_status = -11
    start_time = Sat Nov 21 10:01:00 2026
    start_count = 1
    comp_time = Sat Nov 21 10:11:00 2026
    total_runtime = 600.4
""",
    "OpenPBS 23, JSON": json.dumps(
        {
            "timestamp": 1795255900,
            "pbs_version": "23.06.06",
            "pbs_server": "pbs01",
            "Jobs": {
                "7.pbs01": {
                    "Job_Name": "relax",
                    "Job_Owner": "ada@login.site.org",
                    "resources_used": {"ncpus": 8, "walltime": "00:10:00"},
                    "job_state": "F",
                    "queue": "workq",
                    "server": "pbs01",
                    "ctime": "Sat Nov 21 10:00:00 2026",
                    "etime": "Sat Nov 21 10:00:00 2026",
                    "mtime": "Sat Nov 21 10:11:00 2026",
                    "qtime": "Sat Nov 21 10:00:00 2026",
                    "stime": "Sat Nov 21 10:01:00 2026",
                    "Resource_List": {"ncpus": 8, "nodect": 2, "select": "2:ncpus=4", "walltime": "00:10:00"},
                    "substate": 92,
                    "Exit_status": -29,
                }
            },
        }
    ),
}


@pytest.mark.parametrize("flavour", TEXTS)
def test_qstat_of_each_flavour_describes_the_same_job(flavour: str) -> None:
    ((job_id, attributes),) = parse_qstat(TEXTS[flavour])
    job = sighting(job_id, attributes)
    assert job is not None
    assert (job.job_id, job.state) == ("7", "TIMEOUT")
    assert (job.submit_time, job.start_time, job.end_time) == (SUBMITTED, SUBMITTED + 60, SUBMITTED + 660)
    asked = [job.requested[name] for name in ("user_id", "job_name", "req_procs", "req_time")]
    assert asked == ["ada", "relax", 8.0, 600.0]


def test_a_torque_job_that_runs_has_its_start_and_its_processors() -> None:
    """Without Torque's start_time the job would seem never to have started."""
    text = TEXTS["Torque 4"].replace("job_state = C", "job_state = R").replace("    comp_time", "    x_time")
    ((job_id, attributes),) = parse_qstat(text)
    job = sighting(job_id, attributes)
    assert job is not None
    assert (job.state, job.start_time, job.allocated["alloc_procs"]) == ("RUNNING", SUBMITTED + 60, 8.0)
