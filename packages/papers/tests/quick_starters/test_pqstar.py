"""Tests `pqstar` against the histories as the paper describes them, and in what its user would notice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import pqstar as naive

from batchcast.errors import UsageError
from batchcast.evaluation.replay import forecast_periods
from batchcast.evaluation.wait import run_wait
from batchcast.events.event import Capacity
from batchcast.events.recorded import replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.registry import make
from batchcast.table import LogInfo, Trace
from batchcast.testing.logs import small_log
from batchcast_papers.quick_starters.pqstar import BASIS, PQStar
from batchcast_papers.quick_starters.pqstar_kernel import count_large, large_from

SIZE = 16.0


@st.composite
def logs(draw):
    """Small busy logs with many equal instants, few job shapes, jobs that never ran or ended at once, and unknown
    limits."""
    n = draw(st.integers(1, 40))

    def pick(*values):
        return draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))

    return Trace.from_arrays(
        {
            "submit_time": np.cumsum(pick(0.0, 0.0, 1.0, 60.0, 4000.0)),
            "wait_time": pick(0.0, 0.0, 1.0, 60.0, 5000.0, 30000.0),
            "run_time": pick(0.0, 1.0, 59.0, 60.0, 7000.0, np.nan),
            "req_procs": pick(1.0, 2.0, 4.0, 8.0, 16.0),
            "req_time": pick(60.0, 3600.0, 3660.0, 9000.0, np.nan),
        },
        LogInfo(max_procs=SIZE),
    )


@given(logs(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([60.0, 3600.0]))
def test_marks_as_the_paper_tells_it(log, strict, tables, passes, threshold):
    method = PQStar(
        threshold=threshold,
        reading="tables" if tables else "text",
        large="strict" if strict else "root",
        missing="passes" if passes else "fails",
        fallback="none",
    )
    basis = method.predict_trace(log).basis
    mark, near = np.array([BASIS.index(words) if words in BASIS else 0 for words in basis]), method.marks.near_jobs
    assert method.marks.quick.tolist() == (mark > 0).tolist()
    expected = naive.marks(log, SIZE, threshold, strict=strict, tables=tables, missing_passes=passes)
    assert (mark.tolist(), near.tolist()) == expected


@given(logs(), st.sampled_from(["honest", "starts_first"]))
def test_one_by_one_is_the_batch_path(log, clock):
    spec = "pqstar:threshold=60,fallback=recent_wait"
    one = replay(log, {"it": make("wait", spec)}, protocol=clock, total=SIZE)["it"]
    batch = make("wait", spec).predict_trace(log, clock)
    assert one.points.tolist() == batch.points.tolist()
    assert list(one.basis) == list(batch.basis)


@pytest.mark.parametrize("spec", ["ibl", "pqstar"])
def test_methods_that_search_settings_need_the_whole_log(spec):
    log = small_log(50)
    with pytest.raises(UsageError, match=f"{spec} .*searches"):
        list(forecast_periods("wait", [log], [spec]))


@pytest.mark.parametrize("spec", ["log_uniform", "qbets"])
def test_bounds_period_by_period_are_the_bounds_of_the_whole_log(spec):
    log = small_log(400)
    cut = next(row for row in range(200, 400) if log.submit_time[row] > log.submit_time[row - 1])
    parts = [said[spec].points for _, _, said in forecast_periods("wait", [log[:cut], log[cut:]], [spec])]
    whole = run_wait(log, spec, np.ones(len(log), bool)).forecasts
    assert np.array_equal(np.concatenate(parts), whole.points)


def test_large_jobs():
    assert [large_from(size, True) for size in (338, 240, 1152, 128, 1024)] == [32, 16, 64, 16, 64]
    assert large_from(1024, False) == 32


def test_a_shrunk_machine_changes_what_is_large():
    from batchcast.events.event import Start, Submit

    method, state = PQStar(fallback="none"), SystemState(1024.0)
    job = JobRequest(0, 1, 0.0, 32.0, 60.0, float("nan"))
    for event in (Submit(0.0, job), Start(0.0, job, 0.0)):
        state.apply(event)
        method.observe(event, state)
    assert count_large(state.columns().record[0], method.histories.record[0]) == 0
    shrunk = Capacity(1.0, 100.0)
    state.apply(shrunk)
    method.observe(shrunk, state)
    assert count_large(state.columns().record[0], method.histories.record[0]) == 1


def test_the_point_is_the_median_of_similar_waits_and_the_bound_the_threshold():
    log = Trace.from_arrays(
        {
            "submit_time": [0.0, 1.0, 2.0, 3.0, 100.0],
            "wait_time": [10.0, 20.0, 30.0, 5.0, 0.0],
            "run_time": [1e4] * 5,
            "req_procs": [1.0, 1.0, 1.0, 2.0, 1.0],
            "req_time": [2e4] * 5,
        }
    )
    told = PQStar(fallback="none").predict_trace(log, total=64.0)
    assert told.points[4] == 20.0
    assert told.quantiles[4, 0] == 3600.0
    assert told.basis[4] == "near history: a similar job has started"


@pytest.mark.parametrize("spec", ["pqstar:threshold=0", "pqstar:depth=0", "pqstar:reading=guess", "pqstar:fallback=no"])
def test_refuses_nonsense(spec):
    with pytest.raises(UsageError):
        make("wait", spec)
