"""Directories that pymatgen writes are read the same by us."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchcast.vasp import read_features
from batchcast.vasp.incar import parse_incar, parse_kpoints
from batchcast.vasp.poscar import parse_poscar

from .conftest import potential

pymatgen = pytest.importorskip("pymatgen.io.vasp.inputs", reason="pymatgen is a development dependency")

LENGTHS = st.floats(2.0, 20.0)
ANGLES = st.floats(65.0, 115.0)


@st.composite
def structures(draw):
    from pymatgen.core import Lattice, Structure

    lattice = Lattice.from_parameters(*(draw(LENGTHS) for _ in range(3)), *(draw(ANGLES) for _ in range(3)))
    species = [name for name, count in draw(st.lists(ELEMENT, min_size=1, max_size=4)) for _ in range(count)]
    places = np.random.default_rng(draw(st.integers(0, 99))).random((len(species), 3))
    return Structure(lattice, species, places)


ELEMENT = st.tuples(st.sampled_from(["H", "C", "O", "Fe", "Zn", "Zr", "Cl"]), st.integers(1, 5))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(structures(), st.booleans(), st.booleans(), st.booleans())
def test_poscar(structure, is_direct, is_vasp4, is_selective):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flags = [[True, False, True]] * len(structure) if is_selective else None
        written = pymatgen.Poscar(structure, selective_dynamics=flags, sort_structure=False)
        text = written.get_str(direct=is_direct)
        if is_vasp4:
            lines = text.splitlines(keepends=True)
            text = "".join(lines[:5] + lines[6:])
        read = parse_poscar(text)
    assert read.volume == pytest.approx(structure.volume, rel=1e-6)
    assert read.ions == len(structure)
    assert read.counts == tuple(written.natoms)
    assert read.species == (() if is_vasp4 else tuple(written.site_symbols))
    assert (read.is_direct, read.has_selective_dynamics) == (is_direct, is_selective)


TAGS = {
    "PREC": st.sampled_from(["Accurate", "Normal", "Low"]),
    "LREAL": st.sampled_from(["Auto", "False", "True"]),
    "ENCUT": st.floats(100, 1000).map(lambda v: round(v, 3)),
    "EDIFF": st.sampled_from([1e-4, 1e-6, 5e-8]),
    "EDIFFG": st.sampled_from([-0.02, 1e-3]),
    "NELM": st.integers(1, 200),
    "NELMIN": st.integers(2, 8),
    "ISPIN": st.integers(1, 2),
    "ISYM": st.integers(-1, 3),
    "ICHARG": st.sampled_from([0, 1, 2, 11]),
    "NBANDS": st.integers(1, 500),
    "LHFCALC": st.booleans(),
    "MAGMOM": st.lists(st.integers(-3, 3), min_size=1, max_size=8),
}


@given(st.fixed_dictionaries({}, optional=TAGS))
def test_incar(tags):
    theirs = pymatgen.Incar.from_str(str(pymatgen.Incar(tags)))
    ours = parse_incar(str(pymatgen.Incar(tags))).values
    assert set(ours) == set(theirs)
    for tag, value in theirs.items():
        if tag == "MAGMOM":
            assert list(ours[tag]) == pytest.approx(list(value))
        elif tag in ("PREC", "LREAL"):
            assert ours[tag] == str(value).lower()
        else:
            assert ours[tag] == pytest.approx(value)


CUBE = ((4.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 4.0))
GRID = st.tuples(*[st.integers(1, 12)] * 3)


@given(GRID, st.booleans())
def test_kpoints_grids(grid, is_gamma):
    make = pymatgen.Kpoints.gamma_automatic if is_gamma else pymatgen.Kpoints.monkhorst_automatic
    read = parse_kpoints(str(make(grid)), CUBE)
    assert (read.grid, read.number) == (grid, int(np.prod(grid)))


def test_kpoints_of_other_modes():
    explicit = pymatgen.Kpoints(
        "list", 3, pymatgen.Kpoints.supported_modes.Reciprocal, [(0, 0, 0), (0, 0, 0.5), (0.5, 0.5, 0.5)],
        kpts_weights=[1, 2, 1],
    )  # fmt: skip
    assert parse_kpoints(str(explicit), CUBE).number == 3
    line = pymatgen.Kpoints(
        "line", 20, pymatgen.Kpoints.supported_modes.Line_mode,
        [(0, 0, 0), (0.5, 0, 0), (0.5, 0, 0), (0.5, 0.5, 0)],
        coord_type="Reciprocal", labels=["G", "X", "X", "M"],
    )  # fmt: skip
    assert parse_kpoints(str(line), CUBE).number == 40
    assert parse_kpoints("Fully automatic\n0\nAuto\n30\n", CUBE).grid == (8, 8, 8)


def test_a_whole_directory(tmp_path):
    from pymatgen.core import Lattice, Structure

    structure = Structure(Lattice.hexagonal(3.2, 5.1), ["Zn", "Zn", "O", "O"], np.eye(4, 3) / 3)
    text = potential("Zn", 12.0, 276.7) + potential("O", 6.0, 400.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [pymatgen.PotcarSingle(part + " End of Dataset\n") for part in text.split(" End of Dataset\n")[:-1]]
        pymatgen.Poscar(structure).write_file(tmp_path / "POSCAR")
        pymatgen.Incar({"PREC": "Accurate", "ISPIN": 2, "MAGMOM": [1, 1, 0, 0]}).write_file(tmp_path / "INCAR")
        pymatgen.Kpoints.gamma_automatic((6, 6, 4)).write_file(tmp_path / "KPOINTS")
    (tmp_path / "POTCAR").write_text(text)
    ours = read_features(tmp_path).values
    assert ours["volume"] == pytest.approx(structure.volume)
    assert ours["kpoints"] == 144
    assert ours["encut"] == max(p.keywords["ENMAX"] for p in theirs)
    assert ours["nelect"] == 2 * sum(p.keywords["ZVAL"] for p in theirs)
    assert not any(p.keywords["LULTRA"] for p in theirs)
    assert ours["nbands"] == 22 + 1  # (36 + 2) / 2 and three empty ones, and half of the moment
    assert (ours["prec"], ours["isym"]) == ("accurate", 2)
