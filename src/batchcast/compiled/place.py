# SPDX-License-Identifier: Apache-2.0
"""The cache folder of compiled kernels: writable, and valid for exactly this code."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from zlib import crc32

KERNELS = (  # where kernels are, and what they call; tests/unit/compiled/test_place.py finds one that is left out
    *("compiled", "schedule", "events", "machines/loops", "predict/calibration"),
    *("predict/hazard", "predict/similarity", "predict/wait"),
    *("formats/scan.py", "metrics/paired.py", "simulation/periods.py", "simulation/kernel_clock.py"),
    *("trace/csv_lines.py", "papers/grid", "papers/online_knn_ga", "papers/quick_starters"),
)
OURS = "batchcast"
UNMAPPED = 65534  # who owns the folders of the machine, seen from a container
LEARNED = (
    "compiled",
    "columns.py",
    "events",
    "job.py",
    "machines/loops",
    "machines/machine.py",
    "machines/request.py",
    "papers",
    "predict",
    "schedule",
    "table",
)  # what a fitted predictor is of


@cache
def kernel_folder() -> str:
    """The folder of the kernels, made where it is missing; empty where none can be written.

    What lies in it is run. So it is chosen by the environment alone (NUMBA_CACHE_DIR, else XDG_CACHE_HOME/batchcast or
    ~/.cache/batchcast), never by a file in the working directory, and it counts only if nobody else can write to it or
    put another folder in its place. Else it lies in the temporary folder. About two milliseconds, once a process.
    """
    name = f"kernels-{fingerprint():08x}"
    named = os.environ.get("NUMBA_CACHE_DIR")
    homes: list[Callable[[], Path]] = [cache_home, _private_home]
    for home in [lambda: Path(str(named)), *homes] if named else homes:
        try:
            folder = Path(os.path.realpath(home() / name))
            if _leads_through_another_user(folder):  # as under `sudo` with a user's HOME: leave nothing of root's there
                continue
            _make_closed(folder)
            if os.access(folder, os.W_OK) and _is_closed(folder) and _is_reached_safely(folder):
                return str(folder)
        except (OSError, RuntimeError):  # no home directory, no temporary folder
            continue
    return ""


def _make_closed(folder: Path) -> None:
    """Make the folder for this user alone, whatever the umask; those made on the way are closed to others' writing."""
    above = folder.parent
    for way in reversed([above, *above.parents]):
        way.mkdir(mode=0o755, exist_ok=True)  # one at a time: `parents` would leave what the umask leaves
    if above.name == OURS and above.stat().st_uid == os.geteuid() and above.stat().st_mode & 0o022:
        above.chmod(0o755)  # under a umask of 002 it was made for a group
    folder.mkdir(mode=0o700, exist_ok=True)


def _is_closed(folder: Path) -> bool:
    """Whether a folder is this user's own and nobody else gets into it: numba makes folders in it under any umask."""
    there = folder.lstat()
    return stat.S_ISDIR(there.st_mode) and there.st_uid == os.geteuid() and not there.st_mode & 0o077


def _leads_through_another_user(folder: Path) -> bool:
    """Whether a folder on the way that is there already belongs to neither this user nor root."""
    return any(way.stat().st_uid not in (0, os.geteuid(), UNMAPPED) for way in folder.parents if way.exists())


def _is_reached_safely(folder: Path) -> bool:
    """Whether only this user and root can put another folder in the place of one on the way to it, as sshd asks.

    In a folder that others can write to, the sticky bit keeps them from moving what is not theirs. Into one that is
    closed to others they do not get at all, whatever lies below it.
    """
    is_safe = True
    for way in (parent.stat() for parent in folder.parents):
        if way.st_uid not in (0, os.geteuid(), UNMAPPED):
            return False
        if not way.st_mode & 0o011:
            is_safe = True
        elif way.st_mode & 0o022 and not way.st_mode & stat.S_ISVTX:
            is_safe = False
    return is_safe


def cache_home() -> Path:
    """XDG_CACHE_HOME/batchcast, else ~/.cache/batchcast."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / OURS


def _private_home() -> Path:
    """A directory in the temporary folder that nobody else can write to: what lies in it is run."""
    place = Path(tempfile.gettempdir()) / f"batchcast-{os.geteuid()}"
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_closed(place):
            return Path(tempfile.mkdtemp(prefix="batchcast-"))
    return place


def fingerprint(rooms: tuple[str, ...] = KERNELS) -> int:
    """A number for the state of the modules of `rooms`, by default all that hold kernels, the interpreter included.

    A room is a folder with what lies in it, two deep, or one file. What is edited elsewhere leaves kernels compiled.
    """
    root = Path(__file__).parent.parent
    state = [f"{sys.version} {root}"]
    for room in sorted(path for name in rooms for path in (root / name, *(root / name).glob("*/"))):
        if room.is_file():
            state.append(_state(room.name, room.stat()))
        elif room.is_dir() and room.name != "__pycache__":
            with os.scandir(room) as entries:
                state += sorted(_state(e.name, e.stat()) for e in entries if e.name.endswith(".py"))
    return crc32("\n".join(state).encode())


def _state(name: str, entry: os.stat_result) -> str:
    return f"{name} {entry.st_mtime_ns} {entry.st_size}"
