# SPDX-License-Identifier: Apache-2.0
"""The cache folder of compiled kernels: writable, and valid for exactly this code."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from zlib import crc32

KERNELS = (  # where kernels are, and what they call; tests/unit/compiled/test_place.py finds one that is left out
    *("compiled", "schedule", "events", "grid", "predict/calibration"),
    *("predict/hazard", "predict/knn", "predict/similarity", "predict/wait"),
    *("formats/scan.py", "metrics/paired.py", "simulation/periods.py", "simulation/kernel_clock.py"),
    *("predict/runtime/minh_wolters.py", "predict/runtime/smith_templates.py", "trace/csv_lines.py"),
)
LEARNED = (
    "cluster",
    "compiled",
    "columns.py",
    "events",
    "job.py",
    "predict",
    "schedule",
    "table",
)  # what a fitted predictor is of


@cache
def kernel_folder() -> str:
    """The folder of the kernels, made where it is missing; empty where none can be written.

    It lies in XDG_CACHE_HOME/batchcast or ~/.cache/batchcast, else in the temporary folder, where nobody else can
    write. About two milliseconds, once a process.
    """
    name = f"kernels-{fingerprint():08x}"
    for home in (cache_home, _private_home):
        try:
            folder = home() / name
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # no home directory, no temporary folder
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return ""


def cache_home() -> Path:
    """XDG_CACHE_HOME/batchcast, else ~/.cache/batchcast."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "batchcast"


def _private_home() -> Path:
    """A directory in the temporary folder that nobody else can write to: what lies in it is run."""
    place = Path(tempfile.gettempdir()) / f"batchcast-{os.getuid()}"
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        there = place.lstat()
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid() or there.st_mode & 0o022:
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
