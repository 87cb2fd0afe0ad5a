"""Tests the transport: rate limits, time limits, counters, and recordings."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from batchcast.errors import Unreachable, WrongCluster
from batchcast.slurm.transport import CONFIG, Answer, Commands, OneCluster, Recording


class Hands:
    """A clock that moves only when a caller sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0

    def clock(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def transport(**more: Any) -> tuple[Commands, Hands]:
    hands = Hands()
    return Commands(sleep=hands.sleep, now=hands.clock, **more), hands


ECHO = (sys.executable, "-c", "import sys; print(sys.argv[1])", "{mark}")
FAIL = (sys.executable, "-c", "import sys; sys.exit('no daemon')")


def test_the_mark_is_fresh_at_every_call_and_reaches_the_command() -> None:
    commands, _ = transport()
    first, second = commands.ask(ECHO), commands.ask(ECHO)
    assert first.text.strip() == first.mark
    assert first.mark != second.mark


def test_two_calls_are_never_closer_than_the_floor() -> None:
    commands, _ = transport(floor_s=5.0)
    asked = [commands.ask(ECHO).asked_at for _ in range(3)]
    assert asked == [1000.0, 1005.0, 1010.0]


def test_a_failing_daemon_is_left_alone_twice_as_long_each_time() -> None:
    commands, hands = transport(back_off_s=10.0, longest_back_off_s=25.0, floor_s=0.0)
    waits = []
    for _ in range(4):
        with pytest.raises(Unreachable, match="no daemon"):
            commands.ask(FAIL)
        calls = commands.counters["slurmctld"].calls
        with pytest.raises(Unreachable, match="asked again in"):
            commands.ask(ECHO)
        assert commands.counters["slurmctld"].calls == calls, "left alone means not called"
        waits.append(commands.counters["slurmctld"].not_before - hands.time)
        hands.time = commands.counters["slurmctld"].not_before
    assert waits == [10.0, 20.0, 25.0, 25.0]
    assert commands.counters["slurmctld"].away_since == 1000.0
    commands.ask(ECHO)
    assert commands.counters["slurmctld"].away_since == 0.0


def test_one_daemon_away_leaves_the_other_reachable(tmp_path: Path) -> None:
    sacct = tmp_path / "sacct"
    sacct.write_text("#!/bin/sh\nexit 1\n")
    sacct.chmod(0o755)
    commands, _ = transport()
    with pytest.raises(Unreachable):
        commands.ask((str(sacct),))
    assert commands.ask(ECHO).text
    assert commands.health()["slurmdbd"]["failures"] == 1


def test_a_missing_client_says_what_is_missing() -> None:
    commands, _ = transport()
    with pytest.raises(Unreachable, match="squeue-of-nowhere is not installed"):
        commands.ask(("squeue-of-nowhere",))


def test_an_answer_that_never_comes_is_given_up() -> None:
    commands = Commands(timeout_s=0.2)
    with pytest.raises(Unreachable, match="no answer within"):
        commands.ask((sys.executable, "-c", "import select; select.select([], [], [])"))


def test_a_recording_has_every_answer_and_every_error(tmp_path: Path) -> None:
    commands, _ = transport(back_off_s=0.0)
    recording = Recording(commands, tmp_path / "log.jsonl")
    given = [recording.ask(ECHO), recording.ask(ECHO)]
    with pytest.raises(Unreachable):
        recording.ask(FAIL)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line.pop("command") for line in lines] == [list(ECHO), list(ECHO), list(FAIL)]
    assert [Answer(**line) for line in lines[:2]] == given
    assert "no daemon" in lines[2]["error"]


def test_a_client_that_hangs_goes_with_what_it_started(tmp_path: Path) -> None:
    """A wrapper in shell, as some sites have: its child process must not be left behind."""
    note = tmp_path / "pid"
    wrapper = ("sh", "-c", f"sleep 300 & echo $! > {note}; wait")
    commands, _ = transport(timeout_s=1.0)
    with pytest.raises(Unreachable, match="no answer within 1 s"):
        commands.ask(wrapper)
    with contextlib.suppress(ProcessLookupError):  # the process has ended already, or ends when it is scheduled
        child = os.pidfd_open(int(note.read_text()))
        assert select.select([child], [], [], 60)[0], "the child lives on"
        os.close(child)


def test_lists_of_array_tasks_are_asked_for_unshortened() -> None:
    commands, _ = transport()
    assert commands.ask(("sh", "-c", "echo $SLURM_BITSTR_LEN")).text.strip() == "0"


class ByConfiguration:
    """Slurm commands that all query one cluster, whatever name batchcast was given."""

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, [("",)]

    def now(self) -> float:
        return 0.0

    def ticks(self) -> float:
        return 0.0

    def ask(self, command: Sequence[str]) -> Answer:
        self.asked.append(tuple(command))
        return Answer(f"ClusterName             = {self.name}\n", "~", 0.0)

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        return self.ask(command), ""


@pytest.mark.parametrize("question", ["ask", "attempt"])
def test_no_question_reaches_a_cluster_that_was_not_meant(question: str) -> None:
    """Regression: `collect -M beta` with alpha's clients stored alpha's jobs as beta's, and `plan` would have changed
    them."""
    clients = ByConfiguration("alpha")
    with pytest.raises(
        WrongCluster, match="the settings name cluster beta, but Slurm's clients query alpha"
    ) as refused:
        getattr(OneCluster(clients, "beta"), question)(("squeue",))
    assert "SLURM_CONF=/path/to/beta/slurm.conf" in refused.value.hint
    assert ("squeue",) not in clients.asked


def test_the_cluster_that_was_meant_is_asked_once_who_it_is() -> None:
    clients = ByConfiguration("beta")
    meant = OneCluster(clients, "Beta")
    meant.ask(("squeue",))
    meant.ask(("sacct",))
    assert clients.asked[1:] == [CONFIG, ("squeue",), ("sacct",)]


def test_no_client_inherits_the_names_of_other_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """squeue follows SLURM_CLUSTERS and sacct does not, so one store would mix the jobs of two clusters."""
    monkeypatch.setenv("SLURM_CLUSTERS", "beta")
    answer = Commands().ask(("sh", "-c", "echo [$SLURM_CLUSTERS]"))
    assert answer.text == "[]\n"
