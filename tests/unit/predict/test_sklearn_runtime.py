"""Tests scikit-learn regressors as predictors: the conformance suite, batches against single jobs, and rejected
arguments."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import batchcast
from batchcast.errors import UsageError
from batchcast.events import recorded
from batchcast.predict.adapters import SklearnRuntime
from batchcast.predict.protocol import Grounds
from batchcast.testing import check_predictor, small_log

FEATURES = ("user_id", "req_time", "procs", "app_id", "req_gpus", "job_name")


def tree(**given):
    return SklearnRuntime(DecisionTreeRegressor(max_depth=4, random_state=0), FEATURES, refit_every=40, min_jobs=20,
                          **given)  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda trace: tree(),
        lambda trace: tree(log=False, window=30),
        lambda trace: SklearnRuntime(LinearRegression(), FEATURES, refit_every=30, min_jobs=20),
    ],
    ids=["tree", "tree of seconds", "linear"],
)
def test_passes_the_conformance_suite(make):
    assert "batch_equals_one_by_one" in check_predictor(make)


@pytest.mark.parametrize(
    "estimator",
    [
        HistGradientBoostingRegressor(max_iter=10, random_state=0),
        RandomForestRegressor(n_estimators=5, random_state=0),
        make_pipeline(StandardScaler(), LinearRegression()),
        DummyRegressor(),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("protocol", ["honest", "paper"])
def test_batches_answer_as_one_by_one(estimator, protocol):
    log = small_log(150)
    method = SklearnRuntime(estimator, FEATURES, refit_every=40, min_jobs=20)
    one = recorded.replay(log, {"it": method}, protocol=protocol)["it"]
    batch = SklearnRuntime(estimator, FEATURES, refit_every=40, min_jobs=20).predict_trace(log, protocol)
    np.testing.assert_array_equal(one.points, batch.points)
    assert one.basis == batch.basis
    assert one.grounds == batch.grounds
    assert len(method.trained) >= 2


def test_it_learns_and_says_on_what(monkeypatch):
    log = small_log(160)
    ran = ~np.isnan(log.run_time)
    told = batchcast.replay(log, {"tree": tree()})["tree"]
    limits = batchcast.replay(log, ["requested"])["requested"]
    late = ran & (np.array(told.grounds) == Grounds.MODEL)
    assert late.sum() > 80
    wrong = [np.abs(said.points - log.run_time)[late].mean() for said in (told, limits)]
    assert wrong[0] < wrong[1] / 2
    assert set(told.basis) >= {"limit: no history"}
    assert any("DecisionTreeRegressor on" in words for words in told.basis)


def test_the_estimator_given_is_never_fitted():
    estimator = DecisionTreeRegressor(random_state=0)
    method = SklearnRuntime(estimator, FEATURES, refit_every=40, min_jobs=20)
    recorded.replay(small_log(120), {"it": method})
    assert not hasattr(estimator, "tree_")


def test_only_what_is_known_at_submission_teaches():
    with pytest.raises(UsageError, match="cannot use 'run_time'"):
        batchcast.replay(small_log(60), {"it": SklearnRuntime(LinearRegression(), ("user_id", "run_time"))})
    with pytest.raises(UsageError, match="cannot use 'elapsed'"):
        SklearnRuntime(LinearRegression(), ("elapsed",)).predict_trace(small_log(60))
    vouched = small_log(60).knowing(("elapsed",))
    method = SklearnRuntime(DecisionTreeRegressor(random_state=0), ("elapsed",), refit_every=20, min_jobs=10)
    assert batchcast.replay(vouched, {"it": method})["it"].points[-1] > 0


def test_masked_jobs_are_not_told():
    log, ask = small_log(100), np.arange(100) % 4 == 0
    told = batchcast.replay(log, {"it": tree()}, ask=ask)["it"]
    assert np.isnan(told.points[~ask]).all()
    assert not np.isnan(told.points[ask]).any()
    assert {word for word, asked in zip(told.basis, ask) if not asked} == {""}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"estimator": object()}, "has no fit and predict"),
        ({"estimator": LinearRegression(), "features": ()}, "at least one column"),
        ({"estimator": LinearRegression(), "refit_every": 0}, "refit_every"),
    ],
)
def test_what_cannot_work_is_refused_by_argument(given, says):
    with pytest.raises(UsageError, match=says):
        SklearnRuntime(**given)


def test_an_estimator_that_cannot_be_fitted_is_named():
    method = SklearnRuntime(HistGradientBoostingRegressor(max_iter=-1), ("procs",), refit_every=20, min_jobs=10)
    with pytest.raises(UsageError, match="HistGradientBoostingRegressor cannot be fitted"):
        batchcast.replay(small_log(60), {"it": method})


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda X: ["long"] * len(X), r"Odd.predict\(X\) answered list"),
        (lambda X: np.zeros((len(X), 3)), r"answered an array of shape \(50, 3\)"),
        (lambda X: 60.0, "answered float"),
    ],
)
def test_a_wrong_answer_is_said_at_the_first_call_not_at_the_first_fit(answer, says):
    class Odd(DummyRegressor):
        def predict(self, X):
            return answer(X)

    with pytest.raises(UsageError, match=says):
        batchcast.replay(small_log(5), {"it": Odd()})


def test_what_cannot_be_cloned_is_said_at_the_first_call():
    class Bare:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return [1.0] * len(X)

    with pytest.raises(UsageError, match="Bare cannot be fitted"):
        batchcast.replay(small_log(5), {"it": Bare()})


def test_columns_that_no_job_knows_are_left_out_until_one_does():
    """HistGradientBoostingRegressor rejects a column without a value, and the bundled log has two such columns."""
    jobs = 400
    rng = np.random.default_rng(0)
    log = batchcast.Trace.from_arrays({
        "submit_time": 100.0 * np.arange(jobs), "wait_time": np.zeros(jobs), "run_time": rng.uniform(5.0, 90.0, jobs),
        "req_procs": rng.integers(1, 9, jobs), "req_time": np.full(jobs, 600.0),
        "job_name": [None] * 200 + ["solver", "mesh"] * 100,
    })  # fmt: skip
    estimator = HistGradientBoostingRegressor(max_iter=5, random_state=0)
    names = ("req_time", "procs", "job_name", "account")
    method = SklearnRuntime(estimator, names, refit_every=100, min_jobs=20)
    batch = method.predict_trace(log)
    assert [fit["left_out"] for fit in method.trained] == ["job_name account", "job_name account", "account"]
    assert batch.grounds[-1] == Grounds.MODEL
    one = recorded.replay(log, {"it": SklearnRuntime(estimator, names, refit_every=100, min_jobs=20)})["it"]
    assert np.array_equal(one.points, batch.points)


def test_an_estimator_of_only_unknown_columns_still_answers():
    log = small_log(150)
    method = SklearnRuntime(DummyRegressor(), ("account",), refit_every=40, min_jobs=20)
    assert np.isfinite(method.predict_trace(log).points).all()


def test_default_features_work_on_the_bundled_log():
    log = batchcast.read_trace(batchcast.demo_path())[:1200]
    found = batchcast.replay(log, {"it": HistGradientBoostingRegressor(max_iter=5, random_state=0)})["it"]
    assert found.grounds[-1] == Grounds.MODEL
