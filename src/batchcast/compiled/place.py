# SPDX-License-Identifier: Apache-2.0
"""The cache folder of compiled kernels. The folder is writable, safe from other users, and used only for exactly this
version of the code."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

KERNELS = (  # all files with kernels or with code that kernels call; tests/unit/compiled/test_place.py checks the list
    *("compiled", "schedule", "events", "predict/calibration"),
    *("predict/hazard", "predict/similarity", "predict/wait"),
    *("formats/scan.py", "metrics/paired.py", "simulation/periods.py", "simulation/kernel_clock.py"),
    "broker/clock.py",
)
OURS = "batchcast"
UNMAPPED = 65534  # owner of the host's folders as seen from a container


@cache
def kernel_folder(package: str = OURS) -> str:
    """Return the folder of a package's compiled kernels, and create it if needed; empty if no folder can be written."""
    # The process executes the machine code in the folder's files. Therefore the folder's location depends only on the
    # environment (NUMBA_CACHE_DIR, else XDG_CACHE_HOME/batchcast or ~/.cache/batchcast), not on a file in the working
    # directory. The folder is used only if no other user can write to it or replace it; otherwise a private folder in
    # the temporary directory is used. The function takes about two milliseconds, once per process.
    name = f"kernels-{fingerprint(packages=() if package == OURS else (package,)):08x}"
    named = os.environ.get("NUMBA_CACHE_DIR")
    homes: list[Callable[[], Path]] = [cache_home, _private_home]
    for home in [lambda: Path(str(named)), *homes] if named else homes:
        try:
            folder = Path(os.path.realpath(home() / name))
            if _leads_through_another_user(folder):  # for example sudo with a user's HOME
                continue
            _make_closed(folder)
            if os.access(folder, os.W_OK) and _is_closed(folder) and _is_reached_safely(folder):
                return str(folder)
        except (OSError, RuntimeError):  # no home directory or no temporary folder
            continue
    return ""


def _make_closed(folder: Path) -> None:
    """Create the folder with access for this user only, under any umask; new parent folders are not writable for
    others.
    """
    above = folder.parent
    for way in reversed([above, *above.parents]):
        way.mkdir(mode=0o755, exist_ok=True)  # mkdir(parents=True) would ignore the mode for parents
    if above.name == OURS and above.stat().st_uid == os.geteuid() and above.stat().st_mode & 0o022:
        above.chmod(0o755)  # a umask of 002 has made the folder writable for the group
    folder.mkdir(mode=0o700, exist_ok=True)


def _is_closed(folder: Path) -> bool:
    """Whether a folder belongs to this user and other users cannot enter it.

    Other users must be kept out of the folder itself, because numba creates subfolders with the permissions that the
    umask gives.
    """
    there = folder.lstat()
    return stat.S_ISDIR(there.st_mode) and there.st_uid == os.geteuid() and not there.st_mode & 0o077


def _leads_through_another_user(folder: Path) -> bool:
    """Whether an existing parent folder belongs to neither this user nor root."""
    return any(way.stat().st_uid not in (0, os.geteuid(), UNMAPPED) for way in folder.parents if way.exists())


def _is_reached_safely(folder: Path) -> bool:
    """Whether only this user and root can replace a folder on the path, by the rules of sshd.

    In a folder that other users can write to, the sticky bit prevents them from moving this user's folders. Other users
    cannot change anything below a folder that they cannot enter.
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
    """Return XDG_CACHE_HOME/batchcast, else ~/.cache/batchcast."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / OURS


def _private_home() -> Path:
    """Return a directory in the temporary folder that no other user can write to, because its files are executed."""
    place = Path(tempfile.gettempdir()) / f"batchcast-{os.geteuid()}"
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_closed(place):
            return Path(tempfile.mkdtemp(prefix="batchcast-"))
    return place


def fingerprint(rooms: tuple[str, ...] = KERNELS, packages: Iterable[str] = ()) -> int:
    """Return a checksum of the interpreter's version and of the names, sizes and modification times of the files in
    `rooms` and of all files of `packages`.
    """
    # By default, all code with kernels counts. After a change of other code, no kernel is compiled again.
    root = Path(__file__).parent.parent
    state = [f"{sys.version} {root}"]
    for room in sorted(path for name in rooms for path in (root / name, *(root / name).glob("*/"))):
        if room.is_file():
            state.append(_state(room.name, room.stat()))
        elif room.is_dir() and room.name != "__pycache__":
            with os.scandir(room) as entries:
                state += sorted(_state(e.name, e.stat()) for e in entries if e.name.endswith(".py"))
    state += [_state(path.name, path.stat()) for package in sorted(packages) for path in sources_of(package)]
    return crc32("\n".join(state).encode())


def sources_of(package: str) -> list[Path]:
    """Return the Python files of an installed package, sorted; empty for a package without files, such as __main__."""
    spec = getattr(sys.modules.get(package), "__spec__", None) or (package != "__main__" and find_spec(package)) or None
    if spec is None:
        return []
    folders = spec.submodule_search_locations
    if folders is None:
        return [Path(spec.origin)] if spec.origin and spec.has_location else []
    return sorted(path for folder in folders for path in Path(folder).rglob("*.py"))


def _state(name: str, entry: os.stat_result) -> str:
    """Return name, modification time and size of a file as text."""
    return f"{name} {entry.st_mtime_ns} {entry.st_size}"
