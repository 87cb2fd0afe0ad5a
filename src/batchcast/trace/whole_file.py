# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are there whole or not at all: written beside their place, then moved into it.

Nowhere else is it done.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
    """A name next to `place` that nobody else uses; whatever stands there at the end of the block is removed."""
    path = place.with_name(f".{place.name[:200]}.{secrets.token_hex(8)}.part")
    UNFINISHED.add(path)
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
        _remove_abandoned(place)
        try:
            path.mkdir(parents=True)
        except OSError as error:
            why = f"{target}: cannot be written: {error.strerror}"
            raise BatchcastError(why, hint="another place after -o") from error
        yield path
        _move(path, place)


_ABANDONED_S = 86_400.0


def _remove_abandoned(place: Path) -> None:
    """Remove what a killed process left half written for `place`: own folders in which nothing changed for a day."""
    before = time.time() - _ABANDONED_S
    unfinished = re.compile(rf"\.{re.escape(place.name[:200])}\.[0-9a-f]{{16}}\.part")
    try:
        for path in place.parent.iterdir():
            if not unfinished.fullmatch(path.name) or path in UNFINISHED or path.is_symlink() or not path.is_dir():
                continue
            held = [path, *path.rglob("*")]
            if path.stat().st_uid == os.geteuid() and all(each.lstat().st_mtime < before for each in held):
                _remove(path)
    except OSError:
        return  # the report matters, what lies beside it does not


def _move(path: Path, place: Path) -> None:
    if not place.exists():
        path.rename(place)
        return
    earlier = _schedules(place)
    new = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
    for name in new:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).replace(place / name)
    for stale in earlier - {str(name) for name in new}:
        (place / stale).unlink(missing_ok=True)


def _schedules(place: Path) -> set[str]:
    """The schedule files an earlier report says it wrote, inside its own folder `schedules` only."""
    try:
        rows = json.loads((place / "result.json").read_text(encoding="utf-8"))["results"]
        named = [Path(str(row["schedule_file"])) for row in rows if "schedule_file" in row]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {str(path) for path in named if path.parts[:1] == ("schedules",) and len(path.parts) == 2}
