"""Tests that no input ends the broker: what it cannot accept is set aside with a reason, also after a restart."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.broker.test_live import PLATFORM

from batchcast.broker.clock import MappingRule
from batchcast.broker.files import read_platform
from batchcast.broker.live import Broker, Journal
from batchcast.broker.preference import ByPreference
from batchcast.broker.serving import Serving
from batchcast.cli.main import cli
from batchcast.errors import UsageError

GOOD = '{"id": "good", "instructions": 1000, "deadline": 900, "arrival": 7}'
BAD = {
    "nested": "[" * 100_000,
    "huge": '{"id": "a", "instructions": ' + "1" * 400 + ', "arrival": 1}',
    "long number": '{"id": "a", "instructions": ' + "1" * 5000 + ', "arrival": 1}',
    "negative": '{"id": "a", "instructions": -5, "arrival": 1}',
    "surrogate": '{"id": "\\ud800", "instructions": 5, "arrival": 1}',
    "infinite arrival": '{"id": "a", "instructions": 5, "arrival": 1e400}',
    "not a number": '{"id": "a", "instructions": NaN, "arrival": 1}',
    "list": "[1, 2]",
    "id": '{"id": [], "instructions": 5, "arrival": 1}',
    "demands": '{"id": "a", "instructions": 5, "arrival": 1, "demands": [3]}',
    "empty": "",
}


def serve(place: Path) -> Result:
    """Map what lies in the spool once, in a new process's state."""
    (place / "grid.toml").write_text(PLATFORM)
    (place / "spool").mkdir(exist_ok=True)
    words = ["grid", "serve", "--platform", str(place / "grid.toml"), "--state", str(place / "state"), "--map-every",
             "1", "--spool", str(place / "spool"), "--once", "--virtual", "-o", str(place / "page.html")]  # fmt: skip
    return CliRunner().invoke(cli, words)


def assigned(place: Path) -> list[str]:
    return [json.loads(line)["id"] for line in (place / "state" / "assignments.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_job_is_set_aside_with_a_reason_and_the_next_start_works(tmp_path: Path, text: str) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "1.json").write_text(text)
    (spool / "2.json").write_text(GOOD)
    for _ in range(2):
        done = serve(tmp_path)
        assert done.exit_code == 0, done.output
    assert (spool / "rejected" / "1.json").exists()
    assert (spool / "rejected" / "1.json.why").read_text().strip()
    assert assigned(tmp_path) == ["good"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "dangling link"])
def test_what_is_no_file_is_moved_away_unopened(tmp_path: Path, kind: str) -> None:
    spool, precious = tmp_path / "spool", tmp_path / "precious"
    spool.mkdir()
    precious.write_text(GOOD.replace("good", "foreign"))
    bad = spool / "1.json"
    if kind == "pipe":
        os.mkfifo(bad)
    elif kind == "folder":
        bad.mkdir()
    else:
        bad.symlink_to(precious if kind == "link" else tmp_path / "nothing")
    (spool / "2.json").write_text(GOOD)
    done = serve(tmp_path)
    assert done.exit_code == 0, done.output
    assert not os.path.lexists(bad)
    assert assigned(tmp_path) == ["good"]


def test_a_reason_is_not_written_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "spool" / "rejected").mkdir(parents=True)
    (tmp_path / "spool" / "rejected" / "1.json.why").symlink_to(precious)
    (tmp_path / "spool" / "1.json").write_text("no job")
    assert serve(tmp_path).exit_code == 0
    assert precious.read_text() == "mine"


def test_a_folder_of_the_spool_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "rejected").symlink_to(tmp_path / "elsewhere")
    done = serve(tmp_path)
    assert isinstance(done.exception, UsageError)
    assert "is a link" in str(done.exception)


@pytest.mark.parametrize(
    "line",
    [
        '{"job": {"id": "x", "instructions": 5, "deadline": 9}, "at": Infinity}',
        '{"until": "soon"}', '{"job": 3, "at": 1}', "{}", "no json", "\udcff", "[" * 100_000,
    ],
    ids=range(7),
)  # fmt: skip
def test_a_line_of_the_journal_that_cannot_be_replayed_is_set_aside_once(tmp_path: Path, line: str) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "1.json").write_text(GOOD)
    assert serve(tmp_path).exit_code == 0
    journal = tmp_path / "state" / "journal.jsonl"
    good = journal.read_bytes()
    journal.write_bytes(line.encode(errors="surrogateescape") + b"\n" + good)
    done = serve(tmp_path)
    assert done.exit_code == 0, done.output
    assert "line 1 cannot be replayed" in done.output
    assert (tmp_path / "state" / "journal.jsonl.aside").read_bytes().count(b"\n") == 1
    assert journal.read_bytes() == good
    assert "cannot be replayed" not in serve(tmp_path).output
    assert assigned(tmp_path) == ["good"]


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_line_on_the_socket_is_answered(tmp_path: Path, text: str) -> None:
    (tmp_path / "grid.toml").write_text(PLATFORM)
    broker = Broker(
        *read_platform(tmp_path / "grid.toml"), ByPreference(0.0), MappingRule(1.0), Journal(tmp_path / "j")
    )
    serving = Serving(broker, tmp_path / "answers", tmp_path / "page.html", virtual=True)
    assert serving.take(text)["ok"] is False
    assert serving.take(GOOD)["ok"] is True
