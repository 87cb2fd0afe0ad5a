"""Tests irpa, brbf and their baselines on jobs whose run time follows from their features."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.events.event import End
from batchcast.events.recorded import replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.registry import make
from batchcast.table import Trace
from batchcast_papers.vasp.methods import Brbf, FeatureMethod, Irpa

METHODS = ("irpa", "irpa:upper=forest", "irpa:mean=seconds,sub_models=all", "brbf", "brbf:key_min=30", "forest", "svr",
           "bayesian_ridge", "boosted")  # fmt: skip
FIXED = {"kpoints": 4.0, "ichg": 2.0, "isym": 2.0, "istart": 0.0, "nelmin": 2.0, "nelm": 60.0, "ediff": 1e-4,
         "ediffg": 1e-3}  # fmt: skip


def jobs(n=240, seed=0):
    rng = np.random.default_rng(seed)
    encut, bands = rng.choice([300.0, 400.0, 500.0], n), rng.integers(10, 60, n).astype(float)
    prec, spin = rng.choice(["normal", "accurate"], n), rng.choice([1.0, 2.0], n)
    run = bands * (encut / 100) ** 1.5 * spin * np.where(prec == "normal", 1, 2) * rng.lognormal(0, 0.05, n)
    made = []
    for k in range(n):
        extra = FIXED | {"volume": 10 * bands[k], "prec": str(prec[k]), "lreal": "false", "ispin": spin[k],
                         "encut": encut[k], "nbands": bands[k]}  # fmt: skip
        made.append(JobRequest(k, k, 60.0 * k, 8.0, 1e6, float("nan"), user_id="ada", extra=extra))
    return made, run


def taught(spec, n=200):
    requests, run = jobs()
    method, state = make("runtime", spec), SystemState()
    for job, seconds in zip(requests[:n], run):
        method.observe(End(1e6, job, seconds, 0.0), state)
    method.refit(1e6)
    return method, requests, run


@pytest.mark.parametrize("spec", METHODS)
def test_run_time_follows_from_the_features(spec):
    method, requests, run = taught(spec)
    points = np.array([method.predict(job, SystemState()).point for job in requests[200:]])
    ratio = np.minimum(points, run[200:]) / np.maximum(points, run[200:])
    middle = np.median(run[:200])
    constant = (np.minimum(middle, run[200:]) / np.maximum(middle, run[200:])).mean()
    # the features determine nearly everything; 56 Bayes classes on 120 jobs (BRBF without keys) are a poor start
    assert ratio.mean() > (constant + 0.05 if spec == "brbf" else 0.85)


@pytest.mark.parametrize("spec", ["irpa", "brbf", "boosted"])
def test_a_job_without_readable_features_falls_back_and_says_so(spec):
    method, requests, run = taught(spec)
    bare = requests[0]._replace(extra={"prec": "normal"})
    answer = method.predict(bare, SystemState())
    assert answer.basis.startswith("no readable features (kpoints, volume, ichg and ")
    assert answer.basis.endswith("mean of the last 5 finished, same user_id, req_time, procs")
    assert answer.point == pytest.approx(run[195:200].mean())
    collected = bare._replace(extra={"input_files": "vanished"})
    assert method.predict(collected, SystemState()).basis.startswith("no readable features (inputs vanished): ")
    again = requests[0]._replace(extra={**requests[0].extra, "istart": 1.0})
    assert method.predict(again, SystemState()).basis.startswith("continues a former run (istart above 0): ")
    untaught = make("runtime", spec).predict(requests[0], SystemState())
    assert untaught.basis.startswith(f"{spec} is not trained yet (0 finished jobs with features): ")


def test_continuations_teach_nothing():
    requests, run = jobs()
    method, state = make("runtime", "irpa"), SystemState()
    for job, seconds in zip(requests, run):
        restart = job._replace(extra={**job.extra, "istart": 1.0})
        method.observe(End(1e6, restart, seconds, 0.0), state)
    method.refit(1e6)
    assert not method.trained


@pytest.mark.lightgbm
def test_quantiles_come_from_errors_on_jobs_not_learnt_from():
    method, requests, run = taught("boosted", 150)
    assert method.predict(requests[200], SystemState()).levels == ()
    for job, seconds in zip(requests[150:200], run[150:200]):
        method.observe(End(2e6, job, seconds, 0.0), SystemState())
    inside = 0
    for job, seconds in zip(requests[200:], run[200:]):
        low, middle, high = method.predict(job, SystemState()).quantiles
        assert low <= middle <= high
        inside += low <= seconds <= high
    assert 20 <= inside <= 40  # 80 % intervals should contain about 32 of 40


def test_predictions_stay_in_the_range_seen_and_under_the_limit():
    method, requests, run = taught("bayesian_ridge")
    far = requests[0]._replace(extra={**requests[0].extra, "nbands": 1e6, "volume": 1e7})
    assert method.predict(far, SystemState()).point == pytest.approx(run[:200].max())
    assert method.predict(far._replace(req_time=50.0), SystemState()).point == 50.0


def test_training_rows_are_in_order_of_submission():
    requests, run = jobs()
    seen = []

    class Spy(FeatureMethod):
        model_name = "spy"

        def fit_rows(self, rows, log_run):
            seen.append(log_run.tolist())

        def predict_row(self, row):
            return 1.0

    method = Spy(window=40, min_jobs=10)
    for k in np.random.default_rng(0).permutation(50):
        method.observe(End(1e6, requests[k], run[k], 0.0), SystemState())
    method.refit(1e6)
    assert len(seen) == 1
    np.testing.assert_allclose(seen[0], np.log10(run[10:50]))


def test_irpa_weighs_its_sub_models():
    requests, run = jobs()
    names = ("encut", "nbands", "ispin", "prec")
    rows = [tuple(job.extra[name] for name in names) for job in requests]
    method = Irpa(features=names)
    method.fit_rows(rows[:200], np.log10(run[:200]))
    x = method.encoder.one_hot(rows[200:201])[0]
    values = np.array([regressor.predict_row(x) for regressor in method.below])
    weights = method.classifier.predict(values)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0).all()
    assert method.predict_row(rows[200]) == pytest.approx(weights @ values[method.classes])


def test_irpa_survives_one_sub_model_always_nearest():
    rows = [(float(k % 7),) for k in range(60)]
    method = Irpa(features=("nbands",))
    method.fit_rows(rows, np.zeros(60) + 2.0)
    assert method.predict_row((3.0,)) == pytest.approx(2.0, abs=0.02)


def test_brbf_has_networks_only_for_keys_with_more_than_key_min_jobs():
    requests, run = jobs()
    names = ("encut", "nbands", "ispin", "prec")
    rows = [tuple(job.extra[name] for name in names) for job in requests]
    counts = {key: sum(row[2:] == key for row in rows) for key in {row[2:] for row in rows}}
    least = sorted(counts.values())[1]
    method = Brbf(least, ridge=0.1, floor=1.0, features=names)
    method.fit_rows(rows, np.log10(run))
    assert set(method.networks) == {key for key, count in counts.items() if count > least}
    assert method.general is not None


@pytest.mark.parametrize("spec", ["irpa", "brbf", "forest", "boosted"])
def test_warm_start_still_learns(spec):
    requests, run = jobs()
    method, state = make("runtime", f"{spec}:warm_start=yes"), SystemState()
    for part in (slice(0, 100), slice(100, 200)):
        for job, seconds in zip(requests[part], run[part]):
            method.observe(End(1e6, job, seconds, 0.0), state)
        method.refit(1e6)
    points = np.array([method.predict(job, state).point for job in requests[200:]])
    assert (np.minimum(points, run[200:]) / np.maximum(points, run[200:])).mean() > 0.6


def test_refits_fall_due_on_the_clock_and_know_only_what_has_ended():
    requests, run = jobs(120)
    columns = {name: [job.extra[name] for job in requests] for name in requests[0].extra}
    trace = Trace.from_arrays(
        {"submit_time": [job.submit_time for job in requests], "wait_time": np.zeros(120), "run_time": run,
         "req_procs": np.full(120, 8.0), **columns}
    )  # fmt: skip
    told = replay(trace, {"m": make("runtime", "bayesian_ridge:refit_every_jobs=40,min_jobs=20")})["m"]
    assert told.basis[39].startswith("bayesian_ridge is not trained yet")
    ended = int((trace.submit_time[:40] + run[:40] <= trace.submit_time[40]).sum())
    assert told.basis[40] == f"bayesian_ridge on {ended} finished jobs"


def test_columns_can_be_added_to_the_papers():
    assert make("runtime", "irpa:also=nions+user_id").uses[-3:] == ("nbands", "nions", "user_id")


def test_parameters_that_make_no_sense_are_refused():
    from batchcast.errors import UsageError

    with pytest.raises(UsageError, match="irpa has no parameter 'trees'"):
        make("runtime", "irpa:trees=3")
    with pytest.raises(UsageError, match="accepted: bayes, forest"):
        make("runtime", "irpa:upper=svm")
    with pytest.raises(UsageError, match="at least 1"):
        make("runtime", "brbf:window=0")
