"""Where the compiled kernels of this installation are kept: a folder that can be written and knows this very code."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from zlib import crc32

ROOMS = ("compiled", "formats", "schedule", "events", "grid", "predict", "trace")  # kernels, and what they call


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


def fingerprint() -> int:
    """A number for the state of every module that holds kernels, the interpreter included."""
    root = Path(__file__).parent.parent
    state = [f"{sys.version} {root}"]
    for folder in sorted(f for room in ROOMS for f in (root / room, *(root / room).glob("*/"))):
        if folder.is_dir() and folder.name != "__pycache__":
            with os.scandir(folder) as entries:
                files = [(e.name, e.stat()) for e in entries if e.name.endswith(".py")]
            state += [f"{name} {stat.st_mtime_ns} {stat.st_size}" for name, stat in sorted(files)]
    return crc32("\n".join(state).encode())
