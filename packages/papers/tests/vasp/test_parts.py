"""Tests the parts of the ensembles against slow reference versions and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import ensembles as naive

from batchcast_papers.vasp.regressors import (
    FLOORS,
    RIDGES,
    MixedBayes,
    PackedForest,
    RbfNetwork,
    fit_regressor,
    settled,
)


def rows(seed, n=80):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.random((n, 3)), rng.integers(0, 2, (n, 2))])
    return x, 3 + x[:, 0] - 2 * x[:, 1] * x[:, 3] + 0.05 * rng.standard_normal(n)


@settings(max_examples=15)
@given(st.integers(0, 99), st.integers(0, 2), st.integers(0, 2))
def test_mixed_bayes_is_the_papers_product(seed, discrete, continuous):
    rng = np.random.default_rng(seed)
    n, sizes = 30, (3, 2)[:discrete]
    codes = np.column_stack([rng.integers(0, s, n) for s in sizes]) if sizes else np.zeros((n, 0), int)
    values, label = rng.random((n, continuous)), np.sort(rng.integers(0, 3, n))
    label = np.unique(label, return_inverse=True)[1]
    model = MixedBayes.fit(codes, values, label, sizes, smoothing=1e-3)
    new_codes, new_values = np.array([list(sizes)], dtype=int).reshape(1, -1), rng.random((1, continuous))
    for some_codes in (codes[:1], new_codes):  # a row seen in training, and a row with unseen categories
        expected = naive.naive_bayes(
            codes.tolist(), values.tolist(), label.tolist(), sizes, 1e-3, some_codes[0].tolist(), new_values[0].tolist()
        )
        np.testing.assert_allclose(model.probabilities(some_codes, new_values)[0], expected, rtol=1e-6, atol=1e-12)


@settings(max_examples=10)
@given(st.integers(0, 99), st.integers(1, 40))
def test_network_is_the_papers_sum_and_fits_least_squares(seed, m):
    x, y = rows(seed)
    network = RbfNetwork.fit(x, y, m, ridge=1e-9, floor=1.0, seed=seed)
    assert len(network.centres) == m
    some = np.random.default_rng(seed).random((4, 5))
    expected = [naive.network(r, network.centres, network.spreads, network.weights, network.bias) for r in some]
    np.testing.assert_allclose(network.predict(some), expected, rtol=1e-6, atol=1e-6)
    residual = y - network.predict(x)
    assert abs(residual.mean()) < 1e-6  # least squares with a bias leaves a residual mean of zero
    assert (residual**2).sum() <= ((y - y.mean()) ** 2).sum() + 1e-9


def test_ridge_and_floor_are_those_that_forecast_the_last_quarter_best():
    x, y = rows(5)
    cut = len(x) - len(x) // 4
    errors = {
        (ridge, floor): np.abs(RbfNetwork.fit(x[:cut], y[:cut], 8, ridge, floor).predict(x[cut:]) - y[cut:]).mean()
        for floor in FLOORS
        for ridge in RIDGES
    }
    ridge, floor = settled(x, y, 8, RIDGES, FLOORS, 0, None)
    assert errors[ridge, floor] == min(errors.values())
    found, given_both = RbfNetwork.fit(x, y, 8), RbfNetwork.fit(x, y, 8, ridge, floor)
    np.testing.assert_array_equal(found.predict(x), given_both.predict(x))


def test_network_of_equal_rows_answers_their_mean():
    network = RbfNetwork.fit(np.ones((6, 2)), np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]))
    assert network.predict(np.array([[1.0, 1.0], [50.0, 50.0]])) == pytest.approx([2.0, 2.0])


@pytest.mark.parametrize("kind", ["forest", "svr", "bayesian_ridge", "boosted"])
def test_one_row_is_answered_as_a_batch_is(kind):
    x, y = rows(1)
    model = fit_regressor(kind, x, y, seed=3)
    one_by_one = [model.predict_row(row) for row in x]
    np.testing.assert_allclose(one_by_one, model.predict(x), rtol=1e-9)


def test_packed_classifier_gives_scikit_learns_shares():
    from sklearn.ensemble import RandomForestClassifier

    x, y = rows(2)
    forest = RandomForestClassifier(n_estimators=20, min_samples_leaf=4, random_state=0).fit(x, np.digitize(y, [2, 3]))
    packed = PackedForest.of(forest)
    np.testing.assert_allclose([packed.predict(row) for row in x], forest.predict_proba(x), atol=1e-12)


@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_warm_start_keeps_the_younger_trees(kind):
    x, y = rows(4)
    first = fit_regressor(kind, x, y, seed=0)
    second = fit_regressor(kind, x, y + 1.0, seed=0, before=first)
    if kind == "forest":
        assert second.model.estimators_[:50] == first.model.estimators_[50:]
        assert len(second.model.estimators_) == 100
    else:
        assert second.model.num_trees() > first.model.num_trees()
    assert (first.predict(x) < second.predict(x)).mean() > 0.9
