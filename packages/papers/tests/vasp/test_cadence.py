"""Tests when a model of features is trained: early on a short log, then at its regular interval."""

from batchcast.events.driver import Cadence
from batchcast.events.event import End
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast_papers.vasp.methods import FeatureMethod


class MeanMethod(FeatureMethod):
    model_name = "mean"

    def fit_rows(self, rows, log_run):
        self.value = log_run.mean()

    def predict_row(self, row):
        return self.value


def test_a_young_model_is_taught_whenever_its_jobs_have_doubled():
    learner = MeanMethod(features=("nbands",), refit_every_jobs=100, window=1000, min_jobs=10)
    state = SystemState()
    clock = Cadence(learner)
    for k in range(500):
        job = JobRequest(k, k, float(k), 1.0, 100.0, float("nan"), extra={"nbands": float(k)})
        clock.submitted(float(k))
        learner.observe(End(float(k), job, 10.0, 0.0), state)
    assert [fit["training_jobs"] for fit in learner.trained] == [10, 20, 40, 80, 160, 260, 360, 460]
