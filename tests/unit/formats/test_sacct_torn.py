"""Tests lines of a sacct dump that text columns tear: joined if the other fields are unambiguous, else dropped and
counted."""

from __future__ import annotations

import pytest

from batchcast.errors import InputError
from batchcast.formats.slurm.sacct import read_sacct
from batchcast.formats.slurm.sacct_lines import take_apart
from batchcast.table import Trace

ALL = [
    "Account",
    "AdminComment",
    "AllocCPUS",
    "AllocNodes",
    "AllocTRES",
    "AssocID",
    "AveCPU",
    "AveCPUFreq",
    "AveDiskRead",
    "AveRSS",
    "Cluster",
    "Comment",
    "Constraints",
    "Container",
    "ConsumedEnergy",
    "CPUTime",
    "CPUTimeRAW",
    "DBIndex",
    "DerivedExitCode",
    "Elapsed",
    "ElapsedRaw",
    "Eligible",
    "End",
    "ExitCode",
    "Extra",
    "Flags",
    "GID",
    "Group",
    "JobID",
    "JobIDRaw",
    "JobName",
    "Layout",
    "MaxRSS",
    "MaxRSSNode",
    "NCPUS",
    "NNodes",
    "NodeList",
    "NTasks",
    "Priority",
    "Partition",
    "QOS",
    "Reason",
    "ReqCPUS",
    "ReqMem",
    "ReqNodes",
    "ReqTRES",
    "Reservation",
    "Restarts",
    "Start",
    "State",
    "Submit",
    "SubmitLine",
    "Suspended",
    "SystemCPU",
    "SystemComment",
    "Timelimit",
    "TimelimitRaw",
    "TotalCPU",
    "TRESUsageInMax",
    "TRESUsageInTot",
    "UID",
    "User",
    "UserCPU",
    "WCKey",
    "WCKeyID",
    "WorkDir",
]
JOB = {
    "Account": "phys", "AllocCPUS": "4", "AllocNodes": "1", "AllocTRES": "billing=4,cpu=4,mem=8G,node=1",
    "AssocID": "7", "Cluster": "c1", "CPUTime": "00:40:00", "CPUTimeRAW": "2400", "DBIndex": "11",
    "DerivedExitCode": "0:0", "Elapsed": "00:10:00", "ElapsedRaw": "600", "Eligible": "2026-03-01T10:00:00",
    "End": "2026-03-01T10:20:00", "ExitCode": "0:0", "Flags": "SchedMain,StartRecieved", "GID": "100", "Group": "grp",
    "JobID": "100", "JobIDRaw": "100", "JobName": "relax", "NCPUS": "4", "NNodes": "1", "NodeList": "n001",
    "Priority": "1000", "Partition": "main", "QOS": "normal", "Reason": "None", "ReqCPUS": "4", "ReqMem": "8G",
    "ReqNodes": "1", "ReqTRES": "billing=4,cpu=4,mem=8G,node=1", "Restarts": "0", "Start": "2026-03-01T10:10:00",
    "State": "COMPLETED", "Submit": "2026-03-01T10:00:00", "SubmitLine": "sbatch a.sh", "Suspended": "00:00:00",
    "SystemCPU": "00:01.250", "Timelimit": "01:00:00", "TimelimitRaw": "60", "TotalCPU": "00:30:00", "UID": "1001",
    "User": "ada", "UserCPU": "29:58.750", "WCKey": "*", "WCKeyID": "0", "WorkDir": "/home/ada",
}  # fmt: skip
STEP = {
    "JobID": "100.batch", "JobIDRaw": "100.batch", "JobName": "batch", "MaxRSS": "1G", "MaxRSSNode": "n001",
    "AveCPU": "00:29:58", "AveCPUFreq": "2.10M", "AveDiskRead": "148.23M", "AveRSS": "900M", "Layout": "Unknown",
    "NTasks": "1", "Timelimit": "", "TimelimitRaw": "", "User": "", "UID": "", "ReqMem": "", "QOS": "",
    "Partition": "", "TRESUsageInMax": "cpu=00:29:58,energy=0,fs/disk=155,mem=1G,pages=0,vmem=1G",
}  # fmt: skip


def dump(*jobs: dict[str, str], columns: list[str] = ALL, delimiter: str = "|") -> str:
    rows = [columns, *([{**JOB, **job}.get(name, "") for name in columns] for job in jobs)]
    return "".join(delimiter.join(row) + "\n" for row in rows)


def read(text: str, **options: bool) -> Trace:
    return read_sacct([text.encode()], "jobs.txt", **options)


def dropped(trace: Trace) -> int:
    return sum(count for what, count in trace.info.dropped.items() if what.startswith("broken line"))


COMMANDS = [
    "sbatch --wrap=sort in.txt | uniq > out.txt",
    "sbatch --wrap=zcat x.gz | awk {print} | sort -u",
    "sbatch --wrap=a || b",
    "sbatch --wrap=|",
    "/opt/slurm/bin/sbatch-real --wrap=cat <<E | sort\nline one\n|line two\nE",
    "srun sh -c " + " | ".join(["cat"] * 40),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_line_with_pipes_costs_no_job_of_a_dump_of_all_columns(command: str) -> None:
    trace = read(dump({"JobID": "99"}, {"SubmitLine": command}, {**STEP, "SubmitLine": command}, {"JobID": "101"}))
    assert trace.job_id.tolist() == [99, 100, 101]
    assert trace.run_time.tolist() == [600.0] * 3
    assert trace.req_time.tolist() == [3600.0] * 3
    assert trace.number("used_mem_kib").tolist()[1] == 1024.0**2
    assert trace.nominal("user_id").decode() == ["ada"] * 3
    assert dropped(trace) == 0


@pytest.mark.parametrize("name", ["SystemComment", "AdminComment", "Extra", "WCKey", "JobName", "WorkDir"])
def test_every_text_column_of_a_dump_of_all_columns_may_hold_the_delimiter(name: str) -> None:
    trace = read(dump({"JobID": "99"}, {name: "/one | two||three"}))
    assert trace.job_id.tolist() == [99, 100]
    assert trace.req_time.tolist() == [3600.0] * 2
    assert "constraint" not in trace.names


def test_constraints_and_the_command_line_torn_in_one_line() -> None:
    jobs = [{"JobID": str(k), "Constraints": c, "SubmitLine": f"sbatch -C {c} a.sh"} for k, c in enumerate(OR)]
    trace = read(dump(*jobs))
    assert trace.nominal("constraint").decode() == OR
    assert trace.nominal("job_name").decode() == ["relax"] * len(OR)


OR = ["intel|amd", "[rack1|rack2]", "(a|b)&c", "gpu"]


@pytest.mark.parametrize("columns", [["Constraints", "Reservation", "SubmitLine"], ["SubmitLine", "Constraints"]])
def test_a_constraint_is_what_the_command_says(columns: list[str]) -> None:
    jobs = [{"JobID": str(k), "Constraints": c, "SubmitLine": f"sbatch -C {c} a.sh"} for k, c in enumerate(OR)]
    trace = read(dump(*jobs, columns=["JobID", "Submit", "NNodes", *columns]))
    assert trace.nominal("constraint").decode() == OR
    assert "reservation" not in trace.names


@pytest.mark.parametrize("columns", [["Constraints", "JobName"], ["JobName", "Constraints"]])
def test_what_nothing_decides_is_left_out_and_counted(columns: list[str]) -> None:
    jobs = [{"JobID": str(k), "Constraints": c} for k, c in enumerate(["intel|amd", "[rack1|rack2]", "gpu"])]
    text = dump(*jobs, columns=["JobID", "Submit", "NNodes", *columns])
    trace = read(text)
    assert trace.job_id.tolist() == [1, 2]
    assert trace.nominal("constraint").decode() == ["[rack1|rack2]", "gpu"]
    assert dropped(trace) == 1
    assert any("more than one way" in note and "--delimiter=^" in note for note in trace.info.notes)
    with pytest.raises(InputError, match=r"jobs\.txt:2: .*more than one way"):
        read(text, strict=True)
    safe = read(dump(*jobs, columns=["JobID", "Submit", "NNodes", *columns], delimiter="^"))
    assert safe.nominal("constraint").decode() == ["intel|amd", "[rack1|rack2]", "gpu"]


def test_text_that_nobody_reads_need_not_be_certain() -> None:
    taken = take_apart(["jobid", "comment", "extra", "state"], ["7", "a", "b", "c", "FAILED"], "|")
    assert taken.fields is not None
    assert (taken.fields[0], taken.fields[3], taken.undecided) == ("7", "FAILED", False)


def test_a_column_of_an_unknown_name_may_hold_the_delimiter_too() -> None:
    trace = read(dump({"NewText": "a|b"}, columns=["JobID", "Submit", "NewText", "ElapsedRaw", "State"]))
    assert trace.run_time.tolist() == [600.0]
    undecided = take_apart(["jobid", "newtext", "jobname", "state"], ["7", "a", "b", "c", "FAILED"], "|")
    assert undecided == (None, True)


@pytest.mark.parametrize(
    "message",
    [
        "sacct: error: slurm_persist_conn_open: Failed to unpack persistent connection init resp message",
        "slurmdbd: error: a | b",
        "CLUSTER: beta",
        "bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)",
    ],
)
def test_a_message_between_records_is_no_part_of_a_name(message: str) -> None:
    columns = ["JobID", "Submit", "ElapsedRaw", "JobName"]
    lines = dump({}, {"JobID": "101"}, columns=columns).splitlines()
    lines[2:2] = [message]
    trace = read("\n".join([*lines, message, ""]))
    assert trace.nominal("job_name").decode() == ["relax", "relax"]
    assert trace.info.dropped == {"broken line: a message, not a record": 2}
    assert not any("repaired" in note for note in trace.info.notes)


def test_a_second_line_of_a_text_goes_to_the_record_before_it_torn_or_not() -> None:
    columns = ["JobID", "Submit", "ElapsedRaw", "JobName", "SubmitLine"]
    jobs = [{"JobID": "99", "JobName": "a"}, {"JobName": "b", "SubmitLine": "sbatch --wrap=x | y\nz"}]
    trace = read(dump(*jobs, columns=columns))
    assert trace.nominal("job_name").decode() == ["a", "b"]
    assert any(note.startswith("2 lines that were broken") and "line 3: '100|" in note for note in trace.info.notes)


def test_states_that_slurm_does_not_have_are_said() -> None:
    columns = ["JobID", "Submit", "ElapsedRaw", "State"]
    text = dump({"State": "weird_state"}, {"JobID": "101", "State": "FAILED"}, columns=columns)[:-3]
    trace = read(text)
    assert trace.nominal("status").decode() == ["weird_state", "fail"]
    said = [note for note in trace.info.notes if "not a Slurm state" in note]
    assert len(said) == 1
    assert said[0].startswith("2 values of state")
    assert "'weird_state'" in said[0]
    assert any("may be truncated" in note for note in trace.info.notes)
    with pytest.raises(InputError, match=r"jobs\.txt:2: state: not a Slurm state"):
        read(text, strict=True)


def test_a_whole_dump_of_known_states_has_no_note() -> None:
    states = ("COMPLETED", "CANCELLED by 7", "OUT_OF_ME+", "TO", "REVOKED", "SPECIAL_EXIT", "")
    jobs = [{"JobID": str(k), "State": state} for k, state in enumerate(states)]
    notes = read(dump(*jobs)).info.notes
    assert not any("state" in note or "truncated" in note for note in notes)


def test_a_line_whose_fields_are_shifted_is_left_out_though_it_has_as_many_as_the_header() -> None:
    lines = dump({}, {"JobID": "101", "JobName": "a|b"}, {"JobID": "102"}).splitlines()
    lines[2] = lines[2].rpartition("|")[0]  # the last field is lost, and the name has one field too many
    trace = read("\n".join([*lines, ""]))
    assert trace.job_id.tolist() == [100, 102]
    assert dropped(trace) == 1


@pytest.mark.parametrize("beside", ["Licenses", "StdIn", "StdOut", "StdErr", "Extra", "Comment", "Container", "WCKey"])
@pytest.mark.parametrize("is_before", [True, False])
def test_a_pipe_in_a_name_costs_no_job_beside_an_empty_text_column(beside: str, is_before: bool) -> None:
    texts = [beside, "JobName"] if is_before else ["JobName", beside]
    trace = read(dump({"JobName": "train|resnet", beside: ""}, columns=["JobID", "Submit", *texts, "MaxRSS"]))
    assert trace.nominal("job_name").decode() == ["train|resnet"]
    assert dropped(trace) == 0


def test_a_pipe_in_a_name_is_no_license() -> None:
    columns = ["JobID", "Submit", "JobName", "Licenses", "State"]
    jobs = [{"JobName": "train|resnet", "Licenses": ""}, {"JobID": "101", "JobName": "relax", "Licenses": "a:1|b:2"}]
    trace = read(dump(*jobs, columns=columns))
    assert trace.nominal("job_name").decode() == ["train|resnet"]
    assert dropped(trace) == 1  # the name could be `relax|a:1`


def test_a_command_of_several_lines_with_pipes_gives_its_job_no_other_name() -> None:
    columns = ["JobID", "Submit", "ElapsedRaw", "SubmitLine", "Comment", "JobName"]
    jobs = [{"SubmitLine": "sbatch --wrap=cat a | sort\ncat b | sort\ncat c", "Comment": ""}, {"JobID": "101"}]
    trace = read(dump(*jobs, columns=columns))
    assert trace.nominal("job_name").decode() == ["relax"]
    assert [what.partition(" (")[0] for what in trace.info.dropped] == [
        "broken line: its text columns can be split in more than one way"
    ]
