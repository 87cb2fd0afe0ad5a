"""Tests KPOINTS: the number of points in every mode, and KSPACING if the file is missing."""

from __future__ import annotations

import pytest

from batchcast.errors import InputError
from batchcast.inputs.incar import from_spacing, parse_kpoints

CUBE = ((4.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 4.0))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("c\n0\nGamma\n2 3 4\n", 24),
        ("c\n0\nMonkhorst-Pack\n4 4 1 ! in plane\n0 0 0\n", 16),
        ("c\n0\nm\n3 3 3\n0.5 0.5 0.5\n", 27),
        ("c\n0\nAuto\n20\n", 125),
        ("c\n2\nReciprocal\n0 0 0 1\n.5 .5 .5 1\n", 2),
        ("c\n1\nCartesian\n0 0 0 1\nTetrahedra\n1 0.5\n", 1),
        ("c\n10\nLine-mode\nrec\n0 0 0 ! G\n.5 0 0 ! X\n\n.5 0 0\n.5 .5 0\n", 20),
        ("c\n0\nReciprocal\n0.25 0 0\n0 0.25 0\n0 0 0.5\n0 0 0\n", 32),
        ("c\n0\nCartesian\n0.125 0 0\n0 0.125 0\n0 0 0.125\n", 8),
    ],
)
def test_modes(text, number):
    assert parse_kpoints(text, CUBE) == number


def test_cartesian_vectors_count_in_units_of_the_scale():
    text = "c\n0\nCartesian\n0.5 0 0\n0 0.5 0\n0 0 0.5\n"
    assert parse_kpoints(text, CUBE, scale=4.0) == 8


def test_spacing_follows_the_manual():
    assert from_spacing(CUBE) == 64  # 2 pi / 4 / 0.5 = 3.14
    assert from_spacing(CUBE, 2.0) == 1
    assert from_spacing(((4.0, 0.0, 0.0), (-2.0, 12**0.5, 0.0), (0.0, 0.0, 10.0)), 0.3) == 7 * 7 * 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "K: is empty"),
        ("c\n", "K:1: ends before the number of k-points"),
        ("c\nmany\nG\n", r"K:2: the number of k-points \(0: automatic\) expected: 'many'"),
        ("c\n0\nGamma\n2 2\n", r"K:4: three subdivisions expected: '2 2'"),
        ("c\n0\nGamma\n2 2 0\n", r"K:4: subdivisions of the grid.*at least 1"),
        ("c\n3\nRec\n0 0 0 1\n", "K:4: ends before k-point 2 of 3"),
        ("c\n10\nLine\nrec\n0 0 0\n", "pairs of k-points, found 1"),
    ],
)
def test_broken_files_are_named(text, words):
    with pytest.raises(InputError, match=words):
        parse_kpoints(text, CUBE, path="K")
