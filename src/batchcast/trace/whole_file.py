# SPDX-License-Identifier: Apache-2.0
"""Write files and folders completely or not at all: under a temporary name next to the target, which is then renamed.

All code that writes results uses this module.
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
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ..errors import BatchcastError, InputError

UNFINISHED: set[Path] = set()
"""Paths that are being written now. A process that is about to end calls `discard_unfinished`."""


@contextmanager
def file_errors(path: str | Path, problem: str) -> Iterator[None]:
    """A context in which an OSError becomes an InputError: PATH: PROBLEM (reason)."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: {problem} ({error.strerror or error})") from None


@contextmanager
def whole_file(target: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """A context manager with a temporary path to write to, which replaces the target when the block ends without an
    error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/a.txt") as path:
    ...         _ = path.write_text("all of it")
    ...     [p.name for p in Path(folder).iterdir()]
    ['a.txt']
    """
    # A symbolic link is followed, unless it belongs to another user and is in a shared sticky folder such as /tmp. If
    # the target is a device or pipe, the block writes to it directly.
    #
    # A reader of the target finds the earlier or the new file at any time, even if the block is interrupted. The
    # temporary name is random: in a folder that others can write to, they could otherwise place a symbolic link with
    # this name and make this process overwrite another file. OSErrors are raised.
    _refuse_planted(Path(target))
    place = Path(os.path.realpath(target))
    if place.exists() and not place.is_file():
        yield place
        return
    with temporary_path(place) as path:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode))
        yield path
        path.replace(place)


def _refuse_planted(path: Path) -> None:
    """Raise PermissionError for a link that the kernel's protected_symlinks would not follow."""
    for _ in range(40):  # maximum number of symbolic links in a row, as in the kernel
        if not path.is_symlink():
            return
        folder, owner = path.parent.stat(), path.lstat().st_uid
        shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
        if shared and owner not in (os.geteuid(), folder.st_uid):
            raise PermissionError(errno.EACCES, "a link that another user made in a shared folder", str(path))
        path = path.parent / path.readlink()


@contextmanager
def temporary_path(target: Path) -> Iterator[Path]:
    """A context manager with a unique path next to `target`; a file or folder at this path is removed when the block
    ends.

    The name contains the machine and the process, so that a later process can remove the leftovers of a killed process.
    """
    path = target.with_name(f".{target.name[:180]}.{_machine()}-{os.getpid()}-{secrets.token_hex(8)}.part")
    UNFINISHED.add(path)
    _remove_abandoned(target.parent)
    try:
        yield path
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            error.filename = str(target)  # error messages of write() have no file name
        raise
    finally:
        _remove(path)
        UNFINISHED.discard(path)


def discard_unfinished() -> None:
    """Remove all unfinished files and folders of this process."""
    for path in tuple(UNFINISHED):
        _remove(path)


def _remove(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def folder(target: str | Path) -> Iterator[Path]:
    """A context manager with an empty folder; its files move to the target if the block ends without an error."""
    # Other files in an existing folder stay; files with the same names are replaced, each in one step. A schedule of an
    # earlier report that the new report does not have is removed. If the folder cannot be written, the error is raised
    # before results are computed.
    place = Path(target).resolve()
    if place.exists() and not place.is_dir():
        raise BatchcastError(f"{target}: is a file, not a folder for a report", hint="give another name with -o")
    with temporary_path(place) as path:
        try:
            path.mkdir(parents=True)
        except OSError as error:
            why = f"{target}: cannot be written: {error.strerror}"
            raise BatchcastError(why, hint="give another folder with -o") from error
        yield path
        _move(path, place)


_ABANDONED_S = 86_400.0
_PART = re.compile(r"\..+\.([0-9a-f]{8})-(\d+)-[0-9a-f]{16}\.part")
_SWEPT: set[Path] = set()
"""The folders in which this process has already looked for leftovers of killed processes."""


@cache
def _machine() -> str:
    """Return eight digits for the boot and the process namespace, within which process ids are unique."""
    known = ""
    with suppress(OSError):
        known = Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(known.encode()).hexdigest()[:8] if known else "00000000"


def _remove_abandoned(parent: Path) -> None:
    """Remove leftovers of this user's killed processes in a folder, once per process."""
    if parent in _SWEPT:
        return
    _SWEPT.add(parent)
    with suppress(OSError):  # a failure to clean up must not stop the current write
        for path in parent.iterdir():
            if (match := _PART.fullmatch(path.name)) and path not in UNFINISHED and not path.is_symlink():
                ended = match[1] == _machine() != "00000000" and not Path(f"/proc/{match[2]}").exists()
                if path.stat().st_uid == os.geteuid() and (ended or _is_old(path)):
                    _remove(path)


def _is_old(path: Path) -> bool:
    """Whether a path has not changed for a day; a path that changed more recently may be in use by another machine."""
    before = time.time() - _ABANDONED_S
    return all(each.lstat().st_mtime < before for each in (path, *path.rglob("*")))


def _move(path: Path, place: Path) -> None:
    """Move the new files to the target folder. If two processes write a report at the same time, they take turns, so
    that all files are from the later report."""
    try:
        path.rename(place)  # rename succeeds if the target does not exist or is an empty folder
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
    """Wait until no other process of this user moves files into the folder, if the file system has locks."""
    number = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _schedules(place: Path) -> set[str]:
    """Return the schedule files that an earlier report lists; paths outside its folder `schedules` are left out."""
    try:
        rows = json.loads((place / "result.json").read_text(encoding="utf-8"))["results"]
        named = [Path(str(row["schedule_file"])) for row in rows if "schedule_file" in row]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {str(path) for path in named if path.parts[:1] == ("schedules",) and len(path.parts) == 2}
