import math

import pytest

from batchcast.errors import BatchcastError
from batchcast_papers.shared import ComputedParts


def test_a_part_is_found_again_by_a_later_run_and_computed_anew_for_other_settings(tmp_path):
    value = {"rows": [1.5, math.nan]}
    assert ComputedParts(tmp_path).part("a", {"n": 1}, lambda: value) == value
    later = ComputedParts(tmp_path)
    found = later.part("a", {"n": 1}, lambda: pytest.fail("computed again"))
    assert found["rows"][0] == 1.5
    assert math.isnan(found["rows"][1])
    assert later.part("a", {"n": 2}, lambda: "other") == "other"
    assert (later.reused, later.computed) == (1, 1)


def test_again_and_a_broken_file_compute_anew(tmp_path):
    ComputedParts(tmp_path).part("a", {}, lambda: 1)
    assert ComputedParts(tmp_path, again=True).part("a", {}, lambda: 2) == 2
    (tmp_path / "a.json").write_text('{"made_of"')
    assert ComputedParts(tmp_path).part("a", {}, lambda: 3) == 3


def test_a_failed_part_leaves_nothing_and_an_unwritable_place_is_named(tmp_path):
    with pytest.raises(ZeroDivisionError):
        ComputedParts(tmp_path / "parts").part("a", {}, lambda: 1 / 0)
    assert not (tmp_path / "parts").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(BatchcastError, match="cannot be written"):
        ComputedParts(tmp_path / "file").part("a", {}, lambda: 1)


def test_a_part_of_other_code_is_computed_anew(tmp_path, monkeypatch):
    from batchcast_papers import shared

    def counted() -> int:
        return 7

    assert ComputedParts(tmp_path).part("a", {}, counted) == 7
    monkeypatch.setattr(shared, "own_code", lambda rooms, package: "an edit later")
    later = ComputedParts(tmp_path)
    assert later.part("a", {}, counted) == 7
    assert (later.computed, later.reused) == (1, 0)
