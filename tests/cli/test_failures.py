"""Tests that each failure of the system gives one message with a next step and the right exit code, without a
traceback."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import BatchcastError

VERBS = [("start", "1"), ("walltime", "--name", "x"), ("report",), ("accuracy",), ("site export", "-o", os.devnull)]


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without this machine's settings and without Slurm's programs on the PATH."""
    for name in list(os.environ):
        if name.startswith("BATCHCAST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("BATCHCAST_CONFIG", os.devnull)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def failure(*words: str, store: str) -> tuple[int, str]:
    """Exit code and message."""
    error = CliRunner().invoke(cli, [*words[0].split(), "--store", store, *words[1:]]).exception
    assert isinstance(error, BatchcastError), error
    assert error.hint or "accepted" in error.message
    return error.exit_code, str(error)


@pytest.mark.parametrize("verb", [*VERBS[3:], ("report", "-p", "main")])
def test_no_store_is_nothing_to_answer_from(verb: tuple[str, ...], tmp_path: Path) -> None:
    code, said = failure(*verb, store=str(tmp_path / "none.db"))
    assert code == 3
    assert "there is no store at" in said


@pytest.mark.parametrize(("verb", "client"), [(VERBS[0], "squeue"), (VERBS[1], "sacct"), (VERBS[2], "sacct")])
def test_no_store_and_no_scheduler_says_both(verb: tuple[str, ...], client: str, tmp_path: Path) -> None:
    code, said = failure(*verb, store=str(tmp_path / "none.db"))
    assert code == 4
    assert "there is no store at" in said
    assert f"{client} is not installed" in said


@pytest.mark.parametrize("verb", [*VERBS, ("collect", "--once")])
def test_a_file_that_is_no_store(verb: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "junk.db").write_bytes(b"not a database at all, but long enough" * 200)
    code, said = failure(*verb, store=str(tmp_path / "junk.db"))
    assert code == 1
    assert "move the file away" in said


def test_a_damaged_store_is_said_by_doctor(tmp_path: Path) -> None:
    from batchcast.store.database import Store

    path = tmp_path / "s.db"
    Store(str(path), create=True).close()
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(os.urandom(path.stat().st_size - 3 * 4096))
    done = CliRunner().invoke(cli, ["doctor", "--no-ask", "--store", str(path)])
    assert "failed   store" in done.output
    assert "restore a backup" in done.output


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE bookmarks(url)")
    connection.close()
    assert "bookmarks" in failure("collect", "--once", store=str(tmp_path / "other.db"))[1]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("postgresql://bob:secret@localhost:1/x", 4),
        ("postgresql://bob:secret@host:port/x", 1),
        ("mysql://bob:secret@host/x", 1),
    ],
)
def test_a_database_that_cannot_be_had(url: str, code: int) -> None:
    for verb in (("accuracy",), ("collect", "--once")):
        found, said = failure(*verb, store=url)
        assert found == code
        assert "secret" not in said


@pytest.mark.parametrize("place", ["/dev/null/s.db", "directory"])
def test_a_store_that_cannot_be_made(place: str, tmp_path: Path) -> None:
    code, said = failure("collect", "--once", store=place if place.startswith("/") else str(tmp_path))
    assert code == 1
    assert "--store" in said


def test_collecting_where_there_are_no_clients_is_unreachable(tmp_path: Path) -> None:
    code, said = failure("collect", "--once", store=str(tmp_path / "s.db"))
    assert code == 4
    assert "doctor" in said


def test_a_missing_part_of_the_installation_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "sys.argv = ['batchcast', 'collect', '--once', '--store', 's.db']\n"
        "from batchcast.cli.main import entry; entry()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "sqlalchemy is not installed" in done.stderr
    hint = done.stderr.partition("try: ")[2]
    assert hint.startswith(sys.executable)
    assert "[store]" in hint or "sqlalchemy>=" in hint  # first for a checkout, then for any other installation


def test_a_report_is_written_where_lightgbm_cannot_be_loaded(tmp_path: Path) -> None:
    """If LightGBM is missing, the tile about wait predictions says so, and the rest of the page is complete."""
    (tmp_path / "lightgbm.py").write_text("raise OSError('libgomp.so.1: cannot open shared object file')\n")
    jobs = "\n".join(f"{k} {60 * k} 5 {50 + k % 7} 4 -1 -1 4 600 -1 1 {k % 3} 1 1 1 1 -1 -1" for k in range(1, 160))
    (tmp_path / "log.swf").write_text("; MaxProcs: 16\n" + jobs + "\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    words = ["evaluate", str(tmp_path / "log.swf"), "-o", str(tmp_path / "report"), "--predictor", "last_2"]
    code = "from batchcast.cli.main import entry; entry()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "install libgomp1" in (tmp_path / "report" / "index.html").read_text()
