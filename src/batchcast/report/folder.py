# SPDX-License-Identifier: Apache-2.0
"""A folder of results that is there whole or not at all: written beside, then moved into place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import BatchcastError
from ..trace.whole_file import beside


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
