# SPDX-License-Identifier: Apache-2.0
"""Tests the energy of a schedule: busy, idle and off nodes add up, second by second."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchcast.errors import BatchcastError, UsageError
from batchcast.simulation import simulate
from batchcast.simulation.energy import Watts, energy, energy_rows
from batchcast.simulation.scheduler import BestFit
from batchcast.table import Trace

EASY = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "my_scheduler.py"), run_name="examples")["Easy"]
jobs = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(1, 8)), min_size=1, max_size=15)


def log_of(rows: list[tuple[int, int, int]]) -> Trace:
    submit, run, procs = (np.array(column, float) for column in zip(*sorted(rows)))
    return Trace.from_arrays(
        {"submit_time": submit, "run_time": run, "req_time": np.maximum(run, 1.0), "req_procs": procs}
    )


@given(jobs, st.sampled_from([math.inf, 0.0, 3.0]))
@settings(max_examples=60)
def test_every_second_of_every_node_is_counted_once(rows: list[tuple[int, int, int]], off_after: float) -> None:
    sizes, power = [4, 4], Watts(idle=2.0, busy=5.0, off=0.5, off_after=off_after)
    schedule = simulate(log_of(rows), EASY, nodes=sizes)
    expected = 0.0
    first, last = int(schedule.submit_time.min()), int(schedule.end_time.max())
    for number, procs in enumerate(sizes):
        idle = 0.0
        for second in range(first, last):
            on = (schedule.start_time <= second) & (second < schedule.end_time)
            used = sum(schedule.nodes[k].get(number, 0) for k in np.flatnonzero(on).tolist())
            idle = 0.0 if used else idle + 1.0
            state = "busy" if used else "idle" if idle <= off_after else "off"
            expected += power.watts(state, used, procs)
    got = energy(schedule, power, sizes)
    assert got["energy_kwh"] * 3.6e6 == pytest.approx(expected)
    assert math.fsum(got[f"{state}_kwh"] for state in ("busy", "idle", "off")) == pytest.approx(got["energy_kwh"])


def test_packing_nodes_lets_others_be_off() -> None:
    rows = [(0, 200, 3), (0, 40, 1)]
    best = type("Best", (EASY,), {"allocator": BestFit()})
    power = Watts(off_after=0.0, off=0.0)
    schedules = {each.__name__: simulate(log_of(rows), each, nodes=[8, 4]) for each in (EASY, best)}
    table = {row["policy"]: row for row in energy_rows(schedules, power, [8, 4])}
    assert table["Best"]["energy_kwh"] < table["Easy"]["energy_kwh"]
    assert table["Best"]["mean_wait_s"] == table["Easy"]["mean_wait_s"] == 0.0


def test_what_is_wrong_is_said() -> None:
    schedule = simulate(log_of([(0, 9, 2)]), "easy", total=4)
    with pytest.raises(UsageError, match="a pool has no nodes"):
        energy(schedule, Watts(off_after=60.0))
    with pytest.raises(UsageError, match="nodes that the schedule was made on"):
        energy(simulate(log_of([(0, 9, 8)]), EASY, nodes=[4, 4]), nodes=[4])
    with pytest.raises(UsageError, match="Watts answered nan W"):
        energy(schedule, Watts(idle=math.nan))
    with pytest.raises(UsageError, match=r"float is not a Power .*off_after and a method watts"):
        energy(schedule, 200.0)
    words = type("Words", (), {"off_after": 9e9, "watts": lambda *_: "many"})()
    with pytest.raises(UsageError, match=r"Words \(test_energy.py, line \d+\) answered 'many' W for 'busy'"):
        energy(simulate(log_of([(0, 9, 2)]), EASY, nodes=[4]), words, [4])


class Server:
    """A power value as a stranger may write it."""

    off_after: float = 600.0

    def watts(self, state: str, used: int, procs: int) -> Any:
        return {"busy": 90 + 12 * used, "idle": 90, "off": 4}[state]


class NoState(Server):
    def watts(self, state: str, used: int, procs: int) -> Any:
        return {"busy": 90}[state]


class TooFew(Server):
    def watts(self, state: str) -> Any:
        return 90


@pytest.mark.parametrize(
    ("power", "said"),
    [
        (NoState(), r"NoState.watts\('idle', 0, 4\) raised KeyError: 'idle' \(test_energy.py, line \d+\)"),
        (TooFew, r"TooFew.watts \(test_energy.py, line \d+\) takes \(state.*accepted: watts\(state, used, procs\)"),
        (type("Early", (Server,), {"off_after": -1.0}), r"Early.off_after is -1.0 \(accepted: seconds from 0"),
        (type("Nan", (Server,), {"off_after": math.nan}), r"Nan.off_after is nan"),
        (type("None_", (Server,), {"watts": lambda *_: None}), r"None_ .*answered None W"),
    ],
)
def test_a_power_that_is_wrong_is_named_with_its_line(power: Any, said: str) -> None:
    schedule = simulate(log_of([(0, 9, 2), (5000, 9, 2)]), EASY, nodes=[4, 4])
    with pytest.raises(BatchcastError, match=said):
        energy(schedule, power, [4, 4])


def test_a_class_is_a_power_and_what_is_no_schedule_is_said() -> None:
    schedule = simulate(log_of([(0, 9, 2)]), EASY, nodes=[4, 4])
    assert energy(schedule, Server, [4, 4]) == energy(schedule, Server(), [4, 4])
    for nodes in ([1, 1], [4, 4, 4], [1, 7], ()):
        with pytest.raises(UsageError, match="nodes that the schedule was made on"):
            energy(schedule, Server(), nodes)
    with pytest.raises(UsageError, match="got Schedule; expected a dict of name to schedule"):
        energy_rows(schedule, Server(), [4, 4])
    with pytest.raises(UsageError, match="Trace is not a schedule"):
        energy(log_of([(0, 9, 2)]), Server(), [4, 4])
