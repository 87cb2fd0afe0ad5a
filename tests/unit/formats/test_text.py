"""Tests that byte order marks and carriage returns lose no record in any format."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from batchcast.formats.times import LocalClock, parse_stamps
from batchcast.trace import read_trace

SWF = "; MaxProcs: 8\n" + "".join(f"{k} {k * 10} 0 5 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for k in range(1, 4))
SACCT = "JobID|Submit|Start|End|State\n" + "".join(
    f"{k}|2024-01-01T00:00:0{k}|2024-01-01T00:00:0{k}|2024-01-01T00:01:00|COMPLETED\n" for k in range(1, 4)
)
PBS = "".join(
    f"04/01/2024 00:00:0{k};E;{k}.srv;user=ada ctime=1{k} qtime=1{k} etime=1{k} start=15 end=25\n" for k in range(1, 4)
)
OWN = "job_id,submit_time,run_time\n" + "".join(f"{k},{k * 10},5\n" for k in range(1, 4))
TEXTS = {"swf": SWF, "sacct": SACCT, "pbs": PBS, "csv": OWN}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_every_record_is_read(tmp_path: Path, kind: str, end: str, bom: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(bom + TEXTS[kind].replace("\n", end).encode())
    log = read_trace(path, strict=True)
    assert (log.info.format, log.job_id.tolist()) == (kind, [1, 2, 3])


@pytest.mark.parametrize("stamp", ["1704067200", "1704067200.0", "1704067200.25", "1.7040672e+09"])
def test_epoch_seconds_that_pandas_made_real_are_read(tmp_path: Path, stamp: str) -> None:
    path = tmp_path / "dump"
    path.write_text(f"JobID|Submit|Start|End|State\n7|{stamp}|{stamp}|1704067260.0|COMPLETED\n")
    log = read_trace(path, strict=True)
    assert log.submit_time.tolist() == [float(stamp)]
    assert log.run_time.tolist() == [1704067260.0 - float(stamp)]


def test_a_zone_in_a_time_of_the_usual_length_is_heeded_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    epoch, _, bad = parse_stamps(["2024-01-01T00:00:00", "2024-01-01T01:00+01"], LocalClock(UTC))
    assert epoch[0] == 1704067200.0
    assert bad == [] or bad == [1]
    assert not recwarn.list
