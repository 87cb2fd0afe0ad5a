"""Tests that defaults equal VASP's defaults, and that contradicting files are reported."""

from __future__ import annotations

import pytest

from batchcast.errors import InputError
from batchcast.inputs.collect import read_features
from batchcast.inputs.features import default_nbands


def test_all_defaults(working_directory):
    found = read_features(working_directory(INCAR=""))
    assert dict(found.values) == {
        "kpoints": 8.0, "volume": 64.0, "prec": "normal", "ichg": 2.0, "isym": 2.0, "lreal": "false", "ispin": 1.0,
        "istart": 0.0, "nelmin": 2.0, "nelm": 60.0, "ediff": 1e-4, "ediffg": 1e-3, "encut": 262.472, "nbands": 8.0,
        "nions": 2.0, "nelect": 8.0,
    }  # fmt: skip
    assert set(found.defaulted) == set(found.values) - {"kpoints", "volume", "nions", "nelect"}


def test_defaults_follow_other_tags(working_directory, make_potential):
    def given(incar, **files):
        return read_features(working_directory(INCAR=incar, **files)).values

    assert given("EDIFF = 1E-6")["ediffg"] == pytest.approx(1e-5)
    assert given("LHFCALC = T")["isym"] == 3
    assert given("LHFCALC = T\nISYM = 0")["isym"] == 0
    assert given("ISTART = 1")["ichg"] == 0
    assert given("PREC = High")["encut"] == pytest.approx(1.3 * 262.472)
    assert given("NELECT = 10")["nbands"] == 9
    soft = make_potential("Na", 1.0, 80.0, ultrasoft=True) + make_potential("Cl", 7.0, 90.0)
    assert given("LHFCALC = T", POTCAR=soft)["isym"] == 1


def test_a_wavecar_means_a_continuation_only_where_it_is_asked_for(working_directory):
    here = working_directory()
    (here / "WAVECAR").write_bytes(b"\x00" * 10)
    assert (read_features(here).values["istart"], read_features(here).values["ichg"]) == (1, 0)
    assert read_features(here, look_for_wavecar=False).values["istart"] == 0
    (here / "WAVECAR").write_bytes(b"")
    assert read_features(here).values["istart"] == 0


def test_without_kpoints_the_spacing_counts(working_directory):
    assert read_features(working_directory(KPOINTS=None)).values["kpoints"] == 64
    assert read_features(working_directory("b", KPOINTS=None, INCAR="KSPACING = 0.2")).values["kpoints"] == 512


@pytest.mark.parametrize(
    ("electrons", "ions", "tags", "bands"),
    [
        (8.0, 2, {}, 8),  # at least three empty bands, whatever the number of ions
        (9.0, 3, {}, 8),
        (9.5, 3, {}, 9),
        (40.0, 15, {}, 28),  # 21 + 7
        (45.0, 1, {}, 27),  # 3/5 of 45; computed as 0.6 * 45, rounding would miss it
        (100.0, 4, {}, 60),
        (8.0, 2, {"ISPIN": 2}, 9),
        (8.0, 2, {"ISPIN": 2, "MAGMOM": (3.0, 3.0)}, 11),
        (8.0, 2, {"ISPIN": 2, "MAGMOM": (3.0, -3.0)}, 8),
        (8.0, 2, {"LNONCOLLINEAR": True, "MAGMOM": (0, 0, 2, 0, 0, 2)}, 20),
    ],
)
def test_bands(electrons, ions, tags, bands):
    assert default_nbands(electrons, ions, tags) == bands


@pytest.mark.parametrize("name", ["INCAR", "POSCAR", "POTCAR"])
def test_a_missing_file_is_named(working_directory, name):
    with pytest.raises(InputError, match=f"run/{name}: is missing"):
        read_features(working_directory(**{name: None}))


def test_potentials_and_species_must_agree(working_directory, make_potential):
    sodium, chlorine = make_potential("Na", 1.0, 102.0), make_potential("Cl", 7.0, 262.0)
    with pytest.raises(InputError, match=r"run/POTCAR: 1 potentials \(TITEL\) for 2 species in POSCAR"):
        read_features(working_directory(POTCAR=sodium))
    with pytest.raises(InputError, match="TITEL does not match species Na of POSCAR: 'PAW_PBE Cl"):
        read_features(working_directory(POTCAR=chlorine + sodium))


def test_a_binary_file_or_no_directory_is_said(working_directory, tmp_path):
    with pytest.raises(InputError, match="INCAR: is not text"):
        read_features(working_directory(INCAR="\x00\x01"))
    with pytest.raises(InputError, match="is not a directory"):
        read_features(tmp_path / "nowhere")
