"""Tests the broker: it decides like the recorded clock, also after any kill, and reports a missed deadline at once."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.unit.broker.quick import QUICK

from batchcast.broker.clock import MappingRule, simulate
from batchcast.broker.live import Broker, Journal
from batchcast.broker.model import Jobs, Model, Setting, Units, draw_jobs
from batchcast.broker.preference import ByPreference
from batchcast.cli.main import cli
from batchcast.predict.registry import make

PLATFORM = (
    '[[resource]]\nid = "fast"\nspeed = 100\nbandwidth = 10\n[[resource]]\nid = "slow"\nspeed = 10\nbandwidth = 10\n'
)


def lines_of(jobs: Jobs) -> list[dict]:
    """Return the jobs of a run as a broker receives them, in order of arrival."""
    order = np.argsort(jobs.arrival, kind="stable").tolist()
    return [
        {"id": jobs.ids[k], "instructions": jobs.ini[k], "file_mb": jobs.fsize[k], "deadline": jobs.deadline[k],
         "arrival": jobs.arrival[k]} for k in order
    ]  # fmt: skip


@pytest.mark.parametrize("spec", QUICK)
@pytest.mark.parametrize("every", [0.25, None])
def test_the_broker_on_a_virtual_clock_gives_what_reproduce_grid_simulates(spec: str, every: float | None) -> None:
    """Runs the published experiment with jobs that arrive one by one, and compares with all jobs given at once."""
    jobs, resources = draw_jobs(Setting(26.0, 0.5, 0.5), np.random.default_rng(2), jobs=250, resources=12)
    rule = MappingRule(every)
    simulated = simulate(jobs, resources, Model(jobs, resources), make("heuristic", spec), rule)
    broker = Broker(resources, Units(), make("heuristic", spec), rule)
    for job in lines_of(jobs):
        broker.offer(job, job["arrival"])
    broker.finish()
    live = broker.run
    for name in ("resource", "start", "finish", "outcome", "instant"):
        np.testing.assert_array_equal(getattr(live, name), getattr(simulated, name), err_msg=name)
    assert live.assigned == simulated.assigned > 0


def test_a_broker_killed_anywhere_decides_as_one_that_never_was(tmp_path: Path) -> None:
    """From each prefix of a journal, with its last line cut anywhere, the broker continues to the same decisions."""
    jobs, resources = draw_jobs(Setting(20.0, 0.5, 0.5), np.random.default_rng(3), jobs=60, resources=5)
    offered, rule = lines_of(jobs), MappingRule(0.25)

    def run(journal: Path) -> Broker:
        broker = Broker(resources, Units(), ByPreference(0.0), rule, Journal(journal))
        for job in offered:  # the sender sends those jobs again that got no reply
            broker.offer(job, job["arrival"])
        broker.finish()
        return broker

    whole = run(tmp_path / "whole")
    text = (tmp_path / "whole").read_bytes()
    for cut in random.Random(1).sample(range(len(text)), 25):
        (tmp_path / "cut").write_bytes(text[:cut])
        again = run(tmp_path / "cut")
        assert again.table() == whole.table()
        assert (tmp_path / "cut").read_bytes().count(b'"job"') == len(offered), "no job twice, none lost"


def test_a_job_without_a_number_is_refused_and_one_sent_again_is_the_same_job(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(PLATFORM)
    spool = tmp_path / "spool"
    spool.mkdir()
    for name, job in {
        "1": {"id": "a", "instructions": 1000, "deadline": 100, "arrival": 1},
        "2": {"id": "b", "instructions": "many", "arrival": 1},
        "3": {"id": "late", "instructions": 1000, "deadline": 5, "arrival": 2},
        "4": {"id": "a", "instructions": 1000, "deadline": 100, "arrival": 3},
    }.items():
        (spool / f"{name}.json").write_text(json.dumps(job))
    words = ["grid", "serve", "--platform", str(tmp_path / "grid.toml"), "--state", str(tmp_path / "state"),
             "--spool", str(spool), "--once", "--virtual", "-o", str(tmp_path / "page.html")]  # fmt: skip
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "the deadline 5 cannot be met: the earliest end is 21, on fast" in done.output
    assert "are numbers" in (spool / "rejected" / "2.json.why").read_text()
    told = [json.loads(line) for line in (tmp_path / "state" / "assignments.jsonl").read_text().splitlines()]
    assert [line["id"] for line in told] == ["a", "late"]
    assert (told[0]["resource"], told[0]["finish"], told[0]["slack"]) == ("fast", 11.0, 89.0)
    assert "2 jobs: 1 end in time, 1 do not, 0 wait" in (tmp_path / "page.html").read_text()


def talk(path: Path, *messages: dict) -> list[dict]:
    """Return the replies on one connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        file = connection.makefile("rw")
        replies = []
        for message in messages:
            file.write(json.dumps(message) + "\n")
            file.flush()
            replies.append(json.loads(file.readline()))
        return replies


def test_a_killed_service_knows_its_jobs_and_tells_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(PLATFORM)
    listen, state = tmp_path / "s.sock", tmp_path / "state"
    words = [sys.executable, "-m", "batchcast", "grid", "serve", "--platform", str(tmp_path / "grid.toml"),
             "--state", str(state), "--listen", str(listen), "--virtual", "--map-every", "1"]  # fmt: skip
    jobs = [{"id": f"j{k}", "instructions": 500, "deadline": 500, "arrival": k} for k in range(6)]
    for part, how in ((jobs[:3], signal.SIGKILL), (jobs[2:], None)):
        service = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert service.stderr is not None
        while "jobs known from" not in service.stderr.readline():
            assert service.poll() is None
        while not listen.exists():
            assert service.poll() is None
        replies = talk(listen, *part, *([] if how else [{"ask": "free"}, {"end": True}]))
        assert all(reply["ok"] for reply in replies)
        if how is not None:
            service.send_signal(how)
            listen.unlink()
        service.wait(30)
    assert replies[0]["again"] is True
    told = [json.loads(line)["id"] for line in (state / "assignments.jsonl").read_text().splitlines()]
    assert sorted(told) == [job["id"] for job in jobs]
