import numpy as np
import pytest

from batchcast_papers.su.methods import fit_tobit


def test_sees_through_the_cut_that_least_squares_falls_for():
    rng = np.random.default_rng(0)
    x = rng.random((400, 1))
    true = 2.0 + 3.0 * x[:, 0] + 0.3 * rng.standard_normal(400)
    cut = np.minimum(true, 3.8)
    fit = fit_tobit(x, cut, true > 3.8)
    plain = np.polyfit(x[:, 0], cut, 1)
    assert fit.weights == pytest.approx([2.0, 3.0], abs=0.15)
    assert fit.sigma == pytest.approx(0.3, abs=0.05)
    assert abs(plain[0] - 3.0) > 0.5


def test_without_censoring_it_is_least_squares():
    rng = np.random.default_rng(1)
    x, y = rng.random((50, 2)), rng.random(50)
    fit = fit_tobit(x, y, np.zeros(50, bool))
    expected = np.linalg.lstsq(np.column_stack([np.ones(50), x]), y, rcond=None)[0]
    np.testing.assert_allclose(fit.weights, expected)


@pytest.mark.parametrize("n", [1, 2, 10])
def test_constant_columns_and_all_censored_give_finite_numbers(n):
    fit = fit_tobit(np.ones((n, 2)), np.full(n, 5.0), np.ones(n, bool))
    assert np.isfinite([*fit.weights, fit.sigma]).all()
