# SPDX-License-Identifier: Apache-2.0
"""Reads PBS through the same interface as Slurm: qstat for the queue, and its history for ended jobs.

The transport must run qstat with TZ=UTC, because PBS prints only local time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .errors import BatchcastError, InputError
from .formats.pbs.qstat import parse_qstat, sighting
from .formats.sighting import NodeAway, Sighting, Site, Snapshot
from .units import parse_duration

JOBS = ("qstat", "-x", "-t", "-f", "-F", "json")
JOBS_AS_TEXT = ("qstat", "-x", "-t", "-f")
JOBS_OF_KIN = ("qstat", "-f")
SERVER = ("qstat", "-B", "-f")
QUEUES = ("qstat", "-Q", "-f")
TWO_WEEKS = 14 * 86400.0


@dataclass(slots=True)
class Pbs:
    """A PBS server, queried through a transport. Set `as_text` if qstat does not support -x and JSON (Torque, Slurm's
    wrappers).

    `json_fails` becomes true when qstat has printed invalid JSON; from then on, qstat's text output is used. OpenPBS 22
    and older print invalid JSON for an environment variable such as `N=005`, until the job leaves the history.
    """

    transport: Any
    as_text: bool = False
    json_fails: bool = False

    def now(self) -> float:
        """The transport's clock."""
        return float(self.transport.now())

    def ticks(self) -> float:
        """The time on the transport's monotonic clock, in seconds."""
        return float(self.transport.ticks())

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        """Return the jobs among `ids` that are still in the server's history."""
        return _only(self.history(since, math.inf), lambda s: s.job_id in ids)

    def reservations(self) -> list[dict[str, Any]]:
        """Return an empty list, because reservations are not read from PBS."""
        return []

    def nodes_away(self) -> tuple[NodeAway, ...]:
        """Return an empty tuple, because nodes are not read from PBS."""
        return ()

    def hides_jobs(self) -> bool:
        """Return whether the server currently hides users' jobs from other users."""
        return not self.as_text and self.site().private

    def snapshot(self) -> Snapshot:
        """Return every job of the server: each subjob of an array, and ended jobs in the server's history."""
        return self._ask()

    def job(self, job_id: str) -> Snapshot:
        """Return one job; batchcast uses this method if it has no store."""
        return self._ask(*job_id.split(","))

    def jobs_of(self, user: str) -> Snapshot:
        """Return a user's jobs; batchcast uses this method if it has no store."""
        return _only(self.snapshot(), lambda s: s.requested["user_id"] == user)

    def history_of(self, user: str, since: float, until: float, *, memory: bool = False) -> Snapshot:
        """Return the jobs of one user that ended in the time span; memory use is always included."""
        return _only(self.history(since, until), lambda s: s.requested["user_id"] == user)

    def history(self, since: float, until: float) -> Snapshot:
        """Return the jobs in the server's history that ended in the time span. Older jobs are not in the history;
        `read_trace` reads them from PBS accounting logs."""
        return _only(self.snapshot(), lambda s: since <= s.end_time < until)

    def site(self) -> Site:
        """Return facts about the server: name, version, how long ended jobs stay visible, and queues with limits."""
        if self.as_text:
            return Site("pbs", "", 300.0, False, math.nan, False, {})
        server = _blocks(self.transport.ask(SERVER).text, "Server")
        name, attributes = server[0] if server else ("pbs", {})
        kept = attributes.get("job_history_enable", "").lower() == "true"
        duration = parse_duration(attributes.get("job_history_duration", ""))
        queues = {
            queue: {
                "default_time_s": parse_duration(a.get("resources_default.walltime", "")),
                "max_time_s": parse_duration(a.get("resources_max.walltime", "")),
                "is_default": float(attributes.get("default_queue") == queue),
            }
            for queue, a in _blocks(self.transport.ask(QUEUES).text, "Queue")
        }
        procs = attributes.get("resources_available.ncpus", "")
        return Site(
            cluster=name,
            version=attributes.get("pbs_version", ""),
            keeps_s=(duration if math.isfinite(duration) else TWO_WEEKS) if kept else 0.0,
            private=attributes.get("query_other_jobs", "True").lower() == "false",
            total_procs=float(procs) if procs.isdigit() else math.nan,
            accounting=False,
            partitions=queues,
            gathers={"Type": "pbs/mom"},
        )

    def _ask(self, *ids: str) -> Snapshot:
        """Return the jobs `ids`, or all jobs; unreadable jobs and repeated ids are counted as broken."""
        asked_at, records = self._records(ids)
        times = Counter(job_id for job_id, _ in records)
        jobs: list[Sighting | None] = []
        for job_id, attributes in records:
            with suppress(BatchcastError, ValueError):
                if times[job_id] == 1:  # in the text form, a line break in a variable can imitate another user's job
                    jobs.append(sighting(job_id, attributes))
        return Snapshot(asked_at, tuple(job for job in jobs if job is not None), len(records) - len(jobs))

    def _records(self, ids: tuple[str, ...]) -> tuple[float, list[tuple[str, dict[str, str]]]]:
        """Return the time of the qstat call and the jobs, parsed from JSON, or from text if the JSON is invalid."""
        if not self.as_text and not self.json_fails:
            answer = self.transport.ask((*JOBS, *ids))
            with suppress(InputError):
                return answer.asked_at, parse_qstat(answer.text)
            self.json_fails = True
        answer = self.transport.ask((*(JOBS_OF_KIN if self.as_text else JOBS_AS_TEXT), *ids))
        return answer.asked_at, parse_qstat(answer.text)


def _only(snapshot: Snapshot, is_chosen: Callable[[Sighting], bool]) -> Snapshot:
    return snapshot._replace(jobs=tuple(filter(is_chosen, snapshot.jobs)))


def _blocks(text: str, kind: str) -> list[tuple[str, dict[str, str]]]:
    """Parse qstat's `Server: name` or `Queue: name` blocks, and return their attributes."""
    blocks: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if match := re.match(rf"{kind}:?\s+(\S+)", line):
            blocks.append((match[1], {}))
        elif blocks and (match := re.match(r"\s+([A-Za-z_][\w.]*) = (.*)", line)):
            blocks[-1][1][match[1]] = match[2]
    return blocks
