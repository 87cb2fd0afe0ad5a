# SPDX-License-Identifier: Apache-2.0
"""Input files of applications as features of a job: the protocol of a reader, and the safe opening of a directory.

A reader turns the input files in a job's working directory into columns that are known at submission. Readers are found
by the entry points of the group `batchcast.input_files`. The collector reads directories of other users, so it opens a
directory below a root without following a link, and reads only regular files of the job's owner.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import islice
from typing import Any, Protocol

from ..ceilings import irregular
from ..errors import InputError, input_error
from ..predict.registry import available, load

STATUS = "input_files"
READ, CHANGED, VANISHED, NO_INPUTS, UNREADABLE, NO_DIRECTORY = (
    "read", "changed", "vanished", "no inputs", "unreadable", "no directory"
)  # fmt: skip
LARGEST = 64 << 20
"""Largest size of an input file, in bytes."""
MOST_FEATURES, LONGEST_NAME, LONGEST_TEXT = 200, 64, 64


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory whose input files are read by name."""

    path: str  # The name of the directory, for messages, and for opening if there is no descriptor
    # An open file descriptor of the directory. With a descriptor, files are opened relative to it and without following
    # links, so that no part of the path can be replaced while files are read.
    descriptor: int | None = None
    owner: int | None = None  # Numeric user id. Files that belong to other users are refused; None accepts every owner.
    changes: list[float] = field(default_factory=list)

    def open(self, name: str) -> BufferedReader:
        """Open a regular file; InputError says why a file cannot be read."""
        shown = f"{self.path}/{name}"
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if self.descriptor is None else os.O_NOFOLLOW)
        try:
            number = os.open(self._path_to_open(name), flags, dir_fd=self.descriptor)
        except FileNotFoundError:
            raise input_error(shown, "is missing") from None
        except OSError as error:
            raise input_error(shown, f"cannot be read ({error.strerror})") from None
        status = os.fstat(number)
        if problem := self._problem(status):
            os.close(number)
            raise input_error(shown, problem)
        self.changes.append(status.st_mtime)
        return open(number, "rb")

    def _problem(self, status: os.stat_result) -> str:
        """Return the reason why an open file must not be read; empty if it may be read."""
        if not stat.S_ISREG(status.st_mode):
            return f"is {irregular(status.st_mode) or 'a directory'}, not a file"
        if self.owner is not None and status.st_uid != self.owner:
            return "does not belong to the owner of the job"
        if status.st_size > LARGEST:
            return f"is larger than any input file (accepted: at most {LARGEST >> 20} MiB)"
        return ""

    def text(self, name: str) -> str:
        """Return the text of a file. Bytes that are not UTF-8 are replaced, because comments can contain such bytes."""
        with self.open(name) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise input_error(f"{self.path}/{name}", "grew while it was read")
        if b"\x00" in data[:4096]:
            raise input_error(f"{self.path}/{name}", "is not text", hint="the file may be compressed or binary")
        return data.decode("utf-8", errors="replace")

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a file without opening it; None if the file does not exist or is not accessible."""
        try:
            return os.stat(self._path_to_open(name), dir_fd=self.descriptor, follow_symlinks=self.descriptor is None)
        except OSError:
            return None

    def has(self, name: str) -> bool:
        """Whether the directory contains a file of this name, of any kind."""
        return self.status(name) is not None

    def names(self, most: int = 1000) -> list[str]:
        """Return the names in the directory, sorted; at most `most` names."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            return sorted(entry.name for entry in islice(entries, most))

    def _path_to_open(self, name: str) -> str:
        """Return the path to open; InputError if the name has a slash, which could lead out of the directory."""
        if "/" in name or name in ("", ".", ".."):
            raise InputError(f"{name!r} is not the name of a file in {self.path}")
        return name if self.descriptor is not None else f"{self.path}/{name}"


class InputFiles(Protocol):
    """The protocol of a reader of an application's input files.

    Attributes
    ----------
    columns
        The features by name, with their meaning. A feature's values are numbers or, for names, texts.
    """

    columns: Mapping[str, str]

    def is_here(self, folder: Folder) -> bool:
        """Whether the directory has input files of this application."""

    def read(self, folder: Folder, before: float = math.inf) -> Mapping[str, float | str]:
        """Return features by name; InputError if the input files are incomplete or wrong.

        Files written after `before` (epoch seconds) that a run itself writes are ignored, for example a WAVECAR.
        """


def readers() -> dict[str, InputFiles]:
    """Return the installed readers by name."""
    return {name: load("inputs", name)() for name in available("inputs")}


def reader_for(folder: Folder) -> InputFiles | None:
    """Return the first reader, by name, that finds input files of its application in a directory."""
    return next((one for one in readers().values() if one.is_here(folder)), None)


@contextmanager
def folder_below(root: str, path: str, owner: int) -> Iterator[Folder]:
    """Open a directory below a root without following a link below the root.

    Every part of the path is opened relative to its parent, so that a user cannot replace a directory by a link between
    a check and its use. The root itself may be a link, because the operator chose it. Raises InputError if the path is
    not below the root, contains a link, or cannot be opened.
    """
    top, full = os.path.normpath(root), os.path.normpath(path)
    if not os.path.isabs(full) or os.path.commonpath([top, full]) != top:
        raise InputError(f"{path}: is not below {root}")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    number = -1
    try:
        number = os.open(top, flags)
        for part in os.path.relpath(full, top).split("/"):
            if part != ".":
                below = os.open(part, flags | os.O_NOFOLLOW, dir_fd=number)
                os.close(number)
                number = below
        yield Folder(full, number, owner)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened without following links ({error.strerror})") from None
    finally:
        if number >= 0:
            os.close(number)


def checked_features(values: Any) -> dict[str, float | str]:
    """Check the types and sizes of features that came from another process or user, and return the features.

    >>> checked_features({"input_files": "read", "encut": 400})
    {'input_files': 'read', 'encut': 400.0}
    """
    wrong = InputError("features of input files: expected names with finite numbers or short texts")
    if not isinstance(values, dict) or len(values) > MOST_FEATURES:
        raise wrong
    features: dict[str, float | str] = {}
    for name, value in values.items():
        if not isinstance(name, str) or not name.isidentifier() or len(name) > LONGEST_NAME:
            raise wrong
        if isinstance(value, str) and len(value) <= LONGEST_TEXT and value.isprintable():
            features[name] = value
        elif isinstance(value, (int, float)) and abs(value) < 1e300:
            features[name] = float(value)
        else:
            raise wrong
    return features


def features_at_submission(folder: Folder, submit_time: float = math.inf) -> dict[str, float | str]:
    """Return a job's features and, under `input_files`, how the job's input files were found.

    Input files that were written after the submission are not used, because the job may have been submitted with other
    files. A file may be one second newer, because submit times are whole seconds.
    """
    try:
        reader = reader_for(folder)
        if reader is None:
            return {STATUS: NO_INPUTS}
        values = reader.read(folder, submit_time)
    except InputError:
        return {STATUS: UNREADABLE}
    if max(folder.changes, default=-math.inf) > submit_time + 1.0:
        return {STATUS: CHANGED}
    return checked_features({STATUS: READ, **values})
