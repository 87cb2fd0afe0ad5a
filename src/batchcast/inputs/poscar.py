# SPDX-License-Identifier: Apache-2.0
"""Parses the input files about the atoms of a VASP run: POSCAR (the cell and its contents) and POTCAR (the potentials).

Error messages name the file, line and value. From a POTCAR, only TITEL, ZVAL, ENMAX and LULTRA of each potential are
read, without loading the file: a POTCAR is licensed text of tens of megabytes, mostly numbers between the headers. The
scan looks for the letter Z (of ZVAL), which numbers do not contain: memchr makes this search at the speed of memory.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ..errors import InputError, input_error

Lattice = tuple[tuple[float, ...], ...]


def line_at(lines: Sequence[str], index: int, path: str, expected: str) -> str:
    """Return line `index` (from 0) without surrounding blanks; InputError if the line is missing or blank.

    >>> line_at(["a comment", " 0 "], 1, "KPOINTS", "the number of k-points")
    '0'
    """
    if index >= len(lines):
        raise truncated(path, len(lines), f"before {expected}")
    text = lines[index].strip()
    if not text:
        raise input_error(path, f"blank line where {expected} should be", line=index + 1)
    return text


def truncated(path: str, line: int | None, where: str) -> InputError:
    """Return the error for a file that ends too early."""
    return input_error(path, f"ends {where}", line=line, hint="the file is truncated: copy it again")


def fortran(text: str) -> float:
    """Return a number in Fortran's notation, such as 1.0D0."""
    return float(text.lower().replace("d", "e"))


def numbers_at(
    lines: Sequence[str], index: int, path: str, expected: str, at_least: int, read: Callable[[str], Any] = fortran
) -> list[Any]:
    """Return the numbers at the beginning of line `index` (from 0), converted by `read`; InputError if there are fewer
    than `at_least`."""
    numbers = []
    with suppress(ValueError):  # the numbers end at the first other word
        for word in line_at(lines, index, path, expected).split():
            numbers.append(read(word))
    if len(numbers) < at_least:
        kind = "whole number" if read is int else "number"
        accepted = f"{at_least} {kind}{'s' if at_least > 1 else ''}"
        raise input_error(path, f"{expected} expected", line=index + 1, value=lines[index].strip(), accepted=accepted)
    return numbers


@dataclass(frozen=True, slots=True)
class Poscar:
    """A cell: lattice in angstrom, volume in cubic angstrom, scale factor, species (if named), counts."""

    lattice: Lattice
    volume: float
    scale: float
    species: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def ions(self) -> int:
        """Number of ions."""
        return sum(self.counts)


def parse_poscar(text: str, path: str = "POSCAR") -> Poscar:
    """Read the cell of a POSCAR or CONTCAR: VASP 4 (no species line) or 5, selective dynamics, Direct or Cartesian.

    Format (VASP manual, page POSCAR, 2025): comment; one scale factor, or a negative number that is the volume, or
    three positive factors of the Cartesian components; three lattice vectors; species names (VASP 5; a potential's
    suffix `_pv` or hash `/1a2b` is cut off); ions per species; optional `Selective dynamics`; the coordinate mode; one
    line per ion. Lines after the ions (velocities) are not read. An InputError names the file and line if the file is
    empty, truncated or contradicts itself. The cost is O(ions), a fraction of a microsecond per ion; positions are not
    features, so only about a hundred positions of a large cell are checked.

    >>> cell = parse_poscar("NaCl\\n2.0\\n1 0 0\\n0 1 0\\n0 0 2\\nNa Cl\\n1 1\\nDirect\\n0 0 0\\n.5 .5 .5\\n")
    >>> cell.volume, cell.species, cell.counts
    (16.0, ('Na', 'Cl'), (1, 1))
    """
    lines = text.splitlines()
    if not text.strip():
        raise input_error(path, "is empty", accepted="a POSCAR of VASP 4 or 5", hint="copy it from the run's CONTCAR")
    scale = numbers_at(lines, 1, path, "scale factor", at_least=1)
    rows = [numbers_at(lines, k, path, "lattice vector", at_least=3)[:3] for k in (2, 3, 4)]
    lattice, volume, factor = _scaled(rows, scale, path)
    at, species, counts = _species(lines, path)
    if line_at(lines, at, path, "Selective dynamics, Direct or Cartesian")[0] in "sS":
        at += 1
    line_at(lines, at, path, "Direct or Cartesian")
    _check_positions(lines, at + 1, sum(counts), path)
    return Poscar(lattice, volume, factor, species, counts)


def volume_of(lattice: Sequence[Sequence[float]]) -> float:
    """Return the volume of the cell that three vectors span."""
    a, b, c = lattice
    return abs(sum(x * y for x, y in zip(a, cross(b, c))))


def cross(u: Sequence[float], v: Sequence[float]) -> tuple[float, float, float]:
    """Return the cross product of two vectors."""
    return (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])


def _scaled(rows: list[list[float]], scale: list[float], path: str) -> tuple[Lattice, float, float]:
    """Return the lattice in angstrom, its volume, and the scale factor (of the first component)."""
    raw = volume_of(rows)
    if raw == 0.0:
        raise input_error(path, "the three lattice vectors lie in one plane", line=3)
    one = (-scale[0] / raw) ** (1 / 3) if scale[0] < 0 else scale[0]
    factors = scale[:3] if len(scale) >= 3 else [one] * 3
    if min(factors) <= 0:
        what = "the scale factor is zero" if len(scale) < 3 else "three scale factors must all be positive"
        raise input_error(path, what, line=2, value=" ".join(map(str, scale)))
    lattice = tuple(tuple(x * s for x, s in zip(row, factors)) for row in rows)
    return lattice, math.prod(factors, start=raw), factors[0]


def _species(lines: list[str], path: str) -> tuple[int, tuple[str, ...], tuple[int, ...]]:
    """Return the index of the line after the numbers of ions, the species names (empty in VASP 4), and the numbers of
    ions."""
    at, words = 5, line_at(lines, 5, path, "species names or numbers of ions").split()
    names: tuple[str, ...] = ()
    if not words[0].isdigit():
        at, names = 6, tuple(re.split("[/_]", word)[0] for word in takewhile(lambda word: word[0].isalpha(), words))
    counts = tuple(map(int, takewhile(str.isdigit, line_at(lines, at, path, "numbers of ions").split())))
    where: dict[str, Any] = {"line": at + 1, "value": lines[at]}
    if sum(counts) == 0:
        raise input_error(path, "numbers of ions per species expected", **where, accepted="whole numbers: 4 8")
    if names and len(names) != len(counts):
        raise input_error(path, f"{len(names)} species names but {len(counts)} numbers of ions", **where)
    return at + 1, names, counts


def _check_positions(lines: list[str], first: int, ions: int, path: str) -> None:
    """Check that every ion has a line, and that about a hundred of these lines (including the last line) have three
    numbers."""
    block = lines[first : first + ions]
    if len(block) < ions or not all(map(str.strip, block)):
        there = next((k for k, line in enumerate(block) if not line.strip()), len(block))
        raise truncated(path, first + there, f"after {there} of {ions} ion positions")
    for ion in {*range(0, ions, 1 + ions // 100), ions - 1}:
        try:
            x, y, z = block[ion].split()[:3]
            float(x), float(y), float(z)
        except ValueError:  # a number in Fortran notation (1.0D0), or an error to report
            numbers_at(lines, first + ion, path, f"position of ion {ion + 1}", at_least=3)


BLOCK = 1 << 18
FIRST_BLOCK = 4096
REACH = 1024
_END = b"End of Dataset"


@dataclass(frozen=True, slots=True)
class Potential:
    """The header of one potential in a POTCAR: name, valence electrons, recommended cutoff in eV, and whether it is
    ultrasoft."""

    titel: str
    zval: float
    enmax: float
    is_ultrasoft: bool


def scan_potcar(
    descriptor: int, path: str = "POTCAR", lengths: dict[bytes, int] | None = None
) -> tuple[Potential, ...]:
    """Return the headers of all potentials in an open POTCAR, in order; the memory is one block for any size of file.

    By the VASP manual, page POTCAR (2025), TITEL and LULTRA come before ZVAL, and ENMAX comes after it. `lengths`
    stores the length of each potential that was read before, so that a scan of later files can skip this potential by
    reading a few kilobytes; if the stored length is wrong, the potential is scanned. Raises InputError for an empty or
    truncated file, or a header without TITEL, ZVAL and ENMAX (no LULTRA: not ultrasoft). The first scan takes O(bytes)
    time at the speed of memchr, later scans O(potentials).
    """
    known = {} if lengths is None else lengths
    potentials: list[Potential] = []
    window = _Window(descriptor)
    key, zval_at = b"", -1
    while (hit := window.next_header()) is not None:
        header, at, position = hit
        titel = header.rfind(b"TITEL", 0, at)  # the last TITEL before ZVAL belongs to the same potential
        end = header.rfind(_END, 0, max(titel, 0))
        if key and end >= 0:
            known[key] = position - at + end - zval_at
        potentials.append(_potential(header, titel, at, position, descriptor, path))
        key, zval_at = header[titel : header.find(b"\n", header.find(b"ENMAX", at))], position
        jump = known.get(key, 0)
        if jump > 0 and os.pread(descriptor, len(_END), position + jump) == _END:
            window.jump(position + jump)
    size = os.fstat(descriptor).st_size
    if size == 0:
        raise input_error(path, "is empty", accepted="potentials one after the other")
    if not potentials:
        raise input_error(path, "no potential in it (no line with ZVAL)", line=1, hint="is it a POTCAR.spec or a link?")
    if _END not in os.pread(descriptor, 4096, max(0, size - 4096)):
        raise truncated(path, None, f"inside potential {len(potentials)} ({potentials[-1].titel})")
    return tuple(potentials)


class _Window:
    """A moving block of a POTCAR file: every byte is read at most once, and skipped parts are not read."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.buffer = descriptor, bytearray(BLOCK)
        # position of the block in the file, its size, position of the search in the block
        self.start = self.length = self.search_at = 0
        self.next_read = FIRST_BLOCK

    def jump(self, position: int) -> None:
        """Continue the scan at `position`, near a header: in the present block of the file, or in a new small block."""
        self.search_at = position - self.start
        if self.search_at >= self.length:
            self.start, self.length, self.search_at, self.next_read = position, 0, 0, FIRST_BLOCK

    def next_header(self) -> tuple[bytes, int, int] | None:
        """Return the bytes around the next ZVAL, its position in these bytes, and its position in the file."""
        while True:
            at = self.buffer.find(b"Z", self.search_at, self.length)
            if at < 0:
                if not self._read_on():
                    return None
                continue
            self.search_at = at + 1
            if REACH <= at <= self.length - REACH:
                if self.buffer.startswith(b"ZVAL", at):
                    return bytes(self.buffer[at - REACH : at + REACH]), REACH, self.start + at
            else:  # the header may extend beyond the edge of the block
                first = max(0, self.start + at - REACH)
                header = os.pread(self.descriptor, 2 * REACH, first)
                if header.startswith(b"ZVAL", self.start + at - first):
                    return header, self.start + at - first, self.start + at

    def _read_on(self) -> int:
        """Read the next block of the file; return its length, 0 at the end of the file."""
        self.start += self.length
        self.length = os.preadv(self.descriptor, [memoryview(self.buffer)[: self.next_read]], self.start)
        self.search_at, self.next_read = 0, BLOCK
        return self.length


def _potential(header: bytes, titel: int, at: int, position: int, descriptor: int, path: str) -> Potential:
    """Return the potential whose ZVAL is at position `at`, with the last TITEL and LULTRA before it and the next
    ENMAX."""
    if titel < 0 or header.find(_END, titel, at) >= 0:
        raise input_error(path, "a potential without TITEL", line=_line_of(descriptor, position))
    ultrasoft = _text(header, header.rfind(b"LULTRA", titel, at))
    zval, enmax = _text(header, at), _text(header, header.find(b"ENMAX", at))
    try:
        charge, cutoff = (float(text.split()[0]) for text in (zval, enmax))
    except (ValueError, IndexError):
        what, value = "ZVAL or ENMAX of a potential is not a number", f"ZVAL={zval} ENMAX={enmax}"
        raise input_error(path, what, line=_line_of(descriptor, position), value=value) from None
    return Potential(_text(header, titel), charge, cutoff, ultrasoft.lstrip(".")[:1] in ("T", "t"))


def _text(header: bytes, at: int) -> str:
    """Return the text between the = after `at` and the end of the line or a semicolon; empty if `at` is -1."""
    if at < 0:
        return ""
    end = header.find(b"\n", at)
    _, _, value = header[at : end if end >= 0 else len(header)].partition(b"=")
    return value.split(b";")[0].strip().decode("latin-1")


def _line_of(descriptor: int, at: int) -> int:
    """Return the line number of a byte; used only for error messages."""
    lines, start = 1, 0
    while start < at:
        block = os.pread(descriptor, min(BLOCK, at - start), start)
        lines += block.count(b"\n")
        start += len(block) or at
    return lines
