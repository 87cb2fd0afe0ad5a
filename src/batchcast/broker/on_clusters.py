# SPDX-License-Identifier: Apache-2.0
"""A grid broker whose resources are real clusters: start predictions replace the times at which resources become free,
and the broker can submit jobs.

A cluster is not a machine that runs one job at a time and becomes free at one instant. Each job has a predicted end on
each cluster, and the predicted end changes when another job was just sent to the cluster. Because of this change, a
mapping event places the jobs one by one. The heuristic sees the predicted ends of all waiting jobs. The broker sends
the first job of the heuristic's plan to the chosen cluster, and then predicts the ends on this cluster again, including
the sent job. After these predictions, the heuristic plans the next job.

The broker's state is a journal, as for `live.Broker`. A decision is written to the journal before its job is submitted.
The journal's random name and the job's id are the key of the submission, and `batchcast submit` never creates two jobs
with one key. So if the broker is killed at any instant, it does not lose a job and does not submit a job twice.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from ..clusters.configured import Configured, Input, inputs_of
from ..clusters.offers import NO_ANSWER, Question, Reply, ask_all, compared
from ..clusters.outcomes import learned_lateness
from ..clusters.submit import submit
from ..document import plain
from ..errors import BatchcastError, Unreachable, UsageError
from ..formats.slurm.sbatch import Request
from ..service.answers.disclosure import Viewer
from ..service.answers.forecaster import read_request
from ..service.settings import Settings
from ..store.ledger import SUBMITTED, Ledger, Offer
from .clock import MappingRule
from .live import Journal, checked_id
from .model import Batch, Heuristic

FIELDS = ("id", "script", "inputs", "deadline", "allowed")
COUNTED_S = 3600.0
"""Seconds after which the collector of a cluster reports a job that was sent there, so the broker need not count it."""
AGAIN_S = 60.0
"""Seconds until a job without an answer, or with a submission whose outcome is unknown, is tried again."""
FRESH_S = 2.0
"""Seconds for which a cluster's answer is reused, unless a job was sent in the meantime."""
LEARN_S = 60.0
"""Seconds until the broker reads again which of the user's submissions have ended: a read opens every store."""
UNLIKELY = 0.5
"""The broker warns about a deadline if the job meets it with a lower probability than this."""

Answers = tuple[dict[str, Any], list[str]]  # answers by cluster, and a message for each cluster that does not answer
Counted = Mapping[str, Sequence[tuple[float, Request]]]


class Job(NamedTuple):
    """A job that waits in the broker: the request of its script, its input files, and its deadline (epoch seconds)."""

    id: str
    script: str
    request: Request
    inputs: Sequence[Input]
    deadline: float


class OfClusters:
    """The clusters of batchcast.toml, which a broker uses as `batchcast start --test --where` and `batchcast submit`
    do.
    """

    def __init__(
        self, configuration: Configured, settings: Settings, viewer: Viewer, ledger: Ledger,
        tell: Callable[[str], object],
    ) -> None:  # fmt: skip
        self.configuration, self.settings, self.viewer, self.ledger = configuration, settings, viewer, ledger
        self.tell = tell  # is called with each command before it runs
        self.names: Sequence[str] = [one.name for one in configuration.clusters]
        self._lateness: tuple[float, Mapping[str, Sequence[float]]] = (-math.inf, {})

    def read(self, fields: Mapping[str, Any], at: float) -> Job:
        """Return a job from its fields; UsageError if a field is wrong or the script cannot be read."""
        example = '{"id": "a", "script": "job.sh", "deadline": 1790000000}'
        lacks = f"a job for clusters needs an id and a script (accepted: {example})"
        job_id = checked_id(fields, ("id", "script"), FIELDS, lacks)
        script = str(fields["script"])
        due, allowed = (_number(job_id, fields, name) for name in ("deadline", "allowed"))
        texts = fields.get("inputs") or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise UsageError(f'job {job_id}: inputs is a list of PATH|SIZE@PLACE, as ["20G@archive"]')
        files, missing = inputs_of(texts, self.configuration.home.files_at)
        if missing:
            raise UsageError(f"job {job_id}: {missing[0]}")
        return Job(job_id, script, read_request(script, inputs=False), files, min(due, at + allowed))

    def ask(self, job: Job, counted: Counted, now: float, only: str = "") -> Answers:
        """Return the predictions of each cluster (or only of the cluster `only`), and a message for each cluster that
        does not answer."""
        said, problems = ask_all(
            self.configuration, self.settings, self._question(job, counted, now), self.viewer, now, only
        )
        return {one.cluster.name: one for one in said}, problems

    def compare(self, job: Job, answers: Mapping[str, Reply], counted: Counted, now: float) -> list[Offer]:
        """Return the offers (predicted times on a cluster) in the clusters' answers, best first."""
        return compared(list(answers.values()), self._question(job, counted, now), now)[0]

    def _question(self, job: Job, counted: Counted, now: float) -> Question:
        """Return the query for a job; it includes how much later than predicted the user's earlier jobs started."""
        due = job.deadline if math.isfinite(job.deadline) else None
        if now - self._lateness[0] >= LEARN_S:
            self._lateness = now, learned_lateness(self.ledger, self.configuration.clusters, now)
        return Question(job.request, job.inputs, due, False, counted, self._lateness[1])

    def send(self, job: Job, offers: Sequence[Offer], now: float, key: str) -> tuple[str, str]:
        """Submit the job to the first cluster that accepts it, once for each key; return the cluster and job id."""
        entry = self.ledger.of_key(key)
        if entry is None or entry.state != SUBMITTED:
            clusters = {one.name: one for one in self.configuration.clusters}
            entry = submit(self.ledger, clusters, offers, job.script, [], now, self.tell, key).entry
        return entry.cluster, str(entry.job_id)


def _number(job_id: str, fields: Mapping[str, Any], name: str) -> float:
    """Return a time from a job's fields; infinite if the field is missing."""
    if fields.get(name) is None:
        return math.inf
    with suppress(TypeError, ValueError):
        if math.isfinite(number := float(fields[name])):
            return number
    raise UsageError(f"job {job_id}: {name} is not a number of seconds (accepted: a number, as 1790000000)")


class ClusterBroker:
    """Maps jobs to real clusters as they arrive, one by one."""

    # The heuristic receives the medians of the predicted ends. A job that no cluster is expected to end in time goes to
    # the cluster that most probably meets the deadline (`late="run"`), or is refused (`late="drop"`). Without
    # `submits`, the broker only reports the chosen cluster of each job, and includes the job in later predictions for
    # this cluster.

    def __init__(
        self,
        clusters: OfClusters,
        heuristic: Heuristic,
        mapping: MappingRule,
        journal: Journal | None = None,
        submits: bool = False,
    ) -> None:
        if mapping.late == "stop":
            raise UsageError("--late stop: the broker cannot end jobs on a cluster (accepted: run, drop)")
        self.clusters, self.heuristic, self.mapping, self.submits = clusters, heuristic, mapping, submits
        self.waiting: dict[str, Job] = {}
        self.decided: dict[str, dict[str, Any]] = {}
        self._unsent: dict[str, tuple[Job, list[Offer]]] = {}
        self._fresh: dict[str, tuple[float, Answers]] = {}
        self._sent: dict[str, tuple[str, float, Request]] = {}
        self._next_at = math.inf
        self._order: dict[str, None] = {}
        self._name = ""
        self.journal = journal or Journal()
        self.journal.replay(self._replay)
        if not self._name:
            self._name = secrets.token_hex(8)
            self.journal.add({"journal": self._name})
        for job in list(self.waiting.values()):
            if not job.script:
                self._refuse(job, "its script cannot be read anymore")
        if self.waiting or self._unsent:
            self._next_at = -math.inf

    def _replay(self, line: dict[str, Any]) -> None:
        """Apply one line of the journal to the broker's state: an accepted job, a decision, or a submission."""
        if "journal" in line:
            self._name = line["journal"]
        elif "job" in line:
            self._order[str(line["job"]["id"])] = None
            try:
                job = self.clusters.read(line["job"], line["at"])
            except BatchcastError:  # the script was removed; the job may be submitted already
                job = Job(str(line["job"]["id"]), "", Request({}), (), math.inf)
            self.waiting[job.id] = job
        elif "offers" in line:
            self._assign_cluster(self.waiting[line["id"]], [*map(Offer.read, line["offers"])], line["at"])
        else:
            self._tell(line)

    def offer(self, fields: Mapping[str, Any], at: float) -> dict[str, Any]:
        """Accept one job; return the cluster on which the job would end first, and warn if the job will miss its
        deadline.

        A job with an id that was accepted earlier is treated as that job, so a repeated submission has no effect.
        """
        job = self.clusters.read(fields, at)
        if job.id in self._order:
            return {"ok": True, "id": job.id, "again": True, **self.state_of(job.id)}
        self.journal.add({"job": dict(fields), "at": at})
        self._order[job.id] = None
        self.waiting[job.id] = job
        every = self.mapping.every
        self._next_at = min(self._next_at, at if every is None else math.ceil(at / every) * every)
        return {"ok": True, "id": job.id, **self._at_once(job, at)}

    def _at_once(self, job: Job, at: float) -> dict[str, Any]:
        """Return the best offer of a cluster at present, and a warning if the job will probably miss its deadline."""
        counted = self._counted(at)
        answers, problems = said = self.clusters.ask(job, counted, at)
        self._fresh[job.id] = (at, said)
        offers = self.clusters.compare(job, answers, counted, at)
        if not offers:
            return {"warning": "no cluster predicts the end of this job: " + "; ".join(problems)}
        best = offers[0]
        names = ("cluster", "partition", "likely_start_s", "likely_end_s", "by_90_end_s", "chance_done_by")
        reply: dict[str, Any] = {"best_offer": plain({name: getattr(best, name) for name in names})}
        if best.chance_done_by < UNLIKELY:
            chance = f"the best chance is {best.chance_done_by:.0%}, on {best.cluster}"
            reply["warning"] = f"the deadline will probably be missed: {chance}"
        return reply

    def advance(self, until: float) -> list[dict[str, Any]]:
        """Map the waiting jobs, and submit the placed jobs that are not yet submitted, if a mapping event is due;
        return a record of each job whose cluster or refusal was decided in this call.
        """
        if self._next_at > until:
            return []
        self._next_at = math.inf
        before = len(self.decided)
        for job, offers in list(self._unsent.values()):  # left after a kill, or because a cluster did not answer
            self._send(job, offers, until)
        self._map(until)
        if self.waiting or self._unsent:
            self._next_at = until + (self.mapping.every or AGAIN_S)
        return self.decisions[before:]

    def finish(self) -> list[dict[str, Any]]:
        """Return an empty list of decisions, because waiting jobs stay in the journal, and clusters work without the
        broker."""
        return []

    def _map(self, now: float) -> None:
        """Place the waiting jobs one after the other; each prediction includes the jobs that were placed before."""
        fresh = {job_id: said for job_id, (at, said) in self._fresh.items() if now - at <= FRESH_S}
        answers = {job_id: (dict(of_cluster), problems) for job_id, (of_cluster, problems) in fresh.items()}
        changed = ""
        while self.waiting:
            counted = self._counted(now)
            offers: dict[str, list[Offer]] = {}
            for job in self.waiting.values():
                if job.id not in answers:
                    answers[job.id] = self.clusters.ask(job, counted, now)
                elif changed:
                    answers[job.id][0].update(self.clusters.ask(job, counted, now, changed)[0])
                offers[job.id] = self.clusters.compare(job, answers[job.id][0], counted, now)
            waiting = list(self.waiting.values())  # a copy, because `_can_go` may refuse a job
            jobs = [job for job in waiting if self._can_go(job, offers[job.id], answers[job.id][1])]
            if not jobs:
                return
            place = self._next(jobs, [offers[job.id] for job in jobs], now)
            for job, chosen in [place] if place else [(job, offers[job.id][0]) for job in jobs]:
                if place is None and self.mapping.late == "drop":
                    self._refuse(job, "no cluster is expected to end it in time")
                    continue
                ordered = [chosen, *(offer for offer in offers[job.id] if offer.cluster != chosen.cluster)]
                self.journal.add({"id": job.id, "offers": plain(map(structs.asdict, ordered)), "at": now})
                self._assign_cluster(job, ordered, now)
                if self.submits:
                    self._send(job, ordered, now)
                changed = chosen.cluster
                break  # compare the other jobs again, with predictions that include this job

    def _can_go(self, job: Job, offers: Sequence[Offer], problems: Sequence[str]) -> bool:
        """Return whether a cluster predicts an end for the job; refuse the job if no cluster can ever run it."""
        if any(math.isfinite(offer.likely_end_s) for offer in offers):
            return True
        if not any(f": {NO_ANSWER}: " in text for text in problems):
            self._refuse(job, "no cluster can run it: " + "; ".join(problems))
        return False

    def _next(self, jobs: Sequence[Job], offers: Sequence[Sequence[Offer]], now: float) -> tuple[Job, Offer] | None:
        """Return the first job of the heuristic's plan and the chosen cluster's offer for it; None if the heuristic
        places no job."""
        names = self.clusters.names
        times = np.full((len(jobs), len(names)), math.inf)
        best: dict[tuple[int, int], Offer] = {}
        for i, rows in enumerate(offers):
            for row in reversed(rows):  # a cluster's best offer comes first in `rows`, so it is stored last
                if math.isfinite(row.likely_end_s):
                    column = names.index(row.cluster)
                    times[i, column] = max(row.likely_end_s - now, 1e-9)
                    best[i, column] = row
        batch = Batch.of_times(times, deadline=np.array([job.deadline for job in jobs]), now=now)
        plan = self.heuristic.assign(batch)
        if not len(plan.order):
            return None
        i = int(plan.order[0])
        return jobs[i], best[i, int(plan.resource[i])]

    def _assign_cluster(self, job: Job, offers: list[Offer], at: float) -> None:
        """Include the job in all later predictions for its cluster."""
        chosen = offers[0]
        self.waiting.pop(job.id, None)
        self._fresh.clear()
        self._sent[job.id] = (chosen.cluster, at, chosen.request)
        if self.submits:
            self._unsent[job.id] = (job, offers)
        else:
            self._tell(_line(job.id, chosen, job.deadline))

    def _send(self, job: Job, offers: list[Offer], now: float) -> None:
        """Submit a placed job; try again later if the cluster cannot tell whether the job was submitted before."""
        try:
            cluster, job_id = self.clusters.send(job, offers, now, f"grid:{self._name}:{job.id}")
        except Unreachable:
            return
        except BatchcastError as error:
            return self._refuse(job, error.message)
        row = next((offer for offer in offers if offer.cluster == cluster), offers[0])
        self._record({**_line(job.id, row, job.deadline), "job_id": job_id})

    def _refuse(self, job: Job, why: str) -> None:
        """Record that a job is refused, with the reason."""
        self._record({"id": job.id, "refused": why, "deadline": plain(job.deadline)})

    def _record(self, line: dict[str, Any]) -> None:
        """Write a decision to the journal, then apply the decision to the broker's state."""
        self.journal.add(line)
        self._tell(line)

    def _tell(self, line: dict[str, Any]) -> None:
        """Add a decision. Predictions for a cluster then include an accepted job, and no longer include a refused
        job."""
        self.decided[line["id"]] = line
        self.waiting.pop(line["id"], None)
        self._unsent.pop(line["id"], None)
        sent = self._sent.pop(line["id"], None)
        if sent is not None and "refused" not in line:
            self._sent[line["id"]] = (line["resource"], *sent[1:])

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """Return all decisions in order, for the file of assignments."""
        return list(self.decided.values())

    def _counted(self, now: float) -> Counted:
        """Return the recently sent jobs by cluster, which predictions include."""
        counted: dict[str, list[tuple[float, Request]]] = {}
        for cluster, at, request in self._sent.values():
            if at >= now - COUNTED_S:
                counted.setdefault(cluster, []).append((at, request))
        return counted

    def state_of(self, job_id: str) -> dict[str, Any]:
        """Return the state of a job: waiting, being submitted, refused, or its cluster with predicted times."""
        if (line := self.decided.get(job_id)) is not None:
            return {"state": "refused" if "refused" in line else "submitted" if "job_id" in line else "mapped", **line}
        return {"state": "being submitted" if job_id in self._unsent else "waiting"}

    def table(self) -> list[dict[str, Any]]:
        """Return all jobs with their states, in order of arrival."""
        return [{"id": job_id, **self.state_of(job_id)} for job_id in self._order]

    def free_at(self) -> dict[str, float]:
        """Return an empty table, because a cluster does not become free at one instant."""
        return {}

    @property
    def counts(self) -> dict[str, int]:
        """Return the numbers of all jobs, of jobs that are expected in time, of refused or late jobs, and of waiting
        jobs."""
        late = sum("refused" in line or (line["slack"] or 0.0) < 0.0 for line in self.decided.values())
        waits = len(self.waiting) + len(self._unsent)
        return {"jobs": len(self._order), "in_time": len(self.decided) - late, "not_in_time": late, "waiting": waits}


def _line(job_id: str, offer: Offer, deadline: float) -> dict[str, Any]:
    """Return the decision about a job as a record; with times in epoch seconds."""
    finish = offer.likely_end_s
    line: dict[str, Any] = {"id": job_id, "resource": offer.cluster, "partition": offer.partition}
    line |= {"command": offer.command, "start": offer.likely_start_s, "finish": finish}
    line |= {"by_90": offer.by_90_end_s, "deadline": deadline}
    line |= {"slack": deadline - finish, "chance": offer.chance_done_by}
    return dict(plain(line))
