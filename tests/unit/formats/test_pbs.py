"""Tests PBS accounting logs: E records become jobs, other records are counted, and no line raises an exception.

We wrote the records in the forms that OpenPBS's and Torque's server/accounting.c write.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import InputError
from batchcast.formats.pbs.accounting import columns_of, pairs_of
from batchcast.formats.pbs.accounting import read as read_pbs
from batchcast.trace import read_trace

STAMP = "04/01/2024 10:00:00"
PRO = (
    f'{STAMP};E;12[3].srv.site.org;user=ada group=g account="a b" project=_pbs_project_default jobname=run queue=long '
    "ctime=100 qtime=101 etime=110 start=150 end=250 exec_host=n1/0*4+n2/0*4 "
    "exec_vnode=(n1:ncpus=4:mem=1048576kb)+(n2:ncpus=4:mem=1048576kb) Resource_List.mem=2gb Resource_List.ncpus=8 "
    "Resource_List.ngpus=2 Resource_List.nodect=2 Resource_List.place=scatter "
    "Resource_List.select=2:ncpus=4:ngpus=1:mem=1gb Resource_List.walltime=01:00:00 session=0 Exit_status=-29 "
    "resources_used.cpupercent=90 resources_used.cput=00:12:00 resources_used.mem=800mb resources_used.ncpus=8 "
    "resources_used.walltime=00:01:39 eligible_time=00:00:24 run_count=3"
)
TORQUE = (
    f"{STAMP};E;9.srv;user=bob group=staff account=deep sea jobname=x queue=batch ctime=90 qtime=90 etime=90 "
    "start_count=1 start=95 owner=bob@login exec_host=n1/0-3+n2/0-3+n7/0-1 Resource_List.ncpus=1 "
    "Resource_List.neednodes=2:ppn=4+n7:ppn=2 Resource_List.nodect=3 Resource_List.nodes=2:ppn=4+n7:ppn=2 "
    "Resource_List.pmem=100mb Resource_List.walltime=600 session=77 total_execution_slots=10 unique_node_count=3 "
    "end=96 Exit_status=0 resources_used.cput=20 resources_used.walltime=00:00:01"
)
OTHERS = [f"{STAMP};{kind};9.srv;queue=long" for kind in "QSRL"]


def read(*lines: str, **options):
    return read_pbs(["\n".join(lines).encode()], "x", **options)


def one(**changes: str):
    """Return the only job of a small log, with some unusual key-value pairs."""
    pairs = {"user": "ada", "ctime": "100", "start": "150", "end": "250", "Resource_List.walltime": "00:10:00"}
    pairs |= {key.replace("__", "."): value for key, value in changes.items()}
    return read(f"{STAMP};E;7.srv;" + " ".join(f"{k}={v}" for k, v in pairs.items() if v))


def test_both_dialects_are_read_and_other_records_counted(tmp_path: Path) -> None:
    path = tmp_path / "20240401"
    path.write_text("\r\n".join([*OTHERS, PRO, TORQUE, "junk", ""]) + "\n")
    trace = read_trace(path)
    assert trace.info.format == "pbs"
    assert trace.job_id.tolist() == ["9", "12_3"]
    expected = {
        "submit_time": [90.0, 100.0],
        "eligible_time": [90.0, 110.0],
        "wait_time": [5.0, 50.0],
        "run_time": [1.0, 100.0],
        "req_procs": [10.0, 8.0],
        "alloc_procs": [10.0, 8.0],
        "req_nodes": [3.0, 2.0],
        "alloc_nodes": [3.0, 2.0],
        "req_gpus": [0.0, 2.0],
        "req_time": [600.0, 3600.0],
        "req_mem_kib": [10 * 100 * 1024.0, 2 * 1024.0**2],
        "used_mem_kib": [np.nan, 800 * 1024.0],
        "avg_cpu_time": [2.0, 90.0],
        "restarts": [0.0, 2.0],
    }
    for name, values in expected.items():
        assert np.array_equal(trace.number(name), values, equal_nan=True), name
    assert trace.nominal("status").decode() == ["completed", "timeout"]
    assert trace.nominal("account").decode() == ["deep sea", "a b"]
    assert trace.nominal("queue_id").decode() == ["batch", "long"]
    assert trace.info.dropped["PBS R record (only E counts)"] == 1
    assert trace.info.dropped["broken line: not an accounting record"] == 1


def test_a_job_run_again_counts_its_runs_and_has_its_last_one() -> None:
    lines = [
        f"{STAMP};S;7.srv;user=a ctime=10 start=20",
        f"{STAMP};R;7.srv;user=a ctime=10 start=20 end=30",
        f"{STAMP};R;7.srv;user=a ctime=10 start=40 end=50",
        f"{STAMP};E;7.srv;user=a ctime=10 start=60 end=90",
    ]
    trace = read(*lines)
    assert (len(trace), trace.run_time[0], trace.wait_time[0], trace.number("restarts")[0]) == (1, 30.0, 50.0, 2.0)


def test_jobs_deleted_before_they_ran_and_parents_of_arrays_are_counted_not_read() -> None:
    trace = read(
        PRO,
        f"{STAMP};D;70.srv;requestor=ada@login",
        f"{STAMP};A;71.srv;Job deleted as result of dependency on job 70.srv",
        f"{STAMP};D;12[3].srv.site.org;requestor=ada@login",
        f"{STAMP};E;12[].srv.site.org;user=ada ctime=100 start=150 end=900 array_indices=1-9",
        f"{STAMP};L;license;floating license hour:0 day:90 month:90 max:90",
        f"{STAMP};Y;R9.srv;requestor=Scheduler@srv start=1 end=2 nodes=(n1:ncpus=4)",
    )
    assert trace.job_id.tolist() == ["12_3"]
    assert trace.info.dropped["parent of an array (its subjobs count)"] == 1
    assert trace.info.dropped["PBS D record (only E counts)"] == 2
    assert any("2 jobs were deleted or aborted without an E record" in note for note in trace.info.notes)


@pytest.mark.parametrize(
    ("changes", "procs", "alloc"),
    [
        ({"Resource_List.ncpus": "24", "Resource_List.select": "2:ncpus=8:mem=1gb+1:ncpus=8:ngpus=1"}, 24, np.nan),
        ({"Resource_List.select": "2:ncpus=8:mem=1gb+ncpus=4+3:mem=1gb"}, 23, np.nan),
        ({"Resource_List.ncpus": "1", "Resource_List.nodes": "2:ppn=8"}, 16, np.nan),
        ({"Resource_List.ncpus": "8", "Resource_List.nodes": "1"}, 8, np.nan),
        ({"Resource_List.nodes": "n1:ppn=4+n2:ppn=2+3#shared"}, 9, np.nan),
        ({"Resource_List.ncpus": "6", "exec_host": "n1/0*4+n2/5"}, 6, 5),
        ({"exec_host": "n1/7+n1/6+n2/0-3,8"}, np.nan, 7),
        ({"exec_vnode": "(n1:ncpus=4+n2:ncpus=2:mem=1kb)+(n3:ncpus=1)", "exec_host": "n1/0"}, np.nan, 7),
    ],
)
def test_sizes_asked_and_held(changes, procs, alloc) -> None:
    trace = one(**{key.replace(".", "__"): value for key, value in changes.items()})
    found = [trace.number("req_procs")[0], trace.number("alloc_procs")[0]]
    assert np.array_equal(found, [procs, alloc], equal_nan=True)


@pytest.mark.parametrize(
    ("vnodes", "hosts", "nodes"),
    [
        ("(n1[0]:ncpus=2:mem=1gb+n1[1]:ncpus=2:mem=1gb)", "n1/1*4", 1),
        ("(n1[0]:ncpus=2+n1[1]:ncpus=2)", "", 1),
        ("(n1[0]:ncpus=2)+(n2[0]:ncpus=2)", "n1/1*2+n2/0*2", 2),
        ("(n1:ncpus=2)+(n1:ncpus=2)", "n1/1*2+n1/3*2", 1),
    ],
)
def test_vnodes_of_one_host_are_one_node(vnodes: str, hosts: str, nodes: int) -> None:
    trace = one(exec_vnode=vnodes, exec_host=hosts)
    assert (trace.number("alloc_nodes")[0], trace.number("alloc_procs")[0]) == (nodes, 4)


@pytest.mark.parametrize(
    ("changes", "run", "wait", "status"),
    [
        ({"Exit_status": "0"}, 100, 50, "completed"),
        ({"Exit_status": "1"}, 100, 50, "failed"),
        ({"Exit_status": "271"}, 100, 50, "cancelled"),
        ({"Exit_status": "271", "Resource_List__walltime": "100"}, 100, 50, "timeout"),
        ({"Exit_status": "-27"}, 100, 50, "out_of_memory"),
        ({"Exit_status": "-11", "owner": "a@b"}, 100, 50, "timeout"),
        ({"Exit_status": "-11"}, 100, 50, "failed"),
        ({"start": "0", "resources_used__walltime": "00:01:10"}, 70, 80, "completed"),
        ({"end": "0", "resources_used__walltime": "70"}, 70, 50, "completed"),
        ({"start": "0"}, np.nan, 150, "cancelled"),
        ({"ctime": "", "qtime": "120"}, 100, 30, "completed"),
        ({"start": "90"}, 160, np.nan, "completed"),
    ],
)
def test_times_and_endings(changes, run, wait, status) -> None:
    trace = one(**changes)
    assert np.array_equal([trace.run_time[0], trace.wait_time[0]], [run, wait], equal_nan=True)
    assert trace.nominal("status").decode() == [status]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("01:30", 90.0), ("100:00:00", 360000.0), ("00:00:01.5", 1.5), ("0", np.nan), ("soon", np.nan)],
)
def test_forms_of_a_walltime(text: str, seconds: float) -> None:
    trace = one(Resource_List__walltime=text)
    assert np.array_equal(trace.req_time, [seconds], equal_nan=True)
    assert (text == "soon") == any("Resource_List.walltime that are not durations" in note for note in trace.info.notes)


def test_processors_held_beyond_the_walltime_are_said() -> None:
    trace = one(end="900", resources_used__walltime="00:01:00")
    assert trace.run_time.tolist() == [750.0]
    assert any("over a minute longer than the walltime" in note for note in trace.info.notes)


def test_a_log_without_ended_jobs_and_strict_say_where() -> None:
    with pytest.raises(InputError, match="no E record"):
        read(OTHERS[0])
    with pytest.raises(InputError, match=":2:"):
        read(PRO, "junk", strict=True)


KEY = st.sampled_from(["user", "jobname", "start", "Resource_List.select", "exec_host", "account", "x"])
WORD = st.text(st.characters(codec="ascii", exclude_characters=" \n\r\t\x0b\x0c\x1c\x1d\x1e\x1f\"'"), max_size=6)
VALUE = st.one_of(WORD, st.lists(WORD.filter(bool), min_size=2, max_size=3).map(" ".join))


def written(pairs: dict[str, str]) -> str:
    """Return a message as OpenPBS writes it: a value with blanks is in \", or in ' if it contains a \"."""

    def cell(value: str) -> str:
        mark = "'" if '"' in value else '"'
        return mark + value + mark if " " in value else value

    return " ".join(f"{key}={cell(value)}" for key, value in pairs.items())


@given(st.lists(st.dictionaries(KEY, VALUE, min_size=1, max_size=5), min_size=1, max_size=40))
def test_values_with_blanks_and_equals_signs_come_back(records) -> None:
    for pairs in records:
        assert {k: v.strip("\"'") for k, v in pairs_of(written(pairs)).items()} == pairs


@given(st.lists(st.dictionaries(KEY, VALUE, min_size=1, max_size=4).map(written), min_size=1, max_size=60))
def test_many_messages_are_cut_as_one_by_one(messages) -> None:
    keys = ["user", "start", "account"]
    found = columns_of(messages, keys)
    for row, message in enumerate(messages):
        pairs = pairs_of(message)
        assert {key: found[key][row] for key in keys} == {key: pairs.get(key, "") for key in keys}


@given(
    st.lists(st.tuples(st.integers(0, len(PRO) - 1), st.characters(exclude_characters="\n\r")), max_size=6),
    st.integers(1, 900),
)
def test_a_damaged_line_never_raises_and_is_kept_or_counted(changes, size) -> None:
    text = list(PRO)
    for place, letter in changes:
        text[place] = letter
    data = ("".join(text) + "\n" + TORQUE).encode("utf-8", "replace")
    trace = read_pbs([data[k : k + size] for k in range(0, len(data), size)])
    assert len(trace) + sum(trace.info.dropped.values()) == 2
    assert not np.any(trace.run_time < 0)
