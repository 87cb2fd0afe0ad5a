"""The ways in which `forecast` can answer a submission: on a machine's nodes, simulated, recent waits, its model."""

from __future__ import annotations

import math

import numpy as np

from ...cluster.machine import Machine
from ...events.event import Event
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..hazard.bins import BINS
from ..hazard.features import AT_DRAWS
from ..hazard.ways import SPREADS, Lag, RecentWaits, simulated_curves
from ..protocol import Grounds
from .forecast_log import Class
from .nodes_way import NodesWay

WAYS = (
    *("simulation on the machine's nodes" for _ in SPREADS),
    "simulation on the machine's nodes, as late as it came out",
    *("simulation" for _ in SPREADS),
    "simulation, as late as it came out",
    "recent waits",
    "model",
)
GROUNDS = (*(Grounds.SIMULATION for _ in WAYS[:-2]), Grounds.CLASS, Grounds.MODEL)


class Ways:
    """The curves of all ways side by side, and what those that learn from every end have learned.

    Parameters
    ----------
    machine
        A described machine, or None: then its nodes answer nothing.

    >>> ways = Ways(None)
    >>> ways.ended((0, 1), 0.0, math.nan, 30.0)
    >>> from batchcast.predict.hazard.features import NAMES
    >>> ways.curves(np.zeros(len(NAMES), np.float32), (0, 1), math.nan, np.full(BINS, np.nan))[:, -1].tolist()
    [nan, nan, nan, 1.0, 1.0, 1.0, 1.0, nan]
    """

    def __init__(self, machine: Machine | None) -> None:
        self.recent = RecentWaits()
        self.lag = Lag()
        self.nodes = NodesWay(machine) if machine is not None else None

    def curves(self, row: np.ndarray, key: Class, on_nodes: float, model: np.ndarray) -> np.ndarray:
        """The curves (ways, 33) for a job by features (f,), class, what nodes say and the model's; NaN for none."""
        simulated = [simulated_curves(row[None, :], spread)[0] for spread in SPREADS]
        late = simulated_curves(row[None, :], SPREADS[-1], self.lag.of(float(row[AT_DRAWS])))[0]
        nodes = np.full((len(SPREADS) + 1, BINS), np.nan) if self.nodes is None else self.nodes.curves(on_nodes)
        return np.stack([*nodes, *simulated, late, self.recent.curve(key), model])

    def on_nodes(self, job: JobRequest, at: SystemState) -> float:
        """What the machine's nodes say of a job submitted now, log(1 + wait); NaN where they say nothing."""
        return math.nan if self.nodes is None else self.nodes.simulated(job, at)

    def on_nodes_of(self, trace: Trace, protocol: str, procs: str, total: float) -> list[float]:
        """The same for every job of a log."""
        return [math.nan] * len(trace) if self.nodes is None else self.nodes.of_trace(trace, protocol, procs, total)

    def observe(self, event: Event, at: SystemState) -> None:
        """What happened, for the nodes' own clock."""
        if self.nodes is not None:
            self.nodes.observe(event, at)

    def ended(self, key: Class, simulated: float, on_nodes: float, wait: float) -> None:
        """A job of class `key` waited so long, for which these log(1 + wait) were simulated."""
        self.recent.add(key, wait)
        self.lag.add(simulated, wait)
        if self.nodes is not None:
            self.nodes.lag.add(on_nodes, wait)
