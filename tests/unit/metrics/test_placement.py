"""Drawn processors: nobody shares one, nothing is lost, and a schedule that fits the machine stays inside it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast.metrics.placement import placement

JOBS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 5)), max_size=12)


@given(JOBS, st.integers(1, 8))
def test_every_job_has_its_processors_for_itself(jobs: list[tuple[int, int, int]], total: int) -> None:
    start, length, procs = (np.array([job[k] for job in jobs], float) for k in range(3))
    pieces = placement(start, start + length, procs.astype(int), total)
    drawn = np.where(length > 0, procs, 0)
    assert np.bincount(pieces.job, pieces.procs, len(jobs)).tolist() == drawn.tolist()
    owner: dict[tuple[int, int], int] = {}  # (second, processor): the slow, obvious twin
    for job, first, count in zip(*pieces):
        for second in range(int(start[job]), int(start[job] + length[job])):
            for processor in range(first, first + count):
                assert owner.setdefault((second, processor), job) == job
    busiest = max((sum(1 for t, _ in owner if t == second) for second in range(20)), default=0)
    highest = max((processor for _, processor in owner), default=-1)
    assert highest < max(total, busiest)


def test_a_job_stays_in_one_piece_where_a_gap_holds_it() -> None:
    pieces = placement(np.array([0.0, 0.0, 0.0, 2.0]), np.array([2.0, 9.0, 2.0, 9.0]), np.array([1, 1, 2, 2]), 4)
    assert list(zip(*(column.tolist() for column in pieces)))[-1] == (3, 2, 2)
