# SPDX-License-Identifier: Apache-2.0
"""POTCAR: TITEL, ZVAL, ENMAX and LULTRA of every potential, and nothing else, without loading the file.

A POTCAR is licensed text and easily tens of megabytes; between the headers lie only numbers. The scan therefore looks
for the one letter Z (of ZVAL), which numbers do not contain: memchr does that at the speed of memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import input_error

BLOCK = 1 << 18
NEAR = 4096
REACH = 1024
_END = b"End of Dataset"


@dataclass(frozen=True, slots=True)
class Potential:
    """The header of one potential: name, valence electrons, recommended cutoff in eV, ultrasoft or not."""

    titel: str
    zval: float
    enmax: float
    is_ultrasoft: bool


def scan_potcar(
    descriptor: int, path: str = "POTCAR", lengths: dict[bytes, int] | None = None
) -> tuple[Potential, ...]:
    """The headers of an open POTCAR, in order; memory stays at one block whatever the file's size.

    Header layout: VASP manual, page POTCAR (2025): TITEL and LULTRA before ZVAL, ENMAX after it. `lengths` remembers
    how long each potential met so far is, so that a second file with the same one is skipped through, a few kilobytes
    a potential; a wrong guess is noticed and scanned. Raises InputError for an empty or truncated file or a header
    without TITEL, ZVAL and ENMAX (no LULTRA: not ultrasoft). O(bytes) at memchr speed the first time, O(potentials)
    after it.
    """
    known = {} if lengths is None else lengths
    potentials: list[Potential] = []
    window = _Window(descriptor)
    key, zval_at = b"", -1
    while (hit := window.next_header()) is not None:
        header, at, position = hit
        titel = header.rfind(b"TITEL", 0, at)  # close before ZVAL; what ends the potential before it, close before that
        end = header.rfind(_END, 0, max(titel, 0))
        if key and end >= 0:
            known[key] = position - at + end - zval_at
        potentials.append(_potential(header, titel, at, position, descriptor, path))
        key, zval_at = header[titel : header.find(b"\n", header.find(b"ENMAX", at))], position
        jump = known.get(key, 0)
        if jump > 0 and os.pread(descriptor, len(_END), position + jump) == _END:
            window.jump(position + jump)
    _check_end(descriptor, path, potentials)
    return tuple(potentials)


def _check_end(descriptor: int, path: str, potentials: list[Potential]) -> None:
    """The file is not empty, holds potentials, and the last of them is whole."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        raise input_error(path, "is empty", accepted="potentials one after the other")
    if not potentials:
        raise input_error(path, "no potential in it (no line with ZVAL)", line=1, hint="is it a POTCAR.spec or a link?")
    if _END not in os.pread(descriptor, 4096, max(0, size - 4096)):
        raise input_error(
            path,
            f"ends inside potential {len(potentials)} ({potentials[-1].titel})",
            hint="the file is truncated: copy it again",
        )


class _Window:
    """A block of the file that moves on: every byte is read once, what a jump passes over not at all."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.buffer = descriptor, bytearray(BLOCK)
        self.start = self.length = self.at = 0  # of the block in the file, of what it holds, of the search in it
        self.next_read = NEAR

    def jump(self, position: int) -> None:
        """Go on at `position`, where a header is near: in this block, or in a small one there."""
        self.at = position - self.start
        if self.at >= self.length:
            self.start, self.length, self.at, self.next_read = position, 0, 0, NEAR

    def next_header(self) -> tuple[bytes, int, int] | None:
        """The bytes around the next ZVAL, where in them it stands, and where in the file."""
        while True:
            at = self.buffer.find(b"Z", self.at, self.length)
            if at < 0:
                if not self._read_on():
                    return None
                continue
            self.at = at + 1
            if REACH <= at <= self.length - REACH:
                if self.buffer.startswith(b"ZVAL", at):
                    return bytes(self.buffer[at - REACH : at + REACH]), REACH, self.start + at
            else:  # too near an edge of the block
                first = max(0, self.start + at - REACH)
                header = os.pread(self.descriptor, 2 * REACH, first)
                if header.startswith(b"ZVAL", self.start + at - first):
                    return header, self.start + at - first, self.start + at

    def _read_on(self) -> int:
        self.start += self.length
        self.length = os.preadv(self.descriptor, [memoryview(self.buffer)[: self.next_read]], self.start)
        self.at, self.next_read = 0, BLOCK
        return self.length


def _potential(header: bytes, titel: int, at: int, position: int, descriptor: int, path: str) -> Potential:
    """The values around the ZVAL at `at`: TITEL and LULTRA are the last before it, ENMAX the first after it."""
    if titel < 0 or header.find(_END, titel, at) >= 0:
        raise input_error(path, "a potential without TITEL", line=_line_of(descriptor, position))
    ultrasoft = _text(header, header.rfind(b"LULTRA", titel, at))
    zval, enmax = _text(header, at), _text(header, header.find(b"ENMAX", at))
    try:
        return Potential(
            _text(header, titel),
            float(zval.split()[0]),
            float(enmax.split()[0]),
            ultrasoft.lstrip(".")[:1] in ("T", "t"),
        )
    except (ValueError, IndexError):
        raise input_error(
            path,
            "ZVAL or ENMAX of a potential is not a number",
            line=_line_of(descriptor, position),
            value=f"ZVAL={zval} ENMAX={enmax}",
        ) from None


def _text(header: bytes, at: int) -> str:
    """What stands between the = after `at` and the end of the line or a semicolon; empty where `at` is -1."""
    if at < 0:
        return ""
    end = header.find(b"\n", at)
    _, _, value = header[at : end if end >= 0 else len(header)].partition(b"=")
    return value.split(b";")[0].strip().decode("latin-1")


def _line_of(descriptor: int, at: int) -> int:
    """Line number of a byte; only errors pay for it."""
    lines, start = 1, 0
    while start < at:
        block = os.pread(descriptor, min(BLOCK, at - start), start)
        lines += block.count(b"\n")
        start += len(block) or at
    return lines
