# SPDX-License-Identifier: Apache-2.0
"""Computes the paper's features from the four input files, with VASP's defaults; the module also draws synthetic jobs.

The synthetic logs have the size of the logs of Wu et al. 2019, which are private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UsageError, input_error
from ...table import LogInfo, Nominal, Trace
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


JOBS = 16_700
KEYS = (
    # ISPIN, ISYM, LREAL, PREC and the share of jobs with this key: three keys have more than the 3,000 of 13,360 rows
    # that BRBF needs
    ((1, 2, "auto", "normal"), 0.31),
    ((2, 0, "auto", "accurate"), 0.28),
    ((1, 0, "false", "accurate"), 0.27),
    ((2, 2, "false", "normal"), 0.06),
    ((2, 0, "auto", "normal"), 0.03),
    ((1, 2, "false", "high"), 0.02),
    ((1, 1, "true", "medium"), 0.02),
    ((2, 3, "true", "low"), 0.01),
)
SHARES: Mapping[str, tuple[tuple[float, float], ...]] = {
    # limits in minutes, and the fraction of jobs that run at most this long, from the paper's table 2 and its text
    # about the second set
    "first": ((1, 0.0), (5, 0.2), (30, 0.557), (60, 0.653), (90, 0.702), (120, 0.735), (150, 0.76), (180, 0.785),
              (720, 0.93), (4320, 1.0)),
    "second": ((1, 0.0), (5, 0.22), (30, 0.60), (60, 0.68), (90, 0.72), (120, 0.75), (150, 0.775), (180, 0.80),
               (720, 0.93), (4320, 1.0)),
}  # fmt: skip


def draw_vasp_log(rng: np.random.Generator, jobs: int = JOBS, *, users: int = 120, shares: str = "first") -> Trace:
    """Draw a log of finished VASP jobs of many users, with the features of the jobs' inputs.

    >>> log = draw_vasp_log(np.random.default_rng(0), 500)
    >>> len(log), bool((log.run_time > 0).all())
    (500, True)
    """
    # The synthetic log is not a model of a real cluster. The synthetic log exercises every branch of the methods (a
    # network for each of three keys, users to cluster, every bin of Tables 3 and 4), and cannot confirm the paper's
    # figures. A user has a few chemical systems and repeats runs of these systems in sessions. The work of a job grows
    # with bands, ions, k-points and cutoff as in plane-wave codes, times a factor of its key and log-normal noise. The
    # jobs are then ranked by work, and run times that are distributed as `shares` says are assigned by rank.
    #
    # Wu, Shen, Zhang, Liao, Wang & Li, Runtime prediction of jobs for backfilling optimization, 2019, tables 1 and 2.
    if jobs < 100 or users < 1 or shares not in SHARES:
        raise UsageError(f"a VASP log of {jobs} jobs, {users} users, shares {shares!r} (accepted: from 100, from 1, "
                         f"{' or '.join(SHARES)})")  # fmt: skip
    systems = _systems(rng, 6 * users)
    busy = 1.0 / np.arange(1, users + 1)
    owner = rng.choice(users, len(systems["volume"]), p=busy / busy.sum())
    # jobs come in sessions with one system, so that the keys keep their shares of the jobs
    length = rng.geometric(0.2, jobs)
    chosen = np.repeat(rng.integers(0, len(owner), jobs), length)[:jobs]
    columns = {name: values[chosen] for name, values in systems.items()}
    columns |= {"req_procs": 2.0 ** rng.integers(3, 9, jobs), "wait_time": np.zeros(jobs)}
    columns["kpoints"] = np.where(rng.random(jobs) < 0.2, columns["kpoints"] * 8, columns["kpoints"])
    work = (
        1.5 * np.log(columns["nbands"]) + np.log(columns["kpoints"]) + np.log(columns["nions"])
        + 1.5 * np.log(columns["encut"]) - 0.7 * np.log(columns["req_procs"]) + columns.pop("cost")
        + 0.35 * np.log(columns["nelm"]) + rng.normal(0.0, 0.5, jobs)
    )  # fmt: skip
    rank = (np.argsort(np.argsort(work, kind="stable"), kind="stable") + 0.5) / jobs
    minutes, below = np.array(SHARES[shares]).T
    columns["run_time"] = np.ceil(60.0 * np.exp(np.interp(rank, below, np.log(minutes))))
    columns["submit_time"] = np.floor(np.sort(rng.uniform(0.0, 182 * 86400.0, jobs)))
    names = {name: Nominal.encode([str(v) for v in columns.pop(name).tolist()]) for name in TEXT_FEATURES}
    names["user_id"] = Nominal.encode([f"u{k}" for k in owner[chosen].tolist()])
    info = LogInfo(source=f"synthetic VASP jobs ({shares} set)", format="synthetic")
    return Trace.from_arrays({**columns, **names}, info)


def _systems(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Draw the features of systems with their users' settings, and `cost`, the factor by which the key multiplies the
    work."""
    ions = np.ceil(np.exp(rng.normal(3.4, 0.9, count)))
    electrons = np.ceil(ions * rng.uniform(3.0, 9.0, count))
    key = rng.choice(len(KEYS), count, p=[share for _, share in KEYS])
    spin, symmetry, real, precision = (np.array([k[0][part] for k in KEYS], dtype=object)[key] for part in range(4))
    ediff = 10.0 ** -rng.integers(4, 8, count)
    columns: dict[str, np.ndarray] = {
        "kpoints": rng.choice([1, 2, 4, 8, 16, 36, 64], count).astype(float),
        "volume": ions * rng.uniform(12.0, 30.0, count),
        "prec": precision,
        "ichg": np.full(count, 2.0),
        "isym": symmetry.astype(float),
        "lreal": real,
        "ispin": spin.astype(float),
        "istart": np.zeros(count),
        "nelmin": rng.choice([2.0, 4.0, 6.0], count, p=[0.7, 0.2, 0.1]),
        "nelm": rng.choice([60.0, 100.0, 200.0], count, p=[0.6, 0.3, 0.1]),
        "ediff": ediff,
        "ediffg": np.where(rng.random(count) < 0.5, 10 * ediff, -rng.choice([0.01, 0.02, 0.05], count)),
        "encut": rng.choice([300.0, 400.0, 450.0, 500.0, 520.0, 600.0], count),
        "nbands": np.ceil(0.6 * electrons) * np.where(spin == 2, 1.2, 1.0) // 1,
        "nions": ions,
        "nelect": electrons,
        "cost": rng.normal(0.0, 0.6, len(KEYS))[key] + 0.7 * (spin == 2),
    }
    return columns
