"""Tests that the search scores on the training set exactly what `predict` would have returned at that time."""

import numpy as np
import pytest

from batchcast.events.driver import Cadence
from batchcast.events.event import End, Submit
from batchcast.events.recorded import events
from batchcast.events.state import SystemState
from batchcast.testing import small_log
from batchcast_papers.online_knn_ga.methods import FIRST_TEMPLATES, UNIVERSE, SmithTemplates, smallest_interval


@pytest.mark.parametrize("protocol", ["honest", "paper"])
def test_what_was_tried_equals_what_was_said(protocol):
    log = small_log(90)
    method = SmithTemplates(h=30, t1=40, t2=200, population=4, generations=2)
    state, cadence, said = SystemState(), Cadence(method), {}
    for event in events(log, protocol):
        if isinstance(event, Submit):
            cadence.submitted(event.time)
            if method.batch >= 0:
                break
            said[event.job.row] = method.predict(event.job, state).point
        state.apply(event)
        method.observe(event, state)
    training = method.store.window(30, 70)
    known = ~np.isnan(training["run"])
    training = {name: column[known] for name, column in training.items()}
    estimate, interval, fallback = method._answers(training)
    told = smallest_interval(np.array(FIRST_TEMPLATES), estimate, interval, fallback)
    limit = np.nan_to_num(training["limit"], nan=np.inf)
    expected = [said[row] for row in np.arange(30, 70)[known]]
    np.testing.assert_allclose(np.maximum(np.minimum(told, limit), 1.0), expected)


def test_a_repeated_job_is_told_by_its_surest_category():
    method, state = SmithTemplates(), SystemState()
    log = small_log(1)
    job = next(log.requests())._replace(user_id="ada", app_id=7, procs=4.0, req_time=1000.0)

    for k, (app, run) in enumerate([(7, 100.0), (7, 101.0), (8, 900.0), (8, 5.0)]):
        method.observe(End(float(k), job._replace(row=k, app_id=app), run, 0.0), state)
    answer = method.predict(job, state)
    assert answer.point == 100.5
    assert "app_id" in answer.basis
    assert len(UNIVERSE) == 96
