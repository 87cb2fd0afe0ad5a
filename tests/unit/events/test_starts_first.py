"""Tests the recorded clock of papers/quick-starters.md: before a submission, every earlier end and start has been
passed on."""

from hypothesis import given
from hypothesis import strategies as st

from batchcast.events.event import END, RANK, START, SUBMIT, WITHDRAW, Submit
from batchcast.events.recorded import events
from batchcast.events.state import SystemState
from batchcast.table import Trace

rows = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 1.0, 5.0]), st.sampled_from([0.0, 1.0, 5.0]), st.sampled_from([0.0, 1.0, 4.0, None])
    ),
    min_size=1,
    max_size=25,
)


@given(rows)
def test_state_at_a_submission_is_that_of_the_record(jobs):
    submit, wait, run = [], [], []
    for step, w, r in jobs:
        submit.append((submit[-1] if submit else 0.0) + step)
        wait.append(w)
        run.append(r)
    log = Trace.from_arrays({"submit_time": submit, "wait_time": wait, "run_time": run})
    state, told = SystemState(8.0), []
    for event in events(log, "starts_first"):
        if isinstance(event, Submit):
            i, now = event.job.row, event.time
            left = {j for j in range(i) if submit[j] + wait[j] <= now}
            runs = {j for j in left if run[j] is not None and submit[j] + wait[j] + run[j] > now}
            assert set(state.queued) == set(range(i)) - left
            assert set(state.running) == runs
        state.apply(event)
        told.append((event.time, RANK[type(event)], event.job.row))
    assert [t for t, _, _ in told] == sorted(t for t, _, _ in told)
    ran = sum(r is not None for r in run)
    assert [sum(k == kind for _, k, _ in told) for kind in (SUBMIT, START, END, WITHDRAW)] == [
        len(run), ran, ran, len(run) - ran
    ]  # fmt: skip
