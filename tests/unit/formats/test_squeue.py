"""Tests squeue, sacct and scontrol as Slurm 22.05 printed them, and newer forms from their documentation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import BatchcastError, InputError
from batchcast.formats.slurm import squeue
from batchcast.formats.slurm.reasons import plain_reason
from batchcast.formats.slurm.sbatch import parse_script
from batchcast.formats.slurm.scontrol import parse_config, parse_records
from batchcast.formats.slurm.squeue import parse_marked

PENDING = {
    "JobID": "2", "JobArrayID": "2_3", "SubmitTime": "1795229481", "StartTime": "N/A", "EndTime": "N/A",
    "EligibleTime": "N/A", "RestartCnt": "0", "State": "PENDING", "Reason": "JobArrayTaskLimit", "TimeLimit": "10:00",
    "NumCPUs": "2", "NumNodes": "2", "tres-alloc": "cpu=2,mem=8000M,node=2,billing=2", "UserName": "ada",
    "GroupName": "ada", "Account": "physics", "Partition": "main", "QOS": "normal", "PriorityLong": "4294901758",
    "Dependency": "(null)", "NodeList": "", "WorkDir": "/tmp", "Name": "arr",
}  # fmt: skip


def test_a_waiting_array_task() -> None:
    job = squeue.sighting(PENDING)
    assert (
        job.job_id,
        job.raw_id,
        job.requested["req_time"],
        job.requested["req_procs"],
        job.requested["req_mem_kib"],
    ) == (
        "2_3",
        "2",
        600.0,
        2.0,
        8192000.0,
    )
    assert job.is_open
    assert math.isnan(job.start_time)
    assert job.dependency == ""


def test_slurms_estimate_of_a_waiting_job_is_no_start() -> None:
    job = squeue.sighting({**PENDING, "StartTime": "1795233081", "EndTime": "1795233681"})
    assert math.isnan(job.start_time)
    assert math.isnan(job.end_time)
    assert job.expected_start == 1795233081


def test_a_running_jobs_planned_end_is_no_end() -> None:
    running = {**PENDING, "State": "RUNNING", "StartTime": "1795229482", "EndTime": "1795230082", "NodeList": "n1"}
    job = squeue.sighting(running)
    assert job.start_time == 1795229482
    assert math.isnan(job.end_time)


def test_cancelled_while_waiting_never_ran_though_slurm_gives_it_a_start() -> None:
    gone = {**PENDING, "State": "CANCELLED", "StartTime": "1795229628", "EndTime": "1795229628"}
    job = squeue.sighting(gone)
    assert math.isnan(job.start_time)
    assert job.end_time == 1795229628


def test_a_job_being_requeued_is_not_believed() -> None:
    """While a requeued job is completing, Slurm 22.05 shows no times of the old or the new run."""
    job = squeue.sighting(
        {**PENDING, "State": "COMPLETING", "StartTime": "1795229484", "NodeList": "n1", "RestartCnt": "1"}
    )
    assert not job.certain


def test_a_record_without_a_submit_time_is_refused_by_name() -> None:
    with pytest.raises(BatchcastError, match="submit time"):
        squeue.sighting({**PENDING, "SubmitTime": "Unknown"})


NAMES = ["a|b", 'quo"te', "new\nline", "tab\there", "😀", "x" * 300, "~~", " lead", ""]


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(NAMES)),
        max_size=5,
    )
)
def test_any_name_survives_between_marks(rows: list[tuple[int, str]]) -> None:
    mark = "~0123456789abcdef~"
    text = "".join(f"{n}{mark}{name}{mark}\n" for n, name in rows)
    records, broken = parse_marked(text, mark, ("JobID", "Name"))
    assert broken == 0
    assert [(int(r["JobID"]), r["Name"]) for r in records] == [(n, name.strip(" ")) for n, name in rows]


def test_a_cut_answer_keeps_its_whole_records_and_counts_the_rest() -> None:
    records, broken = parse_marked("1@a@\n2@b", "@", ("JobID", "Name"))
    assert [r["JobID"] for r in records] == ["1"]
    assert broken == 2


def test_an_answer_in_another_form_is_said() -> None:
    with pytest.raises(InputError, match="requested form"):
        parse_marked("slurm_load_jobs error", "@", ("JobID",))


ENDED = {
    "JobID": "6", "JobIDRaw": "6", "Submit": "1795229481", "Eligible": "1795229481", "Start": "1795229482",
    "End": "1795229484", "State": "REQUEUED", "TimelimitRaw": "2", "AllocCPUS": "1", "ReqCPUS": "1", "AllocNodes": "1",
    "ReqNodes": "1", "ReqMem": "4000M", "ReqTRES": "billing=1,cpu=1,gres/gpu=2,mem=4000M",
    "User": "bob", "Group": "bob",
    "Account": "physics", "Partition": "main,debug", "QOS": "normal", "Priority": "1", "AdminComment": "",
    "WorkDir": "/tmp", "JobName": "rq",
}  # fmt: skip


def test_a_requeued_run_is_a_job_of_its_own() -> None:
    (job,) = squeue.ended(ENDED)
    assert (job.state, job.start_time, job.end_time, job.requested["req_gpus"], job.requested["partition_id"]) == (
        "REQUEUED", 1795229482, 1795229484, 2.0, "main")  # fmt: skip


def test_array_tasks_withdrawn_together_are_told_one_by_one() -> None:
    jobs = list(squeue.ended({**ENDED, "JobID": "4_[1-3,9%2]", "State": "CANCELLED by 0", "AllocNodes": "0"}))
    assert [job.job_id for job in jobs] == ["4_1", "4_2", "4_3", "4_9"]
    assert all(math.isnan(job.start_time) for job in jobs)


def test_the_users_own_limit_is_read_where_a_plugin_noted_it() -> None:
    (job,) = squeue.ended({**ENDED, "AdminComment": "v=1;user_tl=60;pred_tl=2;src=model"})
    assert job.requested["req_time"] == 3600.0


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED"])
def test_open_jobs_are_left_to_squeue(state: str) -> None:
    assert list(squeue.ended({**ENDED, "State": state, "End": "Unknown"})) == []


def test_scontrol_records_with_spaces_in_values() -> None:
    (job,) = parse_records("JobId=6 JobName=two words UserId=bob(1002) Comment=\n", "JobId")
    assert job == {"JobId": "6", "JobName": "two words", "UserId": "bob(1002)", "Comment": ""}
    assert parse_config("MinJobAge               = 300 sec\n")["MinJobAge"] == "300 sec"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "next in the queue"),
        ("(JobHeldUser)", "held by its owner"),
        ("AssocGrpCpuLimit", "a limit of the account or association on processors"),
        ("QOSMaxJobsPerUserLimit", "a limit of the QOS on running jobs per user"),
        ("SomethingNew", "SomethingNew (Slurm's word)"),
        ("None", "has not considered"),
    ],
)
def test_reasons_in_plain_language(reason: str, words: str) -> None:
    assert words in plain_reason(reason)


def test_a_script_is_read_as_sbatch_reads_it() -> None:
    head = "#!/bin/sh\n# a comment\n#SBATCH -N2 --ntasks-per-node=4\n#SBATCH --time 1-0 # a day\n"
    text = head + "\nmodule x\n#SBATCH -n 99\n"
    request = parse_script(text)
    assert request.options == {"nodes": "2", "ntasks-per-node": "4", "time": "1-0"}
    assert (request.procs, request.nodes) == (8.0, 2.0)
