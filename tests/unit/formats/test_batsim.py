# SPDX-License-Identifier: Apache-2.0
"""Tests reading and writing Batsim's workloads and platforms, and comparing an external schedule with ours."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.forked import batchcast

from batchcast.errors import InputError, UsageError
from batchcast.evaluation.comparison import compare_starts
from batchcast.formats.batsim import platform_of, read_platform
from batchcast.formats.batsim import read as read_batsim
from batchcast.trace.read import read_trace
from batchcast.trace.schedule import read_starts

JOBS = [
    {"id": 1, "subtime": 0, "res": 4, "walltime": 100, "profile": "short"},
    {"id": 2, "subtime": 5.5, "res": 2, "walltime": -1, "profile": "twice"},
    {"id": 3, "subtime": 6, "res": 1, "profile": "flops"},
    {"id": 4, "subtime": 6, "profile": "short"},
]
PROFILES = {
    "short": {"type": "delay", "delay": 20},
    "twice": {"type": "composed", "seq": ["short", "short"], "repeat": 3},
    "flops": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
}
LOG = "\n".join(
    f"{k} {60 * k} 0 {300 + 60 * (k % 5)} {1 + k % 4} -1 -1 4 900 -1 1 1 1 1 1 -1 -1 -1" for k in range(1, 60)
)


def workload(**more: object) -> str:
    return json.dumps({"nb_res": 8, "jobs": JOBS, "profiles": PROFILES} | more)


def test_delays_and_sequences_of_them_have_a_run_time() -> None:
    trace = read_batsim(workload(), "w.json")
    np.testing.assert_equal(trace.run_time, [20, 120, np.nan])
    np.testing.assert_equal(trace.req_time, [100, np.nan, np.nan])
    assert trace.info.max_procs == 8
    assert trace.info.dropped == {"job that cannot be read": 1}
    assert "1 job with a profile whose run time depends on the platform" in trace.info.notes[0]
    with pytest.raises(InputError, match="job 4 has no id"):
        read_batsim(workload(), "w.json", strict=True)


@pytest.mark.parametrize(
    ("delay", "sequence"),
    [
        ("delay", "composed"),
        ("delay", "composition"),
        ("delay", "sequential_composition"),
        ("DelayProfile", "SequentialCompositionProfile"),
    ],
)
def test_the_words_of_every_version_are_read(delay: str, sequence: str) -> None:
    """Batsim's own examples nest sequences five deep, and give each profile's length in its name."""
    profiles = {
        "10s": {"type": delay, "delay": 10},
        "3s": {"type": delay, "delay": 3},
        "once": {"type": sequence, "seq": ["3s", "10s"]},
        "seven": {"type": sequence, "repeat": 7, "seq": ["once"]},
        "three": {"type": sequence, "repeat": 3, "seq": ["seven"]},
        "five": {"type": sequence, "repeat": 5, "seq": ["three"]},
        "all": {"type": sequence, "repeat": 7, "seq": ["seven", "three", "five"]},
    }
    jobs = [{"id": name, "subtime": 0, "walltime": 7, "res": 1, "profile": name} for name in profiles]
    trace = read_batsim(json.dumps({"nb_res": 6, "jobs": jobs, "profiles": profiles}))
    assert dict(zip(trace.job_id.tolist(), trace.run_time.tolist())) == {
        "10s": 10, "3s": 3, "once": 13, "seven": 91, "three": 273, "five": 1365, "all": 12103
    }  # fmt: skip


def stops_batsim(told: dict[str, Any]) -> list[str]:
    """Inputs that make Batsim stop, by its documentation of workloads and its own checks."""

    def whole(value: object) -> bool:
        return type(value) is int and 0 < value < 2**31

    names = [job["id"] for job in told["jobs"]]
    said = ["nb_res"] if not whole(told["nb_res"]) else []
    said += ["ids"] if len(set(names)) < len(names) or any("!" in name for name in names) else []
    for job in told["jobs"]:
        said += [f"{job}: res"] if not whole(job["res"]) else []
        said += [f"{job}: profile"] if job["profile"] not in told["profiles"] else []
        said += [f"{job}: walltime"] if job.get("walltime", -1) != -1 and job["walltime"] <= 0 else []
    return said + [f"{each}: delay" for each in told["profiles"].values() if not each["delay"] > 0]


def test_what_is_written_stops_batsim_nowhere(tmp_path: Path) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "w.json"
    log.write_text(
        "job_id,submit_time,run_time,req_time,alloc_procs\n"
        "9876543210,5,0,60,2\n7,6,30,,1\n7,7,30,40,1\nw0!8,8,2.5,40,3\n"
    )
    done = batchcast("convert", log, "-o", out)
    assert done.returncode == 0, done.stderr
    assert "1 job with a run time of 0 s: written as 0.001 s" in done.stderr
    assert "1 job with a repeated id: written as ID~2" in done.stderr
    told = json.loads(out.read_text())
    assert stops_batsim(told) == []
    assert [job["id"] for job in told["jobs"]] == ["9876543210", "7", "7~2", "8"]
    assert [told["profiles"][job["profile"]]["delay"] for job in told["jobs"]] == [0.001, 30, 30, 2.5]


def test_ids_that_are_numbers_stay_numbers(tmp_path: Path) -> None:
    log, out = tmp_path / "log.swf", tmp_path / "w.json"
    log.write_text(f"; MaxProcs: 8\n; UnixStartTime: 0\n{LOG}\n")
    assert batchcast("convert", log, "-o", out).returncode == 0
    assert read_trace(out).job_id.tolist() == read_trace(log).job_id.tolist()


@pytest.mark.parametrize("text", ["{", "[]", '{"jobs": 3}', '{"jobs": []}', '{"jobs": [7]}'])
def test_what_is_no_workload_is_said(text: str) -> None:
    with pytest.raises(InputError, match=r"w\.json"):
        read_batsim(text, "w.json")


def test_a_log_comes_back_and_makes_the_same_schedule(tmp_path: Path) -> None:
    log, out = tmp_path / "log.swf", tmp_path / "w.json"
    log.write_text(f"; MaxProcs: 8\n; UnixStartTime: 0\n{LOG}\n")
    done = batchcast("convert", log, "-o", out)
    assert done.returncode == 0, done.stderr
    assert "no field for" in done.stderr
    before, after = read_trace(log), read_trace(out)
    assert after.info.format == "batsim"
    np.testing.assert_array_equal(before.procs(), after.procs())
    for name in ("run_time", "req_time"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    ours, theirs = tmp_path / "a.csv", tmp_path / "b.csv"
    assert batchcast("simulate", log, "-o", ours).returncode == 0
    assert batchcast("simulate", out, "-o", theirs, "--schedule-format", "batsim").returncode == 0
    a, b = read_starts(ours), read_starts(theirs)
    np.testing.assert_array_equal(a["start_time"] - a["submit_time"], b["start_time"] - b["submit_time"])


def starts(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_two_schedules_stand_side_by_side(tmp_path: Path) -> None:
    a = starts(
        tmp_path / "a.csv", "job_id,submit_time,start_time,end_time,procs\n1,0,0,50,4\n2,10,60,90,4\n3,20,90,95,1\n"
    )
    b = starts(tmp_path / "b.csv", "jobID,starting_time,execution_time\n1,0,50\n3,20,5\n9,1,1\n")
    shared, rows = compare_starts(read_starts(a), read_starts(b))
    assert (shared["jobs"], shared["only_a"], shared["only_b"]) == (2, 1, 1)
    assert (shared["same_start"], shared["first_apart"]) == (1, "3")
    wait = next(row for row in rows if row["measure"] == "wait")
    assert (wait["a"], wait["b"], wait["difference"]) == (35, 0, -35)
    done = batchcast("compare", a, b)
    assert "1 start at the same instant; the first that does not: 3" in done.stdout
    assert "two schedules are printed" in batchcast("compare", a, b, "-o", tmp_path / "x.html").stderr
    assert json.loads(batchcast("compare", a, b, "--json").stdout)["results"][0]["part"] == "starts"
    with pytest.raises(UsageError, match="no job is in both"):
        compare_starts(read_starts(a), read_starts(starts(tmp_path / "c.csv", "id,start\nx,1\n")))


def test_schedules_of_two_logs_are_told_apart(tmp_path: Path) -> None:
    """Ids 1, 2, 3 occur in every log, so equal ids alone do not prove that the jobs are the same."""
    head = "job_id,submit_time,start_time,end_time,procs\n"
    a = starts(tmp_path / "a.csv", head + "1,0,0,50,4\n2,10,60,90,4\n3,20,90,95,1\n")
    b = starts(tmp_path / "b.csv", head + "1,0,0,50,8\n2,900,960,990,4\n3,20,91,95,1\n")
    assert compare_starts(read_starts(a), read_starts(b))[0]["other_job_in_b"] == 2
    said = batchcast("compare", a, b).stderr
    assert "2 of 3 jobs in both have another submit time or size in B. Are these schedules of one log?" in said
    assert "one log" not in batchcast("compare", a, a).stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,when\n1,2\n", "c.csv:1: has no column start_time"),
        ("id,start\n1,soon\n", "c.csv:2: start is not a number: 'soon'"),
        ("id,start\n1,2\n1,3\n", "has a job more than once: '1'"),
        ("id,start\n1\n", "c.csv:2: has 1 field instead of 2"),
        ("id,start\n1,inf\n", "c.csv:2: start is not a number: 'inf' (accepted: seconds on the log's clock)"),
        ("id,start\n1,\n", "no job in this file has a start"),
        ("", "the file is empty"),
        ("a,b\n", "has no column job_id and no column start_time"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read_starts(starts(tmp_path / "c.csv", text))
    assert said in str(error.value)


PLATFORM = """
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "http://simgrid.gforge.inria.fr/simgrid/simgrid.dtd">
<platform version="4.1">
<AS id="AS0" routing="Full">
  <cluster id="c1" prefix="a" suffix=".x" radical="0-2,7" speed="1Gf" bw="125MBps" lat="50us"/>
  <cluster id="c2" prefix="frontal" suffix="" radical="0-0" speed="1Gf"><prop id="role" value="master"/></cluster>
  <zone id="z" routing="None">
    <host id="h0" speed="100.0Mf, 50Mf" pstate="1" core="4"><prop id="watt_per_state" value="30:100, 9:9"/></host>
    <host id="master_host" speed="1Gf"/>
    <host id="burst" speed="1Gf"><prop id="excluded" value="true"/></host>
  </zone>
</AS>
</platform>
"""


def test_a_platform_is_its_hosts_that_compute() -> None:
    machine = read_platform(PLATFORM)
    assert machine.node_names() == ("a0.x", "a1.x", "a2.x", "a7.x", "h0")
    assert [(group.cpus, group.features) for group in machine.nodes] == [(1, ("1Gf",)), (4, ("50Mf",))]
    said = "; ".join(machine.left_out)
    assert all(
        word in said for word in ("3 hosts to which Batsim gives no jobs", "whole hosts", "speeds", "network", "power")
    )


def test_every_host_of_a_platform_that_is_written_can_reach_every_other() -> None:
    """SimGrid aborts at the first message in a zone without routes; hosts in one point need no routes."""
    zone = ElementTree.fromstring(platform_of(read_platform(PLATFORM)).encode()).find("zone")
    assert zone is not None
    assert zone.get("routing") == "Vivaldi"
    assert {host.get("coordinates") for host in zone} == {"0 0 0"}
    assert "master_host" in {host.get("id") for host in zone}


def test_a_platform_that_is_written_has_a_host_a_processor(tmp_path: Path) -> None:
    again = read_platform(platform_of(read_platform(PLATFORM)))
    assert (again.cpus, len(again.node_names())) == (8, 8)
    assert [group.features for group in again.nodes] == [("1Gf",), ("50Mf",)]
    place, toml, log = tmp_path / "p.xml", tmp_path / "m.toml", tmp_path / "log.swf"
    place.write_text(PLATFORM)
    log.write_text(f"; MaxProcs: 8\n; UnixStartTime: 0\n{LOG}\n")
    assert batchcast("machine", "capture", place, "-o", toml).returncode == 0
    shown = batchcast("machine", "show", place).stdout
    assert shown == batchcast("machine", "show", toml).stdout
    assert shown.startswith("machine: 5 nodes, 8 processors")
    written = batchcast("machine", "capture", toml, "-o", tmp_path / "q.xml")
    assert "a SimGrid platform cannot express memory, partitions, limits and settings" in written.stderr
    assert read_platform((tmp_path / "q.xml").read_text()).cpus == 8
    by_platform, by_toml = (batchcast("simulate", log, "--machine", each, "--json") for each in (place, toml))
    assert by_platform.returncode == 0, by_platform.stderr
    waits = [json.loads(each.stdout)["results"][0]["mean_wait_s"] for each in (by_platform, by_toml)]
    assert waits[0] == waits[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<platform", "not XML"),
        ("<machine/>", "is not a SimGrid platform: '<machine>'"),
        ("<platform><host id='master_host' speed='1Gf'/></platform>", "the platform has no compute host"),
        ("<platform><host id='a'/></platform>", "host 'a' has no valid speed"),
        ("<platform><host id='a' speed='1Gf' core='0'/></platform>", "wrong number of cores: '0'"),
        ("<platform><cluster id='c' prefix='a' radical='9-1' speed='1Gf'/></platform>", "wrong radical: '9-1'"),
        ("<platform><host id='a' speed='1Gf'/><host id='a' speed='1Gf'/></platform>", "two hosts have the same name"),
        ("<platform><host id='a b' speed='1Gf'/></platform>", "without blanks, commas or brackets"),
    ],
)
def test_what_is_no_platform_is_said(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read_platform(text, "p.xml")
    assert said in str(error.value).replace('"', "'")
    assert "p.xml" in str(error.value)


@pytest.mark.parametrize("way", ["gz", "bom", "crlf", "semicolons", "tabs", "floats"])
def test_a_schedule_is_read_as_tables_and_editors_leave_it(tmp_path: Path, way: str) -> None:
    text = "job_id,submit_time,start_time\n1,0,7.5\n2,1,\n3,2,9\n"
    made = {
        "bom": "\ufeff" + text,
        "crlf": text.replace("\n", "\r\n"),
        "semicolons": text.replace(",", ";"),
        "tabs": text.replace(",", "\t"),
        "floats": text.replace("\n1,", "\n1.0,").replace("\n3,", "\n3.0,"),
    }.get(way, text)
    path = tmp_path / ("s.csv.gz" if way == "gz" else "s.csv")
    path.write_bytes(gzip.compress(made.encode()) if way == "gz" else made.encode())
    found = read_starts(path)
    assert found["job_id"].tolist() == ["1", "3"]  # the second job never started
    assert found["start_time"].tolist() == [7.5, 9.0]


def test_packed_schedules_are_compared_on_one_clock_and_early_starts_are_said(tmp_path: Path) -> None:
    a = starts(tmp_path / "a.csv", "job_id,submit_time,start_time,end_time\n1,33,33,83\n2,43,93,99\n3,60,90,95\n")
    b = tmp_path / "b.csv.gz"  # Batsim's form; Batsim's clock begins with the first job
    b.write_bytes(
        gzip.compress(b"job_id,submission_time,starting_time,finish_time\n1,0,0,50\n2,10,60,66\n3,27,20,25\n")
    )
    done = batchcast("compare", a, b)
    assert done.returncode == 0, done.stderr
    assert "2 start at the same instant; the first that does not: 3" in done.stdout
    assert "33 s later in A; the times of B are shifted by this difference" in done.stderr
    assert "1 job of B started before being submitted" in done.stderr
    done = batchcast("compare", a, tmp_path)
    assert "a schedule and a report" in done.stderr


def test_jobs_of_any_partition_run_on_a_platform(tmp_path: Path) -> None:
    log, platform = tmp_path / "log.swf", tmp_path / "platform.xml"
    log.write_text(f"; MaxProcs: 8\n; UnixStartTime: 0\n{LOG.replace('1 -1 -1 -1', '7 -1 -1 -1')}\n")
    platform.write_text(platform_of(read_platform(
        '<platform version="4.1"><zone id="z" routing="None"><host id="h" speed="1Gf" core="8"/></zone></platform>'
    )))  # fmt: skip
    done = batchcast("simulate", log, "--machine", platform)
    assert done.returncode == 0, done.stderr
    assert "59 jobs simulated" in done.stdout


def test_a_workload_without_a_job_that_can_be_read_names_the_first() -> None:
    with pytest.raises(InputError, match=r"none of its 1 job can be read.*job 1: .*'subtime': 'a'"):
        read_batsim(workload(jobs=[JOBS[0] | {"subtime": "a"}]), "w.json")


def test_a_cell_of_blanks_in_anothers_schedule_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("job_id;start_time;procs\r\n1;5; \r\n2;6;4\r\n", newline="")
    read = read_starts(tmp_path / "theirs.csv")
    assert read["start_time"].tolist() == [5.0, 6.0]
    np.testing.assert_array_equal(read["procs"], [np.nan, 4.0])


@pytest.mark.parametrize(("line", "said"), [("7,0,20,10,1", "job 7 ends before it starts: '10'")])
def test_a_schedule_whose_job_ends_before_it_starts_is_refused(tmp_path, line, said):
    (tmp_path / "s.csv").write_text(f"job_id,submit_time,start_time,end_time,procs\n{line}\n")
    with pytest.raises(InputError, match=f"s.csv:2: {said}"):
        read_starts(tmp_path / "s.csv")


def test_two_jobs_of_one_id_are_refused_as_batsim_refuses_them():
    job = '{"id": "w!7", "subtime": 3, "res": 2, "profile": "p"}'
    text = f'{{"jobs": [{job}, {job}], "profiles": {{"p": {{"type": "delay", "delay": 5}}}}}}'
    with pytest.raises(InputError, match="two jobs have the same id: 'w!7'"):
        read_batsim(text)
