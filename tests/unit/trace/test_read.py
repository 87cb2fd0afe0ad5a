"""Tests reading a log from disk: formats recognized by content, archives, damage, time zones."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from batchcast.errors import InputError, UsageError
from batchcast.trace import read_trace

LINES = b"".join(b"%d %d 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1\n" % (i, 10 * i) for i in range(1, 2001))
LOG = b"; UnixStartTime: 1000\n; TimeZoneString: US/Pacific  # a comment\n; MaxProcs: 64 (dual)\n" + LINES


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lzma.compress, lambda b: gzip.compress(b[:99]) + gzip.compress(b[99:])]
)
def test_reads_plain_gzip_xz_and_joined_archives_whatever_the_name(tmp_path: Path, pack) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(LOG))
    trace = read_trace(path)
    assert len(trace) == 2000
    assert trace.submit_time[-1] == 20000
    assert (trace.info.max_procs, trace.info.max_procs_source) == (64.0, "header")
    assert (trace.info.timezone, trace.info.unix_start) == ("US/Pacific", 1000.0)
    assert len(trace.info.sha256) == 64
    assert trace.info.notes == ()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_keeps_what_a_truncated_archive_still_holds_and_says_so(tmp_path: Path, pack) -> None:
    path = tmp_path / "cut"
    packed = pack(LOG)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    trace = read_trace(path)
    assert 100 < len(trace) < 2000
    assert "archive ends in the middle" in trace.info.notes[0]
    with pytest.raises(InputError, match="ends in the middle"):
        read_trace(path, strict=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (bytes(range(256)) * 50, "binary data"),
        (b"hello\nworld\n", "known format"),
        (b"PK\x03\x04xx", "zip"),
    ],
)
def test_what_is_no_log_is_one_clear_message(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_trace(path)


def test_a_sacct_dump_is_told_by_its_header_and_read_in_the_given_zone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt.gz"
    path.write_bytes(gzip.compress(b"State|JobID|Submit\nCOMPLETED|7|2024-03-01T10:00:00\n"))
    trace = read_trace(path, timezone="Europe/Stockholm")
    assert trace.submit_time.tolist() == [1709283600.0]
    assert (trace.info.format, trace.info.timezone) == ("sacct", "Europe/Stockholm")
    local = read_trace(path)
    assert local.submit_time.tolist() == [1709287200.0]
    assert any("timezone=NAME" in note for note in local.info.notes)


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "jobs.swf").write_bytes(LOG)
    with pytest.raises(InputError, match=r"did you mean .*jobs\.swf"):
        read_trace(tmp_path / "job.swf")


def test_a_given_zone_wins_and_must_exist(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LOG)
    assert read_trace(path, timezone="+01:00").info.timezone == "+01:00"
    with pytest.raises(UsageError, match="Europe/Stockholm"):
        read_trace(path, timezone="Europe/Stokholm")


def test_a_given_size_overrides_the_header(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LOG)
    info = read_trace(path, procs_total=32).info
    assert (info.max_procs, info.max_procs_source) == (32.0, "--procs-total")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "jobs"),
    [("KTH-SP2-1996-2.1-cln", 28476), ("SDSC-SP2-1998-4.2-cln", 59715), ("SDSC-DS-2004-2.1-cln", 96069)],
)
def test_real_logs_are_read_whole(shared: Path, name: str, jobs: int) -> None:
    trace = read_trace(shared / "traces" / f"{name}.swf.gz", strict=True)
    assert len(trace) == jobs
    assert trace.info.notes == ()
