"""Tests a job's memory from sacct's step rows: in any order, killed for memory, or without a measurement."""

from __future__ import annotations

import pytest

from batchcast.formats.pbs.qstat import sighting
from batchcast.formats.sighting import Sighting
from batchcast.formats.slurm.sacct import read_sacct
from batchcast.formats.slurm.squeue import FIELDS_WITH_STEPS, ended, with_steps
from batchcast.job import status_from_sacct

JOB = dict.fromkeys(FIELDS_WITH_STEPS, "") | {
    "JobID": "7", "JobIDRaw": "7", "Submit": "100", "Eligible": "100", "Start": "110", "End": "150",
    "State": "COMPLETED", "Priority": "1", "AllocNodes": "1", "ReqNodes": "1", "ReqCPUS": "1", "ReqMem": "100M",
    "TimelimitRaw": "5",
}  # fmt: skip


def step(name: str = "batch", **fields: str) -> dict[str, str]:
    share = {"State": "COMPLETED", "AllocNodes": "1", "AllocTRES": "cpu=1,mem=100M,node=1", "NTasks": "1"}
    return dict.fromkeys(FIELDS_WITH_STEPS, "") | {"JobID": f"7.{name}"} | share | fields


def read(job: dict[str, str], *steps: dict[str, str]) -> Sighting:
    ((record, own),) = with_steps([job, *steps])
    (seen,) = ended(record, own)
    return seen


def test_the_largest_step_counts_and_several_nodes_hold_as_much_each() -> None:
    """The output of Slurm 22.05 for two nodes with a task of 60 MiB each, under a batch step of 10.5 MiB."""
    two = {"AllocNodes": "2", "NTasks": "2", "MaxRSS": "66648K", "TRESUsageInTot": "cpu=00:00:00,mem=133208K"}
    seen = read({**JOB, "AllocNodes": "2", "ReqMem": "600M"}, step(MaxRSS="10.50M"), step("0", **two))
    assert seen.allocated["used_mem_kib"] == 2 * 66648.0
    assert seen.requested["req_mem_kib"] == 600 * 1024.0


def test_the_runs_of_a_requeued_job_keep_their_own_steps() -> None:
    first = {**JOB, "State": "REQUEUED"}
    pairs = list(with_steps([first, step(MaxRSS="50M"), {**JOB, "Start": "160", "End": "170"}, step(MaxRSS="70M")]))
    used = [next(iter(ended(*pair))).allocated["used_mem_kib"] for pair in pairs]
    assert used == [50 * 1024.0, 70 * 1024.0]


def test_a_step_ended_for_its_memory_says_why_its_job_failed() -> None:
    killed = step(MaxRSS="211412K", State="CANCELLED by 0")
    seen = read({**JOB, "State": "FAILED"}, killed)
    assert (seen.state, seen.allocated["used_mem_kib"]) == ("OUT_OF_MEMORY", 211412.0)


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("FAILED", {"MaxRSS": "50M", "State": "CANCELLED by 0"}),  # the step used less than its share
        ("FAILED", {"MaxRSS": "200M", "State": "FAILED"}),  # used more than requested, but was not killed
        ("COMPLETED", {"MaxRSS": "200M", "State": "COMPLETED"}),
        ("CANCELLED", {"MaxRSS": "200M", "State": "CANCELLED by 0"}),  # an administrator cancelled the whole job
        ("FAILED", {"MaxRSS": "-200M", "State": "CANCELLED by 0"}),
        ("FAILED", {"MaxRSS": "200M", "State": "CANCELLED by 0", "AllocTRES": "cpu=1,mem=lots"}),
    ],
)
def test_no_other_job_is_said_to_have_run_out(state: str, fields: dict[str, str]) -> None:
    assert read({**JOB, "State": state}, step(**fields)).state == state


@pytest.mark.parametrize(
    ("amount", "why"),
    [("", "zero"), ("0", "zero"), ("-5K", "bad"), ("12X", "bad"), ("4096P", "bad"), ("5M", "")],
)
def test_what_is_no_amount_is_said_and_not_kept(amount: str, why: str) -> None:
    seen = read(JOB, step(MaxRSS=amount))
    assert seen.unmeasured == why
    assert ("used_mem_kib" in seen.allocated) == (not why)


def test_a_job_without_steps_is_merely_unknown() -> None:
    assert read(JOB).unmeasured == ""
    assert "used_mem_kib" not in read(JOB).allocated


def test_pbs_tells_memory_of_jobs_that_are_over() -> None:
    a = {
        "job_state": "F", "ctime": "100", "stime": "110", "mtime": "150", "resources_used.walltime": "00:00:40",
        "resources_used.mem": "2048kb", "Resource_List.mem": "1gb", "Resource_List.ncpus": "1", "server": "s",
        "Exit_status": "-27",
    }  # fmt: skip
    seen = sighting("7.s", a)
    assert seen is not None
    assert (seen.state, seen.allocated["used_mem_kib"], seen.requested["req_mem_kib"]) == (
        "OUT_OF_MEMORY",
        2048.0,
        1024.0**2,
    )
    running = sighting("7.s", {**a, "job_state": "R"})
    assert running is not None
    assert "used_mem_kib" not in running.allocated  # a running job has no peak yet
    absurd = sighting("7.s", {**a, "resources_used.mem": "4096pb"})
    assert absurd is not None
    assert "used_mem_kib" not in absurd.allocated
    torque = sighting("7.s", {**a, "Exit_status": "-10"})
    assert torque is not None
    assert torque.state == "OUT_OF_MEMORY"


@pytest.mark.parametrize(
    ("state", "step_state", "held", "status"),
    [
        ("FAILED", "CANCELLED by 0", "211412K", "out_of_memory"),
        ("FAILED", "CANCELLED by 1000", "211412K", "failed"),
        ("FAILED", "CANCELLED by 0", "50M", "failed"),
        ("FAILED", "FAILED", "211412K", "failed"),
        ("CANCELLED by 0", "CANCELLED by 0", "211412K", "cancelled"),
    ],
)
def test_a_file_says_of_the_same_rows_what_a_live_site_learns(
    state: str, step_state: str, held: str, status: str
) -> None:
    names = ("JobID", "Submit", "Start", "End", "State", "ReqMem", "AllocNodes", "AllocTRES", "MaxRSS")
    job = {**JOB, "State": state}
    killed = step(MaxRSS=held, State=step_state)
    rows = [names, [job.get(name, "") for name in names], [killed.get(name, "") for name in names]]
    text = "\n".join("|".join(row) for row in rows) + "\n"
    trace = read_sacct([text.encode()])
    assert trace.nominal("status").decode() == [status]
    assert status_from_sacct(read(job, killed).state) == status
    assert any("OverMemoryKill" in note for note in trace.info.notes) == (status == "out_of_memory")
