"""Tests that `sacct --json` and `squeue --json` give the same columns as `sacct -P`, in every version of their form."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from batchcast.errors import InputError
from batchcast.formats.slurm.sacct import read_sacct, read_sacct_json
from batchcast.table import Nominal, Trace
from batchcast.trace import read_trace

SUBMIT = 1772359200
BOTH = "billing=8,cpu=8,mem=16G,node=2,gres/gpu:a100=2"
ONE = "cpu=4,mem=1000M,node=1"
_SHARED = {
    "User": "ada", "Group": "phys", "Account": "acct", "Partition": "main", "QOS": "normal", "Restarts": "0",
    "Submit": "1772359200", "Eligible": "1772359200", "TotalCPU": "00:09.500",
}  # fmt: skip
_NONE = {"NodeList": "None assigned", "AllocCPUS": "0", "AllocNodes": "0", "ReqCPUS": "1", "ReqTRES": "cpu=1,node=1"}
ROWS: list[dict[str, str]] = [
    {
        **_SHARED, "JobID": "42", "JobName": "relax", "WorkDir": "/home/ada", "Constraints": "intel&ib",
        "Reservation": "maint", "NodeList": "n[1-2]", "State": "COMPLETED", "Start": "1772359800", "End": "1772363400",
        "ElapsedRaw": "3600", "TimelimitRaw": "60", "ReqCPUS": "8", "AllocCPUS": "8", "AllocNodes": "2",
        "ReqMem": "16G", "ReqTRES": BOTH, "AllocTRES": BOTH, "Restarts": "1", "SubmitLine": "sbatch -a 1-2%1 a.sh",
    },
    {
        "JobID": "42.0", "State": "COMPLETED", "Submit": "1772359200", "Start": "1772359800", "End": "1772363400",
        "ElapsedRaw": "3600", "AllocCPUS": "8", "AllocNodes": "2", "AllocTRES": "cpu=8,mem=16G,node=2", "NTasks": "4",
        "TRESUsageInMax": "cpu=9,mem=2147483648", "TRESUsageInTot": "cpu=9,mem=5368709120",
    },
    {
        **_SHARED, **_NONE, "JobID": "50_3", "JobName": "arr", "State": "CANCELLED by 1001", "End": "1772359260",
        "ElapsedRaw": "0", "TimelimitRaw": "UNLIMITED", "ReqMem": "2000Mc",
    },
    {
        **_SHARED, **_NONE, "JobID": "51_[4-9%2]", "JobName": "arr", "State": "PENDING", "Eligible": "Unknown",
        "ElapsedRaw": "0", "TimelimitRaw": "90",
    },
    {
        **_SHARED, "JobID": "60+1", "JobName": "het", "NodeList": "n3", "State": "FAILED", "Start": "1772359300",
        "End": "1772359400", "ElapsedRaw": "100", "TimelimitRaw": "5", "ReqCPUS": "4", "AllocCPUS": "4",
        "AllocNodes": "1", "ReqMem": "1000M", "ReqTRES": ONE, "AllocTRES": ONE,
    },
    {
        "JobID": "60+1.batch", "State": "CANCELLED by 0", "Submit": "1772359200", "Start": "1772359300",
        "End": "1772359400", "ElapsedRaw": "100", "AllocCPUS": "4", "AllocNodes": "1", "AllocTRES": ONE, "NTasks": "1",
        "TRESUsageInMax": "mem=1073741824",
    },
]  # fmt: skip
NAMES = list(dict.fromkeys(name for row in ROWS for name in row))
TEXT = "".join("|".join(line) + "\n" for line in [NAMES, *([row.get(name, "") for name in NAMES] for row in ROWS)])


def wrapped(value: float | None) -> dict[str, Any]:
    """Return a number in the form of v0.0.39 and later."""
    infinite = value == math.inf
    return {"set": value is not None and not infinite, "infinite": infinite, "number": 0 if infinite else value or 0}


def plain(value: float | None) -> int | None:
    """Return the same number in the form of v0.0.37 and v0.0.38."""
    return 4294967295 if value == math.inf else None if value is None else int(value)


def tres(**counts: int) -> list[dict[str, Any]]:
    items = []
    for key, count in counts.items():
        kind, _, name = key.partition("__")
        items.append({"type": kind, "name": name.replace("_", ":") or None, "id": 1, "count": count})
    return items


def step(form: str, job: int, name: str, state: str, usage: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    new = form == "new"
    ident = f"{job}.{name}" if new else {"job_id": job, "step_id": name} if form == "middle" else name
    number = wrapped if new else plain
    return {
        "step": {"id": ident, "name": name, **({"job_id": job} if form == "old" else {})},
        "state": [state] if new else state,
        "time": {
            "start": number(more["start"]),
            "end": number(more["end"]),
            "elapsed": more["end"] - more["start"],
            "total": TOTAL,
        },
        "nodes": {"count": more["nodes"], "range": "n1"},
        "tasks": {"count": more["tasks"]},
        "kill_request_user": more.get("killer"),
        "tres": {"requested": usage, "allocated": more["allocated"]},
    }


TOTAL, NO_TOTAL = {"seconds": 9, "microseconds": 500000}, {"seconds": 0, "microseconds": 0}
"""CPU time, which Slurm 22.05 reports for steps only."""


def document(form: str) -> bytes:
    """Return the jobs of TEXT as one version of Slurm prints them: old (to 22.05), middle (23.02), new (23.11 and
    later)."""
    new = form == "new"
    number = plain if form == "old" else wrapped
    times = {"eligible": SUBMIT, "submission": SUBMIT, "suspended": 0, "total": TOTAL if form != "old" else NO_TOTAL}
    shared = {"user": "ada", "group": "phys", "account": "acct", "partition": "main", "qos": "normal", "steps": []}
    none = {
        "array": {"job_id": 0, "task_id": number(None), "task": ""},
        "het": {"job_id": 0, "job_offset": number(None)},
    }
    both = tres(billing=8, cpu=8, mem=16384, node=2, gres__gpu_a100=2)

    def states(word: str) -> object:
        return {"current": [word] if new else word, "reason": "None"}

    def memory(node: int | None, cpu: int | None) -> dict[str, Any]:
        if form == "old":
            return {"memory": (cpu or 0) + (1 << 63) if cpu else node or 0}
        return {"memory_per_node": wrapped(node), "memory_per_cpu": wrapped(cpu)}

    jobs = [
        {
            **shared, **none, "job_id": 42, "name": "relax", "working_directory": "/home/ada",
            "constraints": "intel&ib", "reservation": {"id": 3, "name": "maint"}, "nodes": "n[1-2]",
            "allocation_nodes": 2, "state": states("COMPLETED"), "restart_cnt": 1,
            "submit_line": "sbatch -a 1-2%1 a.sh", "required": {"CPUs": 8, **memory(8192, None)},
            "time": {**times, "start": SUBMIT + 600, "end": SUBMIT + 4200, "elapsed": 3600, "limit": number(60)},
            "tres": {"requested": both, "allocated": both},
            "steps": [step(
                form, 42, "0", "COMPLETED",
                {"max": tres(cpu=9, mem=2147483648), "total": tres(cpu=9, mem=5368709120)},
                start=SUBMIT + 600, end=SUBMIT + 4200, nodes=2, tasks=4, allocated=tres(cpu=8, mem=16384, node=2),
            )],
        },
        {
            **shared, **none, "job_id": 53, "name": "arr", "array": {"job_id": 50, "task_id": number(3), "task": ""},
            "nodes": "None assigned", "allocation_nodes": 0, "state": states("CANCELLED"), "kill_request_user": "ada",
            "reservation": {"id": 0, "name": 0 if form == "old" else ""}, "required": {"CPUs": 1, **memory(None, 2000)},
            "time": {**times, "start": 0, "end": SUBMIT + 60, "elapsed": 0, "limit": number(math.inf)},
            "tres": {"requested": tres(cpu=1, node=1), "allocated": []}, "restart_cnt": 0,
        },
        {
            **shared, **none, "job_id": 51, "name": "arr", "nodes": "None assigned", "allocation_nodes": 0,
            "array": {"job_id": 51, "task_id": number(None), "task": "4-9%2"}, "state": states("PENDING"),
            "required": {"CPUs": 1, **memory(None, None)}, "restart_cnt": 0,
            "time": {**times, "eligible": 0, "start": 0, "end": 0, "elapsed": 0, "limit": number(90)},
            "tres": {"requested": tres(cpu=1, node=1), "allocated": []},
        },
        {
            **shared, **none, "job_id": 61, "name": "het", "het": {"job_id": 60, "job_offset": number(1)},
            "nodes": "n3", "allocation_nodes": 1, "state": states("FAILED"), "restart_cnt": 0,
            "required": {"CPUs": 4, **memory(1000, None)},
            "time": {**times, "start": SUBMIT + 100, "end": SUBMIT + 200, "elapsed": 100, "limit": number(5)},
            "tres": {"requested": tres(cpu=4, mem=1000, node=1), "allocated": tres(cpu=4, mem=1000, node=1)},
            "steps": [step(
                form, 61, "batch", "CANCELLED", {"max": tres(mem=1073741824)}, start=SUBMIT + 100, end=SUBMIT + 200,
                nodes=1, tasks=1, allocated=tres(cpu=4, mem=1000, node=1), killer="root",
            )],
        },
    ]  # fmt: skip
    parser = {"old": "openapi/dbv0.0.38", "middle": "data_parser/v0.0.39", "new": "data_parser/v0.0.43"}[form]
    return json.dumps({"jobs": jobs, "meta": {"plugin": {"data_parser": parser}}, "errors": []}).encode()


def columns(trace: Trace) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for name in trace.names:
        values = trace.column(name)
        listed = values.decode() if isinstance(values, Nominal) else values.tolist()
        found[name] = [None if value != value else value for value in listed]
    return {name: listed for name, listed in found.items() if any(value is not None for value in listed)}


@pytest.mark.parametrize("form", ["old", "middle", "new"])
def test_the_columns_of_json_are_those_of_text(form: str, tmp_path: Path) -> None:
    text = read_sacct([TEXT.encode()])
    assert text.job_id.tolist() == ["42", "50_3", "51_[4-9%2]", "60+1"]
    assert text.nominal("status").decode() == ["completed", "cancelled", "pending", "out_of_memory"]
    assert text.number("used_mem_kib").tolist()[::3] == [2 * 2621440.0, 1048576.0]
    (tmp_path / "jobs.json").write_bytes(document(form))
    trace = read_trace(tmp_path / "jobs.json", strict=True)
    found = columns(trace)
    assert found["avg_cpu_time"] == [9.5 / 8, None, None, 9.5 / 4]
    assert found == columns(text)
    assert trace.info.format == "sacct"
    assert dict(trace.info.dropped) == {"job step (only jobs count)": 2}


def queued(form: str) -> bytes:
    number = plain if form == "old" else wrapped
    shared = {
        "account": "acct", "partition": "main", "user_name": "ada", "group_name": "phys", "user_id": 1001,
        "current_working_directory": "/home/ada", "features": "a|b", "submit_time": number(SUBMIT), "cpus": number(8),
        "eligible_time": number(SUBMIT), "time_limit": number(60), "node_count": number(2), "array_job_id": number(0),
        "array_task_id": number(None), "tres_req_str": "cpu=8,mem=16G,node=2,gres/gpu=2", "het_job_id": number(0),
        "memory_per_node": number(8192), "resv_name": "", "nodes": "",
    }  # fmt: skip
    waiting = {"job_id": 7, "name": "w", "job_state": "PENDING", "start_time": number(SUBMIT + 9000)}
    running = {"job_id": 8, "name": "r", "job_state": "RUNNING", "start_time": number(SUBMIT + 60), "nodes": "n[1-2]"}
    done = {**running, "job_id": 9, "job_state": "COMPLETED", "end_time": number(SUBMIT + 360)}
    jobs = [
        {**shared, "end_time": number(SUBMIT + 99999), "tres_alloc_str": shared["tres_req_str"], **job}
        for job in (waiting, running, done)
    ]
    for job in jobs:
        job["job_state"] = job["job_state"] if form == "old" else [job["job_state"], "COMPLETING"][:1]
    return json.dumps({"meta": {"Slurm": {"release": "23.11"}}, "jobs": jobs}).encode()


@pytest.mark.parametrize("form", ["old", "new"])
def test_the_queue_of_this_minute_is_read_without_slurms_forecasts(form: str, tmp_path: Path) -> None:
    (tmp_path / "queue.json").write_bytes(queued(form))
    trace = read_trace(tmp_path / "queue.json")
    assert trace.job_id.tolist() == [7, 8, 9]
    assert trace.nominal("status").decode() == ["pending", "running", "completed"]
    known = columns(trace)
    assert known["run_time"] == [None, None, 300.0]
    assert known["wait_time"] == [None, 60.0, 60.0]
    assert known["req_time"] == [3600.0] * 3
    assert known["req_mem_kib"] == [16 * 1024.0**2] * 3
    assert known["req_gpus"] == [2.0] * 3
    assert known["alloc_procs"] == [None, 8.0, 8.0]
    assert known["constraint"] == ["a|b"] * 3


def test_what_is_no_job_is_counted_and_slurms_own_errors_are_said() -> None:
    good = json.loads(document("new"))["jobs"][0]
    jobs = [good, 7, {"job_id": 8}, {"job_id": 9, "time": {"submission": "soon"}}, {**good, "job_id": 10, "steps": [3]}]
    text = json.dumps({"jobs": jobs, "errors": [{"error": "DB is away", "description": "no slurmdbd"}]})
    trace = read_sacct_json([text.encode()], "jobs.json")
    assert trace.job_id.tolist() == [42]
    assert sum(count for what, count in trace.info.dropped.items() if "broken" in what) == 4
    assert any("no slurmdbd" in note for note in trace.info.notes)
    with pytest.raises(InputError, match=r"jobs\.json:\d+: .*submit"):
        read_sacct_json([text.encode()], "jobs.json", strict=True)


def test_months_that_follow_one_another_and_numbers_that_json_does_not_have() -> None:
    one = document("new")
    other = json.dumps({"jobs": [{**json.loads(one)["jobs"][0], "job_id": 99, "priority": math.nan}]}).encode()
    assert read_sacct_json([one, b"\n", other]).job_id.tolist() == ["42", "50_3", "51_[4-9%2]", "60+1", "99"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"jobs": [{"job_id": 7, "time": {', "ends too early"),
        (b'{"meta": {}, "data_parser/v0.0.40": 1}', "no list of jobs"),
        (b'{"job_id": 1, "jobs": {}}', "no list of jobs"),
        (b'{"jobs": [{"job_id": 1, "time": x}]}', "not JSON"),
        (b'{"jobs": [{"job_id": ' + b"[" * 100_000, "nested too deep|ends too early"),
        (b'{"jobs": [], "meta": {"plugin": {"data_parser": "data_parser/v0.0.40"}}}', "no job record"),
    ],
)
def test_what_cannot_be_read_is_one_message(text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_bytes(text)
    with pytest.raises(InputError, match=message) as caught:
        read_trace(tmp_path / "jobs.json")
    assert "sacct" in str(caught.value)
