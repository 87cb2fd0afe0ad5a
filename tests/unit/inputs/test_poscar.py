"""Tests POSCAR of VASP 4 and 5 with every scale, and files that end too early or contradict themselves."""

from __future__ import annotations

import pytest

from batchcast.errors import InputError
from batchcast.inputs.poscar import parse_poscar

CELL = "c\n{scale}\n2 0 0\n0 3 0\n0 0 4\n{species}{counts}\n{mode}\n{positions}"


def poscar(scale="1.0", species="Na Cl\n", counts="1 2", mode="Direct", positions="0 0 0\n.1 .1 .1\n.2 .2 .2\n"):
    return CELL.format(scale=scale, species=species, counts=counts, mode=mode, positions=positions)


@pytest.mark.parametrize(
    ("scale", "volume"), [("1.0", 24.0), ("2.0", 192.0), ("-100.0", 100.0), ("1 2 3", 144.0), ("1.0D0 ! unit", 24.0)]
)
def test_scales(scale, volume):
    assert parse_poscar(poscar(scale=scale)).volume == pytest.approx(volume)


def test_lattice_is_in_angstrom_whatever_the_scale():
    assert parse_poscar(poscar(scale="1 2 3")).lattice == ((2.0, 0.0, 0.0), (0.0, 6.0, 0.0), (0.0, 0.0, 12.0))
    assert parse_poscar(poscar(scale="-192")).lattice[0][0] == pytest.approx(4.0)


def test_vasp_4_has_no_species():
    cell = parse_poscar(poscar(species=""))
    assert (cell.species, cell.counts, cell.ions) == ((), (1, 2), 3)


def test_names_lose_suffix_and_hash():
    assert parse_poscar(poscar(species="Na_pv Cl/a1b2c3\n")).species == ("Na", "Cl")


def test_modes():
    cell = parse_poscar(poscar(mode="Selective dynamics\nCartesian", positions="0 0 0 T T F\n" * 3))
    assert cell == parse_poscar(poscar(mode="k")) == parse_poscar(poscar())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "P: is empty"),
        (poscar(positions="0 0 0\n"), r"P:9: ends after 1 of 3 ion positions"),
        (poscar(positions="0 0 0\n\n\n\n"), "ends after 1 of 3 ion positions"),
        (poscar(positions="0 0 0\nx y z\n0 0 0\n"), r"P:10: position of ion 2 expected: 'x y z'"),
        (poscar(species="Na Cl K\n"), r"P:7: 3 species names but 2 numbers of ions"),
        (poscar(counts="many"), r"P:7: numbers of ions per species expected: 'many'"),
        (poscar(counts="0 0"), "numbers of ions per species"),
        (poscar(scale="0"), r"P:2: the scale factor is zero"),
        (poscar(scale="1 -1 1"), "three scale factors must all be positive"),
        ("c\n1\n1 0 0\n0 1 0\n", "P:4: ends before lattice vector"),
        ("c\n1\n1 0 0\n2 0 0\n0 0 1\nNa\n1\nD\n0 0 0\n", "lie in one plane"),
        ("c\n1\n1 0 0\n0 1\n0 0 1\nNa\n1\nD\n0 0 0\n", r"P:4: lattice vector expected: '0 1' \(accepted: 3 numbers\)"),
    ],
)
def test_broken_files_are_named(text, words):
    with pytest.raises(InputError, match=words):
        parse_poscar(text, "P")
