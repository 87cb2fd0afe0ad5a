# SPDX-License-Identifier: Apache-2.0
"""POSCAR: the cell and what is in it, from text, with errors that name file, line and value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..errors import InputError, input_error

Number = TypeVar("Number", int, float)


def line_at(lines: Sequence[str], at: int, path: str, what: str) -> str:
    """Line `at` (from 0) without its margins; it must be there and not be blank.

    >>> line_at(["a comment", " 0 "], 1, "KPOINTS", "the number of k-points")
    '0'
    """
    if at >= len(lines):
        raise truncated(path, len(lines), f"before {what}")
    text = lines[at].strip()
    if not text:
        raise input_error(path, f"blank line where {what} should be", line=at + 1)
    return text


def floats_at(lines: Sequence[str], at: int, path: str, what: str, at_least: int) -> list[float]:
    """The numbers line `at` begins with, at least so many; Fortran's 1.0D0 too, and remarks after them."""
    return _numbers(lines, at, path, what, at_least, _fortran)


def ints_at(lines: Sequence[str], at: int, path: str, what: str, at_least: int) -> list[int]:
    """The whole numbers line `at` begins with, at least so many."""
    return _numbers(lines, at, path, what, at_least, int)


def truncated(path: str, line: int, where: str) -> InputError:
    """The error of a file that ends too early."""
    return input_error(path, f"ends {where}", line=line, hint="the file is truncated: copy it again")


def _fortran(word: str) -> float:
    return float(word.replace("d", "e").replace("D", "E"))


def _numbers(
    lines: Sequence[str], at: int, path: str, what: str, at_least: int, read: Callable[[str], Number]
) -> list[Number]:
    numbers: list[Number] = []
    for word in line_at(lines, at, path, what).split():
        try:
            numbers.append(read(word))
        except ValueError:
            break
    if len(numbers) < at_least:
        kind = "whole number" if read is int else "number"
        accepted = f"{at_least} {kind}{'s' if at_least > 1 else ''}"
        raise input_error(path, f"{what} expected", line=at + 1, value=lines[at].strip(), accepted=accepted)
    return numbers


@dataclass(frozen=True, slots=True)
class Poscar:
    """A cell: lattice in angstrom, volume in cubic angstrom, scale factor, species (if the file names them), counts."""

    lattice: tuple[tuple[float, ...], ...]
    volume: float
    scale: float
    species: tuple[str, ...]
    counts: tuple[int, ...]
    is_direct: bool
    has_selective_dynamics: bool

    @property
    def ions(self) -> int:
        """Number of ions."""
        return sum(self.counts)


def parse_poscar(text: str, path: str = "POSCAR") -> Poscar:
    """The cell of a POSCAR or CONTCAR, VASP 4 (no species line) or 5, selective dynamics, Direct or Cartesian.

    Format (VASP manual, page POSCAR, 2025): comment; one scale factor, or a negative number that is the volume, or
    three positive factors of the Cartesian components; three lattice vectors; species names (VASP 5; a potential's
    suffix `_pv` or hash `/1a2b` is cut off); ions per species; optional `Selective dynamics`; the coordinate mode;
    one line an ion. What follows (velocities) is not read. Raises InputError with file and line for a file that is
    empty, truncated or contradicts itself. O(ions), a fraction of a
    microsecond each: positions are no feature, so of a large cell about a hundred are checked.

    >>> cell = parse_poscar("NaCl\\n2.0\\n1 0 0\\n0 1 0\\n0 0 2\\nNa Cl\\n1 1\\nDirect\\n0 0 0\\n.5 .5 .5\\n")
    >>> cell.volume, cell.species, cell.counts
    (16.0, ('Na', 'Cl'), (1, 1))
    """
    lines = text.splitlines()
    if not text.strip():
        raise input_error(path, "is empty", accepted="a POSCAR of VASP 4 or 5", hint="copy it from the run's CONTCAR")
    scale = floats_at(lines, 1, path, "scale factor", at_least=1)
    rows = [floats_at(lines, k, path, "lattice vector", at_least=3)[:3] for k in (2, 3, 4)]
    lattice, volume, factor = _scaled(rows, scale, path)
    at, species = _species(lines, path)
    counts = _counts(lines, at, path)
    if species and len(species) != len(counts):
        raise input_error(
            path, f"{len(species)} species names but {len(counts)} numbers of ions", line=at + 1, value=lines[at]
        )
    at += 1
    selective = line_at(lines, at, path, "Selective dynamics, Direct or Cartesian")[0] in "sS"
    mode = line_at(lines, at + selective, path, "Direct or Cartesian")
    _check_positions(lines, at + selective + 1, sum(counts), path)
    return Poscar(lattice, volume, factor, species, counts, mode[0] not in "cCkK", selective)


def _scaled(
    rows: list[list[float]], scale: list[float], path: str
) -> tuple[tuple[tuple[float, ...], ...], float, float]:
    """Lattice in angstrom, its volume, and the scale factor (of the first component)."""
    (a, b, c), (d, e, f), (g, h, i) = rows
    raw = abs(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g))
    if raw == 0.0:
        raise input_error(path, "the lattice vectors span no volume", line=3)
    if len(scale) >= 3:
        factors = scale[:3]
    elif scale[0] < 0:
        factors = [(-scale[0] / raw) ** (1 / 3)] * 3
    else:
        factors = [scale[0]] * 3
    if min(factors) <= 0:
        what = "the scale factor is zero" if len(scale) < 3 else "three scale factors must all be positive"
        raise input_error(path, what, line=2, value=" ".join(map(str, scale)))
    lattice = tuple(tuple(x * s for x, s in zip(row, factors)) for row in rows)
    return lattice, raw * factors[0] * factors[1] * factors[2], factors[0]


def _species(lines: list[str], path: str) -> tuple[int, tuple[str, ...]]:
    """The row of the ion counts and the names on the row before it, if any."""
    words = line_at(lines, 5, path, "species names or numbers of ions").split()
    if words[0].isdigit():
        return 5, ()
    names = []
    for word in words:
        if word[0] in "!#" or not word[0].isalpha():
            break
        names.append(word.split("/")[0].split("_")[0])
    return 6, tuple(names)


def _counts(lines: list[str], at: int, path: str) -> tuple[int, ...]:
    counts: list[int] = []
    for word in line_at(lines, at, path, "numbers of ions").split():
        if not word.isdigit():
            break
        counts.append(int(word))
    if not counts or sum(counts) == 0:
        raise input_error(
            path, "numbers of ions per species expected", line=at + 1, value=lines[at], accepted="whole numbers: 4 8"
        )
    return tuple(counts)


def _check_positions(lines: list[str], first: int, ions: int, path: str) -> None:
    """Every ion has a line, and about a hundred of them (all of a small cell's, the last always) hold three numbers."""
    block = lines[first : first + ions]
    if len(block) < ions or not all(map(str.strip, block)):
        there = next((k for k, line in enumerate(block) if not line.strip()), len(block))
        raise truncated(path, first + there, f"after {there} of {ions} ion positions")
    for ion in {*range(0, ions, 1 + ions // 100), ions - 1}:
        try:
            x, y, z = block[ion].split()[:3]
            float(x), float(y), float(z)
        except ValueError:  # Fortran's 1.0D0, or an error to be told in full
            floats_at(lines, first + ion, path, f"position of ion {ion + 1}", at_least=3)
