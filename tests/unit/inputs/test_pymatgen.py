"""Tests that we read input files as pymatgen does; pymatgen's results are stored in pymatgen_reference.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchcast.inputs.collect import read_features
from batchcast.inputs.incar import parse_incar, parse_kpoints
from batchcast.inputs.poscar import parse_poscar

from .conftest import potential

THEIRS = json.loads(Path(__file__).with_name("pymatgen_reference.json").read_text(encoding="utf-8"))
CUBE = ((4.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 4.0))


@pytest.mark.parametrize("theirs", THEIRS["poscar"])
def test_poscar(theirs):
    read = parse_poscar(theirs["text"])
    assert read.volume == pytest.approx(theirs["volume"], rel=1e-6)
    assert read.ions == theirs["ions"]
    assert read.counts == tuple(theirs["counts"])
    assert read.species == tuple(theirs["species"])


@pytest.mark.parametrize("theirs", THEIRS["incar"])
def test_incar(theirs):
    ours = parse_incar(theirs["text"]).values
    assert set(ours) == set(theirs["values"])
    for tag, value in theirs["values"].items():
        if tag == "MAGMOM":
            assert list(ours[tag]) == pytest.approx(list(value))
        elif tag in ("PREC", "LREAL"):
            assert ours[tag] == str(value).lower()
        else:
            assert ours[tag] == pytest.approx(value)


@pytest.mark.parametrize("theirs", THEIRS["kpoints"])
def test_kpoints(theirs):
    assert parse_kpoints(theirs["text"], CUBE) == theirs["points"]


def test_a_length_makes_a_grid_by_vasps_rule():
    assert parse_kpoints("Fully automatic\n0\nAuto\n30\n", CUBE) == 8 * 8 * 8


def test_a_whole_directory(tmp_path):
    theirs = THEIRS["directory"]
    for name, text in theirs["files"].items():
        (tmp_path / name).write_text(text)
    parts = [potential(one["element"], one["zval"], one["enmax"]) for one in THEIRS["potcar"]]
    (tmp_path / "POTCAR").write_text("".join(parts))
    words = [one["keywords"] for one in THEIRS["potcar"]]
    ours = read_features(tmp_path).values
    assert ours["volume"] == pytest.approx(theirs["volume"])
    assert ours["kpoints"] == 144
    assert ours["encut"] == max(one["ENMAX"] for one in words)
    assert ours["nelect"] == 2 * sum(one["ZVAL"] for one in words)
    assert not any(one["LULTRA"] for one in words)
    assert ours["nbands"] == 22 + 1  # (36 + 2) / 2, three empty bands, and half of the moment
    assert (ours["prec"], ours["isym"]) == ("accurate", 2)
