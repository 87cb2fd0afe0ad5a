# SPDX-License-Identifier: Apache-2.0
"""Tests several logs read as one, and that a job recorded several times counts once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast import Trace, read_trace
from batchcast.errors import InputError, UsageError
from batchcast.table import LogInfo
from batchcast.trace import clean
from batchcast.trace.clean import IDENTICAL, OUTDATED, last_of_each_number, without_repeats
from batchcast.trace.read import merged

HEAD = "JobID|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|State|User"
DONE = "2026-01-31T10:00:00|2026-01-31T10:10:00|2026-01-31T10:20:00|600|60|4|4|COMPLETED|ada"
RUNNING = "2026-01-31T11:00:00|2026-01-31T11:10:00|Unknown|3000|60|4|4|RUNNING|eve"
RAN = "2026-01-31T11:00:00|2026-01-31T11:10:00|2026-01-31T12:10:00|3600|60|4|4|TIMEOUT|eve"
PENDING = "2026-01-31T12:00:00|Unknown|Unknown|0|60|4|0|PENDING|eve"
STARTED = "2026-01-31T12:00:00|2026-02-01T12:00:00|2026-02-01T12:10:00|600|60|4|4|COMPLETED|eve"


def dump(folder: Path, name: str, *rows: str, head: str = HEAD) -> Path:
    path = folder / name
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return path


def test_two_dumps_with_common_days_count_each_job_once(tmp_path: Path) -> None:
    january = dump(tmp_path, "jan.txt", f"1|{DONE}", f"2|{DONE}", f"3|{RUNNING}", f"4|{PENDING}")
    february = dump(tmp_path, "feb.txt", f"2|{DONE}", f"3|{RAN}", f"4|{STARTED}")
    log = read_trace([january, february])
    assert log.job_id.tolist() == [1, 2, 3, 4]
    assert log.run_time.tolist() == [600, 600, 3600, 600]
    assert log.info.dropped[IDENTICAL] == 1
    assert log.info.dropped[OUTDATED] == 2
    assert log.info.source == f"{january}, {february}"
    assert len(read_trace([january, february], keep_repeats=True)) == 7
    back = read_trace([february, january])
    assert back["run_time"].tolist() == log["run_time"].tolist(), "the order of the files does not matter"


def test_dumps_written_one_after_the_other_count_each_job_once(tmp_path: Path) -> None:
    both = dump(tmp_path, "both.txt", f"2|{DONE}", f"3|{RUNNING}", HEAD, f"2|{DONE}", f"3|{RAN}")
    log = read_trace(both)
    assert log.job_id.tolist() == [2, 3]
    assert log["status"].tolist() == ["completed", "timeout"]


def test_a_record_that_stays_has_what_only_its_repetition_knows(tmp_path: Path) -> None:
    with_name = dump(tmp_path, "a.txt", f"2|{DONE}|solver", head=f"{HEAD}|JobName")
    without = dump(tmp_path, "b.txt", f"2|{DONE}")
    for paths in ([with_name, without], [without, with_name]):
        log = read_trace(paths)
        assert log["job_name"].tolist() == ["solver"]


def test_runs_of_a_requeued_job_and_a_number_used_again_are_all_kept() -> None:
    log = Trace.from_arrays({
        "job_id": [7, 7, 7], "submit_time": [0.0, 0.0, 900.0], "wait_time": [5.0, 300.0, 1.0],
        "run_time": [60.0, 60.0, 60.0], "status": ["node_fail", "running", "completed"],
    })  # fmt: skip
    once = without_repeats(log)
    assert len(once) == 3, "the second run started at another time than the first: it is no earlier state of it"
    assert any("2 records repeat the job number" in note for note in once.info.notes)


def test_tasks_that_share_the_number_of_their_array_are_no_repetitions() -> None:
    tasks = 100
    log = Trace.from_arrays({
        "job_id": [7] * tasks, "submit_time": [0.0] * tasks, "run_time": [float(k // 2) for k in range(tasks)],
        "status": ["completed"] * tasks,
    })  # fmt: skip
    assert len(without_repeats(log)) == tasks


rows = st.tuples(
    st.integers(1, 3),
    st.sampled_from([0.0, 5.0]),
    st.sampled_from([1.0, 2.0]),
    st.sampled_from(["completed", "failed"]),
)


@given(st.lists(rows, max_size=19), st.randoms(use_true_random=False))
def test_a_log_read_twice_is_the_log_read_once(records: list[tuple[int, float, float, str]], random: object) -> None:
    names = ("job_id", "submit_time", "run_time", "status")
    once = Trace.from_arrays(dict(zip(names, map(list, zip(*dict.fromkeys(records))))) if records else {})
    twice = without_repeats(merged([once, once]))
    assert [twice[name].tolist() for name in names if records] == [once[name].tolist() for name in names if records]


def test_logs_on_different_clocks_are_put_on_one(tmp_path: Path) -> None:
    late, early = (tmp_path / name for name in ("late.swf", "early.swf"))
    late.write_text("; UnixStartTime: 2000000000\n1 10 0 60 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n", encoding="utf-8")
    early.write_text("; UnixStartTime: 1900000000\n2 20 0 60 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n", encoding="utf-8")
    log = read_trace([late, early])
    assert log.job_id.tolist() == [2, 1]
    assert (log.submit_time + log.info.unix_start).tolist() == [1900000020, 2000000010]


def test_a_log_without_dates_is_refused_beside_a_log_with_dates(tmp_path: Path) -> None:
    swf = tmp_path / "no-date.swf"
    swf.write_text("1 10 0 60 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"no-date.swf does not have the date at which its clock began.*\n  try: add a UnixStartTime"
    ):
        read_trace([dump(tmp_path, "jobs.txt", f"2|{DONE}"), swf])


def test_differences_between_logs_are_noted() -> None:
    columns = {"submit_time": [0.0], "req_mem_kib": [100.0], "req_procs": [4.0]}
    a = LogInfo(source="a", format="swf", unix_start=1e9, timezone="Europe/Stockholm", max_procs=8.0,
                memory_per="processor", names={"queue_id": {1: "short"}})  # fmt: skip
    b = LogInfo(source="b", format="sacct", unix_start=2e9, max_procs=16.0, names={"queue_id": {1: "long"}})
    log = merged([Trace.from_arrays(columns, a), Trace.from_arrays(columns, b)])
    for words in ("different formats (swf, sacct)", "different time zones", "different sizes (a: 8, b: 16", "'short'"):
        assert any(words in note for note in log.info.notes), words
    assert log.info.max_procs == 16
    assert log.info.memory_per == "job"
    assert log["req_mem_kib"].tolist() == [400.0, 100.0], "memory is that of whole jobs once one log has it so"


def test_no_log_and_standard_input_twice_are_refused() -> None:
    with pytest.raises(UsageError, match="no log was given"):
        read_trace([])
    with pytest.raises(UsageError, match="named twice"):
        read_trace(["-", "-"])


CLUSTERS = f"{HEAD}|MaxRSS|Cluster"


def two_clusters(folder: Path) -> Path:
    """The jobs 1 and 2 of two clusters, each with a step that records the job's memory."""
    rows = []
    for cluster, held in (("alpha", "1G"), ("beta", "2G")):
        for job in (1, 2):
            rows += [f"{job}|{DONE}||{cluster}", f"{job}.batch|{DONE}|{held}|{cluster}"]
    return dump(folder, "clusters.txt", *rows, head=CLUSTERS)


def test_a_log_of_several_clusters_says_so_and_one_can_be_chosen(tmp_path: Path) -> None:
    path = two_clusters(tmp_path)
    log = read_trace(path)
    assert any("jobs of 2 clusters (alpha 2, beta 2)" in note for note in log.info.notes)
    beta = read_trace(path, cluster="beta")
    assert beta["cluster"].tolist() == ["beta", "beta"]
    assert not any("clusters" in note for note in beta.info.notes)
    with pytest.raises(UsageError, match="cluster: the log has no 'gamma' \\(accepted: alpha, beta, unknown\\)"):
        read_trace(path, cluster="gamma")


def test_memory_of_records_that_share_a_number_is_that_of_their_own_steps(tmp_path: Path) -> None:
    log = read_trace(two_clusters(tmp_path))
    held = dict(zip(zip(log["cluster"].tolist(), log.job_id.tolist()), (log["used_mem_kib"] / 1024**2).tolist()))
    assert held == {("alpha", 1): 1, ("alpha", 2): 1, ("beta", 1): 2, ("beta", 2): 2}


def test_memory_of_a_requeued_job_is_that_of_each_run(tmp_path: Path) -> None:
    again = DONE.replace("2026-01-31T10", "2026-01-31T14")
    path = dump(tmp_path, "requeued.txt", f"5|{DONE}|", f"5.batch|{DONE}|4G", f"5|{again}|", f"5.batch|{again}|6G",
                head=f"{HEAD}|MaxRSS")  # fmt: skip
    assert (read_trace(path)["used_mem_kib"] / 1024**2).tolist() == [4, 6]


def test_memory_is_unknown_if_a_sorted_file_hides_whose_steps_they_are(tmp_path: Path) -> None:
    again = DONE.replace("2026-01-31T10", "2026-01-31T14")
    rows = sorted([f"5|{DONE}|", f"5.batch|{DONE}|4G", f"5|{again}|", f"5.batch|{again}|6G", f"7|{DONE}|",
                   f"7.batch|{DONE}|1G"], key=lambda row: "." not in row)  # fmt: skip
    log = read_trace(dump(tmp_path, "sorted.txt", *rows, head=f"{HEAD}|MaxRSS"))
    held = dict(zip(log.job_id.tolist(), (log["used_mem_kib"] / 1024**2).tolist()))
    assert held[7] == 1
    assert held[5] != held[5]


def test_clean_duplicates_does_not_mix_clusters(tmp_path: Path) -> None:
    assert len(clean(read_trace(two_clusters(tmp_path)), ["duplicates"])) == 4


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None])), max_size=12))
def test_the_last_record_of_each_number_and_cluster_is_found(jobs: list[tuple[int, str | None]]) -> None:
    log = Trace.from_arrays({"job_id": [job for job, _ in jobs], "submit_time": np.arange(len(jobs), dtype=float),
                             "cluster": [cluster for _, cluster in jobs]})  # fmt: skip
    last = {job: row for row, job in enumerate(jobs)}
    assert np.flatnonzero(last_of_each_number(log)).tolist() == sorted(last.values())


def test_the_case_of_two_clusters(shared: Path) -> None:
    log = read_trace(shared / "cases" / "two-clusters.txt")
    assert len(log) == 4
    assert not np.isnan(log["used_mem_kib"]).any()
    assert any("2 clusters (alpha 2, beta 2)" in note for note in log.info.notes)
