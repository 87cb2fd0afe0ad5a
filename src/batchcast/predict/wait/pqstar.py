"""`pqstar`: quick starters found in near, mid and far history (Kumar & Vadhiyar, JSSPP 2012)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ...events.event import SUBMIT, Event
from ...events.recorded import Forecasts, replay, timeline
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..protocol import Prediction
from ..registry import make, takes
from . import pqstar_kernel as kernel
from . import pqstar_memory as memory
from .ledger import (
    RUN_PROCS,
    RUNNING,
    Ledger,
    blank_jobs,
    blank_tally,
    clean_requests,
    grown,
    known_limit,
    known_procs,
    told_waits,
)

BASIS = (
    "",
    "near history: a similar job has started",
    "mid history: rank by size in the queue",
    "mid history: rank by limit in the queue",
    "mid history: free processors",
    "far history: every similar job was quick",
)


class PQStar:
    """Marks quick starters (wait at most `threshold`) from three histories; `fallback` answers for the rest.

    Source: Kumar & Vadhiyar, "Identifying Quick Starters", JSSPP 2012, section 3 and figure 2, as repaired in this
    project's notes: *large* is a request of at least the smallest power of two above (`large=root`: not below) the
    square root of the machine; *similar* is equal processors and limits within an hour. Near history: the latest run
    of submissions that saw as many large running jobs as now. Mid history: from there back to the last submission
    whose running set was disjoint from the one now. Far history: all before. A mark of the near history needs a
    similar started job in it and none stuck beyond the threshold; of the mid history, in addition, a small rank by
    size or by limit in the queue, or room beside what may go first; of the far history, that every similar job was
    quick.

    `reading=tables` (similar jobs must have been quick, ranks compare with <=) was fitted to the printed tables: a
    table that uses it says so. `missing`: what a rank criterion does when the near history has neither quick nor late
    jobs. `cancelled=count` takes a job cancelled in the queue as one that waited that long (the printed shares need
    it); `skip` learns from started jobs only. Departures, not in the text: the point of a marked job is the median
    wait of the latest `depth` similar jobs of the deciding history, capped by the threshold (`point=threshold`: the
    threshold itself); waits across an outage, negative or unknown waits and jobs larger than the machine teach
    nothing. The bound of a marked job is the threshold, of others the fallback's; `level` is nominal.

    The paper replays "ends up to now, then starts up to now" at a submission, so its recorded clock is
    `protocol="starts_first"`; events in any other order are taken as they come. Cost of a prediction: one compiled
    pass over the queue and over the shapes of the job's size; memory 150 bytes a job. Seconds throughout.

    >>> state, job = SystemState(8.0), JobRequest(0, 1, 0.0, 4.0, 600.0, float("nan"))
    >>> PQStar(fallback="none").predict(job, state).basis
    'not marked; fallback none'
    """

    protocol = "starts_first"
    answers_by = "mark"

    def __init__(
        self,
        threshold: float = 3600.0,
        reading: Literal["text", "tables"] = "text",
        large: Literal["strict", "root"] = "strict",
        point: Literal["median", "threshold"] = "median",
        missing: Literal["passes", "fails"] = "passes",
        cancelled: Literal["count", "skip"] = "count",
        fallback: str = "ibl",
        depth: int = 100,
        level: float = 0.95,
    ) -> None:
        if not threshold >= 1:
            raise ValueError("threshold is at least 1 second")
        if depth < 1:
            raise ValueError("depth is at least 1 job")
        self.reading, self.fallback_name, self.level = reading, fallback, level
        self.rules = kernel.Rules(
            float(threshold),
            large == "strict",
            reading == "text",
            reading == "tables",
            missing == "passes",
            point == "median",
            depth,
        )
        self.fallback = None if fallback == "none" else made_alike(fallback, cancelled)
        if self.fallback is not None and hasattr(self.fallback, "refit"):
            self.refit, self.refit_every_jobs = self.fallback.refit, self.fallback.refit_every_jobs
        self.ledger = Ledger(cancelled)
        self.seen, self.cells, self.classes = memory.blank_seen(1024), memory.blank_cells(64), memory.blank_classes(64)
        self.cell_of: dict[tuple[float, float], int] = {}
        self.class_of: dict[float, int] = {}
        self.peak, self.large, self.large_now = 0.0, kernel.large_from(0.0, self.rules.strict_large), 0

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The mark's median and threshold, else the fallback's answer; `basis` names the history and criterion."""
        procs, limit = known_procs(job.procs), known_limit(job.req_time)
        book = self.ledger
        mark, point, _ = kernel.judge(
            *(book.jobs, book.tally, self.seen, self.cells, self.classes, self.large_now, at.now, procs, limit),
            *(self.class_of.get(procs, -1), self.rules),
        )
        if mark != kernel.UNMARKED:
            return Prediction(point, (self.level,), (self.rules.threshold,), BASIS[mark])
        if self.fallback is None:
            return Prediction(self.rules.threshold, basis="not marked; fallback none")
        answer = self.fallback.predict(job, at)
        return answer._replace(basis=f"not marked; {self.fallback_name}: {answer.basis}")

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: what it looked like; Start (and Withdraw, `cancelled=count`): the wait; all: queue and machine."""
        book = self.ledger
        request: JobRequest | None = getattr(event, "job", None)
        entry = -1 if request is None else book.entry.get(request.row, -1)
        ran = entry >= 0 and book.jobs.status[entry] == RUNNING
        if request is not None and entry < 0:
            self._note(request, event.time if event.kind == SUBMIT else request.submit_time)
        book.observe(event, at)
        i, jobs = book.job, book.jobs
        if i >= 0:
            self.large_now += (int(jobs.status[i] == RUNNING) - int(ran)) * int(jobs.procs[i] >= self.large)
        if book.taught:
            memory.note_wait(jobs, self.seen, self.cells, i, self.rules.threshold)
        self._measure(at.total)
        if self.fallback is not None:
            self.fallback.observe(event, at)

    def _note(self, job: JobRequest, now: float) -> None:
        """Write down a submission just before the ledger takes it in."""
        book, procs, limit = self.ledger, known_procs(job.procs), known_limit(job.req_time)
        klass = self.class_of.setdefault(procs, len(self.class_of))
        cell = self.cell_of.setdefault((procs, limit), len(self.cell_of))
        if klass >= len(self.classes.last):
            self.classes = grown(self.classes, 2 * klass)
        if cell >= len(self.cells.last):
            self.cells = grown(self.cells, 2 * cell)
        if len(book) >= len(self.seen.cell):
            self.seen = grown(self.seen, 2 * len(book))
        memory.note_submission(
            *(book.jobs, book.tally, self.seen, self.cells, self.classes, self.large_now, now, procs, limit),
            *(cell, klass),
        )

    def _measure(self, total: float) -> None:
        """What counts as large follows the machine's size; while that is unknown, the most ever seen running."""
        book = self.ledger
        size = total if total == total else max(self.peak, float(book.tally.total[RUN_PROCS]))
        if size != self.peak:
            self.peak = size
            large = kernel.large_from(size, self.rules.strict_large)
            if large != self.large:
                self.large, self.large_now = large, kernel.count_large(book.jobs, book.tally, large)

    def predict_trace(
        self,
        trace: Trace,
        protocol: str = protocol,
        procs: str = "req",
        *,
        total: float | None = None,
        ask: np.ndarray | None = None,
    ) -> Forecasts:
        """The whole log at once: the very numbers of the one-by-one path. `ask` (n,) bool: the jobs to answer."""
        asked = np.ones(len(trace), bool) if ask is None else np.asarray(ask, bool)
        mark, points, _ = self.marks(trace, protocol, procs, total=total, ask=asked)
        quick = mark != kernel.UNMARKED
        bounds = np.where(quick, self.rules.threshold, np.nan)
        basis = np.array(BASIS, dtype=object)[mark]
        rest = asked & ~quick
        if self.fallback is None:
            points, bounds = np.where(rest, self.rules.threshold, points), bounds
            basis[rest] = "not marked; fallback none"
        elif rest.any():
            other = fallback_answers(self.fallback, trace, protocol, procs, total, rest)
            points = np.where(rest, other.points, points)
            bounds = np.where(rest, other.quantiles[:, -1], bounds) if other.levels else bounds
            basis[rest] = [f"not marked; {self.fallback_name}: {other.basis[row]}" for row in np.flatnonzero(rest)]
        return Forecasts(points, (self.level,), bounds[:, None], basis.tolist())

    def marks(
        self,
        trace: Trace,
        protocol: str = protocol,
        procs: str = "req",
        *,
        total: float | None = None,
        ask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which history and criterion marks each job (0 none, 1 near, 2-4 mid, 5 far), its point, its near jobs."""
        plan = timeline(trace, protocol)
        sizes, limits = clean_requests(trace.procs(procs), trace.req_time)
        waits = told_waits(trace.wait_time, trace.run_time, self.ledger.cancelled)
        classes, klass = np.unique(sizes, return_inverse=True)
        cells, cell = np.unique(np.stack([sizes, limits]), axis=1, return_inverse=True)
        size = trace.info.max_procs if total is None else total
        n = len(trace)
        return kernel.replay_log(
            *(plan.time, plan.kind, plan.index, sizes, limits, waits, cell.reshape(-1), klass.reshape(-1)),
            *(blank_jobs(n + 1), blank_tally(size), memory.blank_seen(n + 1), memory.blank_cells(cells.shape[1] + 1)),
            *(memory.blank_classes(len(classes) + 1), np.ones(n, bool) if ask is None else ask, self.rules),
        )


def made_alike(fallback: str, cancelled: str) -> Any:
    """The fallback, taught by the same jobs where it can be told so."""
    return make("wait", f"{fallback}:cancelled={cancelled}" if takes("wait", fallback, "cancelled") else fallback)


def fallback_answers(method: Any, trace: Trace, protocol: str, procs: str, total: float | None, ask: np.ndarray) -> Any:
    """A fallback's answers where asked, by its batch path if it has one."""
    if hasattr(method, "predict_trace"):
        return method.predict_trace(trace, protocol, procs, total=total, ask=ask)
    size = trace.info.max_procs if total is None else total
    return replay(trace, {"it": method}, protocol=protocol, procs=procs, total=size, ask=ask)["it"]
