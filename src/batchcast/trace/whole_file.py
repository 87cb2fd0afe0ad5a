# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are there whole or not at all: written beside their place, then moved into it.

Nowhere else is it done.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ..errors import BatchcastError

UNFINISHED: set[Path] = set()
"""What is being written now; `discard_unfinished` is for a process that is about to end."""


@contextmanager
def whole_file(target: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """A path beside `target` to write to; it takes the target's place when the block ends well, else it is removed.

    Whatever interrupts the block, a reader of `target` meets the earlier file or the new one. What is no regular file
    (a device, a pipe) is written to directly; of a symbolic link the file behind it is replaced. The path is a new,
    empty file with `mode` less the umask, of a name that nobody can foresee: in a folder that others can write to, a
    symbolic link in its place would name a file to overwrite. OSErrors pass.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/a.txt") as path:
    ...         _ = path.write_text("all of it")
    ...     [p.name for p in Path(folder).iterdir()]
    ['a.txt']
    """
    place = Path(os.path.realpath(target))
    if place.exists() and not place.is_file():
        yield place
        return
    with beside(place) as path:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode))
        yield path
        path.replace(place)


@contextmanager
def beside(place: Path) -> Iterator[Path]:
    """A name next to `place` that nobody else uses; whatever stands there at the end of the block is removed.

    The name tells the process that writes there, so that what a killed process left is found by the next one.
    """
    path = place.with_name(f".{place.name[:180]}.{_machine()}-{os.getpid()}-{secrets.token_hex(8)}.part")
    UNFINISHED.add(path)
    _remove_abandoned(place.parent)
    try:
        yield path
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            error.filename = str(place)  # a write knows only the number of its file
        raise
    finally:
        _remove(path)
        UNFINISHED.discard(path)


def discard_unfinished() -> None:
    """Remove whatever is half written."""
    for path in tuple(UNFINISHED):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def folder(target: str | Path) -> Iterator[Path]:
    """An empty folder to write into; its files move to `target` when the block ends well, else nothing is left.

    A folder that is already there keeps its other files; those of the same names are replaced, each in one step, and
    schedules of an earlier report (named in its result.json) that the new one does not have are removed. Raises
    BatchcastError at once, before anything was computed, where nothing can be written.
    """
    place = Path(target).resolve()
    if place.exists() and not place.is_dir():
        raise BatchcastError(f"{target}: is a file, not a folder for a report", hint="another name after -o")
    with beside(place) as path:
        try:
            path.mkdir(parents=True)
        except OSError as error:
            why = f"{target}: cannot be written: {error.strerror}"
            raise BatchcastError(why, hint="another place after -o") from error
        yield path
        _move(path, place)


_ABANDONED_S = 86_400.0
_PART = re.compile(r"\..+\.([0-9a-f]{8})-(\d+)-[0-9a-f]{16}\.part")
_SWEPT: set[Path] = set()
"""The folders in which this process has looked for what others left."""


@cache
def _machine() -> str:
    """Eight digits for the running kernel and its table of processes: a process number means nothing without them."""
    known = ""
    with suppress(OSError):
        known = Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(known.encode()).hexdigest()[:8] if known else "00000000"


def _remove_abandoned(parent: Path) -> None:
    """Remove what this user's killed processes left half written in a folder, which is looked through once."""
    if parent in _SWEPT:
        return
    _SWEPT.add(parent)
    with suppress(OSError):  # what is written now matters, what lies beside it does not
        for path in parent.iterdir():
            if (match := _PART.fullmatch(path.name)) and path not in UNFINISHED and not path.is_symlink():
                ended = match[1] == _machine() != "00000000" and not Path(f"/proc/{match[2]}").exists()
                if path.stat().st_uid == os.geteuid() and (ended or _is_old(path)):
                    _remove(path)


def _is_old(path: Path) -> bool:
    """Whether nothing in a folder, or the file itself, has changed for a day: another machine may write it."""
    before = time.time() - _ABANDONED_S
    return all(each.lstat().st_mtime < before for each in (path, *path.rglob("*")))


def _move(path: Path, place: Path) -> None:
    """Move the new files; two reports at once take turns, so that all files are of the later one."""
    try:
        path.rename(place)  # where there is no folder, or an empty one
        return
    except OSError:
        if not place.is_dir():
            raise
    with _alone(place):
        earlier = _schedules(place)
        new = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
        for name in new:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).replace(place / name)
        for stale in earlier - {str(name) for name in new}:
            (place / stale).unlink(missing_ok=True)


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Wait until no other process of this user moves files into the folder; on a file system without locks, go on."""
    number = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _schedules(place: Path) -> set[str]:
    """The schedule files an earlier report says it wrote, inside its own folder `schedules` only."""
    try:
        rows = json.loads((place / "result.json").read_text(encoding="utf-8"))["results"]
        named = [Path(str(row["schedule_file"])) for row in rows if "schedule_file" in row]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {str(path) for path in named if path.parts[:1] == ("schedules",) and len(path.parts) == 2}
