# SPDX-License-Identifier: Apache-2.0
"""Simulates what-ifs on the present queue of a live machine: a planned outage, or more time for a running job.

Each simulation runs Slurm's two scheduling loops on the captured machine. The run times of the jobs that run or wait
now are drawn from their predictions. Jobs that will be submitted later are unknown, so the simulated queue empties, and
an outage that starts days ahead looks better than it will be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...errors import NoAnswer, Refused, UsageError
from ...events.state import SystemState
from ...job import JobRequest
from ...machines.machine import Machine
from ...predict.conditional import given_waited
from ...predict.wait.scheduler_replay import MachineJobs, starts_on
from ...simulation.outage import HOUR_S, Outage
from ..settings import Settings
from .answer import Answer
from .disclosure import Site, Viewer, open_site
from .forecaster import Forecaster, forecaster

DRAWS = 10
"""Number of simulations per question, each with newly drawn run times. The interval reaches from the second smallest to
the second largest result, so it is an 80 % interval.
"""
DELAYED_S = 60.0
"""A job counts as delayed if it starts later by more than a minute."""

SEED = 0
NO_ARRIVALS = (
    "only jobs that run or wait now are simulated: later submissions are unknown, so a start days ahead looks "
    "better than it will be (whatif LOG simulates whole weeks)"
)
NO_SPREAD = (
    "run times are predicted here without intervals (setting `runtime`), so the intervals of this answer show no "
    "uncertainty"
)


class _Queue(NamedTuple):
    """The present queue on the captured machine, and the drawn run times (s) of each job, by the job's row."""

    machine: Machine
    state: SystemState
    machine_jobs: MachineJobs
    lengths: Mapping[int, np.ndarray]

    def notes(self) -> list[str]:
        """Return a warning if all drawn run times are equal, so that the intervals show no uncertainty."""
        return [] if any(np.ptp(drawn) > 0 for drawn in self.lengths.values()) else [NO_SPREAD]

    def starts(self, machine: Machine, lengths: Mapping[int, float] | None = None) -> np.ndarray:
        """Return when each waiting job starts in each simulation, shape (draws, jobs); NaN if a job never starts.
        `lengths` replaces the drawn run times of some jobs.
        """

        def simulate(draw: int) -> list[float]:
            drawn = {row: float(times[draw]) for row, times in self.lengths.items()} | {**(lengths or {})}
            found = starts_on(machine, self.state, lambda job, _: drawn[job.row], self.machine_jobs)
            return [found.get(row, math.nan) for row in self.state.queued]

        return np.array([simulate(draw) for draw in range(DRAWS)])

    def hours(self, delays: np.ndarray) -> np.ndarray:
        """Return the sum of delays times processors of each simulation, in processor-hours, shape (draws,)."""
        procs = np.array([job.procs for job in self.state.queued.values()])
        return np.asarray(np.nansum(delays * procs, axis=1) / HOUR_S)


def _opened(site: Site, described: Machine | None) -> _Queue:
    """Return the present queue; Refused if jobs are hidden from this viewer, NoAnswer without a machine."""
    if site.private:
        raise Refused("jobs are private here, and this question is about the jobs of all users", hint="ask as root")
    ask = forecaster(site, ("wait", "runtime"))
    machine = described or ask.machine
    if machine is None:
        hint = "--machine FILE, which batchcast machine capture -o FILE writes"
        raise NoAnswer("no machine is known here, and this question needs its nodes", hint=hint)
    state = ask.clock.state
    if not state.running and not state.queued:
        raise NoAnswer("no job runs or waits now", hint="whatif LOG --machine FILE simulates past weeks")
    rng = np.random.default_rng(SEED)
    lengths = {row: _drawn(ask, job, 0.0, rng) for row, job in state.queued.items()}
    for row, held in state.running.items():
        lengths[row] = _drawn(ask, held.job, max(state.now - held.start_time, 0.0), rng)
    return _Queue(machine, state, MachineJobs.of(machine, state), lengths)


def _drawn(ask: Forecaster, job: JobRequest, ran: float, rng: np.random.Generator) -> np.ndarray:
    """Draw run times of a job (s), shape (draws,), from its prediction for a job that has run for `ran` seconds."""
    most = job.req_time if job.req_time > 0 else math.inf
    levels = (rng.permutation(DRAWS) + rng.random(DRAWS)) / DRAWS
    times, forecast = np.full(DRAWS, most), ask.run(job)
    if forecast is not None:
        known = given_waited(forecast, ran, levels.tolist()) if forecast.levels else forecast
        times = np.resize(known.quantiles or known.point, DRAWS)
    return np.asarray(np.maximum(np.minimum(times, most), ran + 1.0))


def reserve(settings: Settings, planned: Outage, viewer: Viewer, now: float, machine: Machine | None = None) -> Answer:
    """Compute what a planned outage would delay, for the requested start and for other starts in the week after it.

    There is one result per start of the outage: the requested start first, then the others by cost. The cost is the
    processor-hours by which waiting jobs start later, plus the processor-hours that running jobs would lose if the
    outage ended them. The setting `held` of the answer lists the users with the most work delayed at the requested
    start.
    """
    if planned.start < now:
        raise UsageError("--reserve: the start has passed (accepted: a later time, such as start=now+2days)")
    with open_site(settings, viewer, now) as site:
        queue = _opened(site, machine)
        before = queue.starts(queue.machine)
        results = []
        held: list[dict[str, Any]] = []
        for start in planned.starts():
            late = queue.starts(planned.on(queue.machine, start)) - before
            results.append(_of_start(queue, planned, start, late))
            held = held or _affected_users(queue, planned, late)
        asked, others = results[0], sorted(results[1:], key=lambda r: float(r["cost_hours"]))
        shown = {"nodes": planned.nodes, "hours": planned.length / HOUR_S, "draws": DRAWS, "held": held}
        return site.answer(shown, [asked, *others], [NO_ARRIVALS, *queue.notes()])


def _of_start(queue: _Queue, planned: Outage, start: float, delays: np.ndarray) -> dict[str, Any]:
    """Return the delays and the cost of an outage with one start time. `delays` has the seconds by which each waiting
    job starts later in each simulation, shape (draws, jobs), and NaN for a job that never starts.
    """
    late, jobs = delays > DELAYED_S, list(queue.state.queued.values())
    past = _running_past(queue, planned, start)
    begun = np.array([queue.state.running[row].start_time for row in past])
    procs = np.array([queue.state.running[row].job.procs for row in past])
    lengths = np.array([queue.lengths[row] for row in past]).reshape(len(past), DRAWS)
    is_running = np.maximum(begun[:, None] + lengths, queue.state.now) > start
    lost, hours = (procs * (start - begun)) @ is_running / HOUR_S, queue.hours(delays)
    return {
        "start_s": start,
        **_interval("held_waiting", late.sum(axis=1)),
        "held_users": len({str(job.user_id) for job, is_late in zip(jobs, late[0]) if is_late}),
        "mean_delay_s": _mean(delays[late]),
        "running_past": float(np.median(is_running.sum(axis=0))),
        "running_past_by_limit": len(past),
        **_interval("delayed_hours", hours),
        **_interval("lost_hours", lost),
        **_interval("cost_hours", hours + lost),
    }


def _running_past(queue: _Queue, planned: Outage, start: float) -> list[int]:
    """Return the running jobs on the outage's nodes that may run, by their time limits, when the outage begins."""
    from ...formats.slurm.resources import expand

    names = set(planned.names(queue.machine))
    whole = len(names) == len(queue.machine.node_names())
    rows = []
    for row, held in queue.state.running.items():
        limit = held.job.req_time if held.job.req_time > 0 else math.inf
        nodes = queue.state.nodes.get(row, "")  # a job whose nodes are unknown may run on one of these nodes
        if held.start_time + limit > start and (whole or not nodes or not names.isdisjoint(expand(nodes))):
            rows.append(row)
    return rows


def _affected_users(queue: _Queue, planned: Outage, delays: np.ndarray) -> list[dict[str, Any]]:
    """Return the users whose jobs an outage at the requested start affects, in order of the processors of
    these jobs.
    """
    often = (delays > DELAYED_S).mean(axis=0) >= 0.5
    past = _running_past(queue, planned, planned.start)
    users: dict[str, dict[str, Any]] = {}
    waiting = (("waiting", job) for job, is_late in zip(queue.state.queued.values(), often) if is_late)
    for kind, job in (*waiting, *(("running", queue.state.running[row].job) for row in past)):
        one = users.setdefault(str(job.user_id), {"user": str(job.user_id), "waiting": 0, "running": 0, "procs": 0.0})
        one[kind] += 1
        one["procs"] += job.procs
    return sorted(users.values(), key=lambda one: (-one["procs"], one["user"]))


def extend(
    settings: Settings, job_id: str, hours: float, viewer: Viewer, now: float, machine: Machine | None = None
) -> Answer:
    """Compute how many jobs would start later, and by how much, if a running job got a longer time limit. The answer
    names no user.

    The job is assumed to run to its time limit, with and without the extension, so the result is the largest delay that
    the extension can cause.
    """
    if not 0 < hours <= 720:
        raise UsageError(f"--extend: hours={hours:g} (accepted: above 0 and up to 720)")
    with open_site(settings, viewer, now) as site:
        queue = _opened(site, machine)
        found = [(row, held) for row, held in queue.state.running.items() if str(held.job.job_id) == job_id]
        if not found:
            why = f"job {job_id} does not run, as far as the collector knows"
            raise NoAnswer(why, hint="squeue shows whether it runs")
        row, held = found[0]
        if not held.job.req_time > 0:
            raise NoAnswer(f"job {job_id} has no time limit, so it needs no extension")
        limit, longer = held.job.req_time, held.job.req_time + hours * HOUR_S
        before = queue.starts(queue.machine, {row: limit})
        delays = _with_limit(queue, row, longer).starts(queue.machine, {row: longer}) - before
        late = delays > DELAYED_S
        result = {
            "job_id": job_id,
            "hours": hours,
            "ends_by_s": held.start_time + limit,
            "would_end_by_s": held.start_time + longer,
            "waiting": len(queue.state.queued),
            **_interval("later", late.sum(axis=1)),
            "chance_that_none": float(np.mean(~late.any(axis=1))),
            "mean_delay_s": _mean(delays[late]),
            "most_delay_s": float(np.max(delays[late], initial=0.0)),
            **_interval("delayed_hours", queue.hours(delays)),
        }
        assumed = f"{NO_ARRIVALS.partition(':')[0]}; the job is assumed to use all of its limit"
        return site.answer({"draws": DRAWS}, [result], [assumed, *queue.notes()])


def _with_limit(queue: _Queue, row: int, limit: float) -> _Queue:
    """Return the queue with a new time limit for one job."""
    other_jobs = [
        (key, each._replace(req_time=limit) if each.row == row else each, start, nodes)
        for key, each, start, nodes in queue.machine_jobs.other_jobs
    ]
    return queue._replace(machine_jobs=queue.machine_jobs._replace(other_jobs=other_jobs, cached_requests={}))


def _interval(name: str, values: np.ndarray) -> dict[str, float]:
    """Return the median of the results of all simulations and their 80 % interval, as fields."""
    ordered = np.sort(values.astype(float))
    return {name: float(np.median(ordered)), f"{name}_low": float(ordered[1]), f"{name}_high": float(ordered[-2])}


def _mean(values: np.ndarray) -> float:
    """Return the mean; 0 if there are no values."""
    return float(np.mean(values)) if values.size else 0.0
