# SPDX-License-Identifier: Apache-2.0
"""Queries Slurm for the present queue, for the jobs that ended in a time span, and for facts about the site."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import Unreachable
from ..formats.sighting import NodeAway, Sighting, Site, Snapshot, gathers_memory
from ..formats.sighting import number as count
from ..formats.slurm import squeue
from ..formats.slurm.reasons import about_nodes, naming_down, no_longer
from ..formats.slurm.resources import expand, is_away
from ..formats.slurm.scontrol import parse_config, parse_records
from ..formats.slurm.squeue import parse_marked
from ..units import parse_duration
from .transport import CONFIG, MARK, PARTITIONS, RESERVATIONS, Transport, readable

if TYPE_CHECKING:
    from ..machines.machine import Machine

SNAPSHOT = (
    "squeue", "--all", "--array", "--states=all", "--Format=" + ",".join(f"{name}:{MARK}" for name in squeue.FIELDS)
)  # fmt: skip
STATISTICS = ("sdiag",)
PASSING = frozenset({"BOOT_TIME", "NEXT_JOB_ID", "HASH_VAL"})
"""Keys of `scontrol show config` that change without a change of the machine."""
KINDS = ("sinfo", "--noheader", "--exact", "--format=%R|%N|%c|%m|%f|%G|%w|%X|%Y|%Z")
"""One line per kind of node: partition, nodes, processors, memory, features, GRES, weight, sockets, cores, threads."""
SHARES = ("sshare", "--all", "--noheader", "--parsable2", "--format=Account,User,RawUsage")
NODES = ("sinfo", "--noheader", "--exact", "--format=%R %N %c %m")
"""One line per kind of node: partition, node names, processors and memory (MB)."""
AWAY = ("sinfo", "--noheader", "--Node", "--states=down,drain,fail,no_respond", "--format=%N %R %c %T")


@dataclass(slots=True)
class Slurm:
    """Reads the jobs and the configuration of a Slurm cluster through a transport. The class changes nothing in Slurm.

    Four attributes come from the latest `scontrol show config`: `gathers` (how accounting measures jobs), `slurm_user`
    (the user of slurmctld), `answered_by` (the cluster's name) and `booted` (the start of slurmctld, epoch seconds).
    """

    transport: Transport
    gathers: Mapping[str, str] = field(default_factory=dict)
    slurm_user: str = ""
    answered_by: str = ""
    booted: float = math.nan

    def now(self) -> float:
        """Return the time of the transport's clock, epoch seconds."""
        return self.transport.now()

    def ticks(self) -> float:
        """Return the time of the transport's monotonic clock, seconds."""
        return self.transport.ticks()

    def snapshot(self) -> Snapshot:
        """Return every job that slurmctld shows, with each array task as one job, by one call.

        If a job waits for nodes that may be down, one more call reads which nodes are down. If the reason of a wait is
        outdated, it is replaced by Priority.
        """
        shown, away = self._squeue(SNAPSHOT), None
        if any(about_nodes(s.reason) for s in shown.jobs):
            with contextlib.suppress(Unreachable):
                away = self.nodes_away()
        down = None if away is None else {one.node for one in away}
        running = {_array(s) for s in shown.jobs if s.state != "PENDING" and (s.is_open or not s.certain)}

        def as_it_is(s: Sighting) -> Sighting:
            reason = s.reason if down is None else naming_down(s.reason, s.nodes_asked, down)
            return s._replace(reason="Priority" if no_longer(reason, down, _array(s) in running) else reason)

        jobs = tuple(as_it_is(s) if s.state == "PENDING" else s for s in shown.jobs)
        return shown._replace(jobs=jobs, away=away)

    def nodes_away(self) -> tuple[NodeAway, ...]:
        """Return the nodes that are down, drained or do not answer, by one call. Nodes that sleep or wake up are left
        out.
        """
        text = self.transport.ask(AWAY).text
        lines = (line.split() for line in text.splitlines())
        return tuple(NodeAway(w[0], w[1], count(w[2])) for w in lines if len(w) == 4 and is_away(w[3]))

    def job(self, job_id: str) -> Snapshot:
        """Return one job (or the tasks of an array) by one quick call, for an answer without a store."""
        return self._squeue((*SNAPSHOT, f"--jobs={job_id}"))

    def jobs_of(self, user: str) -> Snapshot:
        """Return a user's jobs by one quick call, for an answer without a store."""
        return self._squeue((*SNAPSHOT, f"--user={user}"))

    def _squeue(self, command: tuple[str, ...]) -> Snapshot:
        """Return the jobs that a squeue command prints."""
        answer = self.transport.ask(command)
        records, broken = parse_marked(answer.text, answer.mark, squeue.FIELDS, header=True)
        jobs, bad = readable(records, lambda r: [squeue.sighting(r)])
        return Snapshot(answer.asked_at, tuple(jobs), broken + bad)

    def history_of(self, user: str, since: float, until: float, *, memory: bool = False) -> Snapshot:
        """Return the jobs of one user that ended between two instants (epoch, s), for an answer without a store.

        One query reads the jobs, with `memory` also their memory use. Jobs that were cancelled before they were
        eligible are missing.
        """
        return self._accounted(since, until, f"--user={user}", steps=memory and self._measures())

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        """Return the jobs with these ids that ended at `since` or later."""
        whole = {re.split(r"[_+]", job_id)[0] for job_id in ids}
        return self._accounted(since, self.now(), f"--jobs={','.join(sorted(whole))}", steps=self._measures())

    def history(self, since: float, until: float) -> Snapshot:
        """Return every job that ended between two instants (epoch, s), with each run of a requeued job as one job.

        If accounting measures memory, the same query also reads the steps. A second query reads cancelled jobs, because
        sacct shows a job that was cancelled before it was eligible (held, --begin) only with --state=CANCELLED.
        """
        shown = self._accounted(since, until, "--allusers", steps=self._measures())
        cancelled = self._accounted(since, until, "--allusers", "--state=CANCELLED")
        known = {(s.job_id, s.submit_time, s.end_time) for s in shown.jobs}
        more = tuple(s for s in cancelled.jobs if (s.job_id, s.submit_time, s.end_time) not in known)
        return Snapshot(shown.asked_at, shown.jobs + more, shown.broken + cancelled.broken)

    def _accounted(self, since: float, until: float, *which: str, steps: bool = False) -> Snapshot:
        """Return the jobs that sacct prints for a time span; with `steps`, also their memory use."""
        fields = squeue.FIELDS_WITH_STEPS if steps else squeue.SACCT_FIELDS
        words = "--duplicates", "--parsable", "--noheader", f"--delimiter={MARK}"
        when = f"--starttime=uts{since:.0f}", f"--endtime=uts{until:.0f}", f"--format={','.join(fields)}"
        command = ("sacct", *which, *(() if steps else ("--allocations",)), *words, *when)
        answer = self.transport.ask(command)
        records, broken = parse_marked(answer.text, answer.mark, fields)
        jobs, bad = readable(squeue.with_steps(records), lambda pair: squeue.ended(*pair))
        return Snapshot(answer.asked_at, tuple(jobs), broken + bad + answer.refused)

    def reservations(self) -> list[dict[str, Any]]:
        """Return every reservation with its name, start and end (epoch, s), and whether it is for maintenance."""
        text = self.transport.ask(RESERVATIONS).text
        return [
            {
                "name": r["ReservationName"],
                "start": squeue.epoch(r.get("StartTime", "")),
                "end": squeue.epoch(r.get("EndTime", "")),
                "maintenance": "MAINT" in r.get("Flags", ""),
            }
            for r in parse_records(text, "ReservationName")
        ]

    def shape(self) -> str:
        """Return a description of the machine as text, which changes when nodes or scheduler settings change.

        The text has the kinds of nodes, partitions, reservations, QOS and the configuration, but no line per job or
        user, so Slurm answers quickly.
        """
        config = {name: value for name, value in self._config().items() if name not in PASSING}
        nodes = sorted(self.transport.ask(KINDS).text.splitlines())
        from ..trace.machine_files import DUMPS  # imported here because it loads NumPy, which `report` does not need

        said = [self.transport.ask(words).text for words in (PARTITIONS, DUMPS["reservation.txt"], DUMPS["qos.txt"])]
        return "\n".join([*(f"{name}={value}" for name, value in sorted(config.items())), *nodes, *said])

    def machine(self) -> Machine:
        """Return the machine that Slurm's commands describe now."""
        from ..trace.machine_files import DUMPS, machine_of

        return machine_of({name: self.transport.ask(words).text for name, words in DUMPS.items()}, "Slurm")

    def shares(self) -> dict[str, float]:
        """Return the usage of each "account|user" in processor-seconds, as fair share counts it, by one call."""
        rows = (line.split("|") for line in self.transport.ask(SHARES).text.splitlines())
        used = {f"{row[0].strip()}|{row[1]}": count(row[2]) for row in rows if len(row) == 3 and row[1]}
        return {who: seconds for who, seconds in used.items() if seconds > 0}

    def admin_level(self, user: str) -> str:
        """Return the user's level in accounting (None, Operator, Administrator); empty if accounting lacks the user."""
        answer = self.transport.ask(("sacctmgr", "-nP", "show", "user", user, "format=user,adminlevel"))
        rows = [line.split("|") for line in answer.text.splitlines()]
        return next((row[1] for row in rows if row[0] == user and len(row) > 1), "")

    def busy_nodes(self) -> int:
        """Return how many nodes run jobs of any user."""
        text = self.transport.ask(("sinfo", "--noheader", "--Node", "--states=alloc,mix", "--format=%N")).text
        return len(set(text.split()))

    def hides_jobs(self) -> bool:
        """Return whether Slurm now hides users' jobs from other users, by one quick call."""
        return _hides_jobs(self._config())

    def why_blind(self, user: str) -> str:
        """Return why this user cannot see other users' jobs if Slurm hides jobs; empty if this user can see them."""
        if user in ("root", self.slurm_user):
            return ""
        level = self.admin_level(user)
        if level.lower() in ("operator", "administrator"):
            return ""
        known = f"has the level {level}" if level else "is in no association"
        return f"Slurm hides jobs (PrivateData), and the collector's user {user} {known}"

    def _config(self) -> Mapping[str, str]:
        """Read Slurm's configuration, and update the attributes that come from it."""
        config = parse_config(self.transport.ask(CONFIG).text)
        self.slurm_user = config.get("SlurmUser", "").partition("(")[0]
        self.answered_by = config.get("ClusterName", "")
        self.booted = squeue.epoch(config.get("BOOT_TIME", ""))
        self.gathers = {name: config.get(f"JobAcctGather{name}", "") for name in ("Type", "Frequency", "Params")}
        return config

    def _measures(self) -> bool:
        """Return whether accounting measures memory; False while slurmctld does not answer."""
        if not self.gathers:
            try:
                self._config()
            except Unreachable:
                return False
        return gathers_memory(self.gathers)

    def _add_nodes(self, partitions: Mapping[str, dict[str, float]]) -> float:
        """Add the largest processors and KiB per node to each partition, and return the processors of the machine (0 if
        sinfo fails).

        A node that several partitions share counts once.
        """
        try:
            text = self.transport.ask(NODES).text
        except Unreachable:
            return 0.0
        procs_of: dict[str, float] = {}
        for line in text.splitlines():
            name, *cells = line.strip().rsplit(" ", 3)
            if len(cells) == 3 and name in partitions:
                procs, mib = (count(amount.rstrip("+")) for amount in cells[1:])
                procs_of |= dict.fromkeys(expand(cells[0]), procs)
                of = partitions[name]
                for what, amount in (("node_procs", procs), ("node_mem_kib", mib * 1024.0)):
                    if amount > 0:
                        of[what] = max(amount, of.get(what, 0.0))
        return sum(procs for procs in procs_of.values() if procs > 0)

    def site(self) -> Site:
        """Return facts about the site: name, version, how long squeue shows ended jobs, privacy, partitions with
        limits.
        """
        config = self._config()
        records = parse_records(self.transport.ask(PARTITIONS).text, "PartitionName")
        partitions = {p["PartitionName"]: _partition(p) for p in records}
        total = self._add_nodes(partitions)
        keeps = re.match(r"\d+", config.get("MinJobAge", ""))
        nodes = {p.get("Nodes", p["PartitionName"]): partitions[p["PartitionName"]]["procs"] for p in records}
        known = sum(nodes.values()) if _apart(nodes) else max(nodes.values(), default=0.0)
        return Site(
            cluster=config.get("ClusterName", "cluster"),
            version=config.get("SLURM_VERSION", ""),
            keeps_s=float(keeps[0]) if keeps else 0.0,
            private=_hides_jobs(config),
            total_procs=total or max(known, 0.0) or math.nan,
            # without accounting, AccountingStorageType is none, or (null) since Slurm 23.11
            accounting=config.get("AccountingStorageType", "").endswith("slurmdbd"),
            partitions=partitions,
            clock_ahead_s=self.clock_ahead() or 0.0,
            gathers=self.gathers,
        )

    def clock_ahead(self) -> float | None:
        """Return how many seconds this machine's clock is at least ahead of slurmctld's (negative: behind); None if
        unknown.

        sdiag prints slurmctld's time at some instant between query and answer, in whole seconds. A clock difference
        within this uncertainty counts as 0.
        """
        try:
            answer = self.transport.ask(STATISTICS)
        except Unreachable:
            return None
        if (stamp := re.search(r"output at .*?\(?(\d{9,})\)?", answer.text)) is None:
            return None
        ahead, behind = answer.asked_at - float(stamp[1]) - 1, float(stamp[1]) - self.transport.now()
        return ahead if ahead > 0 else -behind if behind > 0 else 0.0


def _array(seen: Sighting) -> str:
    """Return the id of a job's array; for other jobs, the job's id."""
    return seen.job_id.partition("_")[0]


def _hides_jobs(config: Mapping[str, str]) -> bool:
    """Return whether PrivateData in slurm.conf hides jobs."""
    return "jobs" in config.get("PrivateData", "").lower().split(",")


def _partition(record: Mapping[str, str]) -> dict[str, float]:
    """Return a partition's limits (s), its numbers of processors and nodes, and whether it is the default partition."""
    default, longest = parse_duration(record.get("DefaultTime", "")), parse_duration(record.get("MaxTime", ""))
    nodes = {"nodes": count(record.get("TotalNodes", "")), "max_nodes": count(record.get("MaxNodes", ""))}
    return {
        "default_time_s": default if default == default else longest,
        "max_time_s": longest,
        "procs": count(record.get("TotalCPUs", "")),
        **{name: amount for name, amount in nodes.items() if amount > 0},
        "is_default": float(record.get("Default", "NO") == "YES"),
    }


def _apart(nodes: Mapping[str, float]) -> bool:
    """Return whether partitions surely share no nodes, because no prefix of node names occurs in two node lists."""
    prefixes = [re.split(r"[\[\d]", text)[0] for text in nodes]
    return len(set(prefixes)) == len(prefixes)
