# SPDX-License-Identifier: Apache-2.0
"""Limits on the cost of reading a file: unpacked size, compression ratio, line length, number of records, file type.

Environment variables set the limits: BATCHCAST_MAX_UNPACKED and BATCHCAST_MAX_LINE (bytes, with K, M, G or T),
BATCHCAST_MAX_RATIO and BATCHCAST_MAX_RECORDS.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from .errors import InputError, UsageError, input_error

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_UNCHECKED = 64 << 20
"""Number of unpacked bytes below which the ratio is not checked, because smaller files are harmless."""
SMALL = 16 << 20
"""Maximum bytes of a file that is written by hand: TOML, a slurm.conf."""
_MOST_DOTS = 100
_MOST_DOTS_OF_FILE = 100_000
"""Maximum dots outside texts in a TOML file. Each dot of a key can make a table, and tables take most of the memory."""
_KINDS = {"p": "a pipe", "c": "a device", "b": "a device", "s": "a socket"}
"""Kinds of files without a size or end, by their letter in `ls -l`."""


class Ceilings(NamedTuple):
    """Limits for reading one file: unpacked bytes, their ratio to packed bytes, bytes per line, and records."""

    unpacked: float = 64 << 30
    ratio: float = 300
    line: float = 64 << 20
    records: float = 1e9

    @classmethod
    def set(cls) -> Ceilings:
        """Return the limits that apply to this process: the defaults, or the values in environment variables."""
        return cls(*(_of_environment(name, default) for name, default in cls()._asdict().items()))

    def check_unpacked(self, name: str, unpacked: float, packed: float) -> None:
        """Raise InputError if a file has unpacked to more bytes than allowed.

        >>> Ceilings(ratio=10).check_unpacked("a.gz", 1 << 30, 1000)
        Traceback (most recent call last):
        batchcast.errors.InputError: a.gz: unpacks to more than 10 times its size (1073741824 bytes so far)
          try: BATCHCAST_MAX_RATIO=100 if you trust this file
        """
        if unpacked > self.unpacked:
            raise _above(name, f"unpacks to more than {self.unpacked:.0f} bytes", "UNPACKED", 2 * self.unpacked)
        if unpacked > _UNCHECKED and unpacked > self.ratio * packed:
            what = f"unpacks to more than {self.ratio:g} times its size ({unpacked:.0f} bytes so far)"
            raise _above(name, what, "RATIO", 10 * self.ratio)

    def lines(self, blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
        """Return the blocks of a text of lines; InputError for a line that is too long, or for too many lines."""
        begun, records = 0, 0  # number of bytes so far of a line that continues in the next block
        for block in blocks:
            first, last = block.find(b"\n"), block.rfind(b"\n")
            longest = max(begun + (first if first >= 0 else len(block)), len(block) - last - 1)
            if longest > self.line:
                what = f"a line of more than {self.line:.0f} bytes"
                raise _above(f"{name}:{records + 1}", what, "LINE", 10 * self.line)
            begun = len(block) - last - 1 if last >= 0 else begun + len(block)
            records += block.count(b"\n")
            self.check_records(name, records)
            yield block

    def check_records(self, name: str, records: float) -> None:
        """Raise InputError if a file has more records than allowed."""
        if records > self.records:
            raise _above(name, f"more than {self.records:.0f} records", "RECORDS", 10 * self.records)


def _above(place: str, what: str, limit: str, higher: float) -> InputError:
    """Return the error of a file that exceeds a limit; the hint proposes a higher limit."""
    return InputError(f"{place}: {what}", hint=f"BATCHCAST_MAX_{limit}={higher:.0f} if you trust this file")


def _of_environment(name: str, default: float) -> float:
    """Return the limit that the environment variable of this name sets, else the default."""
    variable = f"BATCHCAST_MAX_{name.upper()}"
    word = os.environ.get(variable, "").strip().upper()
    if not word:
        return default
    amount = re.fullmatch("([0-9]+)([KMGT]?)", word)
    if amount is None or not int(amount[1]):
        raise UsageError(
            f"{variable}: not a limit: {word!r} (accepted: a whole number above 0, then K, M, G, T or none)"
        )
    return float(int(amount[1]) * _UNITS[amount[2]])


def open_regular(path: str | Path, *, or_pipe: bool = False) -> BufferedReader:
    """Open a regular file for reading; raise InputError for a pipe, a device or a socket, and OSError like `open`.

    If `or_pipe` is true, a pipe is opened too, and the call waits until a process writes to the pipe. Use `or_pipe`
    only for a log that the user names on the command line, such as a shell's `<(zcat log.gz)`. A pipe whose name comes
    from a file must not be opened, because reading a pipe without a writer does not end.

    >>> open_regular("/dev/zero")
    Traceback (most recent call last):
    batchcast.errors.InputError: /dev/zero: is a device, not a file
      try: write it to a file, or pipe a log: ... | batchcast ... -
    """
    is_pipe = or_pipe and stat.S_ISFIFO(os.stat(path).st_mode)
    waits = 0 if is_pipe else getattr(os, "O_NONBLOCK", 0)
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | waits)
    word = irregular(os.fstat(number).st_mode)
    if word and not (is_pipe and word == "a pipe"):
        os.close(number)
        hint = "write it to a file, or pipe a log: ... | batchcast ... -"
        raise InputError(f"{path}: is {word}, not a file", hint=hint)
    return open(number, "rb")


def irregular(mode: int) -> str:
    """Return the kind of a file without a size or end (pipe, device, socket), by its mode; empty for files and
    directories.

    >>> irregular(stat.S_IFIFO), irregular(stat.S_IFREG)
    ('a pipe', '')
    """
    return _KINDS.get(stat.filemode(mode)[0], "")


def without_links(path: str, flags: int) -> int:
    """Open a file without following a link or waiting for a pipe; a new file is private. For `open(..., opener=...)`.

    In a folder that other users can write to, another user could create a link to a file of this user, which would be
    overwritten, or a pipe without a writer, so that opening would not return. A new file is private (mode 0600),
    because another user who can open a lock file, even for reading, can lock it.
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def small_text(path: str | Path, most: int = SMALL) -> str:
    """Return the text of a regular file written by hand; InputError if the file has more than `most` bytes."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"{path}: larger than {most >> 20} MiB, the maximum for a file written by hand")
    return data.decode("utf-8")


def parse_toml(text: str, path: str, hint: str = "") -> dict[str, Any]:
    """Return the tables of a TOML text; InputError if the text is not TOML or nested too deeply.

    >>> parse_toml("a.b = 1", "m.toml")
    {'a': {'b': 1}}
    """
    if len(text) > SMALL:
        raise InputError(f"{path}: larger than {SMALL >> 20} MiB, the maximum for a file written by hand")
    dots, many = 0, text.count(".") > _MOST_DOTS_OF_FILE
    for number, line in enumerate(text.split("\n"), 1):
        if (many and "." in line) or line.count(".") > _MOST_DOTS:
            dots += (here := _dots_outside_texts(line))
            if here > _MOST_DOTS:
                raise input_error(path, f"a key of more than {_MOST_DOTS} parts", line=number, value=line, hint=hint)
            if dots > _MOST_DOTS_OF_FILE:
                raise input_error(
                    path, f"more than {_MOST_DOTS_OF_FILE} dots in keys and numbers", line=number, hint=hint
                )
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of more than 4300 digits raises no TOMLDecodeError
        why = error if isinstance(error, ValueError) else "nested too deep"
        raise InputError(f"{path}: not TOML: {why}", hint=hint) from None


def _dots_outside_texts(line: str) -> int:
    """Return the number of dots in a line, except dots in quotes."""
    pieces = line.replace('\\"', "").split('"')
    return sum(piece.count(".") for piece in pieces[::2])
