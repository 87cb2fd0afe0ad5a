# SPDX-License-Identifier: Apache-2.0
"""KPOINTS: how many k-points a run samples, from text or from KSPACING."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..errors import input_error
from .poscar import floats_at, ints_at, line_at

Lattice = tuple[tuple[float, ...], ...]
Mode = Literal["gamma", "monkhorst", "length", "generating", "explicit", "line", "kspacing"]


@dataclass(frozen=True, slots=True)
class Kpoints:
    """A sampling: its mode, the number of k-points before symmetry, and the subdivisions where there is a grid."""

    mode: Mode
    number: int
    grid: tuple[int, ...] = ()


def parse_kpoints(text: str, lattice: Lattice, scale: float = 1.0, path: str = "KPOINTS") -> Kpoints:
    """The sampling a KPOINTS file asks for: automatic (Gamma, Monkhorst-Pack, length), explicit list or line mode.

    Format (VASP manual, page KPOINTS, 2025). Line 2 is 0 for automatic: line 3 begins with G, M, or A (fully
    automatic: line 4 is the length R, N_i = int(max(1, R*|b_i| + 0.5)) with b_i without 2 pi), anything else is a
    generating lattice, reciprocal or Cartesian. Else line 2 counts points: of the list, or of each segment where line
    3 begins with L. The number is that before symmetry, as the paper counts it: the product of the subdivisions;
    points times segments. Lattice in angstrom; `scale` is POSCAR's, the unit of Cartesian vectors. Raises InputError
    with file and line. O(lines).

    >>> cubic = ((4.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 4.0))
    >>> parse_kpoints("mesh\\n0\\nMonkhorst-Pack\\n4 4 2\\n0 0 0\\n", cubic).number
    32
    """
    lines = text.splitlines()
    if not text.strip():
        raise input_error(
            path, "is empty", accepted="a KPOINTS file", hint="remove it: without KPOINTS, KSPACING of the INCAR counts"
        )
    count = ints_at(lines, 1, path, "the number of k-points (0: automatic)", 1)[0]
    style = line_at(lines, 2, path, "the k-point mode").lower()[0]
    if count > 0:
        return _listed(lines, count, style, path)
    if style == "a":
        length = floats_at(lines, 3, path, "the length of automatic k-points", 1)[0]
        grid = tuple(int(max(1.0, length * b + 0.5)) for b in reciprocal_lengths(lattice))
        return Kpoints("length", math.prod(grid), grid)
    if style in "gm":
        grid = tuple(ints_at(lines, 3, path, "three subdivisions", 3)[:3])
        if min(grid) < 1:
            raise input_error(path, "subdivisions of the grid", line=4, value=lines[3], accepted="at least 1 each")
        return Kpoints("gamma" if style == "g" else "monkhorst", math.prod(grid), grid)
    return _generated(lines, style, lattice, scale, path)


def from_spacing(lattice: Lattice, spacing: float = 0.5) -> Kpoints:
    """The grid VASP makes without a KPOINTS file: N_i = max(1, ceiling(|b_i| 2 pi / KSPACING)).

    VASP manual, page KSPACING (2025); default spacing 0.5 per angstrom. KGAMMA only moves the grid.

    >>> from_spacing(((4.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 12.0))).grid
    (4, 4, 2)
    """
    # the tolerance keeps a spacing that divides evenly from gaining a point by rounding
    grid = tuple(max(1, math.ceil(b * 2 * math.pi / spacing - 1e-9)) for b in reciprocal_lengths(lattice))
    return Kpoints("kspacing", math.prod(grid), grid)


def reciprocal_lengths(lattice: Lattice) -> tuple[float, float, float]:
    """Lengths of the reciprocal lattice vectors without 2 pi, per angstrom."""
    a, b, c = lattice
    volume = abs(sum(x * y for x, y in zip(a, _cross(b, c))))
    lengths = [math.hypot(*_cross(u, v)) / volume for u, v in ((b, c), (c, a), (a, b))]
    return lengths[0], lengths[1], lengths[2]


def _cross(u: tuple[float, ...], v: tuple[float, ...]) -> tuple[float, float, float]:
    return (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])


def _listed(lines: list[str], count: int, style: str, path: str) -> Kpoints:
    """An explicit list, or points along lines between pairs."""
    if style != "l":
        for at in range(3, 3 + count):
            floats_at(lines, at, path, f"k-point {at - 2} of {count}", 3)
        return Kpoints("explicit", count)
    ends = 0
    for at in range(4, len(lines)):
        if lines[at].strip():
            floats_at(lines, at, path, "a k-point of line mode", 3)
            ends += 1
    if ends == 0 or ends % 2:
        raise input_error(path, f"line mode needs pairs of k-points, found {ends}", line=len(lines))
    return Kpoints("line", count * ends // 2)


def _generated(lines: list[str], style: str, lattice: Lattice, scale: float, path: str) -> Kpoints:
    """A generating lattice: as many points as its cell fits into the reciprocal cell."""
    a, b, c = (tuple(floats_at(lines, k, path, "a generating vector", 3)[:3]) for k in (3, 4, 5))
    cell = abs(sum(x * y for x, y in zip(a, _cross(b, c))))
    if cell == 0:
        raise input_error(path, "the generating vectors span no volume", line=4)
    if style in "ck":  # Cartesian, in units of 2 pi / scale
        u, v, w = lattice
        cell *= abs(sum(x * y for x, y in zip(u, _cross(v, w)))) / scale**3
    return Kpoints("generating", max(1, round(1 / cell)))
