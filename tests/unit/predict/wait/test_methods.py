"""Tests the package's wait predictors, and the rules of learning from real records."""

from batchcast.events.event import Start, Submit
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.registry import make
from batchcast.predict.wait.recent_wait import RecentWait

NAN = float("nan")


def tell(method, waits, procs=1.0, start_row=0, total=64.0):
    """Return jobs that were submitted at 0 and started after these waits."""
    state = SystemState(total)
    for row in range(start_row, start_row + len(waits)):
        job = JobRequest(row, row, 0.0, procs, 600.0, NAN)
        state.apply(Submit(0.0, job))
        method.observe(Submit(0.0, job), state)
    for row, wait in sorted(enumerate(waits, start_row), key=lambda pair: pair[1]):
        job = JobRequest(row, row, 0.0, procs, 600.0, NAN)
        state.apply(Start(wait, job, wait))
        method.observe(Start(wait, job, wait), state)
    return state


def test_recent_wait_counts_the_stuck_as_longer():
    method = RecentWait(need=3)
    state = tell(method, [10.0, 20.0, 30.0, 40.0, 50.0])
    asked = JobRequest(99, 99, 50.0, 1.0, 600.0, NAN)
    assert method.predict(asked, state).point == 30.0
    for row in range(10, 14):
        stuck = JobRequest(row, row, 50.0, 1.0, 600.0, NAN)
        state.apply(Submit(50.0, stuck))
        method.observe(Submit(50.0, stuck), state)
    state.now = 60.0
    assert method.predict(asked, state).point == 30.0, "ten seconds say nothing yet"
    state.now = 1000.0
    assert method.predict(asked, state).point == 50.0


def test_scheduler_replay_waits_for_the_running_job():
    method, state = make("wait", "scheduler_replay:policy=fcfs"), SystemState(4.0)
    for event in (Submit(0.0, JobRequest(0, 1, 0.0, 4.0, 500.0, NAN)),
                  Start(0.0, JobRequest(0, 1, 0.0, 4.0, 500.0, NAN), 0.0)):  # fmt: skip
        state.apply(event)
        method.observe(event, state)
    state.now = 100.0
    assert method.predict(JobRequest(1, 2, 100.0, 1.0, 60.0, NAN), state).point == 400.0
    assert "larger than the machine" in method.predict(JobRequest(1, 2, 100.0, 5.0, 60.0, NAN), state).basis


def test_an_outage_is_told_from_a_full_machine():
    """A day without events counts as an outage only if a queued job had room."""
    for procs, learned in ((1.0, None), (4.0, 100000.0)):
        state = SystemState(4.0)
        busy, waiting = JobRequest(0, 1, 0.0, 2.0, 9e5, NAN), JobRequest(1, 2, 0.0, procs, 60.0, NAN)
        for event in (Submit(0.0, busy), Start(0.0, busy, 0.0), Submit(0.0, waiting)):
            state.apply(event)
        event = Start(100000.0, waiting, 100000.0)
        state.apply(event)
        assert state.taught(event) == learned
