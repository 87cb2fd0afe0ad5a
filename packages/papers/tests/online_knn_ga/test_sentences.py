"""Tests that the sentences below the tables agree with the tables."""

from __future__ import annotations

from batchcast_papers.online_knn_ga.study import READING, findings

TABLES = ("2", "3-4", "noise", "near", "5-6", "sensitivity")


def test_gains_of_cutting_are_told_row_by_row() -> None:
    cut = {"set": "HPC2N04", "policy": "easy", "processors": 240, "cut_wait_gain": 0.235, "printed_wait_gain": 0.418}
    smaller = {**cut, "processors": 200, "cut_wait_gain": 0.9}
    other = {**cut, "set": "SDSC04", "cut_wait_gain": -0.052, "printed_wait_gain": 0.615}
    rows = {name: [] for name in TABLES} | {"baselines": [cut, smaller, other]}
    said = findings(rows, [])
    assert len(said) == 2
    assert "HPC2N04" in said[0]
    assert "23.5 % shorter" in said[0]
    assert "printed 41.8 %" in said[0]
    assert "-5.2 % shorter" not in said[1]
    assert "5.2 % longer" in said[1]


def test_what_is_always_printed_claims_no_outcome() -> None:
    words = " ".join(READING)
    assert "on every set" not in words
    assert not any(name in words for name in ("HPC2N04", "HPC2N05", "SDSC02", "SDSC04"))
