"""Tests doctor's checks of planning from the store alone: other programs that change limits, and late cycles."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchcast.planning.record import Entry, State
from batchcast.service.planning.checkup import standing_findings
from batchcast.service.settings import load
from batchcast.store import clock_jobs, planned
from batchcast.store.database import Store
from batchcast.store.reader import Reader

NOW = 1e6


def said(tmp_path: Path, foreign: int, others: tuple[str, ...] = (), **settings: object) -> dict[str, tuple[str, str]]:
    """Return the state and the fact of each check, for a hundred planned jobs of which this many were changed by
    somebody."""
    place = str(tmp_path / "s.db")
    store = Store(place, create=True)
    with store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **{planned.OTHER_PLANNERS: list(others)})
        for k in range(100):
            entry = Entry(str(k), 0.0, 7200.0, 3600.0, State.PLANNED, NOW - 60.0)
            planned.write(connection, "c", [(entry, 7200.0, 3600.0, "forecast")])
            last = entry._replace(state=State.FOREIGN if k < foreign else State.RESTORED)
            planned.write(connection, "c", [(last, 3600.0, 7200.0, "")])
    store.close()
    rows = standing_findings(Reader(place), "c", load({"plan": "plan", **settings}, {}), NOW)
    return {row["check"]: (row["state"], row["found"]) for row in rows}


@pytest.mark.parametrize(("foreign", "state"), [(0, "ok"), (10, "ok"), (11, "warning")])
def test_so_many_limits_changed_by_others_look_like_a_second_program(tmp_path: Path, foreign: int, state: str) -> None:
    found = said(tmp_path, foreign)["limits changed by others"]
    assert found == (
        state,
        f"{foreign} of the 100 jobs planned in the last 7 days had their limits changed by another user or program",
    )


def test_another_batchcast_is_named_as_long_as_its_tokens_are_seen(tmp_path: Path) -> None:
    assert "another batchcast" not in said(tmp_path, 0)
    (tmp_path / "s.db").unlink()
    state, fact = said(tmp_path, 0, ("7", "8"))["another batchcast"]
    assert (state, fact.partition(":")[0]) == ("warning", "2 jobs, for example 7, are not planned")


@pytest.mark.parametrize(("interval", "state"), [(30.0, "ok"), (31.0, "warning")])
def test_where_short_jobs_are_planned_a_look_must_come_in_time(tmp_path: Path, interval: float, state: str) -> None:
    assert said(tmp_path, 0, interval_s=interval)["short jobs"][0] == state
