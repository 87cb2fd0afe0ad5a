# SPDX-License-Identifier: Apache-2.0
"""`pqstar`: finds quick starters from the near, mid and far history of the queue (Kumar & Vadhiyar, JSSPP 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from batchcast.events.event import Capacity, Event, Submit
from batchcast.events.record import Columns, clean_request, requests_of
from batchcast.events.recorded import Forecasts, event_table, timeline
from batchcast.events.state import Cancelled, SystemState
from batchcast.job import JobRequest
from batchcast.predict import batched
from batchcast.predict.protocol import Grounds, Prediction, QuickMarks, wait_option
from batchcast.predict.registry import make, takes
from batchcast.table import Trace

from . import pqstar_kernel as kernel
from .bounds import FITTED

BASIS = (
    "",
    "near history: a similar job has started",
    "mid history: rank by size in the queue",
    "mid history: rank by limit in the queue",
    "mid history: free processors",
    "far history: every similar job was quick",
)


@dataclass(eq=False, repr=False)
class PQStar:
    """Marks quick starters (jobs that wait at most `threshold`) from three histories of submissions; the method
    `fallback` predicts other jobs.

    Parameters
    ----------
    threshold
        Maximum wait of a quick starter in seconds; also the bound of a marked job.
    reading
        How the paper is interpreted: `text`, or `tables`, where similar jobs must have been quick and ranks are
        compared with <=. The reading `tables` was fitted to the printed tables, so our tables mark results with it.
    large
        A request is large if it is at least the smallest power of two above the square root of the machine's size
        (`strict`), or at least the square root itself (`root`).
    point
        Prediction of a marked job: the `median` wait of similar jobs, at most the threshold, or the `threshold` itself.
    missing
        How a rank criterion decides if the near history has neither quick nor late jobs: `passes` or `fails`.
    cancelled
        `count`: the time in the queue of a cancelled job counts as its wait (the printed shares need this); `skip`: the
        method learns only from started jobs.
    fallback
        The method that predicts unmarked jobs, or `none`.
    depth
        Number of latest similar jobs in the deciding history; the median of their waits is the predicted wait.
    level
        The nominal level of the bound.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The method comes from section 3 and figure 2 of Kumar and Vadhiyar 2012, with the corrections in
    docs/papers/quick-starters.md. Two jobs are *similar* if their processors are equal and their limits differ by at
    most an hour. Near history: the latest unbroken run of submissions at which the number of large running jobs was the
    same as now. Mid history: from the near history back to the last submission at which none of the jobs that run now
    was running. Far history: all earlier submissions. The near history marks a job if it has a similar started job and
    no similar job waits beyond the threshold. The mid history also requires a small rank by size or limit in the queue,
    or enough free processors in addition to the processors that the jobs which may start first need. The far history
    requires that every similar job was quick. Departures from Kumar and Vadhiyar 2012: the point prediction is our
    addition; waits across an outage, negative or unknown waits, and jobs larger than the machine are ignored. The bound
    of an unmarked job is the bound of the fallback method.

    At a submission, the paper replays "ends up to now, then starts up to now", so its order of events is
    `protocol="starts_first"`; the method accepts events in any other order too. Cost of a prediction: one compiled pass
    over the queue and over the job shapes of the same size; the memory is 150 bytes per job. Times are in seconds.

    References
    ----------
    Kumar, Vadhiyar, Identifying quick starters: towards an integrated framework for efficient predictions of queue
    waiting times of batch parallel jobs, JSSPP 2012, doi:10.1007/978-3-642-35867-8_11.

    Examples
    --------
    >>> state, job = SystemState(8.0), JobRequest(0, 1, 0.0, 4.0, 600.0, float("nan"))
    >>> PQStar(fallback="none").predict(job, state).basis
    'not marked; fallback none'
    """

    protocol = "starts_first"
    holds_entries = True
    answers_by = "point"

    threshold: float = 3600.0
    reading: Literal["text", "tables"] = "text"
    large: Literal["strict", "root"] = "strict"
    point: Literal["median", "threshold"] = "median"
    missing: Literal["passes", "fails"] = "passes"
    cancelled: Cancelled = "count"
    fallback: Any = "ibl"  # at first the name of the fallback method, later the method itself
    depth: int = 100
    level: float = 0.95

    def __post_init__(self) -> None:
        if not self.threshold >= 1:
            raise ValueError("threshold is at least 1 second")
        if self.depth < 1:
            raise ValueError("depth is at least 1 job")
        self.rules = kernel.Rules(
            float(self.threshold), self.large == "strict", self.reading == "text", self.reading == "tables",
            self.missing == "passes", self.point == "median", self.depth, self.cancelled == "count",
        )  # fmt: skip
        self.falls_back_to = str(self.fallback)
        self.fallback = None if self.fallback == "none" else made_alike(self.fallback, self.cancelled)
        if self.fallback is not None and hasattr(self.fallback, "refit"):
            self.refit, self.refit_every_jobs = self.fallback.refit, self.fallback.refit_every_jobs
        self.uses = getattr(self.fallback, "uses", ())  # the code that creates the method checks its columns
        self.histories = kernel.Histories(self.rules)
        self.marks: QuickMarks | None = None
        self.remark = FITTED if self.reading == "tables" else ""
        self.noted = 0
        self.cell_of: dict[tuple[float, float], int] = {}
        self.class_of: dict[float, int] = {}

    @property
    def search_s(self) -> float | None:
        """CPU seconds in which the fallback method searched its settings; None if no method searches."""
        return None if self.fallback is None else wait_option(self.fallback, "search_s")

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict marked jobs from the waits of similar jobs, other jobs by the fallback method; `basis` names the
        criterion."""
        procs, limit = clean_request(job)
        klass = self.class_of.get(procs, -1)
        state = at.columns().record
        mark, point, _ = kernel.judge(state, self.histories.record, at.now, procs, limit, klass)
        if mark != kernel.UNMARKED:
            return Prediction(point, (self.level,), (self.rules.threshold,), BASIS[mark], Grounds.CLASS)
        if self.fallback is None:
            return Prediction(self.rules.threshold, basis="not marked; fallback none", grounds=Grounds.CLASS)
        answer: Prediction = self.fallback.predict(job, at)
        return replace(answer, basis=f"not marked; {self.falls_back_to}: {answer.basis}", grounds=Grounds.FALLBACK)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store a submitted job's shape (processors and limit), a started (or cancelled) job's wait, and the state of
        queue and machine."""
        columns = at.columns()
        if isinstance(event, Capacity) or at.entry(event) >= 0:
            while self.noted < columns.record["entries"][0]:
                self._note(columns)
            if not isinstance(event, Submit):
                kernel.note_event(columns.record, self.histories.record, -1, -1)
        if self.fallback is not None:
            self.fallback.observe(event, at)

    def _note(self, columns: Columns) -> None:
        """Store the shape (processors and limit) of the next submission."""
        job = columns.jobs[self.noted]
        procs, limit = float(job["procs"]), float(job["limit"])
        klass = self.class_of.setdefault(procs, len(self.class_of))
        cell = self.cell_of.setdefault((procs, limit), len(self.cell_of))
        self.noted += 1
        self.histories.make_room(self.noted + 1, cell + 1, klass + 1)
        kernel.note_event(columns.record, self.histories.record, cell, klass)

    def predict_trace(
        self,
        trace: Trace,
        protocol: str = protocol,
        procs: str = "req",
        *,
        total: float | None = None,
        ask: np.ndarray | None = None,
    ) -> Forecasts:
        """Predict a whole log at once, with the same results as job by job; the mask `ask` (n,) selects the jobs to
        predict.

        `marks` then has the marked jobs, the jobs marked by their near history, and the length of each job's near
        history.
        """
        requests, codes = requests_of(trace, procs)
        classes, klass = np.unique(requests["procs"], return_inverse=True)
        cells, cell = np.unique(np.stack([requests["procs"], requests["limit"]]), axis=1, return_inverse=True)
        n, size = len(trace), trace.info.max_procs if total is None else total
        asked = np.ones(n, bool) if ask is None else np.asarray(ask, bool)
        state = Columns(size, n, len(codes["user_id"]) + 1)
        histories = kernel.Histories(self.rules, n + 1, cells.shape[1] + 1, len(classes) + 1)
        records = (state.record, histories.record, requests, event_table(trace, timeline(trace, protocol)))
        mark, points, near_jobs = np.zeros(n, np.int8), np.full(n, np.nan), np.zeros(n, np.int64)
        kernel.replay_log(*records, cell.reshape(-1), klass.reshape(-1), asked, mark, points, near_jobs)
        quick = mark != kernel.UNMARKED
        self.marks = QuickMarks(quick, mark == kernel.NEAR, near_jobs, has_waits=self.fallback is not None)
        bounds = np.where(quick, self.rules.threshold, np.nan)
        basis = np.array(BASIS, dtype=object)[mark]
        rest = asked & ~quick
        if self.fallback is None:
            points = np.where(rest, self.rules.threshold, points)
            basis[rest] = "not marked; fallback none"
        elif rest.any():
            whole = {"it": self.fallback}
            other = batched.replay(trace, whole, protocol=protocol, procs=procs, total=size, ask=rest)["it"]
            points = np.where(rest, other.points, points)
            bounds = np.where(rest, other.quantiles[:, -1], bounds) if other.levels else bounds
            basis[rest] = [f"not marked; {self.falls_back_to}: {other.basis[int(row)]}" for row in np.flatnonzero(rest)]
        return Forecasts(points, (self.level,), bounds[:, None], basis.tolist())


def made_alike(fallback: str, cancelled: str) -> Any:
    """Create the fallback method, with the same `cancelled` if it has this option."""
    spec = f"{fallback}:cancelled={cancelled}" if takes("wait", fallback, "cancelled") else fallback
    return make("wait", spec, known_at_submit=None)
