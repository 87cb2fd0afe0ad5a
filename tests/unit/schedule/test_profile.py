"""Tests the profile of free processors against an array of seconds, for any sequence of reservations, releases and
queries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.schedule import NaiveProfile

from batchcast.schedule.passes import earliest_fit, forget_past, hold, most_free
from batchcast.schedule.state import CONSERVATIVE, make_jobs, make_state

TOTAL, HORIZON = 8, 1200

one_step = st.tuples(
    st.sampled_from(["reserve", "reserve", "give back", "later", "earlier"]),
    st.integers(1, TOTAL),
    st.integers(1, 40),
    st.integers(0, 30),
)


@given(st.lists(one_step, min_size=1, max_size=40))
def test_every_answer_is_that_of_an_array_of_seconds(steps) -> None:
    empty = np.zeros(40)
    state = make_state(make_jobs(empty, empty, empty, empty, empty), TOTAL, backfill=CONSERVATIVE)
    r, profile, twin = state.record[0], state.arrays["profile"], NaiveProfile(TOTAL, HORIZON)
    r["now"] = profile[0]["time"] = 0.0
    held: list[tuple[int, int, int]] = []
    for what, procs, length, which in steps:
        if what == "reserve":
            start = twin.earliest_fit(procs, length)
            assert earliest_fit(r, procs, float(length), np.inf, np.inf) == start
            twin.hold(start, start + length, procs)
            hold(r, float(start), float(start + length), procs)
            held.append((start, length, procs))
        elif what == "give back" and held:
            start, length, procs = held.pop(which % len(held))
            start, length = max(start, twin.now), length - max(twin.now - start, 0)
            if length > 0:
                twin.hold(start, start + length, -procs)
                hold(r, float(start), float(start + length), -procs)
        elif what == "later":
            twin.now += which
            r["now"] = float(twin.now)
            forget_past(r)
        elif what == "earlier" and held:
            start, length, procs = held[which % len(held)]
            if start > twin.now:
                found = earliest_fit(r, procs, float(length), float(start), np.inf)
                assert found == twin.earlier_fit(procs, length, start)
        forget_past(r)  # every scheduling pass begins with this call
        until = twin.now + length
        assert most_free(r, float(until)) == twin.most_free(twin.now, until)
        live = profile[int(r["first_step"]) : int(r["steps"])]
        assert [twin.free[max(int(t), twin.now)] for t in live["time"]] == live["free"].tolist()
        assert (np.diff(live["free"]) != 0).all()
        assert (np.diff(live["time"]) > 0).all()
