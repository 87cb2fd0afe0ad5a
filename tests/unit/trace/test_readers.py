"""Tests that a reader of another package is a log format like batchcast's own, and that its faults are named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import batchcast
from batchcast.cli.main import cli
from batchcast.errors import BatchcastError, InputError, UsageError
from batchcast.formats import READERS
from batchcast.trace.read import sniff

Install = Callable[[str, str, str], None]
MINE = """
class Mine:
    name = "mine"

    def looks_like(self, head):
        return head.startswith(b"%mine")

    def read(self, lines, source, strict):
        assert not (strict and source == "never")
        return {"submit_time": [float(line) for line in lines if line and not line.startswith("%")]}
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.mine"
    path.write_bytes(b"%mine, of a test\r\n60\r\n30\r\n")
    return path


def test_a_log_of_an_installed_reader_is_recognised(install_reader: Install, log: Path) -> None:
    install_reader("mine", "reader_of_a_test:Mine", MINE)
    trace = batchcast.read_trace(log)
    assert (trace.info.format, trace.info.source) == ("mine", str(log))
    assert trace.submit_time.tolist() == [30.0, 60.0]
    assert batchcast.read_trace(log, format="mine").info.sha256 == trace.info.sha256


def test_an_object_that_makes_a_trace_is_a_reader(install_reader: Install, log: Path) -> None:
    code = MINE.replace("return {", "columns = {") + "\n        return batchcast.Trace.from_arrays(columns)\n"
    code = f"import batchcast\n{code}\nreader = Mine()"
    install_reader("mine", "reader_of_a_test:reader", code)
    assert batchcast.read_trace(log).submit_time.tolist() == [30.0, 60.0]


def test_errors_name_installed_formats(install_reader: Install, tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_text("hello\n")
    install_reader("mine", "reader_of_a_test:Mine", MINE)
    with pytest.raises(InputError) as unknown:
        batchcast.read_trace(junk)
    assert "not a job log of a known format" in unknown.value.message
    assert unknown.value.hint.endswith(f"format {', '.join(READERS)}, mine")
    refused = CliRunner().invoke(cli, ["info", str(junk), "--format", "yours"])
    assert isinstance(refused.exception, UsageError)
    assert f"'yours' (accepted: {', '.join(READERS)}, mine)" in str(refused.exception)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (MINE.replace('name = "mine"', 'name = "yours"'), "which is not a reader"),
        (MINE.replace("def read", "def parse"), "which is not a reader"),
        ("import nothing_of_this_name", "the reader mine raised ModuleNotFoundError"),
        (MINE.replace("float(line)", "1 / 0"), "the reader mine raised ZeroDivisionError: division by zero (reader_of"),
        (MINE.replace("{", "{'mem': [1], "), "mem"),
        (MINE.replace('if line and', 'if False and'), "no job in this file can be read as mine"),
    ],
)  # fmt: skip
def test_faults_of_a_reader_are_named(install_reader: Install, log: Path, code: str, words: str) -> None:
    install_reader("mine", "reader_of_a_test:Mine", code)
    with pytest.raises(BatchcastError) as fault:
        batchcast.read_trace(log, format="mine")
    assert words in fault.value.message


def test_own_formats_come_first(install_reader: Install) -> None:
    install_reader("mine", "reader_of_a_test:Mine", MINE.replace('head.startswith(b"%mine")', "True"))
    assert [sniff(head) for head in (b"; MaxProcs: 4\n", b"job_id,submit_time\n", b"a,b\n")] == ["swf", "csv", "mine"]


def test_a_wrong_format_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="not a format: 'swfs'"):
        batchcast.read_trace(batchcast.demo_path(), format="swfs")


def test_a_log_of_an_own_format_reads_no_entry_points() -> None:
    code = (
        "import sys, batchcast; batchcast.read_trace(batchcast.demo_path())\n"
        "print({'importlib.metadata', 'batchcast.formats.slurm.sacct', 'pyarrow'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
