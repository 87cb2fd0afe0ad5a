"""Tests growing columns against plain concatenation, and dictionary coding against sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast.formats.chunks import GrowingColumn, encode_whole
from batchcast.table import Nominal

whole = st.integers(-1, 3) | st.integers(-1, 2**40)
pieces = st.lists(st.lists(whole, max_size=8) | st.just([-1, -1]), max_size=8)


@given(pieces)
def test_a_column_is_the_sum_of_its_pieces(parts: list[list[int]]) -> None:
    names, numbers = GrowingColumn(-1), GrowingColumn(np.nan)
    buffer = np.empty(8, dtype=np.int64)
    for part in parts:
        buffer[: len(part)] = part
        names.add(buffer[: len(part)])
        numbers.add(np.where(buffer[: len(part)] < 0, np.nan, buffer[: len(part)]))
        buffer[:] = 7  # the buffer is reused
    expected = [value for part in parts for value in part]
    got, floats = names.join(), numbers.join()
    if all(value == -1 for value in expected):
        assert got is None
        assert floats is None
    else:
        assert got.tolist() == expected
        assert np.array_equal(floats, [np.nan if v < 0 else v for v in expected], equal_nan=True)


@given(st.lists(whole, min_size=1, max_size=20))
def test_dictionary_coding_is_that_of_sorting(values: list[int]) -> None:
    coded = encode_whole(np.array(values))
    plain = Nominal.encode([None if v < 0 else v for v in values])
    assert (coded.codes.tolist(), coded.categories) == (plain.codes.tolist(), plain.categories)
