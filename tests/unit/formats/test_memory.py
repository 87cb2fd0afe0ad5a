"""Tests memory in all its forms: requests, the peak over steps, and values that are no amount."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import UsageError
from batchcast.formats.csv.column_map import make_map
from batchcast.formats.csv.foreign import read_mapped_csv
from batchcast.formats.csv.own import header_and_texts, read_own_csv
from batchcast.formats.memory import peak, requested, usage_kib
from batchcast.formats.pbs.accounting import read as read_pbs
from batchcast.formats.slurm.sacct import read_sacct
from batchcast.formats.swf import read_swf, write_chunks
from batchcast.table import LogInfo, Trace
from batchcast.table.memory import memory_use
from batchcast.trace.clean import without_absurd

GIB = 1024.0**2


@pytest.mark.parametrize(
    ("text", "more", "kib"),
    [
        ("4Gn", {}, 12 * GIB),
        ("2Gc", {}, 16 * GIB),
        ("4G", {}, 4 * GIB),
        ("4000M", {}, 4000 * 1024.0),
        ("1.50T", {}, 1536 * GIB),
        ("0n", {}, math.nan),
        ("", {}, math.nan),
        ("0", {"tres": "billing=8,cpu=8,gres/gpu=1,mem=16G,node=3"}, 16 * GIB),
    ],
)
def test_a_request_in_every_form_is_that_of_the_whole_job(text, more, kib) -> None:
    assert np.array_equal(requested(text, nodes=3, procs=8, **more), kib, equal_nan=True)


@pytest.mark.parametrize("text", ["4Q", "-4G", "lots", "4Gx"])
def test_a_request_of_no_form_is_refused_by_what_is_accepted(text) -> None:
    with pytest.raises(UsageError, match="accepted"):
        requested(text, nodes=1, procs=1)


@pytest.mark.parametrize("text", ["12Q", "-3K", "1e9", "nan", "K"])
def test_a_measured_amount_of_no_form_is_refused(text) -> None:
    with pytest.raises(UsageError, match="accepted"):
        usage_kib(text)


def test_the_peak_is_the_largest_over_steps_whatever_their_order() -> None:
    steps = [
        {"JobID": "7", "MaxRSS": ""},
        {"JobID": "7.extern", "MaxRSS": "0"},
        {"JobID": "7.batch", "MaxRSS": "1292K", "NTasks": "1", "NNodes": "1"},
        {"JobID": "7.0", "MaxRSS": "2G", "TRESUsageInTot": "cpu=1,mem=6G", "NTasks": "4", "NNodes": "2"},
        {"JobID": "7.1", "MaxRSS": "9000P", "NTasks": "1"},
        {"JobID": "7.2", "MaxRSS": "-1K"},
    ]
    assert peak(steps) == peak(steps[::-1]) == (3 * GIB, 1, 2)
    assert math.isnan(peak([{"MaxRSS": ""}]).node_kib)


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=9))
def test_the_peak_of_plain_steps_is_the_largest_number_above_zero(amounts) -> None:
    most = peak([{"MaxRSS": f"{a}K"} for a in amounts])
    assert (most.node_kib == max(amounts)) if max(amounts) else math.isnan(most.node_kib)
    assert most.zeros == amounts.count(0)


HEAD = "JobID|Submit|Start|End|State|ReqMem|ReqNodes|AllocNodes|ReqCPUS|MaxRSS|TRESUsageInTot|NTasks"
WHEN = "1970-01-01T00:01:00|1970-01-01T00:02:00|1970-01-01T00:03:00"


def sacct(*rows: str) -> Trace:
    return read_sacct(["\n".join([HEAD, *rows]).encode()], "dump")


def test_a_dump_with_steps_gives_each_job_the_peak_of_its_own_steps() -> None:
    trace = sacct(
        f"7|{WHEN}|COMPLETED|4Gn|2|2|8|||",
        f"7.batch|{WHEN}|COMPLETED||||1|1000K||1",
        f"7.0|{WHEN}|COMPLETED|||2|8|3G|cpu=1,mem=12G|8",
        f"8|{WHEN}|OUT_OF_MEMORY|1Gn|1|1|1|||",
        f"8.batch|{WHEN}|OUT_OF_MEMORY|||1|1|0||1",
        f"8.0|{WHEN}|OUT_OF_MEMORY|||1|1|1048000K||1",
        f"9|{WHEN}|COMPLETED|1Gn|1|1|1|||",
    )
    assert trace.number("used_mem_kib").tolist()[:2] == [12 * GIB, 1048000.0]
    assert math.isnan(trace.number("used_mem_kib")[2])
    use = memory_use(trace)
    assert use.per == "node"
    assert use.requested_kib.tolist() == [4 * GIB, GIB, GIB]
    assert use.used_kib.tolist()[:2] == [6 * GIB, 1048000.0]
    assert use.ended.tolist() == [False, True, False]
    assert any("1 job steps have a peak memory of 0" in note for note in trace.info.notes)


def test_a_dump_without_steps_or_without_the_columns_knows_no_use() -> None:
    assert "used_mem_kib" not in sacct(f"7|{WHEN}|COMPLETED|4Gn|2|2|8|||").names


def test_steps_of_a_number_that_two_records_share_are_those_of_the_record_before_them() -> None:
    rows = [f"7|{WHEN}|COMPLETED|4Gn|1|1|8|||", f"7.0|{WHEN}|COMPLETED|||1|8|3G||1"]
    assert sacct(*rows, rows[0]).number("used_mem_kib").tolist()[:1] == sacct(*rows).number("used_mem_kib").tolist()
    assert np.isnan(sacct(*rows, rows[0]).number("used_mem_kib")[1])


def test_steps_that_are_no_amount_are_counted_and_teach_nothing() -> None:
    trace = sacct(
        f"7|{WHEN}|COMPLETED|4Gn|1|1|8|||", f"7.0|{WHEN}|COMPLETED|||1|8|7X||1", f"7.1|{WHEN}|COMPLETED|||1|8|8P||1"
    )
    assert "used_mem_kib" not in trace.names
    assert any("2 job steps have an impossible peak memory" in note for note in trace.info.notes)


def test_pbs_memory_is_of_the_whole_job_and_bad_sizes_are_counted() -> None:
    line = "04/01/2024 00:00:01;E;{}.srv;user=ada ctime=10 start=15 end=25 Resource_List.ncpus=4 "
    trace = read_pbs(
        [
            (
                line.format(7)
                + "Resource_List.pmem=1gb resources_used.mem=2048kb\n"
                + line.format(8)
                + "Resource_List.mem=4xb resources_used.mem=-4kb"
            ).encode()
        ],
        "log",
    )
    assert trace.number("req_mem_kib")[0] == 4 * GIB
    assert trace.number("used_mem_kib")[0] == 2048.0
    assert np.isnan(trace.number("req_mem_kib")[1])
    assert np.isnan(trace.number("used_mem_kib")[1])
    assert sum("not sizes" in note for note in trace.info.notes) == 2


def test_swf_is_per_processor_and_survives_swf_and_csv() -> None:
    lines = [b"1 0 1 9 4 -1 100 4 60 200 1 7 -1 -1 -1 -1 -1 -1\n2 1 1 9 2 -1 0 2 60 300 1 7 -1 -1 -1 -1 -1 -1\n"]
    log = read_swf(lines)
    use = memory_use(log)
    assert (use.per, use.zeros, use.requested_kib.tolist(), use.used_kib[0]) == ("processor", 1, [200.0, 300.0], 100.0)
    assert "".join(write_chunks(log)).splitlines()[-2:] == lines[0].decode().split("\n")[:2]
    header, columns = header_and_texts(log)
    text = "\n".join(",".join(row) for row in [header, *zip(*columns)])
    again = memory_use(read_own_csv([text.encode()]))
    assert (again.per, again.requested_kib.tolist(), again.used_kib[0]) == ("processor", [200.0, 300.0], 100.0)


def test_whole_jobs_become_processors_in_swf() -> None:
    log = Trace.from_arrays({"submit_time": [0], "req_procs": [4], "req_mem_kib": [400.0], "used_mem_kib": [200.0]})
    words = "".join(write_chunks(log)).splitlines()[-1].split()
    assert (words[6], words[9]) == ("50", "100")


def test_a_map_says_that_memory_is_per_node() -> None:
    mapped = make_map(
        {
            "columns": {
                "submit_time": "sub",
                "req_nodes": "nodes",
                "req_mem_kib": {"from": "asked", "unit": "gib", "per": "node"},
                "used_mem_kib": {"from": "used", "unit": "slurm", "per": "node"},
            }
        },
        "m",
    )
    trace = read_mapped_csv([b"sub,nodes,asked,used\n60,2,4,1500M\n70,,4,9X\n"], mapped)
    assert trace.number("req_mem_kib")[0] == 8 * GIB
    assert trace.number("used_mem_kib")[0] == 3000 * 1024.0
    assert np.isnan(trace.number("req_mem_kib")[1])
    with pytest.raises(UsageError, match="accepted: job, node, processor"):
        make_map({"columns": {"submit_time": "sub", "req_mem_kib": {"from": "m", "per": "core"}}}, "m")


def test_a_use_that_copies_the_request_is_no_measurement() -> None:
    asked = np.arange(1.0, 101.0) * 1024
    columns = {"submit_time": np.arange(100.0), "req_procs": np.ones(100), "req_mem_kib": asked}
    copied = np.where(np.arange(100) < 95, asked, asked / 2)
    use = memory_use(Trace.from_arrays({**columns, "used_mem_kib": copied}))
    assert not use.is_measured
    assert use.copied == 0.95
    assert np.isnan(use.used_kib).all()
    honest = memory_use(Trace.from_arrays({**columns, "used_mem_kib": np.where(np.arange(100) < 80, asked, asked / 2)}))
    assert honest.is_measured
    assert honest.measured_jobs == 100


def test_petabytes_are_read_as_unknown_and_said() -> None:
    pib = 1024.0**4
    log = Trace.from_arrays(
        {
            "submit_time": [0, 1, 2],
            "req_nodes": [1000, 1, 1],
            "alloc_nodes": [1000, 1, 1],
            "req_mem_kib": [10 * pib, 2 * pib, GIB],
            "used_mem_kib": [5 * pib, GIB, 3 * pib],
        }
    )
    kept = without_absurd(log)
    assert kept.number("req_mem_kib")[0] == 10 * pib, "a large machine as a whole may have that much"
    assert np.isnan(kept.number("req_mem_kib")[1])
    assert np.isnan(kept.number("used_mem_kib")[2])
    assert sum("pebibyte" in note for note in kept.info.notes) == 2


def test_what_a_log_says_of_its_unit_comes_through_parquet(tmp_path) -> None:
    from batchcast.trace import read_trace
    from batchcast.trace.parquet import write_parquet

    log = Trace.from_arrays({"submit_time": [0], "req_mem_kib": [4.0]}, LogInfo(memory_per="processor"))
    write_parquet(log, tmp_path / "log.parquet")
    assert read_trace(tmp_path / "log.parquet").info.memory_per == "processor"
