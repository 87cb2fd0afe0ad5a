# SPDX-License-Identifier: Apache-2.0
"""Computes features of a VASP job from its four input files, with VASP's defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import input_error
from .incar import Incar, from_spacing
from .poscar import Poscar, Potential

MEANINGS = {
    "kpoints": "number of k-points before symmetry",
    "volume": "cell volume, cubic angstrom",
    "prec": "PREC: precision",
    "ichg": "ICHARG: initial charge density",
    "isym": "ISYM: use of symmetry",
    "lreal": "LREAL: projection in real space",
    "ispin": "ISPIN: 2 is spin-polarised",
    "istart": "ISTART: above 0 continues from a WAVECAR",
    "nelmin": "NELMIN: minimum number of electronic steps",
    "nelm": "NELM: maximum number of electronic steps",
    "ediff": "EDIFF: electronic convergence, eV",
    "ediffg": "EDIFFG: ionic convergence, eV or (negative) eV/angstrom",
    "encut": "ENCUT: plane-wave cutoff, eV",
    "nbands": "NBANDS: number of bands",
    "nions": "number of ions (not in the paper)",
    "nelect": "number of valence electrons (not in the paper)",
}
TAG_OF = {"ichg": "ICHARG"}
"""The INCAR tag of a feature, if it is not the feature's name in capitals."""
EXTRA_FEATURES = ("nions", "nelect")
TEXT_FEATURES = ("prec", "lreal")
FEATURES = tuple(name for name in MEANINGS if name not in EXTRA_FEATURES)
DEFAULTS_FROM = "VASP manual (vasp.at/wiki/TAG, stored revisions up to 2026)"


@dataclass(frozen=True, slots=True)
class Features:
    """Features by name (prec and lreal are text, all others numbers), the names of features that have VASP's defaults,
    and remarks."""

    values: Mapping[str, float | str]
    defaulted: tuple[str, ...]
    notes: tuple[str, ...] = ()


def features(
    incar: Incar,
    poscar: Poscar,
    kpoints: int | None,
    potentials: Sequence[Potential],
    *,
    has_wavecar: bool = False,
    path: str = "",
) -> Features:
    """Return the features of a run from its parsed inputs.

    The features come from Wu et al. 2019, table 1; the processors are missing, because they come from the job log. An
    absent tag gets VASP's default (`DEFAULTS_FROM`): PREC Normal; ISTART 1 with a WAVECAR, else 0; ICHARG 2 if ISTART
    is 0, else 0; ISYM 1 with ultrasoft potentials, 3 with LHFCALC, else 2; LREAL .FALSE.; ISPIN 1; NELM 60; NELMIN 2;
    EDIFF 1E-4; EDIFFG 10 EDIFF; ENCUT the largest ENMAX (1.3 times this with PREC=High; with PREC=Low VASP uses ENMIN,
    which is not read, so ENMAX replaces it); NBANDS see `default_nbands`. If `kpoints` is None, the grid of k-points
    comes from KSPACING. `nions` and `nelect` are not in the paper. Energies are in eV, the volume is in cubic angstrom.
    Raises InputError if the input files contradict each other. O(species).
    """
    given = incar.values
    _check_species(poscar, potentials, path)
    electrons = given.get("NELECT", sum(p.zval * n for p, n in zip(potentials, poscar.counts)))
    points = from_spacing(poscar.lattice, given.get("KSPACING", 0.5)) if kpoints is None else kpoints
    istart = given.get("ISTART", 1 if has_wavecar else 0)
    ediff = given.get("EDIFF", 1e-4)
    cutoff = max(p.enmax for p in potentials) * (1.3 if given.get("PREC") == "high" else 1.0)
    isym = 1 if any(p.is_ultrasoft for p in potentials) else 3 if given.get("LHFCALC") else 2
    bands = default_nbands(electrons, poscar.ions, given)
    defaults = {
        "prec": "normal", "ichg": 0 if istart > 0 else 2, "isym": isym, "lreal": "false", "ispin": 1, "istart": istart,
        "nelmin": 2, "nelm": 60, "ediff": ediff, "ediffg": 10 * ediff, "encut": cutoff, "nbands": bands,
    }  # fmt: skip
    values: dict[str, float | str] = {"kpoints": float(points), "volume": poscar.volume}
    for name, default in defaults.items():
        value = given.get(TAG_OF.get(name, name.upper()), default)
        values[name] = value if isinstance(value, str) else float(value)
    values |= {"nions": float(poscar.ions), "nelect": float(electrons)}
    defaulted = tuple(name for name in defaults if TAG_OF.get(name, name.upper()) not in given)
    return Features(values, (*(("kpoints",) if kpoints is None else ()), *defaulted), incar.notes)


def default_nbands(electrons: float, ions: int, tags: Mapping[str, Any] | None = None) -> int:
    """Return VASP's default of NBANDS if the tag is absent: max(nint(NELECT + 2)/2 + max(NIONS/2, 3), int(0.6 NELECT)),
    in whole numbers.

    The formula is from the VASP manual, page NBANDS, revision of 3 September 2025 (with fractions cut off). For
    spin-polarised runs, half the magnetic moment is added: ISPIN=2 adds floor((sum of MAGMOM + 1)/2), with MAGMOM 1 per
    ion if absent (the page's 2019 revision has a term NMAG, the present revision does not). A noncollinear run has
    twice this number of bands, with the largest Cartesian sum as moment. VASP then rounds up to a multiple that fills
    its processors; the inputs do not show this number. O(ions).

    >>> default_nbands(8.0, 2), default_nbands(8.0, 2, {"ISPIN": 2}), default_nbands(100.0, 4)
    (8, 9, 60)
    """
    tags = tags or {}
    # 0.6 has no exact binary form: with the tolerance, 3/5 of a multiple of 5 stays a whole number
    bands = max(math.floor(electrons + 2.5) // 2 + max(ions // 2, 3), math.floor(0.6 * electrons + 1e-9))
    moments = tags.get("MAGMOM", ())
    if tags.get("LNONCOLLINEAR") or tags.get("LSORBIT"):
        sums = [sum(moments[k::3]) for k in range(3)] if moments else [float(ions)]
        return 2 * (bands + math.floor((max(sums) + 1) / 2))
    if tags.get("ISPIN", 1) == 2:
        bands += max(0, math.floor(((sum(moments) if moments else ions) + 1) / 2))
    return bands


def _check_species(poscar: Poscar, potentials: Sequence[Potential], path: str) -> None:
    """Check that POSCAR and POTCAR have equal species."""
    where = f"{path}/POTCAR" if path else "POTCAR"
    if len(potentials) != len(poscar.counts):
        what = f"{len(potentials)} potentials (TITEL) for {len(poscar.counts)} species in POSCAR"
        titles, accepted = ", ".join(p.titel for p in potentials), "one potential per species, in POSCAR's order"
        raise input_error(where, what, value=titles, accepted=accepted)
    for name, potential in zip(poscar.species, potentials):
        if _element(potential.titel) not in ("", name):
            what = f"TITEL does not match species {name} of POSCAR"
            raise input_error(where, what, value=potential.titel, accepted="POSCAR's order")


def _element(titel: str) -> str:
    """Return the element in a potential's title, `Fe` in `PAW_PBE Fe_pv 06Sep2000`; empty if the title has another
    form."""
    words = titel.split()
    name = words[1] if len(words) > 1 else ""
    return name.split("_")[0].split(".")[0] if name[:1].isalpha() else ""
