"""Tests the order of each resource's jobs: the compiled path for few jobs equals numpy's."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from batchcast_papers.grid import kernels

VALUES = st.sampled_from([0.0, 1.0, 1.0, 2.5, float("inf")])


@settings(max_examples=50)
@given(st.data(), st.integers(0, 9), st.integers(1, 4), st.booleans())
def test_a_handful_is_sorted_as_numpy_sorts(data, n, m, with_deadlines):
    rows = st.lists(st.lists(VALUES, min_size=m, max_size=m), min_size=n, max_size=n)
    keys = np.array(data.draw(rows), dtype=float).reshape(n, m)
    less = np.array(data.draw(st.lists(VALUES, min_size=n, max_size=n)), dtype=float) if with_deadlines else None
    few = kernels.resource_orders(keys, less)
    # many rows take numpy's path; the rows of infinity come last
    many = np.vstack([keys, np.full((kernels.HANDFUL + 1, m), np.inf)])
    behind = None if less is None else np.concatenate([less, np.full(kernels.HANDFUL + 1, np.nan)])
    found = kernels.resource_orders(many, behind)
    assert few.tolist() == [[i for i in row if i < n] for row in found.tolist()]
