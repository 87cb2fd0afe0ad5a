"""Tests that packed rows equal the plain rows with less memory, and that groups equal a dict of lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from batchcast.store.packed import Packed

names = st.sampled_from([None, "", "ada", "bob", "Straße"])
numbers = st.one_of(st.none(), st.floats(allow_nan=False))
rows = st.lists(st.fixed_dictionaries({"user_id": names, "job_name": names, "end_time": numbers}), max_size=20)


@given(rows)
def test_packed_rows_are_the_rows(made: list[dict]) -> None:
    packed = Packed(iter(made))
    assert [dict(row) for row in packed] == made
    assert [dict(packed[k]) for k in range(len(packed))] == made
    assert [dict(row) for row in packed[1:]] == made[1:]


@given(rows, st.sampled_from([("user_id",), ("user_id", "job_name")]))
def test_groups_are_those_of_a_dict_of_lists(made: list[dict], by: tuple[str, ...]) -> None:
    naive: dict[tuple, list[dict]] = {}
    for row in made:
        naive.setdefault(tuple(row[name] for name in by), []).append(row)
    groups = [(key, [dict(row) for row in group]) for key, group in Packed(made).grouped(*by)]
    assert dict(groups) == naive
    assert len(groups) == len(naive)
