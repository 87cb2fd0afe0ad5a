# SPDX-License-Identifier: Apache-2.0
"""Answers users' questions from a store, for the command line and the HTTP API, under the same privacy rules.

If the site hides jobs, users get answers about their own jobs, and figures over at least `least_users` users. Callers
without an identity get only these figures. Root and the user who runs the service get all answers.

Slurm's plugin `job_submit.lua` delays a submission until a hint arrives, so hints (`hint`) come from memory: they read
no file and compute no prediction. A hint repeats the stored suggestion for the user's last similar job. The collector
predicts the new job itself later.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...columns import OUT_OF_MEMORY
from ...errors import NoAnswer, Refused
from ...formats.slurm.reasons import Rule, rule
from ...formats.slurm.sbatch import Request
from ...predict.recommend import BY_NAME, rounded_request
from ...store.reader import Reader, Row
from ...store.rows import NOTHING, as_prediction, asked_a_node, node_peak
from ...units import span
from ..settings import Settings, is_private
from . import track_record
from .accuracy import LIMIT, MEMORY, advice_record, calibration_verdicts
from .accuracy import accuracy as scores
from .advice import RISK, SAMPLING_MARGIN, Rules, advise, advised_limit, with_limits_of_walltime
from .answer import Answer, Sentence, age_of, default_partition, of_partition, staleness
from .disclosure import OfOthers, Site, Viewer, Whose, disclosed, may_show, open_site, rounded, whole_days
from .fair_share import pass_fields
from .start import Release, latest_start, release, spread_of, start_answer, start_settings
from .track_record import Records

NOT_YET = Sentence("the accuracy of such predictions is being computed: ask again in a minute")


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

    peaks_kib: dict[str, dict[str, float]] = field(default_factory=dict)
    requests_kib: dict[str, dict[str, float]] = field(default_factory=dict)
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
            _largest(self.peaks_kib, row["user_id"], row["job_name"], held)
            _largest(self.requests_kib, row["user_id"], row["job_name"], asked)

    def wrote(self, job: Like) -> None:
        """Record the memory that a user requested for a job name. Only this user may report the amount, because
        suggestions use it.
        """
        if job.name and job.user in self.peaks_kib:
            _largest(self.written, job.user, job.name, job.written_kib)

    def request(self, job: Like, rules: Rules, partition: Mapping[str, Any]) -> float | None:
        """Return a request (KiB per node) for a job name with too few ended jobs, from the user's other job names, or
        None.
        """
        from ...predict.namesakes import share_for_new

        if not (job.name and job.written_kib > 0):
            return None
        tables = self.peaks_kib, self.requests_kib, self.written
        held, asked, written = (table.get(job.user, {}) for table in tables)
        others = [(held[name], max(asked.get(name, 0.0), written.get(name, 0.0))) for name in held if name != job.name]
        share = share_for_new([peak / request for peak, request in others if request > 0], RISK)
        if math.isnan(share):
            return None
        wanted = SAMPLING_MARGIN * max(share * job.written_kib, held.get(job.name, 0.0))
        most = partition.get("node_mem_kib") or math.inf
        return min(rounded_request(wanted, rules.memory_floor, rules.memory_step, most), job.written_kib)


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
    other_names: OtherNames = field(default_factory=OtherNames)

    def learn(self, reader: Reader, cluster: str, memory: Mapping[str, Any]) -> None:
        """Add the predictions and suggestions that were stored since the last call."""
        first = {f"{kind}_method": (memory.get(f"{kind}_methods") or [""])[0] for kind in ("limit", "memory")}
        asked = {**first, "wait_method": track_record.answering_method(dict(memory)), "most": MOST}
        self.other_names.learn(reader, cluster)
        rows = reader.ask("issued_since", cluster=cluster, after=self.last_id, **asked)
        for row in reversed(rows):
            self.last_id = max(self.last_id, row["id"])
            own_name = row["kind"] == "limit" and row["basis"] == BY_NAME
            keys = _wait_keys(row) if row["kind"] == "wait" else _limit_keys(row)
            self.tables[row["kind"]].update(dict.fromkeys(keys[:1] if own_name else keys, row))

    def about(self, job: Like, now: float, partition: Mapping[str, Any], hidden: bool = False) -> dict[str, Any]:
        """Return the limit and memory suggested for the last similar job, and when such a job would start.

        Limit and memory come only from the user's own jobs with the same partition and number of processors. A job of
        the same name takes precedence; memory, and a limit that was learned from jobs of one name, require the same
        name. Memory for a new job name is estimated from the user's other job names, if the user requested an amount.
        With `hidden` the start time comes from the user's own jobs only too: the start of a job of every size, asked
        one size after the other, would tell the sizes of other users' jobs. Raises NoAnswer if there is no limit, no
        memory and no start time.
        """
        asked = {"user_id": job.user, "partition_id": job.partition, "job_name": job.name, "req_procs": job.procs}
        own = job.limit if job.limit > 0 else math.inf

        def limit_of(row: Row) -> float | None:
            return advised_limit(as_prediction(row), own, self.rules, partition)

        limit, its = _first(self.tables["limit"], _limit_keys(asked), limit_of)
        held, whose = _first(self.tables["request"], _limit_keys(asked)[:1], lambda row: row["point_s"])
        if held is None:
            held = self.other_names.request(job, self.rules, partition)
        wait, which = _first(self.tables["wait"], _wait_keys(asked)[: 3 if hidden else None], _wait)
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
            "start_like": which and (which["job_id"] if which["user_id"] == job.user else OfOthers(which["job_id"])),
        }


def _limit_keys(row: Row | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the kinds of request whose suggestions apply to a job, the most similar first."""
    own = (row["user_id"], row["partition_id"], row["req_procs"])
    return [(*own, row["job_name"]), own]


def _wait_keys(row: Row | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the kinds of request whose predicted waits apply to a job, the most similar first; three are of the
    user's own jobs."""
    own = (row["user_id"], row["partition_id"])
    return [*_limit_keys(row), own, (row["partition_id"], row["req_procs"]), (row["partition_id"],)]


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
    records: Records
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


def start_from_store(
    settings: Settings, ids: Sequence[str], user: str | None, viewer: Viewer, now: float, records: Records | None = None
) -> Answer:
    """Predict when waiting jobs start, selected by id, by user, or by both. Raises NoStore if there is no collector.

    Track records in `records` are reused, because computing one reads a month of predictions.
    """
    with open_site(settings, viewer, now) as site:
        if user is not None or viewer.name is None:
            site.check_may_see(user)
        method = track_record.answering_method(site.memory)
        rows = site.reader.waiting(site.cluster, method, ids, user)
        if site.private:
            rows = [row for row in rows if row["user_id"] == viewer.name]
        if not rows:
            raise _not_waiting(site, ids, user)
        if records is None:
            parts = {row["partition_id"] for row in rows}
            records = {(part, site.least): track_record.record_of(site, part) for part in parts}
        return _of_waiting(site, rows, [release(site, row) for row in rows], records)


def start_from_snapshot(
    settings: Settings, queue: QueueSnapshot, ids: Sequence[str], user: str | None, viewer: Viewer, now: float
) -> Answer | None:
    """Answer from the queue in memory; None if the answer needs the store, to explain a refusal or a wait."""
    hidden = is_private(settings, queue.memory) and not viewer.sees_all
    if hidden and (user is not None or viewer.name is None) and viewer.name != user:
        return None
    store_stays_closed: Any = None
    site = Site(store_stays_closed, queue.cluster, queue.memory, hidden, settings, viewer, now)
    rows = [row for row in queue.waiting(ids, user) if not hidden or row["user_id"] == viewer.name]
    # a limit that other jobs use up, and a reservation, can be explained only from the store
    if not rows or any(rule(row["reason"] or "") in (Rule.LIMIT, Rule.RESERVATION) for row in rows):
        return None
    return _of_waiting(site, rows, [None] * len(rows), queue.records)


def _of_waiting(site: Site, rows: Sequence[Row], holds: Sequence[Release | None], records: Records) -> Answer:
    """Return the answer about waiting jobs, each with the end of its hold (`holds`) and its partition's track record.

    If `records` does not have the track record of a partition yet, a warning says so.
    """
    now, results = site.now, []
    keys = [(row["partition_id"], site.least) for row in rows]
    for row, key, held in zip(rows, keys, holds):
        answer = answer_of_waiting(row, site.memory, now, held)
        record = track_record.record_fields(records.get(key, {}), answer["likely_wait_s"])
        results.append(site.disclosed({**answer, **record}))
    stale = staleness(site.memory, now) or age_of(results, now)
    if all(r["method"] is None for r in results):
        hint = f"the collector makes a prediction within one interval; {'; '.join(stale or ['it is up to date'])}"
        raise NoAnswer(f"there is no prediction for {', '.join(r['job_id'] for r in results[:5])} yet", hint=hint)
    unknown = (math.isnan(r["likely_wait_s"]) and r["grounds"] == NOTHING for r in results)
    if all(unknown) and all(rule(r["reason"]) in (Rule.MACHINE, Rule.ELIGIBLE) for r in results):
        raise NoAnswer(
            f"too little history on {site.cluster}: no job like {results[0]['job_id']} has started yet",
            hint="ask again when some jobs have started; batchcast start --start shows Slurm's own estimate",
        )
    notes = stale if all(key in records for key in keys) else [*stale, NOT_YET]
    return Answer({"cluster": site.cluster}, start_settings(site.settings, now), notes, results)


def answer_of_waiting(row: Row, memory: Mapping[str, Any], now: float, hold_end: Release | None) -> dict[str, Any]:
    """Return the answer about a waiting job, with the time when its priority exceeds those of the jobs before it."""
    start = start_answer(row, now, hold_end, latest_start(row, memory, now), memory.get("reservations") or [])
    return {**start, **pass_fields(memory, row["job_id"], now)}


def _not_waiting(site: Site, ids: Sequence[str], user: str | None) -> NoAnswer:
    """Return an error that says what happened to jobs that do not wait, as far as this viewer may see it."""
    if not ids:
        why = f"no job of {user} is waiting in {site.cluster}, as far as the collector knows"
        return NoAnswer(why, hint="a job just submitted appears within a minute")
    for row in (row for job_id in ids for row in site.reader.ask("latest_run", cluster=site.cluster, job_id=job_id)):
        if site.private and row["user_id"] != site.viewer.name:
            continue
        ago = span(max(site.now - row["start_time" if row["open"] else "end_time"], 0.0))
        doing, hint = f"it ended ({row['status']}) {ago} ago", "batchcast report shows what it used"
        if row["open"]:
            is_running, hint = row["state"] == "running", "squeue shows it"
            doing = f"it has run for {ago}" if is_running else f"it started {ago} ago and is {row['state']} now"
        return NoAnswer(f"job {row['job_id']} is not waiting: {doing}", hint=hint)
    return NoAnswer(
        f"job {', '.join(ids)} is not waiting in {site.cluster}, as far as the collector knows",
        hint="squeue shows whether it runs or has ended; a job just submitted appears within a minute",
    )


def walltime(
    settings: Settings,
    job: str | None,
    glob: str | None,
    user: str,
    viewer: Viewer,
    risk: float,
    now: float,
    request: Request | None = None,
) -> Answer:
    """Suggest a time limit and memory for the next similar job, with reasons.

    The job is given by `job` (id or path of a script), by a pattern of names (`glob`), or by the `request` of a script.
    """
    with open_site(settings, viewer, now) as site:
        return advise(site, job, glob, user, risk, request)


def hint(
    settings: Settings, cluster: str, memory: dict[str, Any], hints: Hints, job: Like, viewer: Viewer, now: float
) -> Answer:
    """Answer at a submission, from memory: limit, memory and likely start of a similar job. The user in the setting
    `submit_from` may ask on behalf of every user.
    """
    hidden = is_private(settings, memory) and not viewer.sees_all
    if hidden and viewer.name not in (job.user, settings["submit_from"]):
        raise Refused("jobs are private here", hint="hints about your own jobs")
    partition = job.partition or default_partition(memory)
    job = job._replace(partition=partition)
    if viewer.sees_all or viewer.name == job.user:
        hints.other_names.wrote(job)
    found = hints.about(job, now, of_partition(memory, partition), hidden)
    asked = {"partition_id": partition, "req_procs": job.procs, "expected_start": None}
    latest = latest_start(asked, memory, now)
    found |= {name: min(found[name], latest) for name in ("likely_start_s", "by_90_start_s")}
    return Answer({"cluster": cluster}, {"like": job._asdict()}, [], disclosed([found], hidden))


def accuracy(
    settings: Settings, since: float, until: float, partition: str | None, viewer: Viewer, now: float
) -> Answer:
    """Compare predictions made in [since, until), epoch seconds, with their outcomes, and judge their reliability."""
    with open_site(settings, viewer, now) as site:
        least = site.least
        if site.private:
            since, until = whole_days(since, until)
        results = scores(site, since, until, partition)
        if not results:
            why = f"no prediction of {site.cluster} in that time{f' by {least} users or more' if least > 1 else ''}"
            raise NoAnswer(why, hint="choose an earlier -S, or let the collector run a while")
        shown = {
            "store": settings.shown("store"),
            "starttime_s": since,
            "endtime_s": until,
            "partition": partition,
            "least_users": least,
            "belief": calibration_verdicts(site, partition),
            "arms": _arms(site, since, until) if partition is None else [],
            "who_pays": who_pays(site, since, until) if partition is None else [],
            "limits": advice_record(site, LIMIT, since, until, partition),
            "memory": advice_record(site, MEMORY, since, until, partition),
        }
        return site.answer(shown, results)


def _arms(site: Site, since: float, until: float) -> list[dict[str, Any]]:
    """Return the two arms of the planning trial. Without a trial the list is empty, and NumPy is not imported."""
    if not 0 < site.settings["plan_percent"] < 100:
        return []
    from ..planning.effects import arms

    return arms(site, since, until)


def who_pays(site: Site, since: float, until: float) -> list[dict[str, Any]]:
    """Return whose waits the planned order changes. Without a planned order the list is empty, and NumPy is not
    imported.
    """
    if site.settings["plan"] not in ("order", "both"):
        return []
    from ..planning.effects import who_pays as simulated

    return simulated(site, since, until)


def report(settings: Settings, selection: Whose, since: float, until: float, viewer: Viewer, now: float) -> Answer:
    """Return what finished jobs requested and used. The answer's setting `advice` has the suggestions."""
    with open_site(settings, viewer, now) as site:
        return report_of(site, selection, since, until)


def report_of(site: Site, selection: Whose, since: float, until: float) -> Answer:
    """Answer `report` from a store that is already open."""
    from .usage import advise_requests, summary

    settings, hidden = site.settings, site.private and selection.user is None
    if hidden and selection.account is not None:
        # Figures of a partition less those of an account would tell the jobs of the other accounts.
        hint = "figures of a partition (-p), or of your own jobs in the account (-u)"
        raise Refused("jobs are private here, and figures are by partition and day only", hint=hint)
    if selection.user is not None:
        site.check_may_see(selection.user)
    since, until = whole_days(since, until) if hidden else (since, until)
    least = settings["least_users"] if hidden else 1
    rows = site.used(selection, since, until, least)
    by = "partition_id" if hidden else "job_name" if selection.user else "user_id"
    if hidden and not may_show(rows, least):
        why = f"jobs are private here, and no complete day of that time has jobs of {least} users"
        raise NoAnswer(why, hint="choose an earlier -S, or ask for your own jobs")
    if not rows:
        why = f"no finished job of {selection.user or selection.account or selection.partition} in that time"
        raise NoAnswer(why, hint="an earlier -S, e.g. -S now-90days")
    results = summary(rows, by)
    if hidden:
        shown_names = {name or "-" for (name,), group in rows.grouped(by) if may_show(group, least)}
        results = [rounded(r) for r in results if r[by] in shown_names]
    advised = [] if hidden else advise_requests(rows, settings["limit_floor"], settings["limit_step"])
    shown = {
        "store": settings.shown("store"),
        **selection._asdict(),
        "starttime_s": since,
        "endtime_s": until,
        "by": by,
        "advice": [] if hidden else with_limits_of_walltime(site, advised) if selection.user else advised,
    }
    return site.answer(shown, results)
