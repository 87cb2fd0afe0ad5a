"""Tests pictures for papers: the drawn values equal the arrays."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from batchcast import plots, replay, simulate
from batchcast.errors import UsageError
from batchcast.simulation.schedule import Schedule
from batchcast.table import Trace

pytest.importorskip("matplotlib", reason="matplotlib draws these")


@pytest.fixture(scope="module")
def log() -> Trace:
    n = 60
    return Trace.from_arrays(
        {
            "submit_time": np.arange(n) * 30.0,
            "wait_time": np.full(n, 10.0),
            "run_time": 60.0 + 10.0 * (np.arange(n) % 7),
            "req_time": np.full(n, 600.0),
            "req_procs": 1 + np.arange(n) % 4,
            "user_id": ["ada", "bob"] * (n // 2),
        }
    )


@pytest.fixture(scope="module")
def schedules(log: Trace) -> dict[str, Schedule]:
    return {name: simulate(log, name, "requested", total=8) for name in ("easy", "easy-sjbf")}


def test_errors_and_coverage_are_shares_of_the_jobs(log: Trace) -> None:
    said = replay(log, ["kernel", "requested"])
    drawn = plots.errors(log, said)
    kernel, requested = drawn.get_lines()
    assert requested.get_xdata().min() == np.abs(600.0 - log.run_time).min()
    assert kernel.get_ydata()[-1] == 1.0
    ax = said.plot("coverage")
    _, shares = ax.get_lines()
    known = ~np.isnan(said["kernel"].quantiles[:, 0])
    expected = (log.run_time[known, None] <= 1.0 + said["kernel"].quantiles[known]).mean(axis=0)
    np.testing.assert_allclose(shares.get_ydata(), expected)


def test_waits_gantt_and_frontier(log: Trace, schedules: dict[str, Schedule], tmp_path) -> None:
    ax = plots.waits(schedules, log)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["easy", "easy-sjbf", "recorded"]
    chart = plots.gantt(schedules["easy"])
    bars = [len(each.get_paths()) for each in chart.collections]
    assert sum(bars) == sum(len(held) for held in schedules["easy"].placed()) >= len(log)
    # one artist for jobs in order and one for backfilled jobs, because thousands of artists take minutes
    assert len(bars) <= 2
    passed = int(schedules["easy"].backfilled.sum())
    assert [text.get_text() for text in chart.get_legend().get_texts()] == ["in its turn", "backfilled"] or not passed
    assert chart.get_ylim() == (0, 8)
    points = plots.frontier(schedules)
    assert [text.get_text() for text in points.get_legend().get_texts()] == ["easy", "easy-sjbf"]
    chart.figure.savefig(tmp_path / "gantt.png")
    assert (tmp_path / "gantt.png").stat().st_size > 1000


def test_too_many_bars_and_no_matplotlib_are_said(
    schedules: dict[str, Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "MOST_BARS", 10)
    with pytest.raises(UsageError, match="60 jobs are too many"):
        plots.gantt(schedules["easy"])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="need matplotlib"):
        plots.frontier(schedules)


def test_legends_name_what_is_drawn(log: Trace) -> None:
    said = replay(log, ["kernel", "requested"])
    ax = said.plot("coverage")  # the time limits have no quantiles
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["kernel"]
    ax = said["kernel"].plot("forecasts")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["point", "10 %", "50 %", "90 %"]
