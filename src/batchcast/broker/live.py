# SPDX-License-Identifier: Apache-2.0
"""A grid broker that accepts jobs one by one, maps them to resources, and continues after a kill.

The broker's state is a journal: the broker writes each job and each mapping event to the disk before it reports the job
or event. Heuristics are pure functions, so a broker that reads its journal after a restart makes the same decisions
again. Decisions and mapping events follow the rules of `clock.simulate`: with a virtual clock, the broker and the
simulation give the same outcome for the same jobs.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BatchcastError, UsageError
from ..trace.whole_file import whole_file
from .clock import REASONS, UNFIT, MappingRule, Run
from .model import Heuristic, Jobs, Model, Resources, Units

FIELDS = ("id", "instructions", "file_mb", "deadline", "allowed", "arrival", "demands", "cost_weight", "script")


class Journal:
    """A file of JSON lines that survives a killed process or a power cut; an incomplete last line is dropped.

    Without a path, nothing is stored. A broker that restarts reads its journal and makes the recorded
    decisions again, without storing them a second time. `problems` has a message for each line that cannot be replayed.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.is_read = path, False
        self.problems: list[str] = []

    def replay(self, apply: Callable[[dict[str, Any]], object]) -> None:
        """Call `apply` with each complete line; remove an incomplete last line from the file.

        One line that cannot be applied must not stop every later start. Such a line is moved to a file beside the
        journal, with the reason.
        """
        if self.path is None or not self.path.exists():
            return
        self.is_read = True
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(self.path, len(whole))
        good, aside = [], []
        for number, line in enumerate(whole.splitlines(keepends=True), 1):
            try:
                apply(json.loads(line))
                good.append(line)
            except (
                BatchcastError,
                ArithmeticError,
                AttributeError,
                LookupError,
                RecursionError,
                TypeError,
                ValueError,
            ) as error:
                aside.append(line)
                self.problems.append(f"{self.path}: line {number} cannot be replayed ({error or type(error).__name__})")
        if aside:
            other = self.path.with_name(f"{self.path.name}.aside")
            self.problems.append(f"these lines are now in {other}")
            with other.open("ab") as out:
                out.writelines(aside)
            with whole_file(self.path, 0o600) as temporary:
                temporary.write_bytes(b"".join(good))
        self.is_read = False

    def add(self, *lines: Mapping[str, Any]) -> None:
        """Append lines; the function returns when the lines are on the disk."""
        if self.path is None or self.is_read:
            return
        with self.path.open("ab") as out:
            out.writelines(json.dumps(line).encode() + b"\n" for line in lines)
            out.flush()
            os.fsync(out.fileno())


class Broker:
    """Maps jobs to the resources of a platform as they arrive, one by one.

    >>> one = np.ones(2)
    >>> from .preference import ByPreference
    >>> grid = Resources(["r", "s"], np.array([1.0, 2.0]), one, 0 * one)
    >>> broker = Broker(grid, Units(1.0, 1.0), ByPreference(cost=0.0), MappingRule(1.0))
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
        self.resources, self.units, self.mapping = resources, units, mapping
        self.run = Run(Jobs([], *np.empty((4, 0))), resources, heuristic, mapping)
        self.new: list[Jobs] = []  # accepted jobs that are not yet in `run`
        self.row_of: dict[str, int] = {}
        self.decisions: list[dict[str, Any]] = []
        self.journal = journal or Journal()
        self.journal.replay(self._replay)

    def _replay(self, line: dict[str, Any]) -> None:
        """Apply one line of the journal: an accepted job, or a mapping event."""
        if "job" in line:
            self.offer(line["job"], line["at"])
        else:
            self.advance(line["until"])

    def offer(self, job: Mapping[str, Any], at: float) -> dict[str, Any]:
        """Accept one job; warn if the job's deadline cannot be met, with the earliest possible end.

        The broker first runs the mapping events that are due before the time `at`. A job with an id that was accepted
        earlier is treated as that job, so a repeated submission has no effect.
        """
        read = _read(job, at)
        job_id = str(read.ids[0])
        if job_id in self.row_of:
            return {"ok": True, "id": job_id, "again": True, **self.state_of(job_id)}
        self.advance(at, inclusive=False)
        self.journal.add({"job": dict(job), "at": at})
        self.row_of[job_id] = len(self.row_of)
        self.run.expect(at)
        self.new.append(read)
        return {"ok": True, "id": job_id, **self._at_once(read)}

    def _at_once(self, read: Jobs) -> dict[str, Any]:
        """Return a warning with the earliest possible end if no resource can end a job (a row) by its deadline; else an
        empty dict."""
        (times,) = Model(read, self.resources, self.units).rows(np.array([0]))
        if not np.isfinite(times).any():
            return {"warning": REASONS[UNFIT]}
        ends, due = np.maximum(self.run.free, read.arrival) + times, read.deadline[0]
        best = int(np.argmin(ends))
        if not ends[best] > due:
            return {}
        where = self.resources.ids[best]
        words = f"the deadline {due:g} cannot be met: the earliest end is {ends[best]:g}, on {where}"
        return {"warning": words, "best_offer": {"resource": where, "finish": float(ends[best])}}

    def advance(self, until: float, inclusive: bool = True) -> list[dict[str, Any]]:
        """Run all mapping events up to the time `until`; return one record for each job whose outcome was decided."""
        before = len(self.decisions)
        while self.run.next_at < until or (inclusive and self.run.next_at <= until < math.inf):
            self.journal.add({"until": self.run.next_at})
            if self.new:
                self.run.grow(self.new)
                self.new = []
            waited = self.run.waiting
            self.run.map(Model(self.run.jobs, self.resources, self.units).rows(waited), is_last=until == math.inf)
            self.decisions += map(self._line, np.setdiff1d(waited, self.run.waiting).tolist())
        return self.decisions[before:]

    def finish(self) -> list[dict[str, Any]]:
        """Run the remaining mapping events as if no more jobs arrive, and record jobs that still wait as unfinished."""
        return self.advance(math.inf)

    def _line(self, row: int) -> dict[str, Any]:
        """Return the broker's decision about a job as a record."""
        run, job_id, deadline = self.run, str(self.run.jobs.ids[row]), float(self.run.jobs.deadline[row])
        shown = deadline if math.isfinite(deadline) else None
        if run.resource[row] < 0:
            return {"id": job_id, "refused": REASONS[run.outcome[row]], "deadline": shown}
        start, finish = float(run.start[row]), float(run.finish[row])
        slack, where = deadline - finish if shown is not None else None, str(self.resources.ids[run.resource[row]])
        return {"id": job_id, "resource": where, "start": start, "finish": finish, "deadline": shown, "slack": slack}

    def state_of(self, job_id: str) -> dict[str, Any]:
        """Return the state of a job: waiting, refused, or its resource with start and finish."""
        row = self.row_of[job_id]
        if row >= len(self.run.jobs) or row in self.run.waiting:
            return {"state": "waiting"}
        line = self._line(row)
        return {"state": "refused" if "refused" in line else "mapped", **line}

    def table(self) -> list[dict[str, Any]]:
        """Return all jobs with their states, in order of arrival."""
        return [{"id": job_id, **self.state_of(job_id)} for job_id in self.row_of]

    def free_at(self) -> dict[str, float]:
        """Return when each resource becomes free."""
        return dict(zip(map(str, self.resources.ids), self.run.free.tolist()))

    @property
    def counts(self) -> dict[str, int]:
        """Return the numbers of all jobs, of jobs in time, of refused or late jobs, and of waiting jobs."""
        waits = len(self.run.waiting) + len(self.new)
        good = self.run.assigned - len(self.run.waiting)  # a waiting job has the code ASSIGNED until it is decided
        late = len(self.row_of) - waits - good
        return {"jobs": len(self.row_of), "in_time": good, "not_in_time": late, "waiting": waits}


def amount(value: Any) -> float:
    """Return a finite number that is not negative; ValueError, TypeError or OverflowError for another value."""
    if not 0 <= (number := float(value)) < math.inf:
        raise ValueError(value)
    return number


def checked_id(job: Any, needed: Sequence[str], accepted: Sequence[str], lacks: str) -> str:
    """Return a job's id; UsageError if a required field is missing (with `lacks` as message), or a field is unknown."""
    if not isinstance(job, Mapping) or not all(job.get(name) for name in needed):
        raise UsageError(lacks)
    if strange := sorted(set(job) - set(accepted)):
        raise UsageError(f"job {job['id']}: no field {strange[0]!r} (accepted: {', '.join(accepted)})")
    return str(job["id"])


def _read(job: Mapping[str, Any], at: float) -> Jobs:
    """Return a job that arrives at the time `at` as `Jobs` with one row; UsageError for a missing field or a value that
    is not a number."""
    example = '{"id": "a", "instructions": 1000, "deadline": 90}'
    job_id = checked_id(job, ("id",), FIELDS, f"a job needs an id (accepted: {example})")
    try:
        work, file_mb = amount(job["instructions"]), amount(job.get("file_mb") or 0.0)
        allowed, due, weight = (job.get(name) for name in ("allowed", "deadline", "cost_weight"))
        deadline = at + amount(allowed) if allowed is not None else math.inf if due is None else amount(due)
        weight = math.nan if weight is None else amount(weight)
        ini, fsize, arrival, due, weight = np.array([[work], [file_mb], [at], [deadline], [weight]])
        demands = {str(name): np.array([amount(least)]) for name, least in dict(job.get("demands") or {}).items()}
    except KeyError as error:
        raise UsageError(f"job {job['id']}: {error.args[0]} is missing") from None
    except (OverflowError, TypeError, ValueError):
        accepted = "instructions, file_mb, deadline, allowed, cost_weight and demands are numbers, not negative"
        raise UsageError(f"job {job['id']}: {accepted}") from None
    return Jobs([job_id], ini, fsize, arrival, due, demands, weight)
