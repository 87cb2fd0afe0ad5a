"""Tests POTCAR: only headers are read, and a remembered length never changes the result."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import InputError
from batchcast.inputs import poscar
from batchcast.inputs.poscar import Potential, scan_potcar

from .conftest import potential


def scan(path, lengths=None):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return scan_potcar(descriptor, "POTCAR", lengths)
    finally:
        os.close(descriptor)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Zn", "Zr_sv", "Fe_pv", "H.5"]), st.integers(1, 20), st.booleans(), st.integers(0, 400)
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([2048, 4096, 5000, 1 << 18]),
)
def test_every_potential_is_found_wherever_blocks_end(tmp_path_factory, parts, block):
    path = tmp_path_factory.mktemp("potcar") / "POTCAR"
    path.write_text("".join(potential(name, zval, 200.0 + zval, soft, numbers) for name, zval, soft, numbers in parts))
    expected = tuple(Potential(f"PAW_PBE {n} 06Sep2000", z, 200.0 + z, s) for n, z, s, _ in parts)
    usual, poscar.BLOCK = poscar.BLOCK, block
    try:
        lengths: dict[bytes, int] = {}
        assert scan(path) == expected
        assert scan(path, lengths) == expected
        assert scan(path, lengths) == expected  # this scan uses the remembered lengths
        # this scan starts from wrong lengths
        assert scan(path, {key: value + 7 for key, value in lengths.items()}) == expected
    finally:
        poscar.BLOCK = usual


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("no potential at all\n", "no potential in it"),
        (potential("Na", 1.0, 100.0)[:-40], r"ends inside potential 1 \(PAW_PBE Na 06Sep2000\)"),
        (potential("Na", 1.0, 100.0).replace("TITEL", "TITLE"), r"POTCAR:\d+: a potential without TITEL"),
        (potential("Na", 1.0, 100.0).replace("ENMAX  =  100.000", "ENMAX  =  ?"), "is not a number.*ENMAX=?"),
    ],
)
def test_broken_files_are_named(tmp_path, text, words):
    (tmp_path / "POTCAR").write_text(text)
    with pytest.raises(InputError, match=words):
        scan(tmp_path / "POTCAR")
