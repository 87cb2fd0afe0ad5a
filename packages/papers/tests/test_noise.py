"""Tests that a paper's printed gain is confirmed only if it exceeds the noise of its log, and has the right sign and
unit."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast_papers.shared import Gain, gain_rows, gain_table

GROUP = np.repeat(np.arange(100), 5)


def one(gain: Gain) -> dict[str, object]:
    return gain_rows([gain], GROUP)[0]


def test_a_gain_that_all_users_share_stands_and_its_interval_is_around_it() -> None:
    rng = np.random.default_rng(0)
    theirs = rng.uniform(90, 110, 500)
    row = one(Gain("a", "b", "MAE", theirs * 0.8, theirs, printed=0.2))
    assert row["gain"] == pytest.approx(0.2)
    assert row["gain_low"] < 0.2 < row["gain_high"]
    assert (row["ours"], row["printed_stands"]) == ("outside", "yes")
    turned = one(Gain("a", "b", "APA", theirs * 0.8, theirs, printed=0.2, higher=True))
    assert turned["gain"] == pytest.approx(-0.2)
    assert turned["ours"] == "outside, the other way"


def test_a_printed_gain_smaller_than_the_noise_does_not_stand() -> None:
    rng = np.random.default_rng(0)
    shared = rng.exponential(100.0, 100)[GROUP], rng.exponential(100.0, 100)[GROUP]
    row = one(Gain("a", "b", "MAE", *shared, 0.02))
    assert (row["ours"], row["printed_stands"]) == ("inside", "no")
    assert row["noise"] > 0.02


def test_squares_are_told_as_their_root_and_points_as_they_are() -> None:
    theirs = np.full(500, 100.0)
    assert one(Gain("a", "b", "RMS", theirs * 0.25, theirs, root=True))["gain"] == pytest.approx(0.5)
    late = one(Gain("a", "b", "UR", np.zeros(500), np.full(500, 0.3), points=True))
    assert late["gain"] == pytest.approx(0.3)


def test_too_few_groups_have_no_interval_and_say_so() -> None:
    rows = gain_rows([Gain("a", "b", "MAE", np.ones(50), np.full(50, 2.0), 0.5)], np.arange(50) % 10)
    assert (rows[0]["ours"], rows[0]["printed_stands"]) == ("too few groups", "")
    assert gain_table(rows, [], "x").rows[0]["interval"] == "none: 10 groups, 20 are needed"


def test_a_gain_that_one_group_decides_says_so_and_what_is_left_without_it() -> None:
    theirs = np.full(500, 100.0)
    mine = np.where(GROUP == 7, 10.0, 100.0)
    table = gain_table(gain_rows([Gain("a", "b", "MAE", mine, theirs)], GROUP), [], "x")
    assert "100 % of it is 5 jobs of one group, without which the gain is 0.0 %" in table.note
    assert table.rows[0]["gain_words"] == "0.9 %"
    shared = gain_table(gain_rows([Gain("a", "b", "UR", theirs * 0, theirs * 0.01, points=True)], GROUP), [], "x")
    assert "one group" not in shared.note
    assert shared.rows[0]["gain_words"] == "100.0 points"
