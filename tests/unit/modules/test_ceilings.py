"""Tests files that would cost too much memory or time: bombs, endless lines, devices, deeply nested keys. Each of these
files gives one clear error."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
from pathlib import Path

import pytest

from batchcast.ceilings import Ceilings, parse_toml
from batchcast.errors import InputError, UsageError
from batchcast.sweep import read_study
from batchcast.sweep.task import tasks_of
from batchcast.trace import read_trace
from batchcast.trace.machine_files import open_machine

LINE = b"1 10 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1\n"
NODE = "NodeName=n1 CPUTot=4 RealMemory=1000 State=IDLE\n"
PARTITION = "PartitionName=main Default=YES Nodes=n1 State=UP MaxTime=UNLIMITED\n"


@pytest.mark.parametrize(("pack", "size"), [(gzip.compress, 80 << 20), (lzma.compress, 80 << 20)])
def test_an_archive_that_unpacks_to_very_much_is_refused(tmp_path: Path, pack, size: int) -> None:
    path = tmp_path / "log.swf.packed"
    path.write_bytes(pack(LINE + b"\n" * size))
    with pytest.raises(InputError, match="unpacks to more than 300 times its size") as caught:
        read_trace(path)
    assert "BATCHCAST_MAX_RATIO" in caught.value.hint


def test_ceilings_are_set_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d" % k + LINE[1:] for k in range(1, 101))))
    assert len(read_trace(path)) == 100
    for name, value, message in (
        ("UNPACKED", "1K", "unpacks to more than 1024 bytes"),
        ("RECORDS", "99", "more than 99 records"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(f"BATCHCAST_MAX_{name}", value)
            with pytest.raises(InputError, match=message):
                read_trace(path)
    (tmp_path / "long.swf").write_bytes(LINE + b";" * (3 << 20) + b"\n2" + LINE[1:])
    assert len(read_trace(tmp_path / "long.swf")) == 2
    monkeypatch.setenv("BATCHCAST_MAX_LINE", "2M")
    with pytest.raises(InputError, match=r"long\.swf:2: a line of more than 2097152 bytes"):
        read_trace(tmp_path / "long.swf")
    monkeypatch.setenv("BATCHCAST_MAX_RATIO", "lots")
    with pytest.raises(UsageError, match="BATCHCAST_MAX_RATIO"):
        read_trace(path)


def test_a_parquet_file_of_a_thousand_million_equal_rows_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"submit_time": pa.array([0.0]).take(pa.array([0] * 10)), "run_time": [1.0] * 10})
    pq.write_table(table, tmp_path / "small.parquet")
    assert len(read_trace(tmp_path / "small.parquet")) == 10
    many = pa.table({"submit_time": pa.repeat(0.0, 20_000_000)})
    pq.write_table(many, tmp_path / "bomb.parquet", compression="zstd", row_group_size=20_000_000)
    assert (tmp_path / "bomb.parquet").stat().st_size < 100_000
    with pytest.raises(InputError, match="unpacks to more than 300 times"):
        read_trace(tmp_path / "bomb.parquet")


def test_a_log_may_be_a_pipe_that_the_user_names(tmp_path: Path) -> None:
    """A pipe as `<(zcat log.gz)` and `mkfifo` create it; packed logs are recognized by content."""
    here, there = os.pipe()
    os.write(there, LINE)
    os.close(there)
    try:
        assert len(read_trace(f"/dev/fd/{here}")) == 1
    finally:
        os.close(here)
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", f"echo '{LINE.decode().strip()}' | gzip > {tmp_path / 'pipe'}"])
    assert len(read_trace(tmp_path / "pipe")) == 1
    assert writer.wait() == 0


def test_devices_are_no_logs_and_what_a_file_names_is_no_pipe(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a device, not a file"):
        read_trace("/dev/zero")
    os.mkfifo(tmp_path / "m.toml")
    os.mkfifo(tmp_path / "log.swf")
    study = tmp_path / "study.toml"
    study.write_text('policies = ["easy"]\npredictors = ["requested"]\n[[log]]\npath = "log.swf"\n')
    with pytest.raises(InputError, match=r"log\.swf: is a pipe"):
        tasks_of(read_study(study.read_text(), str(study)), tmp_path)
    study.write_text(study.read_text().replace("log.swf", "/dev/zero"))
    with pytest.raises(InputError, match="/dev/zero: is a device"):
        tasks_of(read_study(study.read_text(), str(study)), tmp_path)
    with pytest.raises(InputError, match="is a pipe"):
        open_machine(tmp_path / "m.toml")


@pytest.mark.parametrize("included", ["pipe", "/dev/zero"])
def test_an_include_of_what_is_no_file_is_refused(tmp_path: Path, included: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "slurm.conf").write_text(f"Include {included}\nNodeName=n1 CPUs=4\nPartitionName=p Nodes=n1\n")
    with pytest.raises(InputError, match="no such file, or no text file of at most 16 MiB"):
        open_machine(tmp_path / "slurm.conf")


def test_a_packed_dump_beside_a_machine_may_not_unpack_without_end(tmp_path: Path) -> None:
    (tmp_path / "node.txt").write_text(NODE)
    (tmp_path / "partition.txt").write_text(PARTITION)
    (tmp_path / "reservation.txt").write_text("")
    assert open_machine(tmp_path).cpus == 4
    (tmp_path / "notes.xz").write_bytes(lzma.compress(b"\0" * (80 << 20)))
    with pytest.raises(InputError, match=r"notes\.xz: .*300 times"):
        open_machine(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".".join(["a"] * 50_000) + " = 1", "a key of more than 100 parts"),
        ("[" + ".".join(["a"] * 50_000) + "]", "a key of more than 100 parts"),
        ("a = " + "[" * 50_000, "nested too deep"),
        ("".join(f"[a{k}{'.b' * 90}]\n" for k in range(2000)), "more than 100000 dots"),
        ("a = {" + "b = {" * 50_000, "nested too deep|not TOML"),
        ("a = ", "not TOML"),
    ],
)
def test_toml_that_goes_too_deep_is_one_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_toml(text, "m.toml")
    (tmp_path / "machine.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        open_machine(tmp_path / "machine.toml")
    (tmp_path / "map.toml").write_text(text)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=message):
        read_trace(tmp_path / "a.csv", map=str(tmp_path / "map.toml"))


def test_dots_in_texts_are_no_depth() -> None:
    dotted = ", ".join(f"n{k}.site.example" for k in range(200))
    assert parse_toml(f'nodes = "{dotted}"', "m.toml") == {"nodes": dotted}


@pytest.mark.parametrize("opening", [b'{"jobs": ', b'{"nb_res": 4, "jobs": ', b'{"jobs": [{"job_id": 1, "x": '])
def test_json_that_goes_too_deep_is_one_error(tmp_path: Path, opening: bytes) -> None:
    (tmp_path / "a.json").write_bytes(opening + b"[" * 200_000)
    with pytest.raises(InputError):
        read_trace(tmp_path / "a.json")


def test_a_ceiling_counts_from_a_size_that_does_harm() -> None:
    Ceilings().check_unpacked("a", 1 << 20, 10)
    with pytest.raises(InputError):
        Ceilings().check_unpacked("a", 1 << 27, 10)
