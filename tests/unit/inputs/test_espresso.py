"""Tests Quantum ESPRESSO beside VASP: the features read from an input of pw.x."""

from pathlib import Path

import pytest

from batchcast.errors import InputError
from batchcast.inputs.espresso import MEANINGS, PwInputs, parse_pw
from batchcast.trace.input_files import Folder

INPUT = """! silicon
&control
    calculation = 'vc-relax', prefix='si ! no comment', pseudo_dir = './'
/
&SYSTEM
    ibrav=2, celldm(1)=10.20, nat= 2, ntyp=1, nbnd = 12,
    ecutwfc=18.0, nspin = 2, occupations = "smearing", degauss = 1.d-2
/
&electrons
    conv_thr = 1.0d-8   # tight
/
ATOMIC_SPECIES
 Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS {crystal}
 Si 0.00 0.00 0.00
 Si 0.25 0.25 0.25
K_POINTS {automatic}
  4 4 3  1 1 1
"""


def test_variables_and_cards_are_read_with_the_defaults_of_pw_x() -> None:
    found = parse_pw(INPUT)
    assert set(found) == set(MEANINGS)
    numbers = {"ecutwfc": 18.0, "ecutrho": 72.0, "nat": 2.0, "ntyp": 1.0, "nbnd": 12.0, "kpoints": 48.0, "nstep": 50.0,
               "conv_thr": 1e-8, "degauss": 0.01, "nspin": 2.0, "electron_maxstep": 100.0}  # fmt: skip
    assert {name: found[f"qe_{name}"] for name in numbers} == numbers
    words = {"calculation": "vc-relax", "occupations": "smearing", "noncolin": "false", "diagonalization": "david"}
    assert {name: found[f"qe_{name}"] for name in words} == words


@pytest.mark.parametrize(
    ("card", "points"),
    [("K_POINTS gamma\n", 1.0), ("K_POINTS crystal\n 10\n 0 0 0 1\n", 10.0),
     ("k_points (automatic)\n 2 2 2 0 0 0\n", 8.0), ("K_POINTS\n 3\n 0 0 0 1\n", 3.0)],
)  # fmt: skip
def test_every_style_of_k_points_gives_their_number(card: str, points: float) -> None:
    assert parse_pw(INPUT[: INPUT.index("K_POINTS")] + card)["qe_kpoints"] == points


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("ecutwfc=18.0,", "", "has no ecutwfc"), ("nat= 2", "nat= two", "nat is not a number: 'two'"),
     ("4 4 3  1 1 1", "", "K_POINTS has no number of points"), ("K_POINTS", "POINTS", "has no card K_POINTS")],
)  # fmt: skip
def test_a_wrong_input_is_named_with_its_fault(old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_pw(INPUT.replace(old, new), "run/pw.in")


def test_a_directory_with_two_inputs_is_refused_because_a_job_runs_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "scf.in").write_text(INPUT)
    (tmp_path / "notes.in").write_text("nothing of pw.x")
    assert PwInputs().is_here(Folder(str(tmp_path)))
    (tmp_path / "bands.in").write_text(INPUT)
    with pytest.raises(InputError, match=r"has 2 inputs of pw.x: 'bands.in, scf.in'"):
        PwInputs().read(Folder(str(tmp_path)))
