# SPDX-License-Identifier: Apache-2.0
"""Simulation: a scheduler decides when jobs start on a simulated clock, with predictions made during the simulation.

>>> import batchcast
>>> log = batchcast.Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
...                                    "req_procs": [2, 4, 2]})
>>> schedule = batchcast.simulate(log, batchcast.Policy(), "requested", total=4)
>>> schedule.start_time.tolist(), schedule.measures()["max_wait_s"]
([0.0, 9.0, 1.0], 9.0)
"""

from ..events.setup import RunSetup
from .policy import Policy
from .schedule import Schedule
from .simulate import simulate, simulate_split
from .workload import Workload, make_workload

__all__ = ["Policy", "RunSetup", "Schedule", "Workload", "make_workload", "simulate", "simulate_split"]
