# SPDX-License-Identifier: Apache-2.0
"""Quantum ESPRESSO: reads the input of pw.x as features of a job, with the defaults of the documentation (INPUT_PW)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..errors import InputError, input_error
from ..trace.input_files import Folder
from .poscar import fortran

PREFIX = "qe_"
ENDINGS = (".in", ".inp", ".pwi", ".pw")
MOST_CANDIDATES = 20
HEAD = 64 << 10
_NAMELIST = re.compile(r"^\s*&(\w+)", re.MULTILINE)
_UNCOMMENTED = re.compile(r"(?:[^'!#]|'[^']*')*")  # a comment mark inside quotes does not begin a comment
_ASSIGNMENT = re.compile(r"(\w+(?:\(\s*\d+(?:\s*,\s*\d+)*\s*\))?)\s*=\s*('[^']*'|\"[^\"]*\"|[^\s,]+)")
NUMBERS: dict[str, float] = {
    "nbnd": 0.0, "nspin": 1.0, "ibrav": 0.0, "conv_thr": 1e-6, "electron_maxstep": 100.0, "mixing_beta": 0.7,
    "degauss": 0.0,
}  # fmt: skip
"""Numbers and their defaults. `nbnd` 0 means that pw.x chooses the number of bands from the electrons."""
TEXTS = {"calculation": "scf", "restart_mode": "from_scratch", "occupations": "fixed", "diagonalization": "david",
         "input_dft": "of the pseudopotentials"}  # fmt: skip
SWITCHES = ("noncolin", "lspinorb")
NEEDED = ("ecutwfc", "nat", "ntyp")
MOVES_IONS = ("relax", "vc-relax", "md", "vc-md")
MEANINGS = {
    "qe_ecutwfc": "cutoff of wavefunctions, Ry",
    "qe_ecutrho": "cutoff of charge density, Ry",
    "qe_nat": "atoms in the cell",
    "qe_ntyp": "types of atoms",
    "qe_kpoints": "k-points before symmetry",
    "qe_nstep": "most ionic steps",
    **{f"{PREFIX}{name}": f"{name} of the input" for name in (*NUMBERS, *TEXTS, *SWITCHES)},
}


class PwInputs:
    """Reads the features of a Quantum ESPRESSO job from the input of pw.x.

    References
    ----------
    P. Giannozzi et al., "QUANTUM ESPRESSO: a modular and open-source software project for quantum simulations of
    materials", J. Phys. Condens. Matter 21, 395502, 2009. The names and defaults of variables follow the
    documentation's page INPUT_PW.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     text = "&CONTROL\\n/\\n&SYSTEM\\n ecutwfc = 30, nat = 2, ntyp = 1\\n/\\nK_POINTS gamma\\n"
    ...     _ = pathlib.Path(name, "pw.in").write_text(text)
    ...     PwInputs().read(Folder(name))["qe_ecutwfc"]
    30.0
    """

    columns = MEANINGS

    def is_here(self, folder: Folder) -> bool:
        """Return whether the directory has a file with the namelists of pw.x."""
        return bool(_inputs(folder))

    def read(self, folder: Folder, before: float = math.inf) -> Mapping[str, float | str]:
        """Return the features; InputError if there are several inputs of pw.x, because one job runs only one of these
        inputs."""
        names = _inputs(folder)
        if len(names) != 1:
            raise input_error(folder.path, f"has {len(names)} inputs of pw.x", value=", ".join(names[:5]),
                              accepted="one in a job's directory")  # fmt: skip
        return parse_pw(folder.text(names[0]), f"{folder.path}/{names[0]}")


def _inputs(folder: Folder) -> list[str]:
    """Return the names of files with the namelists &CONTROL and &SYSTEM."""
    found = []
    for name in [one for one in folder.names() if one.endswith(ENDINGS)][:MOST_CANDIDATES]:
        with suppress(InputError), folder.open(name) as file:
            head = file.read(HEAD).decode("utf-8", errors="replace").lower()
            if {"control", "system"} <= set(_NAMELIST.findall(head)):
                found.append(name)
    return found


def parse_pw(text: str, path: str = "pw.in") -> dict[str, float | str]:
    """Return the features of an input of pw.x.

    Source: Quantum ESPRESSO, INPUT_PW: `ecutrho` is 4 `ecutwfc` if absent, `nstep` is 1 for a calculation without
    ionic steps and else 50. An InputError names a required variable that is missing, or a variable that is not a
    number.

    >>> found = parse_pw('''
    ... &CONTROL
    ...   calculation = 'relax' ! a comment
    ... /
    ... &SYSTEM
    ...   ibrav = 2, celldm(1) = 10.2, nat = 2, ntyp = 1, ecutwfc = 3.D1
    ... /
    ... &ELECTRONS
    ... /
    ... K_POINTS automatic
    ...   4 4 2  1 1 1
    ... ''')
    >>> found["qe_ecutwfc"], found["qe_ecutrho"], found["qe_kpoints"], found["qe_nstep"], found["qe_calculation"]
    (30.0, 120.0, 32.0, 50.0, 'relax')
    """
    lines = [found[0] for line in text.splitlines() if (found := _UNCOMMENTED.match(line))]
    given = {name.lower().replace(" ", ""): value for name, value in _ASSIGNMENT.findall("\n".join(lines))}
    if missing := [name for name in NEEDED if name not in given]:
        raise input_error(path, f"has no {missing[0]}", accepted="an input of pw.x with " + ", ".join(NEEDED))
    values: dict[str, float | str] = {f"{PREFIX}{name}": _number(given, name, path) for name in NEEDED}
    for name, word in TEXTS.items():
        values[PREFIX + name] = given.get(name, word).strip("'\" ").lower()[:64]
    steps = 50.0 if values["qe_calculation"] in MOVES_IONS else 1.0
    for name, default in {**NUMBERS, "ecutrho": 4.0 * float(values["qe_ecutwfc"]), "nstep": steps}.items():
        values[PREFIX + name] = _number(given, name, path) if name in given else default
    for name in SWITCHES:
        values[PREFIX + name] = "true" if given.get(name, ".false.").lstrip(".").lower().startswith("t") else "false"
    values["qe_kpoints"] = _kpoints(lines, path)
    return values


def _number(given: Mapping[str, Any], name: str, path: str) -> float:
    """Return the value of a text in Fortran's notation of numbers."""
    try:
        value = fortran(given[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise input_error(path, f"{name} is not a number", value=given[name], accepted="a number such as 30 or 1.D-8")
    return value


def _kpoints(lines: list[str], path: str) -> float:
    """Return the number of k-points before symmetry that the card K_POINTS requests."""
    at = next((k for k, line in enumerate(lines) if line.split()[:1] and line.split()[0].upper() == "K_POINTS"), None)
    if at is None:
        raise input_error(path, "has no card K_POINTS", accepted="K_POINTS automatic, gamma, crystal or tpiba")
    style = re.sub(r"[{}()]", " ", lines[at].partition("K_POINTS")[2] or lines[at][8:]).split()
    kind = style[0].lower() if style else "tpiba"
    if kind == "gamma":
        return 1.0
    following = next((line for line in lines[at + 1 :] if line.strip()), "")
    words = following.split()[: 3 if kind == "automatic" else 1]
    if not words or not all(word.isdigit() and int(word) > 0 for word in words):
        raise input_error(path, "K_POINTS has no number of points", line=at + 2, value=following.strip(),
                          accepted="whole numbers")  # fmt: skip
    return float(math.prod(map(int, words)))
