# SPDX-License-Identifier: Apache-2.0
"""Parses the settings of a VASP run: INCAR with every syntax of the VASP manual, and KPOINTS or KSPACING."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import input_error
from .poscar import Lattice, cross, fortran, line_at, numbers_at, volume_of

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")
_UNCOMMENTED = re.compile(r'(?:[^"#!]+|"[^"]*"|"[^"]*$)*')
_PARTED = re.compile(r'([;{}])(?=(?:[^"]*"[^"]*")*[^"]*$)')  # split at separators outside quotes
_STATEMENT = re.compile(r"\s*([A-Za-z][A-Za-z0-9_/]*)\s*=\s*(.*?)\s*", re.DOTALL)
_WORDS: dict[str, dict[str, Any]] = {
    "logical": {"t": True, "f": False},
    "prec": {"l": "low", "m": "medium", "h": "high", "n": "normal", "s": "single", "a": "accurate"},
    "lreal": {"f": "false", "t": "true", "o": "on", "a": "auto"},
}
"""The words of each kind of tag, by their first letter."""


@dataclass(frozen=True, slots=True)
class Tag:
    """How the value of an INCAR tag is read: `integer`, `real`, `logical`, `reals`, `prec` or `lreal`, with the
    smallest and the largest accepted value."""

    kind: str
    low: float = float("-inf")
    high: float = float("inf")


TAGS: dict[str, Tag] = {
    "PREC": Tag("prec"),
    "LREAL": Tag("lreal"),
    "ISTART": Tag("integer", 0, 3),
    "ICHARG": Tag("integer", 0, 15),
    "ISYM": Tag("integer", -1, 3),
    "ISPIN": Tag("integer", 1, 2),
    "NELM": Tag("integer", 0),
    "NELMIN": Tag("integer"),
    "NBANDS": Tag("integer", 1),
    "EDIFF": Tag("real", 0.0),
    "EDIFFG": Tag("real"),
    "ENCUT": Tag("real", 1e-6),
    "NELECT": Tag("real", 0.0),
    "KSPACING": Tag("real", 1e-6),
    "MAGMOM": Tag("reals"),
    **dict.fromkeys(("KGAMMA", "LHFCALC", "LNONCOLLINEAR", "LSORBIT"), Tag("logical")),
}

_ACCEPTED = {
    "integer": "a whole number",
    "real": "a number such as 400, 1E-5 or 1.D-5",
    "reals": "numbers, with repeat counts such as 3*0.5",
    "logical": ".TRUE., .FALSE., T or F",
    "prec": "Low, Medium, High, Normal, Single or Accurate",
    "lreal": ".FALSE., .TRUE., On or Auto",
}


@dataclass(frozen=True, slots=True)
class Incar:
    """The values of the tags of an INCAR that are in `TAGS`, and remarks on odd but legal input.

    `texts` has the text of every tag, including tags that are not in `TAGS`.
    """

    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


def parse_incar(text: str, path: str = "INCAR") -> Incar:
    """Return the tags of `TAGS` in an INCAR; other tags, and text that is not `tag = value`, are skipped as in VASP.

    Syntax (VASP manual, page INCAR, 2025): comments after # or !; statements separated by `;`; a backslash at the end
    of a line continues it; values in double quotes span lines; groups in braces (VASP 6) name their tags GROUP/TAG;
    Fortran numbers (1.D-5, .5), logicals (T, .TRUE., f) and repeat counts (3*0.5); any case; words after the value are
    ignored (`ENCUT = 300 eV`). If a tag is repeated, the first value counts, as in VASP's reader (the manual does not
    state this), and there is a remark. An InputError names the file, line, tag and accepted forms. O(length).

    >>> parse_incar("encut = 400 eV ; ispin=2  # spin\\nMAGMOM = 2*1.5 \\\\\\n -1\\nLREAL = A").values
    {'ENCUT': 400.0, 'ISPIN': 2, 'MAGMOM': (1.5, 1.5, -1.0), 'LREAL': 'auto'}
    """
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    notes: list[str] = []
    texts: dict[str, str] = {}
    for line, match in [(line, _STATEMENT.fullmatch(statement)) for line, statement in _statements(text)]:
        if match is None:
            continue
        tag, written = match[1].upper(), match[2].strip('" \t')
        texts.setdefault(tag, written)
        if tag in TAGS:
            value = _value(tag, written, path, line)
            if value != values.setdefault(tag, value):
                notes.append(f"{path}:{line}: {tag} is given twice; VASP takes the first, of line {lines[tag]}")
            lines.setdefault(tag, line)
    return Incar(values, tuple(notes), texts)


TAG_PREFIX = "incar_"
"""Prefix of the columns of tags: `incar_nsw`."""
NUMBER_TAGS = {"NSW": 0.0, "NCORE": 1.0, "NPAR": 0.0, "KPAR": 1.0, "POTIM": 0.5, "SIGMA": 0.2, "NSIM": 4.0,
               "NELMDL": -5.0}  # fmt: skip
"""Tags that become numbers, with VASP's default; every other tag becomes text."""
TEXT_TAGS = {"IBRION": "-1", "ISIF": "2", "ISMEAR": "1", "ALGO": "normal", "IVDW": "0", "LDAU": "false",
             "LHFCALC": "false", "LWAVE": "true", "LCHARG": "true", "LREAL": "false"}  # fmt: skip
"""VASP's default of some text tags; a tag without a default is `absent` if an INCAR does not have it."""
ABSENT = "absent"
NO_COLUMNS = frozenset({"SYSTEM", "MAGMOM"})
"""Tags that never become columns: a title, and a list with an entry per ion."""


def tag_values(texts: Mapping[str, str], tags: Sequence[str] | None, path: str = "INCAR") -> dict[str, float | str]:
    """Return the columns of the tags that an INCAR has, each a number or a word; if `tags` is None, all tags of the
    INCAR.

    Raises InputError if the value of a numeric tag is not a number.

    >>> tag_values({"NSW": "40", "IBRION": "2 ! CG", "ALGO": "Fast", "LWAVE": ".FALSE."}, None)
    {'incar_nsw': 40.0, 'incar_ibrion': '2', 'incar_algo': 'fast', 'incar_lwave': 'false'}
    """
    found: dict[str, Any] = {}
    for tag, text in texts.items():
        if tag in NO_COLUMNS or (tags is not None and tag not in tags):
            continue
        if tag in NUMBER_TAGS:
            value = _value(tag, text, path)
        else:
            value = (text.split() or [ABSENT])[0].lower()
            if tag.startswith("L"):
                value = {"t": "true", "f": "false"}.get(value.lstrip(".")[:1], value)
        found[TAG_PREFIX + tag.lower()] = value
    return found


def tag_default(column: str) -> float | str:
    """Return the value of a tag's column if an INCAR does not have the tag.

    >>> tag_default("incar_nsw"), tag_default("incar_ibrion"), tag_default("incar_metagga")
    (0.0, '-1', 'absent')
    """
    tag = column.removeprefix(TAG_PREFIX).upper()
    return NUMBER_TAGS[tag] if tag in NUMBER_TAGS else TEXT_TAGS.get(tag, ABSENT)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of every statement, without comments, with lines joined and groups expanded."""
    group: list[str] = []
    for start, line in _joined(text):
        for piece in _PARTED.split(line):
            if piece == "}" and group:
                group.pop()
            elif piece == "{":
                continue
            elif piece.strip() and "=" not in piece and "{" in line and re.fullmatch(r"\s*\w+\s*", piece):
                group.append(piece.strip())
            elif "=" in piece:
                yield start, "/".join([*group, piece.strip()])


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Yield logical lines with the number of their first physical line."""
    lines = [found[0] for line in text.splitlines() if (found := _UNCOMMENTED.match(line))]
    if sum(line.count('"') for line in lines) % 2:
        lines = [line.replace('"', " ") for line in lines]  # an unclosed quote must not hide the rest of the file
    held, start, quoted = "", 0, False
    for number, line in enumerate(lines, start=1):
        if not held:
            start = number
        quoted ^= line.count('"') % 2 == 1
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
        elif quoted:
            held += line + " "
        else:
            yield start, held + line
            held = ""
    if held:
        yield start, held


def _value(tag: str, text: str, path: str, line: int | None = None) -> Any:
    """Return the value of a tag, checked against its kind and range; a tag that is not in `TAGS` is a number."""
    rule = TAGS.get(tag, Tag("real"))
    value, accepted = _read(rule.kind, text), _ACCEPTED[rule.kind]
    if isinstance(value, (int, float)) and not rule.low <= value <= rule.high:
        value, accepted = None, f"{rule.low:g} to {rule.high:g}" if rule.high < math.inf else f"at least {rule.low:g}"
    if value is None:
        raise input_error(path, f"{tag} cannot be read", line=line, value=text, accepted=accepted)
    return value


def _read(kind: str, text: str) -> Any:
    """Return the value of a text as the given kind (such as `integer`); None if the text is not of this kind."""
    if kind in _WORDS:
        return _WORDS[kind].get(text.lstrip(".").lower()[:1])
    numbers = _numbers(text)
    if kind == "reals" or not numbers:
        return tuple(numbers) or None
    if kind == "integer":
        return int(numbers[0]) if numbers[0] == int(numbers[0]) else None
    return numbers[0]


def _numbers(text: str) -> list[float]:
    """Return the numbers at the beginning of a value, with repeat counts expanded; text after the numbers leads to a
    remark."""
    numbers: list[float] = []
    for word in text.replace(",", " ").split():
        count, star, last = word.rpartition("*")
        if _NUMBER.fullmatch(last) is None or (star and not count.isdigit()):
            break
        numbers += [fortran(last)] * (int(count) if star else 1)
    return numbers


def parse_kpoints(text: str, lattice: Lattice, scale: float = 1.0, path: str = "KPOINTS") -> int:
    """Return the number of k-points of a KPOINTS file: automatic (Gamma, Monkhorst-Pack, length), explicit list or line
    mode.

    Format (VASP manual, page KPOINTS, 2025). Line 2 is 0 for automatic: line 3 begins with G, M, or A (fully automatic:
    line 4 is the length R, N_i = int(max(1, R*|b_i| + 0.5)) with b_i without 2 pi); any other letter means a generating
    lattice, reciprocal or Cartesian. If line 2 is not 0, it is the number of points of the list, or of each segment if
    line 3 begins with L. The result is the number of k-points before symmetry, as in the paper: the product of the
    subdivisions, or points times segments. `lattice` is in angstrom; `scale` is POSCAR's scale factor, the unit of
    Cartesian vectors. An InputError names the file and line. O(lines).

    >>> cubic = ((4.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 4.0))
    >>> parse_kpoints("mesh\\n0\\nMonkhorst-Pack\\n4 4 2\\n0 0 0\\n", cubic)
    32
    """
    lines = text.splitlines()
    if not text.strip():
        hint = "remove it: without KPOINTS, VASP uses KSPACING"
        raise input_error(path, "is empty", accepted="a KPOINTS file", hint=hint)
    count = numbers_at(lines, 1, path, "the number of k-points (0: automatic)", 1, int)[0]
    style = line_at(lines, 2, path, "the k-point mode").lower()[0]
    if count > 0:
        return _listed(lines, count, style, path)
    if style == "a":
        length = numbers_at(lines, 3, path, "the length of automatic k-points", 1)[0]
        return math.prod(int(max(1.0, length * b + 0.5)) for b in reciprocal_lengths(lattice))
    if style in "gm":
        grid = numbers_at(lines, 3, path, "three subdivisions", 3, int)[:3]
        if min(grid) < 1:
            raise input_error(path, "subdivisions of the grid", line=4, value=lines[3], accepted="at least 1 each")
        return math.prod(grid)
    # a generating lattice: the reciprocal cell's volume divided by the volume of the generating lattice's cell
    cell = volume_of([numbers_at(lines, k, path, "a generating vector", 3)[:3] for k in (3, 4, 5)])
    if cell == 0:
        raise input_error(path, "the generating vectors lie in one plane", line=4)
    if style in "ck":  # Cartesian, in units of 2 pi / scale
        cell *= volume_of(lattice) / scale**3
    return max(1, round(1 / cell))


def from_spacing(lattice: Lattice, spacing: float = 0.5) -> int:
    """Return the number of points of VASP's grid without a KPOINTS file: N_i = max(1, ceiling(|b_i| 2 pi / KSPACING)).

    VASP manual, page KSPACING (2025); default spacing 0.5 per angstrom. The tag KGAMMA is not read, because it only
    shifts the grid.

    >>> from_spacing(((4.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 12.0)))
    32
    """
    # with the tolerance, a spacing that divides evenly does not get one more point by rounding
    return math.prod(max(1, math.ceil(b * 2 * math.pi / spacing - 1e-9)) for b in reciprocal_lengths(lattice))


def reciprocal_lengths(lattice: Lattice) -> list[float]:
    """Return the lengths of the three reciprocal lattice vectors, without the factor 2 pi, per angstrom."""
    a, b, c = lattice
    volume = volume_of(lattice)
    return [math.hypot(*cross(u, v)) / volume for u, v in ((b, c), (c, a), (a, b))]


def _listed(lines: list[str], count: int, style: str, path: str) -> int:
    """Return the number of points in an explicit list, or of points along lines between pairs of points."""
    if style != "l":
        for at in range(3, 3 + count):
            numbers_at(lines, at, path, f"k-point {at - 2} of {count}", 3)
        return count
    ends = [at for at in range(4, len(lines)) if lines[at].strip()]
    for at in ends:
        numbers_at(lines, at, path, "a k-point of line mode", 3)
    if not ends or len(ends) % 2:
        raise input_error(path, f"line mode needs pairs of k-points, found {len(ends)}", line=len(lines))
    return count * len(ends) // 2
