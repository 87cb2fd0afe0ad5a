# SPDX-License-Identifier: Apache-2.0
"""What is there whole or not at all: written beside its place, then moved into it. Nowhere else is it done."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED: set[Path] = set()
"""What is being written now; `discard_unfinished` is for a process that is about to end."""


@contextmanager
def whole_file(target: str | Path) -> Iterator[Path]:
    """A path beside `target` to write to; it takes the target's place when the block ends well, else it is removed.

    Whatever interrupts the block, a reader of `target` meets the earlier file or the new one. What is no regular file
    (a device, a pipe) is written to directly; of a symbolic link the file behind it is replaced. OSErrors pass.

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
        yield path
        path.replace(place)


@contextmanager
def beside(place: Path) -> Iterator[Path]:
    """A name next to `place` that nobody else uses; whatever stands there at the end of the block is removed."""
    path = place.with_name(f".{place.name}.{os.getpid()}.part")
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
