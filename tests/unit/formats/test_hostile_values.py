"""Tests values that no program writes: each is counted or rejected with one message, and none causes a traceback."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

from batchcast.errors import BatchcastError, UsageError
from batchcast.formats.batsim import read as read_batsim
from batchcast.formats.slurm.sacct import read_sacct, read_sacct_json
from batchcast.trace import read_trace
from batchcast.units import parse_duration

SACCT = b"JobID|Submit|Start|End|State|Timelimit|ReqMem|ReqTRES|JobName\n" + b"".join(
    b"%d|2026-03-01T10:00:00|2026-03-01T10:10:00|2026-03-01T10:20:00|COMPLETED|01:00:00|8G|cpu=4,mem=8G|a\n" % k
    for k in range(4)
)
JSON = json.dumps({
    "jobs": [{
        "job_id": 7, "name": "a", "array": {"job_id": 0, "task_id": {"set": False, "number": 0}},
        "state": {"current": ["COMPLETED"]}, "required": {"CPUs": 4}, "nodes": "n1",
        "time": {"submission": 1772359200, "start": 1772359800, "end": 1772360400, "limit": {"set": True, "number": 6}},
        "tres": {"requested": [{"type": "cpu", "name": None, "count": 4}]},
        "steps": [{"step": {"id": "7.0"}, "tres": {"requested": {"max": [{"type": "mem", "count": 9}]}}}],
    }],
}).encode()  # fmt: skip
SWF = b"; MaxProcs: 4\n; UnixStartTime: 5\n" + b"1 10 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1\n" * 3
BATSIM = b'{"nb_res": 4, "jobs": [{"id": "7", "subtime": 3, "res": 2, "profile": "p", "walltime": 60}], "profiles": {}}'
CSV = b"job_id,submit_time,run_time,req_mem_kib,status\n1,10,5,7,completed\n2,20,6,8,failed\n"
WORDS = (
    b"9" * 400, b"-1", b"1e400", b"nan", b"0001-01-01T00:00:00", b"9999-12-31T23:59:59", b"9999-12-31T23:59:59+14:00",
    b"2026-02-30T00:00:00", b"|", b"\n", b'"', b"\0", b"\xff", b"null", b"[]", b"{}", b"4294967294", "\u0661".encode(),
    b"\xe2\x80\xa8", b"1_0", b"999999999-00:00:00", b"true", b"",
)  # fmt: skip


@pytest.mark.parametrize("name", ["sacct", "json", "swf", "batsim", "csv"])
def test_two_hundred_damaged_files_end_in_a_trace_or_one_message(name: str, tmp_path: Path) -> None:
    text = {"sacct": SACCT, "json": JSON, "swf": SWF, "batsim": BATSIM, "csv": CSV}[name]
    chance, path = random.Random(name), tmp_path / "log"
    for number in range(200):
        damaged = bytearray(text)
        for _ in range(chance.randint(1, 4)):
            spans = [match.span() for match in re.finditer(rb'[^|,:;\s"{}\[\]]+', bytes(damaged))] or [(0, 0)]
            first, last = chance.choice(spans)
            damaged[first:last] = chance.choice(WORDS)
        path.write_bytes(damaged)
        with suppress(BatchcastError):
            read_trace(path, timezone="Europe/Stockholm" if number % 3 == 0 else None)


def test_a_date_that_does_not_exist_costs_its_own_job_alone() -> None:
    text = SACCT.replace(b"2|2026-03-01T10:00:00", b"2|2026-02-30T10:00:00")
    trace = read_sacct([text])
    assert trace.job_id.tolist() == [0, 1, 3]
    assert sum(trace.info.dropped.values()) == 1


def test_numbers_without_end() -> None:
    with pytest.raises(UsageError, match="not a time"):
        parse_duration("1" * 400)
    trace = read_sacct([SACCT.replace(b"01:00:00", b"1" * 400, 1)])
    assert len(trace) == 4
    long = f'{{"nb_res": 4, "jobs": [{{"id": 1, "subtime": {"9" * 400}, "res": 1, "profile": "p"}}], "profiles": {{}}}}'
    with pytest.raises(BatchcastError, match="none of its 1 job"):
        read_batsim(long)


def test_bytes_that_are_no_utf8_in_json() -> None:
    assert read_sacct_json([JSON.replace(b'"a"', b'"\xff"')]).nominal("job_name").decode() == ["\ufffd"]
