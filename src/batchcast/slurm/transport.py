# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a batch system, with time limits, back-off after failures, minimum intervals and counters.

`Commands` runs programs, and `Recording` writes the answers of another transport to a file. All other modules can run
without a batch system, with a transport that returns given answers.

Queries to squeue and sacct have secret separators, so that users cannot forge answers by texts in their jobs. Other
users can read a running program's arguments in /proc, but not its environment. squeue reads the names of its columns,
with a secret mark after each, from the variable SQUEUE_FORMAT2. sacct takes its delimiter only as an argument, so a
user could copy it into a job's text while sacct runs. But sacct reads the format of times from the variable
SLURM_TIME_FORMAT. So each record is requested between two times that end in a secret seal, and a record with a wrong
number of columns is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from ..errors import BatchcastError, InputError, Unreachable, WrongCluster
from ..formats.slurm.scontrol import parse_config

_Job = TypeVar("_Job")
MARK = "{mark}"
DAEMONS = {
    "sdiag": "slurmctld's statistics",
    **dict.fromkeys(("sacct", "sacctmgr"), "slurmdbd"),
    **dict.fromkeys(("qstat", "tracejob"), "pbs_server"),
}
"""The daemon that a program calls; programs that are not listed call slurmctld. sdiag has its own entry, so that squeue
still runs after sdiag was refused.
"""
_LEFT_OUT = (
    "SQUEUE_FORMAT", "SQUEUE_FORMAT2", "SACCT_FORMAT", "SQUEUE_STATES", "SQUEUE_SORT", "SQUEUE_USERS", "SLURM_CLUSTERS"
)  # fmt: skip
"""Environment variables that are removed for Slurm's clients. squeue, sinfo and scontrol follow SLURM_CLUSTERS but
sacct does not, so that answers of two clusters would be mixed.
"""


class Answer(NamedTuple):
    """The output of a command, the mark that replaced `{mark}` in its arguments, and when it ran (epoch, s).

    `refused` counts records that were left out because a text of their job contains the mark.
    """

    text: str
    mark: str
    asked_at: float
    refused: int = 0


class Transport(Protocol):
    """An object that runs the commands of a batch system."""

    def ask(self, command: Sequence[str]) -> Answer:
        """Return the answer to a command; Unreachable if there is no answer."""

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        """Run a command that may be refused. Return the answer and the error message. A refused command is no failure
        of the daemon.
        """

    def now(self) -> float:
        """Seconds since the epoch."""

    def ticks(self) -> float:
        """Seconds of a monotonic clock."""


@dataclass(slots=True)
class Counter:
    """Counts the calls to one daemon. `away_since` is when the daemon stopped answering (0: it answers)."""

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

    Two calls to one daemon start at least `floor_s` apart. After a failure, `ask` raises Unreachable without a call for
    `back_off_s`; this pause doubles at every further failure, up to `longest_back_off_s`. Each call ends within
    `timeout_s`. All times are in seconds. Tests pass `sleep` and `now`.
    """

    timeout_s: float = 30.0
    floor_s: float = 1.0
    back_off_s: float = 15.0
    longest_back_off_s: float = 600.0
    environment: Mapping[str, str] = field(default_factory=dict)
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.time
    ticks: Callable[[], float] = time.monotonic
    counters: dict[str, Counter] = field(default_factory=dict)

    def ask(self, command: Sequence[str]) -> Answer:
        """Run the command with a new mark; Unreachable if it fails, is missing, or its daemon is in back-off."""
        return self._call(command)[0]

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        """Run a command that may be refused. Return its answer, and its error message if the exit code is not 0."""
        return self._call(command, may_be_refused=True)

    def _call(self, command: Sequence[str], may_be_refused: bool = False) -> tuple[Answer, str]:
        """Run a command unless its daemon is in back-off, and count the call; return answer and error message."""
        daemon = DAEMONS.get(Path(command[0]).name, "slurmctld")
        counter = self.counters.setdefault(daemon, Counter())
        now = self.now()
        if now < counter.not_before:
            left = counter.not_before - now
            raise Unreachable(f"{daemon} does not answer ({counter.last_error}); asked again in {left:.0f} s")
        if counter.calls and now < counter.last_call + self.floor_s:
            self.sleep(counter.last_call + self.floor_s - now)
        mark = f"~{secrets.token_hex(8)}~"
        asked_at = counter.last_call = self.now()
        counter.calls += 1
        try:
            question = sealed(command, MARK, mark)
            text, complaint = self._run(question.argv, question.environment, may_be_refused)
        except Unreachable as error:
            counter.failures += 1
            counter.in_a_row += 1
            counter.last_error = error.message
            counter.away_since = counter.away_since or asked_at
            pause = min(self.longest_back_off_s, self.back_off_s * 2 ** (counter.in_a_row - 1))
            counter.not_before = self.now() + pause
            raise
        finally:
            took = max(0.0, self.now() - asked_at)
            counter.seconds += took
            counter.longest_s = max(counter.longest_s, took)
        counter.in_a_row, counter.away_since, counter.not_before = 0, 0.0, 0.0
        text, refused = opened(text, mark, question)
        return Answer(text, mark, asked_at, refused), complaint

    def _run(self, argv: Sequence[str], hidden: dict[str, str], may_be_refused: bool) -> tuple[str, str]:
        """Run a program in its own session; return its output, and the error message if its exit code is not 0. If the
        program hangs, kill its process group.
        """
        environment = {**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8", **self.environment}
        environment["SLURM_BITSTR_LEN"] = "0"  # without this, sacct shortens lists of array tasks
        environment = {name: value for name, value in environment.items() if name not in _LEFT_OUT} | hidden
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            with subprocess.Popen(
                argv, env=environment, stdin=nothing, stdout=pipe, stderr=pipe, start_new_session=True
            ) as process:
                try:
                    out, complaint = process.communicate(timeout=self.timeout_s)
                except BaseException:  # the program hangs, or this process was interrupted
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    raise
        except FileNotFoundError:
            hint = "run this on a machine with the batch system's clients"
            raise Unreachable(f"{argv[0]} is not installed on this machine", hint=hint) from None
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{argv[0]} gave no answer within {self.timeout_s:g} s") from None
        except OSError as error:
            raise Unreachable(f"{argv[0]} cannot be run: {error}") from None
        why = complaint.decode(errors="replace").strip().splitlines() or ["no message"]
        words = f"{argv[0]}: exit {process.returncode}: {why[-1]}" if process.returncode else ""
        if words and not may_be_refused:
            raise Unreachable(words)
        return out.decode(errors="replace"), words

    def health(self) -> dict[str, dict[str, float | str]]:
        """Return the counters of each daemon as plain numbers."""
        return {name: asdict(counter) for name, counter in self.counters.items()}


CONFIG = ("scontrol", "show", "config")
PARTITIONS = ("scontrol", "--oneliner", "show", "partition")
RESERVATIONS = ("scontrol", "--oneliner", "show", "reservation")


class _Wrapping:
    """A transport that has the clocks of the transport `inner`."""

    def __init__(self, inner: Transport) -> None:
        self.inner, self.now, self.ticks = inner, inner.now, inner.ticks


class OneCluster(_Wrapping):
    """Passes queries on to another transport, after a check that Slurm's clients query the named cluster.

    Slurm's clients use the cluster of their slurm.conf, whatever cluster batchcast's settings name. Without this check,
    jobs of one cluster would be stored, shown or changed as jobs of another cluster.

    >>> from types import SimpleNamespace
    >>> alpha = SimpleNamespace(ask=lambda _: Answer("ClusterName = alpha", "~", 0.0), now=time.time, ticks=time.time)
    >>> OneCluster(alpha, "beta").ask(("squeue",))
    Traceback (most recent call last):
    batchcast.errors.WrongCluster: the settings name cluster beta, but Slurm's clients query alpha (ClusterName ...
    """

    def __init__(self, inner: Transport, name: str) -> None:
        super().__init__(inner)
        self.name = name

    def ask(self, command: Sequence[str]) -> Answer:
        """Return the answer of the wrapped transport; WrongCluster if another cluster answers."""
        return self._checked.ask(command)

    def attempt(self, command: Sequence[str]) -> tuple[Answer, str]:
        """Check that the named cluster answers, then run a command that may be refused."""
        return self._checked.attempt(command)

    @cached_property
    def _checked(self) -> Transport:
        """The wrapped transport, after one query; WrongCluster if Slurm's clients query another cluster."""
        answered_by = parse_config(self.inner.ask(CONFIG).text).get("ClusterName", "")
        if answered_by.lower() != self.name.lower():  # slurmdbd stores the names of clusters in lower case
            raise wrong_cluster(self.name, answered_by)
        return self.inner


def wrong_cluster(configured: str, answered_by: str) -> WrongCluster:
    """Return the error for an answer from another cluster than the cluster in the settings.

    >>> print(wrong_cluster("beta", "alpha").hint)
    SLURM_CONF=/path/to/beta/slurm.conf queries beta; without -M and SLURM_CLUSTERS, batchcast uses alpha
    """
    return WrongCluster(
        f"the settings name cluster {configured}, but Slurm's clients query {answered_by} (ClusterName in scontrol "
        "show config)",
        hint=f"SLURM_CONF=/path/to/{configured}/slurm.conf queries {configured}; without -M and SLURM_CLUSTERS, "
        f"batchcast uses {answered_by}",
    )


class Recording(_Wrapping):
    """Passes every query on to another transport, and writes query and answer to a file, one JSON object per line."""

    def __init__(self, inner: Transport, path: str | Path) -> None:
        super().__init__(inner)
        self.path = Path(path)
        self._write("")

    def ask(self, command: Sequence[str]) -> Answer:
        """Return the answer of the wrapped transport, and write it to the file."""
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
        """Pass a command that may be refused to the wrapped transport. The file records only that the command ran."""
        self._write(json.dumps({"command": list(command), "asked_at": self.inner.now(), "error": "attempted"}) + "\n")
        return self.inner.attempt(command)

    def _write(self, text: str) -> None:
        """Append a text to the recording; InputError if the file cannot be written."""
        try:
            with self.path.open("a", encoding="utf-8") as out:
                out.write(text)
        except OSError as error:
            raise InputError(f"{self.path}: the recording cannot be written: {error.strerror}") from None


def readable(records: Iterable[Any], read: Callable[[Any], Iterable[_Job]]) -> tuple[list[_Job], int]:
    """Return the jobs of all records that can be read, and the number of broken records."""
    jobs: list[_Job] = []
    bad = 0
    for record in records:
        try:
            jobs.extend(read(record))
        except (BatchcastError, KeyError, ValueError):
            bad += 1
    return jobs, bad


SEAL_BYTES = 6
"""Number of random bytes of a seal, which has 8 characters. sacct prints at most 19 characters of a time, and the
seconds since 1970 take 10 of them.
"""
_SEALED = "Submit"
"""The column at the beginning and at the end of a record, because every job and every step has a submit time."""


class Question(NamedTuple):
    """A command to run: arguments, secret environment variables, and the seal of its records (empty: no seal)."""

    argv: list[str]
    environment: dict[str, str]
    seal: str


def sealed(command: Sequence[str], placeholder: str, mark: str) -> Question:
    """Return the command with a secret mark in place of `{mark}`, and the secret environment variables.

    >>> sealed(["squeue", "--Format=JobID:@"], "@", "~1~")
    Question(argv=['squeue'], environment={'SQUEUE_FORMAT2': 'JobID:~1~'}, seal='')
    """
    argv, environment, seal = [], {}, ""
    program = Path(command[0]).name
    if program == "sacct" and f"--delimiter={placeholder}" in command:
        seal = secrets.token_urlsafe(SEAL_BYTES)
        environment["SLURM_TIME_FORMAT"] = f"%s{seal}"
    for word in command:
        name, _, value = word.partition("=")
        if program == "squeue" and name == "--Format":
            environment["SQUEUE_FORMAT2"] = value.replace(placeholder, mark)
        elif seal and name == "--format":
            argv.append(f"--format={_SEALED},{value},{_SEALED}")
        else:
            argv.append(word.replace(placeholder, mark))
    return Question(argv, environment, seal)


def opened(text: str, mark: str, question: Question) -> tuple[str, int]:
    """Return the records of a sealed answer in the requested form, and the number of refused records.

    A record is refused if its number of values differs from the number of columns, because then a text of the job
    contains the mark. If an answer has no seal, every mark is removed, so that a text of a job cannot pass as a record.

    >>> question = Question(["--format=Submit,JobID,JobName,Submit"], {}, "s")
    >>> opened("5s@1@x@5s@\\n6s@2@y@9@\\n9@z@6s@\\n7s@3@z@7s@\\n", "@", question)
    ('1@x@\\n3@z@\\n', 1)
    """
    if not question.seal:
        return text, 0
    end = re.escape(question.seal + mark)
    columns = next(word.count(",") + 1 for word in question.argv if word.startswith("--format="))
    rows = re.split(rf"(?<={end})\n(?=\d+{end})", text.removesuffix("\n"))
    begin = re.search(rf"(?:\A|\n)(?=\d+{end})", rows[0])  # warnings may come before the first record
    if begin is None:
        return text.replace(mark, " "), 0
    rows[0] = rows[0][begin.end() :]
    good = []
    for row in rows:
        values = row.split(mark)
        if len(values) == columns + 1 and values[-1] == "" and values[-2].endswith(question.seal):
            plain = (value.removesuffix(question.seal) for value in values[1:-2])
            good.append("".join(f"{value}{mark}" for value in plain) + "\n")
    return "".join(good), len(rows) - len(good)
