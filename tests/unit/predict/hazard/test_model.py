"""Tests that a fitted model is saved and loaded unchanged."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from batchcast.predict.hazard.model import Waits, fit


@pytest.mark.lightgbm
def test_a_model_that_was_kept_says_the_same_and_is_kept_again_unread() -> None:
    rng = np.random.default_rng(5)
    features = rng.random((400, 3)).astype(np.float32)
    model = fit(features, Waits(np.exp(8.0 * features[:, 0]), np.ones(400, bool), np.ones(400)))
    assert model is not None
    kept = pickle.dumps(model)
    assert pickle.dumps(pickle.loads(kept)) == kept, "also by who never asked it"
    again = pickle.loads(kept)
    np.testing.assert_array_equal(again.curves(features), model.curves(features))
    assert pickle.dumps(again) == kept
