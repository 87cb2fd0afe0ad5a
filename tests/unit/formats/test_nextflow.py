# SPDX-License-Identifier: Apache-2.0
"""Tests reading Nextflow's trace files, raw and human-readable, as jobs."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.forked import batchcast

from batchcast.errors import InputError
from batchcast.evaluation.limits import find_memory_limits
from batchcast.formats.nextflow import read as read_nextflow
from batchcast.trace.read import read_trace, sniff

NAMES = [
    "task_id", "process", "tag", "status", "exit", "cpus", "time", "memory", "attempt", "submit", "start", "complete",
    "realtime", "peak_rss",
]  # fmt: skip
RAW = (
    "1", "P:ALIGN", "s1", "COMPLETED", "0", "2", "14400000", "8589934592", "1", "1000000", "1060000", "1160000",
    "90000",
    "1073741824",
)  # fmt: skip


def table(*rows: tuple[str, ...], delimiter: str = "\t") -> str:
    return "\n".join(delimiter.join(row) for row in (tuple(NAMES), *rows)) + "\n"


def changed(**cells: str) -> tuple[str, ...]:
    return tuple(cells.get(name, value) for name, value in zip(NAMES, RAW))


def test_raw_numbers_are_milliseconds_and_bytes() -> None:
    trace = read_nextflow(table(RAW), "trace.txt", UTC)
    assert [float(v[0]) for v in (trace.submit_time, trace.wait_time, trace.run_time, trace.req_time)] == [
        1000, 60, 100, 14400,
    ]  # fmt: skip
    assert trace.number("req_mem_kib")[0] == 8 * 1024**2
    assert trace.number("used_mem_kib")[0] == 1024**2
    assert trace.nominal("job_name").decode() == ["P:ALIGN"]
    assert trace.number("attempt").tolist() == [1]


def test_numbers_for_people_have_units_and_local_times() -> None:
    times = {"submit": "2026-07-01 10:00:00.000", "start": "2026-07-01 10:00:30.500", "complete": "2026-07-01 10:02:00"}
    cells = changed(time="4h", memory="1.5 GB", realtime="1m 20s", peak_rss="512 MB", **times)
    trace = read_nextflow(table(cells), "trace.txt", ZoneInfo("Europe/Berlin"))
    assert trace.submit_time[0] == 1782892800
    assert (trace.run_time[0], trace.req_time[0]) == (89.5, 14400)
    assert trace.number("req_mem_kib")[0] == 1.5 * 1024**2


def test_a_task_killed_near_its_memory_ran_out_of_it_and_a_cached_one_did_not_run() -> None:
    killed = changed(task_id="2", status="FAILED", exit="137", peak_rss="8500000000")
    failed = changed(task_id="3", status="FAILED", exit="1")
    cached = changed(task_id="4", status="CACHED")
    again = changed(task_id="5", attempt="2", memory="-", peak_rss="-")
    trace = read_nextflow(table(killed, failed, cached, again), "trace.txt", UTC)
    assert trace.nominal("status").decode() == ["out_of_memory", "failed", "completed"]
    assert trace.info.dropped == {"cached task (did not run)": 1}
    assert np.isnan(trace.number("used_mem_kib")[2])


def test_a_line_that_cannot_be_read_is_counted_or_said() -> None:
    odd = changed(task_id="9", memory="lots")
    trace = read_nextflow(table(RAW, odd), "trace.txt", UTC)
    assert trace.info.dropped == {"line that cannot be read": 1}
    with pytest.raises(InputError, match=r"trace\.txt:3: not an amount of memory: 'lots'"):
        read_nextflow(table(RAW, odd), "trace.txt", UTC, strict=True)
    with pytest.raises(InputError, match="no task in this file ran"):
        read_nextflow(table(odd), "trace.txt", UTC)


def test_a_process_keeps_its_own_request_until_three_of_its_tasks_have_ended() -> None:
    tasks = [
        changed(task_id=str(k), process=f"P:{'AB'[k > 7]}", submit=str(10**6 * k), start=str(10**6 * k),
                complete=str(10**6 * k + 500_000))
        for k in range(1, 16)
    ]  # fmt: skip
    found = find_memory_limits(read_nextflow(table(*tasks), "trace.txt", UTC))
    own = [amount == 8192 for amount in found.limits["advice"]]
    assert own == [True] * 3 + [False] * 4 + [True] * 3 + [False] * 5


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_the_file_is_known_by_its_columns_and_limits_are_advised(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "trace.txt"
    tasks = [changed(task_id=str(k), submit=str(10**6 * k), start=str(10**6 * k), complete=str(10**6 * k + 500_000))
             for k in range(1, 30)]  # fmt: skip
    path.write_text(table(*tasks, delimiter=delimiter))
    assert sniff(path.read_bytes()) == "nextflow"
    assert read_trace(path).info.format == "nextflow"
    done = batchcast("limits", path, "--memory")
    assert done.returncode == 0, done.stderr
    assert "advice at the risk" in done.stdout


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_a_quote_in_a_tag_swallows_no_line(delimiter: str) -> None:
    """Nextflow writes tags raw, so a tag that begins with a quote is not a quoted cell."""
    tags = ["s1", '"odd', "s3", "s4", 'e"f', '"', "a\x0cb", "c\u2028d"]
    rows = (changed(task_id=str(k), tag=tag) for k, tag in enumerate(tags, 1))
    trace = read_nextflow(table(*rows, delimiter=delimiter), "trace.txt", UTC)
    column = trace.nominal("tag")
    assert [column.categories[code] for code in column.codes] == tags
    assert trace.info.dropped == {}


def test_a_table_that_was_written_anew_may_quote() -> None:
    row = changed(tag='"a, ""b"""')
    trace = read_nextflow(table(tuple(f'"{n}"' for n in NAMES), row, delimiter=","), "trace.csv", UTC)
    assert len(trace) == 1


def test_a_line_with_a_tab_too_many_is_counted() -> None:
    trace = read_nextflow(table(RAW, changed(task_id="2", tag="a\tb"), changed(task_id="3")), "trace.txt", UTC)
    assert (len(trace), trace.info.dropped) == (2, {"line that cannot be read": 1})
