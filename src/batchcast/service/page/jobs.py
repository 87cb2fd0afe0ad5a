# SPDX-License-Identifier: Apache-2.0
"""The data of the pages *My jobs* and *Try a script*: when jobs start and end, as probability bars over the coming
hours.

A bar shows by when an event has happened with a probability of 10, 50 and 90 %. The privacy rules are in
`answers.disclosure`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import NoAnswer, UsageError
from ...formats.slurm.sbatch import Request, as_request, parse_script
from ...job import JobRequest
from ...predict.protocol import Prediction
from ...store.packed import Packed
from ...store.reader import Row
from ...store.rows import as_prediction, newest
from ...units import format_duration, parse_duration
from ..answers import track_record
from ..answers.answer import Sentence, age_of, staleness
from ..answers.disclosure import Site, Viewer, Whose, open_site
from ..answers.forecaster import begin_condition, forecaster, job_of, never_starts
from ..answers.questions import NOT_YET, answer_of_waiting
from ..answers.script import earliest, placements, script_advice
from ..answers.start import basis_of, release, spread_of, time_limit
from ..answers.track_record import RecordKey, TrackRecord
from ..answers.usage import advise_requests, figures_of, summary
from ..settings import Settings

SCALES_H = (1, 2, 3, 6, 12, 24, 48, 72, 168)


class Chances(NamedTuple):
    """The instants (epoch seconds) by which an event has happened with a probability of 10, 50 and 90 %; infinite if
    the prediction does not reach this level.
    """

    by_10: float
    by_50: float
    by_90: float


UNKNOWN = Chances(math.nan, math.nan, math.nan)


def of_forecast(row: Mapping[str, Any], since: float, now: float) -> Chances:
    """Return the instants for a wait or run that began at `since` and still lasts now, from a stored prediction."""
    row = newest(row)
    return UNKNOWN if row.get("point_s") is None else _chances_of(as_prediction(row), since, max(now - since, 0.0))


def _chances_of(prediction: Prediction, since: float, waited: float = 0.0) -> Chances:
    """Return the instants for a prediction of a wait or run that began at `since` and has lasted `waited` seconds."""
    likely, early, late = spread_of(prediction, waited)
    return Chances(since + early, since + likely, since + late)


class Axis(NamedTuple):
    """A time axis of the coming hours after `now`. A tick is (share of the width, instant)."""

    now: float
    hours: float
    ticks: list[tuple[float, float]]

    def position(self, instant: float) -> float:
        """Return the position of an instant in thousandths of the width, limited to the axis."""
        return round(1000 * min(max((instant - self.now) / (3600 * self.hours), 0.0), 1.0), 1)

    def bar(self, chances: Chances) -> dict[str, float] | None:
        """Return the positions of a bar at 10 % (`a`), 50 % (`b`) and 90 % (`c`); None if the instants are unknown.

        If the prediction does not reach 90 % within the axis, the bar runs to the edge and `open` is 1.
        """
        low, middle, high = chances
        if middle != middle or (math.isinf(middle) and not math.isfinite(low)):
            return None
        low = self.now if low != low else low
        end = self.hours * 3600 + self.now
        high = end if high != high or math.isinf(high) else high
        shown = {"a": self.position(low), "b": self.position(min(middle, end)), "c": self.position(high)}
        return {**shown, "open": float(high >= end or math.isinf(middle))}


def axis(now: float, all_chances: Iterable[Chances]) -> Axis:
    """Return an axis that contains nine of ten medians and three of four 90 % instants, in round steps, and at most a
    week.

    So a job that starts next week does not squeeze all other bars into a corner; its bar runs to the edge.

    >>> axis(0.0, [Chances(60.0, 3600.0, 9000.0)]).hours
    3
    """
    shown = list(all_chances)
    middles = sorted(c.by_50 - now for c in shown if math.isfinite(c.by_50))
    ends = sorted(c.by_90 - now for c in shown if math.isfinite(c.by_90))
    longest = max([3600.0, *middles[: math.ceil(0.9 * len(middles))], *ends[: math.ceil(0.75 * len(ends))]]) / 3600
    hours = next((scale for scale in SCALES_H if scale >= longest), SCALES_H[-1])
    step = {1: 0.25, 2: 0.5, 3: 0.5, 6: 1, 12: 2, 24: 4, 48: 8, 72: 12, 168: 24}[hours]
    ticks = [(k * step / hours, now + 3600 * k * step) for k in range(round(hours / step) + 1)]
    return Axis(now, hours, ticks)


DAYS = 7
MOST = 300
MOST_LINES = 25


def my_jobs(
    settings: Settings, user: str, viewer: Viewer, now: float, records: Mapping[RecordKey, TrackRecord] | None = None
) -> dict[str, Any]:
    """Return the data of the page *My jobs* about one user. `records` are the track records in memory.

    Raises Refused if the viewer may not see this user's jobs.
    """
    with open_site(settings, viewer, now) as site:
        site.check_may_see(user)
        waiting = _waiting(site, user)
        method = (site.memory.get("runtime_methods") or [""])[0]
        running = site.reader.ask("running_now", cluster=site.cluster, method=method, user=user)[:MOST]
        finished = site.used(Whose(user), now - DAYS * 86400, math.inf, 1)
        shared = axis(now, [bar["chances"] for bar in waiting])
        capped = [_capped(row, of_forecast(row, row["start_time"], now)) for row in running]
        # running jobs have a separate axis, because they may end within hours while others wait for days
        until = axis(now, capped)
        pending = records is not None and (None, site.least) not in records
        lines = _together(waiting, shared)
        finite = [bar["chances"] for bar in waiting if math.isfinite(bar["chances"].by_50)]
        first = min(finite, key=lambda chances: chances.by_50, default=UNKNOWN)
        return {
            "user": user,
            "now": now,
            "cluster": site.cluster,
            "axis": shared,
            "running_axis": until,
            "waiting": lines[:MOST_LINES],
            "waiting_more": sum(line["count"] for line in lines[MOST_LINES:]),
            "bases": list(dict.fromkeys(bar["basis"] for bar in waiting))[:8],
            "waiting_count": len(waiting),
            "running": [_running(row, end, until) for row, end in zip(running, capped)][:MOST_LINES],
            "running_count": len(running),
            "finished": _finished(settings, finished),
            "finished_count": len(finished),
            "limit_used": figures_of(finished)["limit_used_share"],
            "next": first.by_50,
            "next_90": first.by_90,
            "record": track_record.record_of(site, None, records),
            "record_pending": pending,
            "stale": [*(staleness(site.memory, now) or age_of(waiting, now)), *([NOT_YET] if pending else [])],
        }  # fmt: skip


def _waiting(site: Site, user: str) -> list[dict[str, Any]]:
    """Return the user's waiting jobs with their answers, and with the earlier answers as a drawing."""
    now = site.now
    rows = site.reader.waiting(site.cluster, track_record.answering_method(site.memory), (), user)[:MOST]
    before: defaultdict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for move in site.reader.ask("moves", cluster=site.cluster, user=user):
        by_90 = math.inf if move["by_90_start"] is None else move["by_90_start"]
        before[move["row"]].append((move["as_of"], move["likely_start"], by_90))
    lines = []
    for row in rows:
        answer = site.disclosed(answer_of_waiting(row, site.memory, now, release(site, row)))
        answers = [*before[row["row"]], (now, answer["likely_start_s"], answer["by_90_start_s"])]
        drawn = {"track": _track(answers) if answer["counts_from"] == "submission" else None, "procs": row["req_procs"]}
        lines.append({**answer, "chances": _chances(row, answer, now), **drawn})
    return lines


def _track(answers: Sequence[tuple[float, float, float]]) -> dict[str, Any] | None:
    """Return how the likely and the 90 % start have moved, as steps in a box of 1000 by 100; higher means later.

    The result is None if the predicted start has not moved yet.

    >>> _track([(0.0, 600.0, 900.0), (300.0, 300.0, 900.0), (400.0, 300.0, 900.0)])["likely"]
    '0.0,50.0 750.0,50.0 750.0,100.0 1000.0,100.0'
    """
    known = [one for one in answers if all(math.isfinite(x) for x in one)]
    if len(known) < 3:  # the present answer comes last, even if it has not moved
        return None
    first, last = known[0][0], known[-1][0]
    low, high = min(likely for _, likely, _ in known), max(by_90 for *_, by_90 in known)

    def steps(which: int) -> str:
        points, before = [], None
        for one in known:
            x = 1000.0 * (one[0] - first) / max(last - first, 1.0)
            y = 100.0 * (high - one[which]) / max(high - low, 1.0)
            points += [(x, before), (x, y)] if before is not None and before != y else [(x, y)]
            before = y
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)

    return {"likely": steps(1), "by_90": steps(2), "since": first, "low": low, "high": high}


def _chances(row: Row, answer: Mapping[str, Any], now: float) -> Chances:
    """Return the instants of the prediction if the job waits for the machine; otherwise the instants in the answer."""
    exact = of_forecast(row, row["submit_time"], now) if answer["counts_from"] == "submission" else UNKNOWN
    return Chances(exact.by_10, answer["likely_start_s"], answer["by_90_start_s"])


def _together(waiting: Sequence[dict[str, Any]], shared: Axis) -> list[dict[str, Any]]:
    """Combine jobs with equal name, partition, size and reason into one line each; lines are in order of likely starts.

    A line has the answer of its first job, `count`, the median and the last likely start, and `parts`. A part has the
    `ids` of the jobs of one array with equal answers. Jobs without a name are combined only within their array.
    """
    groups: dict[tuple[Any, ...], dict[tuple[Any, ...], dict[str, Any]]] = {}
    for one in waiting:
        array = one["job_id"].partition("_")[0]
        kind = (one["name"] or array, one["partition"], one["procs"], one["reason"])
        same = (array, *(round(x, -1) if math.isfinite(x) else str(x) for x in one["chances"]))
        part = groups.setdefault(kind, {}).setdefault(same, {**one, "ids": [], "bar": shared.bar(one["chances"])})
        part["ids"].append(one["job_id"])
    lines = []
    for each in groups.values():
        parts = sorted(each.values(), key=_likely)
        starts = [_likely(part) for part in parts for _ in part["ids"]]
        lines.append({
            **parts[0], "parts": parts, "count": len(starts), "middle": starts[(len(starts) - 1) // 2],
            "last": starts[-1],
        })  # fmt: skip
    return sorted(lines, key=_likely)


def _likely(one: Mapping[str, Any]) -> float:
    """Return the likely start of a waiting job, to sort by; infinity if it is unknown."""
    start = one["chances"].by_50
    return start if math.isfinite(start) else math.inf


def _capped(row: Row, end: Chances) -> Chances:
    """Limit the instants of a job's end to the end of its time limit (NaN without a limit and a prediction)."""
    last = row["start_time"] + time_limit(row)
    return Chances(*((last if math.isfinite(last) else math.nan) if t != t else min(t, last) for t in end))


def _running(row: Row, end: Chances, until: Axis) -> dict[str, Any]:
    """Return one running job for the page, with its bar."""
    limit = time_limit(row)
    last = row["start_time"] + limit
    return {
        "job_id": row["job_id"], "name": row["job_name"], "partition": row["partition_id"], "procs": row["req_procs"],
        "started": row["start_time"], "elapsed": until.now - row["start_time"], "limit": limit, "last": last,
        "chances": end, "bar": until.bar(end), "last_at": until.position(last) if math.isfinite(last) else None,
    }  # fmt: skip


def _finished(settings: Settings, rows: Packed) -> list[dict[str, Any]]:
    """Return finished jobs by name: first the names with a suggestion, then the names with the most processor-hours."""
    advised = advise_requests(rows, settings["limit_floor"], settings["limit_step"])
    largest = {one["job_name"]: one for one in reversed(advised)}  # the first suggestion has the largest waste
    lines = [{**one, "advice": largest.get(one["job_name"])} for one in summary(rows, "job_name")]
    return sorted(lines, key=lambda one: one["advice"] is None)[:20]


FIELDS = ("partition", "time", "nodes", "ntasks", "cpus-per-task", "mem")
MOST_CHARACTERS = 200_000
MOST_PLACEMENTS = 12


def request_of_form(form: Mapping[str, str]) -> Request:
    """Return the sbatch options in the form: the script's #SBATCH lines, and the filled-in fields, which
    replace them.
    """
    script = form.get("script", "")
    if len(script) > MOST_CHARACTERS:
        raise UsageError(f"a script of {len(script)} characters (accepted: up to {MOST_CHARACTERS})")
    return parse_script(script).replaced({name: form[name].strip() for name in FIELDS if form.get(name, "").strip()})


def request_of_job(settings: Settings, job_id: str, viewer: Viewer) -> Request:
    """Return the request of a stored job. Raises Refused if this viewer may not see the job."""
    with open_site(settings, viewer, math.inf) as site:
        row = next(iter(site.reader.ask("latest", cluster=site.cluster, job_id=job_id)), None)
        # a viewer who may not see a job gets the same answer as for a job that does not exist
        site.check_may_see(None if row is None else row["user_id"])
        if row is None:
            raise NoAnswer(f"job {job_id[:40]} is not in the store", hint="a job just submitted appears in a minute")
    known = {"partition": row["partition_id"], "ntasks": row["req_procs"] and f"{row['req_procs']:g}",
             "time": row["req_time"] and math.isfinite(row["req_time"]) and format_duration(row["req_time"]),
             "job-name": row["job_name"], "account": row["account"], "qos": row["qos"], "constraint": row["constraint"],
             "nodes": (row["req_nodes"] or 0) > 1 and f"{row['req_nodes']:g}"}  # fmt: skip
    whole = {"exclusive": ""} if (row["exclusive"] or 0) > 0 else {}
    return Request({name: str(value) for name, value in known.items() if value} | whole)


def try_script(settings: Settings, request: Request, viewer: Viewer, now: float) -> dict[str, Any]:
    """Return the predicted starts with this request, and with variants of size, limit and partition, the earliest
    first.
    """
    with open_site(settings, viewer, now) as site:
        clock = forecaster(site)
        job, own = earliest(site, request, clock)
        reason, begin = begin_condition(request, now)
        base = _chances_of(own, begin or now)
        variants: list[dict[str, Any]] = []
        for what, changed in _variants(site, request, job):
            asked = job_of(changed, site)
            if not never_starts(site, changed, asked, clock.machine):
                c = _chances_of(clock.wait(asked), begin or now)
                variants.append(
                    {"what": what, "options": changed.options, "chances": c, "sooner": base.by_50 - c.by_50}
                )
        shared = axis(now, [base, *(one["chances"] for one in variants)])
        held = {"JobHeldUser": "held by its owner (scontrol release frees it)",
                "Dependency": "waiting for another job it depends on"}  # fmt: skip
        advised = script_advice(site, request, clock, job)
        notes = [Sentence(NOT_HEARD, options=", ".join(ignored))] if (ignored := request.not_heard) else []
        where = site.disclosed(placements(site, request, clock))
        return {
            "ways": [{**one, "memory": as_request(kib) if (kib := one["memory_kib"]) == kib else ""}
                     for one in where[:MOST_PLACEMENTS]],
            "advised": {**advised, "likely_memory": as_request(advised["likely_memory_kib"] or 0.0)},
            "answer": {"chances": base, "bar": shared.bar(base), "basis": site.disclosed(basis_of(own)),
                       "partition": job.partition_id, "procs": job.procs, "limit": job.req_time,
                       "held": held.get(reason, ""), "begin": begin},
            "variants": [{**one, "bar": shared.bar(one["chances"])}
                         for one in sorted(variants, key=lambda one: one["chances"].by_50)],
            "axis": shared, "record": track_record.record_of(site, str(job.partition_id)), "cluster": site.cluster,
            "now": now, "stale": [*staleness(site.memory, now), *notes],
        }  # fmt: skip


NOT_HEARD = "ignored: %(options)s"


def _variants(site: Site, request: Request, job: JobRequest) -> list[tuple[tuple[str, str], Request]]:
    """Return variants of a request with one changed option: (option, new value), and the request of the variant."""
    variants: list[tuple[tuple[str, str], Request]] = []
    limit = job.req_time
    if math.isfinite(limit):
        for share in (0.5, 0.25):
            shorter = format_duration(max(60.0 * round(share * limit / 60), 60.0))
            if parse_duration(shorter) < limit:
                variants.append((("--time", shorter), request.replaced({"time": shorter})))
    nodes = request.nodes
    if request.procs >= 2:
        smaller = {k: v for k, v in request.options.items() if k not in ("nodes", "ntasks", "ntasks-per-node")}
        half = str(max(int(request.procs // (2 * request.task_procs)), 1))
        fewer = {"nodes": f"{nodes // 2:g}"} if nodes >= 2 else {}
        variants.append((("--ntasks", half), Request({**smaller, "ntasks": half, **fewer})))
    for name, limits in site.partitions.items():
        if name != job.partition_id and not limit > (limits.get("max_time_s") or math.inf):
            variants.append((("--partition", name), request.replaced({"partition": name})))
    return variants[:10]
