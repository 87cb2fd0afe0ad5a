"""Tests that a kernel reads a named tuple by its address as Python reads it by name."""

import os
import subprocess
import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from batchcast.compiled import allocating, by_address, inner, kernel

PLACE = np.dtype([("count", np.int64), ("sum", np.float64)])


@by_address
class Inside(NamedTuple):
    """One array."""

    values: Any


@by_address
class Kept(NamedTuple):
    """A tuple with arrays of every layout, numbers, and another tuple."""

    flat: Any
    places: Any
    square: Any
    slanted: Any
    few: Any
    factor: float
    most: int
    within: Any


@inner
def add_up(kept: Kept, most: int) -> float:
    """Return the sum of all members, and store how many there are."""
    total = 0.0
    for i in range(len(kept.flat)):
        total += kept.flat[i] * kept.factor
        kept.places[i].count += most
        kept.places[i].sum = total
    for i in range(kept.square.shape[0]):
        for j in range(kept.square.shape[1]):
            total += kept.square[i, j] - kept.slanted[i, j]
    for i in range(len(kept.few)):
        total += kept.few[i] * 1000.0
    return total + kept.most + kept.within.values[-1]


@kernel
def both(kept: Kept, more: int) -> float:
    """Call the function twice, with a constant and with a number."""
    return add_up(kept, 1) + add_up(kept, more)


@allocating
def tail(kept: Kept) -> np.ndarray:
    """Replace a member by a new array made from a part of it."""
    return kept.flat[1:] * 2.0


def some(dtype: type = np.float64) -> Kept:
    square = np.arange(12.0).reshape(3, 4)
    return Kept(
        *(np.arange(5, dtype=dtype), np.zeros(5, PLACE), square, (square * 0.5).T.copy().T, np.arange(10)[::3]),
        *(1.5, 7, Inside(np.array([1.0, 2.0]))),
    )


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_a_kernel_and_python_agree_and_leave_the_same_behind(dtype: type) -> None:
    compiled, plain = some(dtype), some(dtype)
    plain = plain._replace(places=plain.places.view(np.recarray))
    expected = add_up.py_func(plain, 1) + add_up.py_func(plain, 3)
    assert both(compiled, 3) == expected
    assert compiled.places.tolist() == plain.places.tolist()


def test_a_constant_and_a_number_share_one_kernel() -> None:
    before = len(add_up.signatures)
    numba.njit(both.py_func)(some(np.int16), 3)  # compiles now, even if an earlier run has stored the kernel
    assert len(add_up.signatures) == before + 1


def test_a_part_of_a_member_outlives_the_call() -> None:
    assert tail(some()).tolist() == [2.0, 4.0, 6.0, 8.0]


def test_an_inner_kernel_called_from_python_says_what_to_call() -> None:
    both(some(), 3)
    with pytest.raises(TypeError, match="only kernels can call add_up"):
        add_up(some(), 1)


@pytest.mark.long
def test_a_second_process_finds_the_kernel_in_the_cache(tmp_path: Any) -> None:
    code = (
        "from tests.unit.compiled.test_by_address import both, some; print(both(some(), 3), both.stats.cache_hits[both"
        ".signatures[0]] if both.stats.cache_hits else 0)"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first.split()[1] == "0"
    assert second.split() == [first.split()[0], "1"]
