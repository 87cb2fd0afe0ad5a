"""Tests INCAR: every syntax of the manual is read, and unreadable parts are named."""

from __future__ import annotations

import pytest

from batchcast.errors import InputError
from batchcast.inputs.incar import parse_incar


@pytest.mark.parametrize(
    ("text", "tag", "value"),
    [
        ("ENCUT = 400 # eV", "ENCUT", 400.0),
        ("ENCUT=400!eV", "ENCUT", 400.0),
        ("encut = 300.00 eV", "ENCUT", 300.0),
        ("SYSTEM = a ; NELM = 90; EDIFF = 1.D-6", "NELM", 90),
        ("SYSTEM = a ; NELM = 90; EDIFF = 1.D-6", "EDIFF", 1e-6),
        ("EDIFFG = -.02", "EDIFFG", -0.02),
        ("MAGMOM = 3*0.5 \\\n -1 2*0", "MAGMOM", (0.5, 0.5, 0.5, -1.0, 0.0, 0.0)),
        ('MAGMOM = "1 1\n -1"', "MAGMOM", (1.0, 1.0, -1.0)),
        ("LHFCALC = .TRUE.", "LHFCALC", True),
        ("LHFCALC = f", "LHFCALC", False),
        ("KGAMMA=T", "KGAMMA", True),
        ("LREAL = Auto", "LREAL", "auto"),
        ("LREAL = .TRUE.", "LREAL", "true"),
        ("LREAL = .FALSE.", "LREAL", "false"),
        ("LREAL = O", "LREAL", "on"),
        ("Prec = acc", "PREC", "accurate"),
        ("PREC = Single", "PREC", "single"),
        ("\tISPIN\t=\t2", "ISPIN", 2),
        ("a line that is no statement\nISYM = -1", "ISYM", -1),
    ],
)
def test_syntax(text, tag, value):
    assert parse_incar(text).values[tag] == value


def test_unknown_tags_and_commented_ones_are_ignored():
    assert parse_incar("LWAVE = F\n# ENCUT = 500\n! ISPIN = 2\nALGO = Fast").values == {}


def test_quotes_hide_comment_marks_and_a_stray_one_swallows_nothing():
    assert parse_incar('SYSTEM = "run #3; NELM = 9 ! no comment" ; NELM = 50').values == {"NELM": 50}
    assert parse_incar('SYSTEM = a 5" wafer\nNELM = 50\nENCUT = 300 # 2" more').values == {"NELM": 50, "ENCUT": 300.0}


def test_tags_inside_a_group_are_not_top_level():
    assert parse_incar("PLUGINS { NELM = 3 }\nNELM = 50").values == {"NELM": 50}


def test_the_first_of_two_counts_and_is_noted():
    incar = parse_incar("NELM = 40\nENCUT = 300\nNELM = 80", "x/INCAR")
    assert incar.values["NELM"] == 40
    assert incar.notes == ("x/INCAR:3: NELM is given twice; VASP takes the first, of line 1",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ISPIN = 1\nENCUT = abc", r"x/INCAR:2: ENCUT cannot be read: 'abc' \(accepted: a number"),
        ("ISPIN = 3", r"x/INCAR:1: ISPIN cannot be read: '3' \(accepted: 1 to 2\)"),
        ("NELM =", r"NELM cannot be read: '' \(accepted: a whole number\)"),
        ("NBANDS = 0", "at least 1"),
        ("NELM = 2.5", "a whole number"),
        ("PREC = exact", "Low, Medium, High"),
        ("LHFCALC = yes", r"\.TRUE\., \.FALSE\."),
    ],
)
def test_what_cannot_be_read_names_file_line_and_tag(text, words):
    with pytest.raises(InputError, match=words):
        parse_incar(text, "x/INCAR")
