# SPDX-License-Identifier: Apache-2.0
"""Answers `job_submit.lua` within milliseconds: the limit and memory suggested for the user's last similar job.

Slurm's plugin `job_submit.lua` delays a submission until this hint arrives, so the hint comes from memory: it reads no
file and computes no prediction. The hint repeats the stored suggestion for the last similar job. The collector predicts
the new job itself later.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...columns import OUT_OF_MEMORY
from ...errors import NoAnswer
from ...predict.recommend import BY_NAME, rounded_request
from ...store.reader import Reader, Row
from ...store.rows import NOTHING, as_prediction, asked_a_node, node_peak
from .advice import RISK, SAMPLING_MARGIN, Rules, advised_limit
from .disclosure import OfOthers, spread_of
from .track_record import RecordKey, TrackRecord, answering_method

KINDS = ("limit", "request", "wait")
MOST = 20_000
"""The first read takes this many of the latest suggestions and predicted waits; later reads take only new rows."""
MOST_NAMES = 30
"""For a new job name, memory is estimated from this many of the user's other job names, those whose jobs ended last."""
LATE_S = 900.0
"""Accounting reports a job's peak memory minutes after its end, so jobs that ended this recently are read again."""


class Like(NamedTuple):
    """The request by which the last similar job is found. `written_kib` is the memory per node that the user
    requested.
    """

    user: str
    partition: str
    name: str
    procs: float
    limit: float
    written_kib: float = math.nan


@dataclass(slots=True)
class OtherNames:
    """The largest peak and request of memory per user and job name, which give the estimate for a new job name.

    A request is the value that clients reported since the service began, or the recorded request, whichever is larger.
    If the recorded request was itself a suggestion, the share of the request that jobs used is overestimated, and so is
    the next suggestion. Therefore suggestions cannot shrink from job to job.
    """

    held: dict[str, dict[str, float]] = field(default_factory=dict)
    asked: dict[str, dict[str, float]] = field(default_factory=dict)
    written: dict[str, dict[str, float]] = field(default_factory=dict)
    until: float = -1e300

    def learn(self, reader: Reader, cluster: str) -> None:
        """Add the memory peaks that accounting has reported since the last call."""
        from ...predict.namesakes import TWICE

        for row in reversed(reader.ask("peaks_since", cluster=cluster, after=self.until - LATE_S, most=MOST)):
            self.until = max(self.until, row["end_time"])
            asked, held = asked_a_node(row), node_peak(row)
            if row["status"] == OUT_OF_MEMORY:
                held = TWICE * (held if held > asked else asked)
            _largest(self.held, row["user_id"], row["job_name"], held)
            _largest(self.asked, row["user_id"], row["job_name"], asked)

    def wrote(self, like: Like) -> None:
        """Record the memory that a user requested for a job name. Only this user may report the amount, because
        suggestions use it.
        """
        if like.name and like.user in self.held:
            _largest(self.written, like.user, like.name, like.written_kib)

    def request(self, like: Like, rules: Rules, partition: Mapping[str, Any]) -> float | None:
        """Return a request (KiB per node) for a job name with too few ended jobs, from the user's other job names, or
        None.
        """
        from ...predict.namesakes import share_for_new

        if not (like.name and like.written_kib > 0):
            return None
        held, asked, written = (table.get(like.user, {}) for table in (self.held, self.asked, self.written))
        others = [(held[name], max(asked.get(name, 0.0), written.get(name, 0.0))) for name in held if name != like.name]
        share = share_for_new([peak / request for peak, request in others if request > 0], RISK)
        if math.isnan(share):
            return None
        wanted = SAMPLING_MARGIN * max(share * like.written_kib, held.get(like.name, 0.0))
        most = partition.get("node_mem_kib") or math.inf
        return min(rounded_request(wanted, rules.memory_floor, rules.memory_step, most), like.written_kib)


def _largest(table: dict[str, dict[str, float]], user: str, name: str, amount: float) -> None:
    """Store the largest amount for each of the user's last `MOST_NAMES` job names."""
    if amount > 0:
        of_user = table.setdefault(user, {})
        of_user[name] = max(of_user.pop(name, 0.0), amount)
        if len(of_user) > MOST_NAMES:
            del of_user[next(iter(of_user))]


@dataclass(slots=True)
class Hints:
    """The last suggestion and predicted wait for each kind of request. A user's own jobs come before other
    users' jobs.
    """

    rules: Rules
    last_id: int = 0
    tables: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    others: OtherNames = field(default_factory=OtherNames)

    def learn(self, reader: Reader, cluster: str, memory: Mapping[str, Any]) -> None:
        """Add the predictions and suggestions that were stored since the last call."""
        first = {f"{kind}_method": (memory.get(f"{kind}_methods") or [""])[0] for kind in ("limit", "memory")}
        asked = {**first, "wait_method": answering_method(dict(memory)), "most": MOST}
        self.others.learn(reader, cluster)
        rows = reader.ask("issued_since", cluster=cluster, after=self.last_id, **asked)
        for row in reversed(rows):
            self.last_id = max(self.last_id, row["id"])
            own_name = row["kind"] == "limit" and row["basis"] == BY_NAME
            keys = _wait_keys(row) if row["kind"] == "wait" else _limit_keys(row)
            self.tables[row["kind"]].update(dict.fromkeys(keys[:1] if own_name else keys, row))

    def about(self, like: Like, now: float, partition: Mapping[str, Any]) -> dict[str, Any]:
        """Return the limit and memory suggested for the last similar job, and when such a job would start.

        Limit and memory come only from the user's own jobs with the same partition and number of processors. A job of
        the same name takes precedence; memory, and a limit that was learned from jobs of one name, require the same
        name. Memory for a new job name is estimated from the user's other job names, if the user requested an amount.
        Raises NoAnswer if there is no limit, no memory and no start time.
        """
        asked = {"user_id": like.user, "partition_id": like.partition, "job_name": like.name, "req_procs": like.procs}
        own = like.limit if like.limit > 0 else math.inf
        limit, its = _first(
            self.tables["limit"],
            _limit_keys(asked),
            lambda row: advised_limit(as_prediction(row), own, self.rules, partition),
        )
        held, whose = _first(self.tables["request"], _limit_keys(asked)[:1], lambda row: row["point_s"])
        if held is None:
            held = self.others.request(like, self.rules, partition)
        wait, which = _first(self.tables["wait"], _wait_keys(asked), _wait)
        if limit is None and wait is None and held is None:
            hint = "predictions start after a few such jobs have ended"
            raise NoAnswer("too few similar jobs have ended so far", hint=hint)
        likely, by_90 = wait if wait is not None else (math.nan, math.nan)
        return {
            "limit_s": limit,
            "limit_like": its and its["job_id"],
            "memory_kib": held,
            "memory_like": whose and whose["job_id"],
            "likely_start_s": now + likely,
            "by_90_start_s": now + by_90,
            "start_like": which and (which["job_id"] if which["user_id"] == like.user else OfOthers(which["job_id"])),
        }


def _limit_keys(row: Row | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the kinds of request whose suggestions apply to a job, the most similar first."""
    own = (row["user_id"], row["partition_id"], row["req_procs"])
    return [(*own, row["job_name"]), own]


def _wait_keys(row: Row | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the kinds of request whose predicted waits apply to a job, the most similar first."""
    return [*_limit_keys(row), (row["partition_id"], row["req_procs"]), (row["partition_id"],)]


def _wait(row: Row) -> tuple[float, ...] | None:
    """Return the likely wait and its 90 % bound (s); None without a prediction."""
    if row["point_s"] is None or row["grounds"] == NOTHING:
        return None
    return spread_of(as_prediction(row))[::2]


def _first(
    table: Mapping[tuple[Any, ...], Row], keys: Sequence[tuple[Any, ...]], value: Callable[[Row], Any]
) -> tuple[Any, Row | None]:
    """Return the value of the first of these keys that has a value, and its row; (None, None) if no key has a value."""
    for key in keys:
        if key in table and (known := value(table[key])) is not None:
            return known, table[key]
    return None, None


@dataclass(slots=True)
class QueueSnapshot:
    """The waiting jobs of one cluster with their predictions, and the track record of each partition, in memory."""

    cluster: str
    memory: dict[str, Any]
    rows: list[Row]
    records: Mapping[RecordKey, TrackRecord]
    version: object
    hints: Hints
    by_id: defaultdict[str, list[Row]] = field(init=False, default_factory=lambda: defaultdict(list))
    by_user: defaultdict[str, list[Row]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for row in self.rows:
            job_id = str(row["job_id"])
            for name in {job_id, job_id.partition("_")[0]}:
                self.by_id[name].append(row)
            self.by_user[row["user_id"] or ""].append(row)

    def waiting(self, ids: Sequence[str], user: str | None) -> list[Row]:
        """Return waiting jobs by id or user, in the order of `Reader.waiting`."""
        if not ids:
            return self.rows if user is None else self.by_user.get(user, [])
        rows = {row["row"]: row for job_id in ids for row in self.by_id.get(job_id, ())}
        chosen = [row for row in rows.values() if user is None or row["user_id"] == user]
        return sorted(chosen, key=lambda row: (row["submit_time"], row["row"]))
