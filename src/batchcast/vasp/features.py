# SPDX-License-Identifier: Apache-2.0
"""What the four input files say about a run, as the features of the paper, defaults filled in as VASP does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import input_error
from .incar import Incar, Kpoints, from_spacing
from .poscar import Poscar, Potential

MEANINGS = {
    "kpoints": "k-points before symmetry",
    "volume": "cell volume, cubic angstrom",
    "prec": "PREC: precision",
    "ichg": "ICHARG: initial charge density",
    "isym": "ISYM: use of symmetry",
    "lreal": "LREAL: projection in real space",
    "ispin": "ISPIN: 2 is spin-polarised",
    "istart": "ISTART: above 0 continues from a WAVECAR",
    "nelmin": "NELMIN: fewest electronic steps",
    "nelm": "NELM: most electronic steps",
    "ediff": "EDIFF: electronic convergence, eV",
    "ediffg": "EDIFFG: ionic convergence, eV or (negative) eV/angstrom",
    "encut": "ENCUT: plane-wave cutoff, eV",
    "nbands": "NBANDS: bands",
    "nions": "ions (extra)",
    "nelect": "valence electrons (extra)",
}
EXTRA_FEATURES = ("nions", "nelect")
FEATURES = tuple(name for name in MEANINGS if name not in EXTRA_FEATURES)
DEFAULTS_FROM = "VASP manual (wiki pages of the tags, stored revisions up to 2026): see docs/reference/vasp.md"


@dataclass(frozen=True, slots=True)
class Features:
    """The features by name (text: prec, lreal; numbers otherwise), which of them are defaults, and remarks."""

    values: Mapping[str, float | str]
    defaulted: tuple[str, ...]
    notes: tuple[str, ...] = ()


def features(
    incar: Incar,
    poscar: Poscar,
    kpoints: Kpoints | None,
    potentials: Sequence[Potential],
    *,
    has_wavecar: bool = False,
    path: str = "",
) -> Features:
    """The features of a run from its parsed inputs.

    Source: Wu et al. 2019, table 1; processors come from the job log. Absent tags take VASP's default
    (`DEFAULTS_FROM`): PREC Normal; ISTART 1 with a WAVECAR, else 0; ICHARG 2 where ISTART is 0, else 0; ISYM 1 with
    ultrasoft potentials, 3 with LHFCALC, else 2; LREAL .FALSE.; ISPIN 1; NELM 60; NELMIN 2; EDIFF 1E-4; EDIFFG 10
    EDIFF; ENCUT the largest ENMAX (PREC=High: 1.3 times it; PREC=Low would take ENMIN, which is not read: ENMAX too);
    NBANDS see `default_nbands`. Without `kpoints` the grid comes from KSPACING. `nions` and `nelect` are extra.
    Energies in eV, volume in cubic angstrom. Raises InputError where the files contradict each other. O(species).
    """
    given = incar.values
    _check_species(poscar, potentials, path)
    electrons = given.get("NELECT", sum(p.zval * n for p, n in zip(potentials, poscar.counts)))
    sampling = kpoints or from_spacing(poscar.lattice, given.get("KSPACING", 0.5))
    istart = given.get("ISTART", 1 if has_wavecar else 0)
    ediff = given.get("EDIFF", 1e-4)
    prec = given.get("PREC", "normal")
    cutoff = max(p.enmax for p in potentials) * (1.3 if prec == "high" else 1.0)
    tags = {
        "prec": ("PREC", prec),
        "ichg": ("ICHARG", given.get("ICHARG", 0 if istart > 0 else 2)),
        "isym": ("ISYM", given.get("ISYM", default_isym(potentials, given.get("LHFCALC", False)))),
        "lreal": ("LREAL", given.get("LREAL", "false")),
        "ispin": ("ISPIN", given.get("ISPIN", 1)),
        "istart": ("ISTART", istart),
        "nelmin": ("NELMIN", given.get("NELMIN", 2)),
        "nelm": ("NELM", given.get("NELM", 60)),
        "ediff": ("EDIFF", ediff),
        "ediffg": ("EDIFFG", given.get("EDIFFG", 10 * ediff)),
        "encut": ("ENCUT", given.get("ENCUT", cutoff)),
        "nbands": ("NBANDS", given.get("NBANDS", default_nbands(electrons, poscar.ions, given))),
    }
    values: dict[str, float | str] = {"kpoints": float(sampling.number), "volume": poscar.volume}
    values |= {name: value if isinstance(value, str) else float(value) for name, (_, value) in tags.items()}
    values |= {"nions": float(poscar.ions), "nelect": float(electrons)}
    defaulted = tuple(name for name, (tag, _) in tags.items() if tag not in given)
    return Features(values, (*(("kpoints",) if kpoints is None else ()), *defaulted), incar.notes)


def default_isym(potentials: Sequence[Potential], has_hybrid: bool) -> int:
    """ISYM where the INCAR has none: 1 with ultrasoft potentials, 3 with LHFCALC, else 2 (VASP manual, page ISYM)."""
    if any(p.is_ultrasoft for p in potentials):
        return 1
    return 3 if has_hybrid else 2


def default_nbands(electrons: float, ions: int, given: Mapping[str, Any] | None = None) -> int:
    """NBANDS where the INCAR has none: max(nint(NELECT + 2)/2 + max(NIONS/2, 3), int(0.6 NELECT)), in whole numbers.

    VASP manual, page NBANDS, revision of 3 September 2025 (halves cut off, as a count needs). Where spins differ half
    the moment comes on top: ISPIN=2 adds floor((sum of MAGMOM + 1)/2), MAGMOM being 1 an ion where absent (the page's
    2019 revision has the term NMAG, today's has none); a noncollinear run has twice as many bands, its moment being
    the largest Cartesian sum. VASP then rounds up to fill its processors, which inputs do not say. O(ions).

    >>> default_nbands(8.0, 2), default_nbands(8.0, 2, {"ISPIN": 2}), default_nbands(100.0, 4)
    (8, 9, 60)
    """
    tags = given or {}
    # 0.6 has no exact binary form: the tolerance keeps 3/5 of a multiple of 5 whole
    bands = max(math.floor(electrons + 2.5) // 2 + max(ions // 2, 3), math.floor(0.6 * electrons + 1e-9))
    moments = tags.get("MAGMOM", ())
    if tags.get("LNONCOLLINEAR") or tags.get("LSORBIT"):
        sums = [sum(moments[k::3]) for k in range(3)] if moments else [float(ions)]
        return 2 * (bands + math.floor((max(sums) + 1) / 2))
    if tags.get("ISPIN", 1) == 2:
        bands += max(0, math.floor(((sum(moments) if moments else ions) + 1) / 2))
    return bands


def _check_species(poscar: Poscar, potentials: Sequence[Potential], path: str) -> None:
    """POSCAR and POTCAR must speak of the same species."""
    where = f"{path}/POTCAR" if path else "POTCAR"
    if len(potentials) != len(poscar.counts):
        raise input_error(
            where,
            f"{len(potentials)} potentials (TITEL) for {len(poscar.counts)} species in POSCAR",
            value=", ".join(p.titel for p in potentials),
            accepted="one potential a species, in POSCAR's order",
        )
    for name, potential in zip(poscar.species, potentials):
        element = _element(potential.titel)
        if element and element != name:
            raise input_error(
                where,
                f"TITEL does not match species {name} of POSCAR",
                value=potential.titel,
                accepted="POSCAR's order",
            )


def _element(titel: str) -> str:
    """`Fe` of `PAW_PBE Fe_pv 06Sep2000`; empty where the title has another form."""
    words = titel.split()
    name = words[1] if len(words) > 1 else ""
    return name.split("_")[0].split(".")[0] if name[:1].isalpha() else ""
