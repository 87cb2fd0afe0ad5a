"""Tests that features are encoded as numbers from the training rows alone."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast_papers.vasp.methods import Encoder

NAMES = ("core_num", "encut", "prec", "ispin")
ROWS = [(8.0, 200.0, "normal", 1.0), (16.0, 400.0, "accurate", 2.0), (8.0, 300.0, "normal", 1.0)]


def test_one_hot_and_numbers():
    encoder = Encoder.fit(NAMES, ROWS)
    middle = (27 - 8) / (64 - 8)
    np.testing.assert_allclose(
        encoder.one_hot(ROWS), [[0, 0, 0, 1, 1, 0], [1, 1, 1, 0, 0, 1], [0, middle, 0, 1, 1, 0]], atol=1e-12
    )
    assert encoder.codes(ROWS).tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize(("encut", "power"), [("paper", 3.0), ("physics", 1.5), ("plain", 1.0)])
def test_encut_grows_with_its_power(encut, power):
    scaled = Encoder.fit(NAMES, ROWS, encut).scaled(ROWS)[2, 1]
    assert scaled == pytest.approx((300**power - 200**power) / (400**power - 200**power))


def test_what_training_never_saw():
    encoder = Encoder.fit(NAMES, ROWS)
    row = (32.0, 400.0, "high", 1.0)
    assert encoder.one_hot([row]).tolist() == [[3.0, 1.0, 0.0, 0.0, 1.0, 0.0]]
    assert encoder.codes([row]).tolist() == [[2, 0]]
    assert not encoder.covers([row])
    assert encoder.covers(ROWS[:2])


def test_constant_features_say_nothing():
    rows = [(8.0, 300.0, "normal", 1.0)] * 3
    assert np.isfinite(Encoder.fit(NAMES, rows).one_hot([(9.0, 400.0, "normal", 1.0)])).all()
    assert Encoder.fit(NAMES, rows).scaled(rows).tolist() == [[0.0, 0.0]] * 3
