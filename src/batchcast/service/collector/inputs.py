# SPDX-License-Identifier: Apache-2.0
"""Reads the input files of new jobs in a separate process, below the directories that the operator lists (roots).

Users own the directories of their jobs. Users must not be able to make the collector read another user's file, block,
or run out of memory. So each directory is opened below its root without following a link, and only regular files of the
job's owner are read, at most 64 MiB each. The reading process has limits on memory and time and can be killed; the
collector accepts only short names with numbers and short texts from it. If the collector runs as root, the reading
process runs as the job's owner, because root cannot read users' files on NFS with root squash. If the collector does
not run as root, the reading process runs as the collector's user.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...errors import InputError, UsageError
from ...processes import child_command, module_path
from ...trace.input_files import (
    NO_DIRECTORY,
    STATUS,
    UNREADABLE,
    checked_features,
    features_at_submission,
    folder_below,
)

MOST_JOBS = 500
"""Largest number of directories that one cycle reads."""
MOST_S = 15.0
"""Time limit for the directories of one cycle, in seconds."""
STARTS_S = 10.0
"""Seconds in which the reading process must have loaded its modules and be ready."""
MOST_BYTES = 1 << 30
"""Memory limit of the reading process, in bytes."""
MOST_LINE = 64 << 10
"""Largest answer about one directory, in bytes."""
PAUSE_S = 3600.0
"""A user whose directory took too long is skipped for this many seconds."""
TOO_SLOW, NOT_IN_TIME, UNKNOWN_USER = "took too long", "not read in time", "unknown user"


class Place(NamedTuple):
    """A directory to read: the job's owner, the directory, the root above it, and the job's submit time."""

    user: str
    work_dir: str
    root: str
    submit_time: float


OwnedPlace = tuple[Place, pwd.struct_passwd]
Features = dict[str, float | str]


def roots_of(text: str) -> tuple[str, ...]:
    """Return the directories in the setting `input_roots`; UsageError for `/`, and for a path that is not absolute.

    >>> roots_of("/home, /scratch/")
    ('/home', '/scratch')
    """
    roots = tuple(os.path.normpath(word.strip()) for word in text.split(",") if word.strip())
    for root in roots:
        if not os.path.isabs(root) or root == "/":
            raise UsageError(f"input_roots: {root!r} (accepted: absolute directories below /, separated by commas)")
    return roots


def root_of(work_dir: str, roots: Sequence[str]) -> str | None:
    """Return the root that contains a directory; None if no root contains it.

    >>> root_of("/home/ada/run", ("/home",)), root_of("/homes/ada", ("/home",)), root_of("/home/../etc", ("/home",))
    ('/home', None, None)
    """
    # normpath removes `..` before the comparison; `folder_below` then refuses links.
    path = os.path.normpath(work_dir)
    return next((root for root in roots if os.path.isabs(path) and path.startswith(f"{root}/")), None)


class InputReader:
    """Reads directories for the collector, and skips users whose directories took too long."""

    def __init__(self, roots: Sequence[str], seconds: float) -> None:
        self.roots, self.seconds = tuple(roots), seconds
        self._slow: dict[str, float] = {}
        self._left: list[subprocess.Popen[bytes]] = []

    def read(self, jobs: Sequence[tuple[int, str, str, float]]) -> dict[int, Features]:
        """Return the features of jobs by row. A job is given as row, user, working directory and submit time.

        A job whose directory is not below a root is left out. For every other job, the feature `input_files` tells
        whether the files were read.
        """
        self._left = [one for one in self._left if one.poll() is None]
        rows: dict[Place, list[int]] = {}
        for row, user, work_dir, submit_time in jobs:
            if (root := root_of(work_dir, self.roots)) is not None:
                rows.setdefault(Place(user, work_dir, root, submit_time), []).append(row)
        answers: dict[Place, Features] = {place: {STATUS: NOT_IN_TIME} for place in rows}
        end, places = time.monotonic() + MOST_S, list(rows)[:MOST_JOBS]
        owners: Iterable[str | None] = dict.fromkeys(one.user for one in places) if os.geteuid() == 0 else (None,)
        for owner in owners:
            # a process that is blocked in a file system cannot be ended, so no second process is started
            if not self._left:
                self._read_group([place for place in places if owner in (None, place.user)], answers, end)
        return {row: answers[place] for place, of_place in rows.items() for row in of_place}

    def _read_group(self, places: list[Place], answers: dict[Place, Features], end: float) -> None:
        """Read directories that one process may read. If a directory takes too long, a new process reads the remaining
        directories.
        """
        accounts: dict[str, pwd.struct_passwd] = {}
        for user in {place.user for place in places}:
            with suppress(KeyError):  # there is no such user on this host
                accounts[user] = pwd.getpwnam(user)
        answers |= {place: {STATUS: UNKNOWN_USER} for place in places if place.user not in accounts}
        waiting = [(place, accounts[place.user]) for place in places if place.user in accounts]
        while waiting and (now := time.monotonic()) < end:
            waiting = [one for one in waiting if self._slow.get(one[0].user, now) <= now]
            done = self._ask(waiting, answers, end) if waiting else 0
            if done < len(waiting):
                late, _ = waiting[done]
                answers[late] = {STATUS: TOO_SLOW}
                self._slow[late.user] = time.monotonic() + PAUSE_S
            waiting = waiting[done + 1 :]

    def _ask(self, places: Sequence[OwnedPlace], answers: dict[Place, Features], end: float) -> int:
        """Return how many directories a new process has read before a directory took too long or ended the process."""
        try:
            child = _started(places[0][1] if os.geteuid() == 0 else None)
        except OSError:  # there is no memory for a process, or no right to run as this user
            return len(places)
        assert child.stdin is not None
        assert child.stdout is not None
        done, buffer = 0, bytearray()
        try:
            if _line(child.stdout.fileno(), buffer, STARTS_S) != b"ready":
                return len(places)
            for done, (place, account) in enumerate(places):
                question = [place.root, place.work_dir, account.pw_uid, place.submit_time]
                os.write(child.stdin.fileno(), json.dumps(question).encode() + b"\n")
                line = _line(child.stdout.fileno(), buffer, min(self.seconds, end - time.monotonic()))
                if line is None:
                    return done
                answers[place] = _answer(line)
            return len(places)
        except OSError:  # the process has ended, for example because it needed too much memory
            return done
        finally:
            child.kill()
            child.stdin.close()
            child.stdout.close()
            try:
                child.wait(1.0)
            except subprocess.TimeoutExpired:
                self._left.append(child)


def _answer(line: bytes) -> Features:
    """Return the features of input files in an answer of the reading process. A damaged answer, which a user's process
    may send, counts as unreadable.
    """
    try:
        return checked_features(json.loads(line))
    except (ValueError, RecursionError, InputError):
        return {STATUS: UNREADABLE}


def _line(descriptor: int, buffer: bytearray, seconds: float) -> bytes | None:
    """Return the next line from a process; None if it comes too late, is too long, or the process has ended."""
    end = time.monotonic() + seconds
    while b"\n" not in buffer:
        left = end - time.monotonic()
        if left <= 0 or len(buffer) > MOST_LINE or not select.select([descriptor], [], [], left)[0]:
            return None
        data = os.read(descriptor, MOST_LINE)
        if not data:
            return None
        buffer += data
    line, _, rest = bytes(buffer).partition(b"\n")
    buffer[:] = rest
    return line


def _started(account: pwd.struct_passwd | None) -> subprocess.Popen[bytes]:
    """Start the reading process. If an account is given, it will run as this user. The environment of the process
    contains no secret.
    """
    # OpenBLAS reserves memory for each thread, which would count against the memory limit.
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": module_path(), "OPENBLAS_NUM_THREADS": "1"}
    groups = None if account is None else os.getgrouplist(account.pw_name, account.pw_gid)
    identity = None if account is None else (account.pw_uid, account.pw_gid, groups)
    return subprocess.Popen(
        child_command("-c", f"from {__name__} import work; work({identity!r})"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd="/",
        start_new_session=True,
    )  # fmt: skip


def work(identity: tuple[int, int, list[int]] | None) -> None:
    """Read one directory after another and print the features. This function runs in the reading process.

    The process switches to the user only after its modules are loaded, because users may have no right to read them.
    The user cannot trace a process that gave up root in this way.
    """
    from ...trace.input_files import readers

    readers()
    if identity is not None:
        user, group, groups = identity
        # Groups come first: without root, the process may not change them.
        os.setgroups(groups)
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    # A core file would contain the content of users' files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a print by a reader must not be mixed into the answers
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(_read(*json.loads(line))), file=out, flush=True)


def _read(root: str, work_dir: str, owner: int, submit_time: float) -> Features:
    """Return the features of one directory, or a status that says why it could not be read."""
    try:
        with folder_below(root, work_dir, owner) as folder:
            return features_at_submission(folder, submit_time)
    except InputError:
        return {STATUS: NO_DIRECTORY}
    except Exception:  # a reader of another package failed, or memory ran out
        return {STATUS: UNREADABLE}
