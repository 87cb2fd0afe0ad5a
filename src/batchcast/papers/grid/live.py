# SPDX-License-Identifier: Apache-2.0
"""A grid broker that takes jobs as they come, maps them, and goes on after a kill where it was.

The broker's state is a journal: a line for each job and each mapping event, on the disk before anybody is told of it.
Heuristics are pure, so a broker that reads its journal again makes the same decisions again. The mapping events and
their rules are those of `clock.simulate`: with a virtual clock, both give the same outcome for the same jobs.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, UsageError
from .clock import ASSIGNED, LEFT, REASONS, MappingRule, Outcome, _best_ends, _Run
from .model import Heuristic, Jobs, Model, Resources, Units

FIELDS = ("id", "instructions", "file_mb", "deadline", "allowed", "arrival", "demands", "script")


class Journal:
    """Lines of JSON that survive a kill and a power cut; a last line that was cut short is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every whole line so far; whatever follows the last whole line is cut off the file."""
        if not self.path.exists():
            return
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(self.path, len(whole))
        for number, line in enumerate(whole.decode().splitlines(), 1):
            try:
                yield json.loads(line)
            except ValueError:
                raise InputError(
                    f"{self.path}: line {number} is no JSON", hint="move the journal away to begin anew"
                ) from None

    def add(self, line: Mapping[str, Any]) -> None:
        """One more line; it is on the disk when this returns."""
        with self.path.open("ab") as out:
            out.write(json.dumps(line).encode() + b"\n")
            out.flush()
            os.fsync(out.fileno())


class Broker:
    """Jobs that arrive one by one on the resources of a platform.

    Parameters
    ----------
    resources, units
        The platform.
    heuristic
        What maps the waiting jobs.
    mapping
        When jobs are mapped: every so many time units, or at events.
    journal
        Where the broker's state is kept; None keeps nothing.

    Examples
    --------
    >>> one = np.ones(2)
    >>> from .heuristics.deadlines import EminMin
    >>> grid = Resources(["r", "s"], np.array([1.0, 2.0]), one, 0 * one)
    >>> broker = Broker(grid, Units(1.0, 1.0), EminMin(), MappingRule(1.0))
    >>> broker.offer({"id": "a", "instructions": 4, "deadline": 9}, 0.5)["ok"]
    True
    >>> broker.advance(2.0)
    [{'id': 'a', 'resource': 's', 'start': 1.0, 'finish': 3.0, 'deadline': 9.0, 'slack': 6.0}]
    >>> broker.offer({"id": "b", "instructions": 8, "deadline": 5}, 2.0)["warning"]
    'the deadline 5 cannot be met: the earliest end is 7, on s'
    """

    def __init__(
        self,
        resources: Resources,
        units: Units,
        heuristic: Heuristic,
        mapping: MappingRule,
        journal: Journal | None = None,
    ) -> None:
        self.resources, self.units, self.heuristic, self.mapping = resources, units, heuristic, mapping
        none = np.empty(0)
        self.jobs = Jobs([], none, none, none, none)
        self.run = _Run(self.jobs, resources, mapping)
        self.waiting = np.empty(0, dtype=np.int64)
        self.new: list[tuple[dict[str, Any], float]] = []
        self.known: dict[str, int] = {}
        self.given: list[dict[str, Any]] = []
        self.tick, self.now, self.next_at = 0, -math.inf, math.inf
        self.journal: Journal | None = None
        self.told: list[dict[str, Any]] = []
        for line in journal.lines() if journal is not None else ():
            self._replay(line)
        self.journal = journal

    def _replay(self, line: Mapping[str, Any]) -> None:
        if "job" in line:
            self.offer(line["job"], line["at"])
        else:
            self.advance(line["until"])

    def offer(self, job: Mapping[str, Any], at: float) -> dict[str, Any]:
        """Take one job at an instant; says at once if its deadline cannot be met, with the best that can be offered.

        Mapping events before `at` come first. A job id that is known already is the same job: nothing happens twice.

        Raises
        ------
        UsageError
            For a job that lacks a field or has one that is no number.
        """
        read = _read(job, at)
        if read["id"] in self.known:
            return {"ok": True, "id": read["id"], "again": True, **self.state_of(read["id"])}
        self.advance(at, inclusive=False)
        if self.journal is not None:
            self.journal.add({"job": dict(job), "at": at})
        row = len(self.known)
        self.known[read["id"]] = row
        self.given.append(dict(job))
        if not len(self.waiting) and not self.new:
            self._schedule_from(at)
        elif self.mapping.every is None:
            self.next_at = min(self.next_at, at)
        self.new.append((read, at))
        return {"ok": True, "id": read["id"], **self._at_once(read, at)}

    def _schedule_from(self, at: float) -> None:
        """The first mapping event for a job that finds nobody waiting."""
        if self.mapping.every is None:
            self.next_at = at
            return
        self.tick = max(self.tick + 1, math.ceil(at / self.mapping.every))
        self.next_at = max(self.tick * self.mapping.every, at)

    def _at_once(self, read: dict[str, Any], at: float) -> dict[str, Any]:
        """A warning if no resource ends the job in time, with where it would end first; empty otherwise."""
        times = self._model(_arrays([read], [at])).rows(np.array([0]))
        if not np.isfinite(times).any():
            return {"warning": REASONS[2]}
        ends = (np.maximum(self.run.free, at) + times)[0]
        best = int(np.argmin(ends))
        if not ends[best] > read["deadline"]:
            return {}
        where = self.resources.ids[best]
        words = f"the deadline {read['deadline']:g} cannot be met: the earliest end is {ends[best]:g}, on {where}"
        return {"warning": words, "best_offer": {"resource": where, "finish": float(ends[best])}}

    def advance(self, until: float, inclusive: bool = True) -> list[dict[str, Any]]:
        """Every mapping event up to an instant; what was decided in them, a line for each job."""
        decided: list[dict[str, Any]] = []
        while self.next_at < until or (inclusive and self.next_at <= until < math.inf):
            decided += self._map(self.next_at)
        return decided

    def finish(self) -> list[dict[str, Any]]:
        """Every mapping event that is left if no job comes any more; what is then still waiting is closed."""
        decided: list[dict[str, Any]] = []
        while self.next_at < math.inf:
            is_idle = not self.new and bool((self.run.free <= self.next_at).all())
            before = len(self.waiting) + len(self.new)
            at = self.next_at
            decided += self._map(at)
            if is_idle and len(self.waiting) == before:
                rows, self.waiting, self.next_at = self.waiting, self.waiting[:0], math.inf
                self.run.close(rows, LEFT, at)
                decided += [self._line(row) for row in rows.tolist()]
        return decided

    def _map(self, now: float) -> list[dict[str, Any]]:
        """One mapping event: the jobs that came since the last one join those that wait."""
        if self.journal is not None:
            self.journal.add({"until": now})
        self._grow()
        self.now = now
        self.run.free = np.maximum(self.run.free, now)
        until = now + self.mapping.every if self.mapping.every is not None else now
        before = self.waiting
        times = self._model(self.jobs).rows(before)
        self.waiting = self.run.map(before, times, self.heuristic, self.resources, now, until)
        self._schedule_next(now)
        lines = [self._line(row) for row in np.setdiff1d(before, self.waiting).tolist()]
        self.told += lines
        return lines

    def _schedule_next(self, now: float) -> None:
        """The mapping event after this one: none while nobody waits."""
        self.next_at = math.inf
        if not len(self.waiting):
            return
        if self.mapping.every is not None:
            self.tick += 1
            self.next_at = self.tick * self.mapping.every
            return
        later = self.run.free[self.run.free > now]
        self.next_at = float(later.min()) if len(later) else math.inf

    def _grow(self) -> None:
        """The jobs that came join the arrays; a job that cannot be used is closed."""
        if not self.new:
            return
        first = len(self.jobs)
        more = _arrays([read for read, _ in self.new], [at for _, at in self.new])
        self.new = []
        self.jobs = joined(self.jobs, more)
        self.run.grow(self.jobs)
        rows = np.arange(first, len(self.jobs))
        bad = np.array([first + k for k in more.faults()], dtype=np.int64)
        self.waiting = np.concatenate([self.waiting, np.setdiff1d(rows, bad)])

    def _model(self, jobs: Jobs) -> Model:
        return Model(jobs, self.resources, self.units)

    def _line(self, row: int) -> dict[str, Any]:
        """What was decided about a job, as it is told."""
        job_id, deadline = str(self.jobs.ids[row]), float(self.jobs.deadline[row])
        shown = deadline if math.isfinite(deadline) else None
        if self.run.resource[row] < 0:
            return {"id": job_id, "refused": REASONS[self.run.outcome[row]], "deadline": shown}
        start, finish = float(self.run.start[row]), float(self.run.finish[row])
        where = str(self.resources.ids[self.run.resource[row]])
        slack = deadline - finish if shown is not None else None
        return {"id": job_id, "resource": where, "start": start, "finish": finish, "deadline": shown, "slack": slack}

    def state_of(self, job_id: str) -> dict[str, Any]:
        """Where a job stands: waiting, refused, or its resource with start and finish."""
        row = self.known[job_id]
        if row >= len(self.jobs) or row in self.waiting:
            return {"state": "waiting"}
        line = self._line(row)
        return {"state": "refused" if "refused" in line else "mapped", **line}

    def table(self) -> list[dict[str, Any]]:
        """Every job with its state, the latest last."""
        return [{"id": job_id, **self.state_of(job_id)} for job_id in self.known]

    def free_at(self) -> dict[str, float]:
        """When each resource is free."""
        return dict(zip(map(str, self.resources.ids), np.maximum(self.run.free, self.now).tolist()))

    def best_ends(self) -> np.ndarray:
        """The earliest end of each waiting job, after the work that resources are bound to."""
        self._grow()
        if not len(self.waiting):
            return np.empty(0)
        rows = self._model(self.jobs).rows(self.waiting)
        return np.asarray(_best_ends(rows, self.run.free, self.jobs.arrival[self.waiting])[0])

    def outcome(self) -> Outcome:
        """What came of all jobs so far, as `clock.simulate` gives it."""
        self._grow()
        return self.run.result()

    @property
    def counts(self) -> dict[str, int]:
        """Jobs in all, mapped in time, refused or late, and waiting."""
        waits = len(self.waiting) + len(self.new)
        settled = np.setdiff1d(np.arange(len(self.jobs)), self.waiting)
        good = int((self.run.outcome[settled] == ASSIGNED).sum())
        return {"jobs": len(self.known), "in_time": good, "not_in_time": len(settled) - good, "waiting": waits}


def _read(job: Mapping[str, Any], at: float) -> dict[str, Any]:
    """A job's numbers; UsageError for what is missing or no number."""
    if not isinstance(job, Mapping) or not job.get("id"):
        raise UsageError('a job needs an id (accepted: {"id": "a", "instructions": 1000, "deadline": 90})')
    if strange := sorted(set(job) - set(FIELDS)):
        raise UsageError(f"job {job['id']}: no field {strange[0]!r} (accepted: {', '.join(FIELDS)})")
    read: dict[str, Any] = {"id": str(job["id"])}
    try:
        read["instructions"] = float(job["instructions"])
        read["file_mb"] = float(job.get("file_mb") or 0.0)
        allowed = job.get("allowed")
        due = job.get("deadline")
        read["deadline"] = at + float(allowed) if allowed is not None else math.inf if due is None else float(due)
        read["demands"] = {str(name): float(least) for name, least in dict(job.get("demands") or {}).items()}
    except KeyError as error:
        raise UsageError(f"job {job['id']}: {error.args[0]} is missing") from None
    except (TypeError, ValueError):
        raise UsageError(f"job {job['id']}: instructions, file_mb, deadline, allowed and demands are numbers") from None
    return read


def _arrays(reads: list[dict[str, Any]], at: list[float]) -> Jobs:
    """Jobs as columns."""
    names = sorted({name for read in reads for name in read["demands"]})
    demands = {name: np.array([read["demands"].get(name, math.nan) for read in reads]) for name in names}
    ini, fsize, deadline = (np.array([r[key] for r in reads]) for key in ("instructions", "file_mb", "deadline"))
    return Jobs([read["id"] for read in reads], ini, fsize, np.array(at), deadline, demands)


def joined(first: Jobs, more: Jobs) -> Jobs:
    """The jobs of both, in this order; a demand that one side does not have asks for nothing there."""

    def both(name: str) -> np.ndarray:
        sides = (each.demands.get(name, np.full(len(each), math.nan)) for each in (first, more))
        return np.concatenate(list(sides))

    ini, fsize, arrival, deadline = (
        np.concatenate([getattr(first, name), getattr(more, name)]) for name in ("ini", "fsize", "arrival", "deadline")
    )
    demands = {name: both(name) for name in {**first.demands, **more.demands}}
    return Jobs([*first.ids, *more.ids], ini, fsize, arrival, deadline, demands)
