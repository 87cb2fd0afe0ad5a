"""A described machine's own way to answer `forecast`'s question: Slurm's two loops simulated on its nodes."""

from __future__ import annotations

import math

import numpy as np

from ...cluster.machine import Machine
from ...events.event import Event
from ...events.recorded import replay
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..hazard.ways import SPREADS, Lag, spread_curves
from ..protocol import Grounds, Prediction
from .scheduler_replay import SchedulerReplay


class NodesWay:
    """Waits as Slurm's two loops have them on a machine with `kernel`'s run times, as much later as they came out.

    Parameters
    ----------
    machine
        The described machine.

    >>> from batchcast.cluster.machine import homogeneous
    >>> way = NodesWay(homogeneous(2, 4, 4000.0))
    >>> job = JobRequest(0, 1, 0.0, 4.0, 600.0, float("nan"))
    >>> way.predict(job, SystemState(8.0)).point, way.curves(math.log1p(60.0)).shape
    (0.0, (3, 33))
    """

    def __init__(self, machine: Machine) -> None:
        self.replay = SchedulerReplay(runtime="kernel", machine=machine)
        self.machine = machine
        self.lag = Lag()

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The wait if the job came now and nobody after it, in seconds; NaN where it never starts."""
        found = self.replay.start_on_nodes(self.machine, job, at)
        wait = math.nan if isinstance(found, str) else found[0] - at.now
        return Prediction(wait, (), (), "simulated on nodes", Grounds.SIMULATION)

    def observe(self, event: Event, at: SystemState) -> None:
        """What happened, for the run times."""
        self.replay.observe(event, at)

    def simulated(self, job: JobRequest, at: SystemState) -> float:
        """log(1 + wait) of `predict`."""
        return math.log1p(self.predict(job, at).point)

    def of_trace(self, trace: Trace, protocol: str, procs: str, total: float) -> list[float]:
        """The same (n,) of every job of a log at its submission, by a fresh one."""
        said = replay(trace, {"nodes": NodesWay(self.machine)}, protocol=protocol, procs=procs, total=total)
        return [float(wait) for wait in np.log1p(said["nodes"].points)]

    def curves(self, simulated: float) -> np.ndarray:
        """Curves (3, 33) of a simulated log(1 + wait): by each of SPREADS, and as late; NaN where it never starts."""
        points, late = np.array([[simulated]]), np.array([[simulated + self.lag.of(simulated)]])
        return np.concatenate(
            [*(spread_curves(points, spread) for spread in SPREADS), spread_curves(late, SPREADS[-1])]
        )
