# SPDX-License-Identifier: Apache-2.0
"""The one connection to a batch system: `ask` runs a command; time-outs, back-off, minimum intervals, counters.

`Commands` runs programs, `Recording` writes down the answers of another transport, and `Recorded` replays them, so that
everything above also runs without a batch system.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypedDict

from ..errors import InputError, Unreachable, WrongCluster
from ..formats.slurm.scontrol import parse_config
from .sealed import opened, sealed

MARK = "{mark}"
DAEMONS = {
    "sdiag": "slurmctld's statistics",
    "sacct": "slurmdbd",
    "sacctmgr": "slurmdbd",
    "qstat": "pbs_server",
    "tracejob": "pbs_server",
}
"""Which daemon a program calls; all others call slurmctld. If sdiag is refused, the queue is queried nevertheless."""
_LEFT_OUT = (
    "SQUEUE_FORMAT", "SQUEUE_FORMAT2", "SACCT_FORMAT", "SQUEUE_STATES", "SQUEUE_SORT", "SQUEUE_USERS", "SLURM_CLUSTERS"
)  # fmt: skip
"""Variables that no client of Slurm inherits. squeue, sinfo and scontrol follow SLURM_CLUSTERS, sacct does not, so one
answer would mix two clusters.
"""


class Answer(NamedTuple):
    """A command's output, the mark in place of `{mark}`, and when it was run (epoch, s).

    `refused` counts records that were left out because a text of their job has the mark.
    """

    text: str
    mark: str
    asked_at: float
    refused: int = 0


class Transport(Protocol):
    """An object that answers commands."""

    def ask(self, command: Sequence[str]) -> Answer:
        """Return the answer; Unreachable if there is none."""

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        """Return answer and complaint of a command that may be refused, which does not count against its daemon."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def ticks(self) -> float:
        """Seconds of a monotonic clock."""


@dataclass(slots=True)
class Counter:
    """Calls to one daemon and its state: `away_since` is when it stopped answering (0: it answers)."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0
    away_since: float = 0.0
    last_error: str = ""
    in_a_row: int = 0
    not_before: float = 0.0
    last_call: float = 0.0


@dataclass(slots=True)
class Commands:
    """Runs a batch system's own clients, with limits on the load.

    Two calls to one daemon start at least `floor_s` apart. After a failure there is no call for `back_off_s`, doubled
    at every further failure up to `longest_back_off_s`; until then `ask` raises Unreachable. Each call ends within
    `timeout_s`. Times are seconds; tests pass `sleep` and `clock`.
    """

    timeout_s: float = 30.0
    floor_s: float = 1.0
    back_off_s: float = 15.0
    longest_back_off_s: float = 600.0
    environment: Mapping[str, str] = field(default_factory=dict)
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    counters: dict[str, Counter] = field(default_factory=dict)

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.clock()

    def ticks(self) -> float:
        """The machine's monotonic clock."""
        return self.monotonic()

    def ask(self, command: Sequence[str]) -> Answer:
        """Run the command with a new mark; Unreachable if it fails, is missing, or its daemon is in back-off."""
        return self._call(command)[0]

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        """Run a command that may be refused: its answer, and its complaint if the exit code is not 0."""
        return self._call(command, may_be_refused=True)

    def _call(self, command: Sequence[str], may_be_refused: bool = False) -> tuple[Answer, str]:
        daemon = DAEMONS.get(Path(command[0]).name, "slurmctld")
        counter = self.counters.setdefault(daemon, Counter())
        now = self.clock()
        if now < counter.not_before:
            raise Unreachable(
                f"{daemon} does not answer ({counter.last_error}); asked again in {counter.not_before - now:.0f} s"
            )
        if counter.calls and now < counter.last_call + self.floor_s:
            self.sleep(counter.last_call + self.floor_s - now)
        mark = f"~{secrets.token_hex(8)}~"
        asked_at = self.clock()
        counter.last_call = asked_at
        counter.calls += 1
        try:
            question = sealed(command, MARK, mark)
            text, complaint = self._run(question.argv, question.environment, may_be_refused)
        except Unreachable as error:
            self._failed(counter, error)
            raise
        finally:
            took = max(0.0, self.clock() - asked_at)
            counter.seconds += took
            counter.longest_s = max(counter.longest_s, took)
        counter.in_a_row, counter.away_since, counter.not_before = 0, 0.0, 0.0
        text, refused = opened(text, mark, question)
        return Answer(text, mark, asked_at, refused), complaint

    def _run(self, argv: Sequence[str], hidden: Mapping[str, str], may_be_refused: bool) -> tuple[str, str]:
        environment = {**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8", **self.environment}
        environment["SLURM_BITSTR_LEN"] = "0"  # otherwise sacct shortens lists of array tasks
        for name in _LEFT_OUT:
            environment.pop(name, None)
        environment |= hidden
        try:
            code, out, complaint = _run_whole(argv, environment, self.timeout_s)
        except FileNotFoundError:
            raise Unreachable(
                f"{argv[0]} is not installed on this machine",
                hint="run this on a machine with the batch system's clients",
            ) from None
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{argv[0]} gave no answer within {self.timeout_s:g} s") from None
        except OSError as error:
            raise Unreachable(f"{argv[0]} cannot be run: {error}") from None
        why = complaint.decode(errors="replace").strip().splitlines() if code else []
        words = f"{argv[0]}: exit {code}: {why[-1] if why else 'no message'}" if code else ""
        if code and not may_be_refused:
            raise Unreachable(words)
        return out.decode(errors="replace"), words

    def _failed(self, counter: Counter, error: Unreachable) -> None:
        counter.failures += 1
        counter.in_a_row += 1
        counter.last_error = error.message
        counter.away_since = counter.away_since or counter.last_call
        wait = min(self.longest_back_off_s, self.back_off_s * 2 ** (counter.in_a_row - 1))
        counter.not_before = self.clock() + wait

    def health(self) -> dict[str, dict[str, float | str]]:
        """The counters by daemon, as plain numbers."""
        return {name: asdict(counter) for name, counter in self.counters.items()}


def _run_whole(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> tuple[int, bytes, bytes]:
    """Return exit code, stdout and stderr of a program in its own session; if it hangs, kill its group."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        try:
            out, complaint = process.communicate(timeout=timeout_s)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, out, complaint


CONFIG = ("scontrol", "show", "config")


class OneCluster:
    """Passes queries on if Slurm's clients use this cluster, which the first query checks.

    Slurm's clients use the cluster of their slurm.conf, whatever name batchcast was given. Without this check, jobs of
    one cluster would be stored, shown or changed as jobs of another.

    Examples
    --------
    >>> line = {"command": CONFIG, "asked_at": 0.0, "text": "ClusterName = alpha", "mark": "~"}
    >>> OneCluster(Recorded([line]), "beta").ask(("squeue",))
    Traceback (most recent call last):
    batchcast.errors.WrongCluster: the settings name cluster beta, but its clients ask alpha (ClusterName ...
    """

    def __init__(self, inner: Transport, name: str) -> None:
        self.inner, self.name, self._is_checked = inner, name, False

    def now(self) -> float:
        """The inner transport's clock."""
        return self.inner.now()

    def ticks(self) -> float:
        """The inner transport's monotonic clock."""
        return self.inner.ticks()

    def ask(self, command: Sequence[str]) -> Answer:
        """The inner transport's answer; WrongCluster if another cluster answers."""
        self._check()
        return self.inner.ask(command)

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        """Run a command that may be refused."""
        self._check()
        return self.inner.attempt(command)

    def _check(self) -> None:
        if self._is_checked:
            return
        answered_by = parse_config(self.inner.ask(CONFIG).text).get("ClusterName", "")
        if answered_by.lower() != self.name.lower():  # slurmdbd stores names of clusters in lower case
            raise wrong_cluster(self.name, answered_by)
        self._is_checked = True


def wrong_cluster(meant: str, answered_by: str) -> WrongCluster:
    """Return the error for a cluster that answers in place of another.

    >>> print(wrong_cluster("beta", "alpha").hint)
    SLURM_CONF=/path/to/beta/slurm.conf asks beta; without -M and SLURM_CLUSTERS, alpha is meant
    """
    return WrongCluster(
        f"the settings name cluster {meant}, but its clients ask {answered_by} (ClusterName in scontrol show config)",
        hint=f"SLURM_CONF=/path/to/{meant}/slurm.conf asks {meant}; without -M and SLURM_CLUSTERS, {answered_by} is "
        "meant",
    )


class Recording:
    """Passes every query on, and writes query and answer down as one JSON object per line."""

    def __init__(self, inner: Transport, path: str | Path) -> None:
        self.inner, self.path = inner, Path(path)
        self._write("")

    def now(self) -> float:
        """The inner transport's clock."""
        return self.inner.now()

    def ticks(self) -> float:
        """The inner transport's monotonic clock."""
        return self.inner.ticks()

    def ask(self, command: Sequence[str]) -> Answer:
        """The inner transport's answer."""
        line: dict[str, object] = {"command": list(command)}
        try:
            answer = self.inner.ask(command)
            line |= answer._asdict()
            return answer
        except Unreachable as error:
            line |= {"error": error.message, "asked_at": self.inner.now()}
            raise
        finally:
            self._write(json.dumps(line, ensure_ascii=False) + "\n")

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        """Pass the command on; only the fact that it ran is written down."""
        self._write(json.dumps({"command": list(command), "asked_at": self.inner.now(), "error": "attempted"}) + "\n")
        return self.inner.attempt(command)

    def _write(self, text: str) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as out:
                out.write(text)
        except OSError as error:
            raise InputError(f"{self.path}: the recording cannot be written: {error.strerror}") from None


class Line(TypedDict, total=False):
    """A line of a recording: command, time of its answer, and the answer or why there was none."""

    command: Sequence[str]
    asked_at: float
    text: str
    mark: str
    refused: int
    error: str


class Recorded:
    """Replays recorded answers, each command's in the order of the recording, on the recorded clock.

    A command without a further recorded answer raises Unreachable: answers are never invented.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._waiting: dict[tuple[str, ...], list[Line]] = {}
        for line in lines:
            self._waiting.setdefault(tuple(line["command"]), []).append(line)
        self._now = min((float(line["asked_at"]) for line in lines), default=0.0)

    @classmethod
    def read(cls, path: str | Path) -> Recorded:
        """Read a file that `Recording` wrote."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            return cls([json.loads(line) for line in text.splitlines()])
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{path}: not a recording: {error}") from None

    def now(self) -> float:
        """When the last replayed answer was recorded."""
        return self._now

    def ticks(self) -> float:
        """Return True: the clock of a recording never changes."""
        return self._now

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        """Refuse: a recording changes nothing."""
        return Answer("", "", self._now), f"a recording runs no commands: {' '.join(command)}"

    def ask(self, command: Sequence[str]) -> Answer:
        """Return the next recorded answer to this command."""
        queue = self._waiting.get(tuple(command))
        if not queue:
            raise Unreachable(f"nothing (more) recorded for: {' '.join(command)}")
        line = queue.pop(0)
        self._now = max(self._now, float(line["asked_at"]))
        if "error" in line:
            raise Unreachable(str(line["error"]))
        return Answer(str(line["text"]), str(line["mark"]), float(line["asked_at"]), int(line.get("refused", 0)))
