# SPDX-License-Identifier: Apache-2.0
"""Suggests time limits and memory requests from predictions or from ended jobs, under the site's rules.

The same functions make the suggestions at each submission, which are stored and scored, and the suggestions that users
request. A user's request is answered from the finished jobs of a store that are similar to the next job.
"""

from __future__ import annotations

import fnmatch
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...columns import OUT_OF_MEMORY, SAME, is_copied
from ...errors import NoAnswer, Refused
from ...formats.slurm.sbatch import Request, as_request
from ...job import JobRequest
from ...predict.protocol import Grounds, Prediction, method_name
from ...predict.recommend import Advice, bound_at, recommend_limit, rounded_request, rule_of_thumb
from ...store.reader import Row
from ...store.rows import asked_a_node, live_job, node_peak
from ...units import format_duration, format_memory, span
from .answer import RISK as RISK
from .answer import Answer, Sentence, of_partition
from .disclosure import Site
from .track_record import JOB_ID

if TYPE_CHECKING:
    from .forecaster import Forecaster

ADVISED = "requests %(asked)s and usually runs %(ran)s: %(flag)s is advised for a job of %(procs)s processors"
"""The reason for a limit that `walltime` suggests, in a report."""
SAMPLING_MARGIN = 1.1
"""Memory use is sampled, so short peaks are missed: a suggestion is this factor above the measured bound."""


class Rules(NamedTuple):
    """A site's rules for suggestions: limits in seconds, memory in KiB per node."""

    limit_floor: float = 300.0
    limit_step: float = 300.0
    limit_most: float = math.inf
    memory_floor: float = 100.0 * 1024
    memory_step: float = 100.0 * 1024


BUILT_IN = Rules()


def rules_of(settings: Any) -> Rules:
    """Return the rules in the site's settings."""
    return Rules(*(settings[name] for name in Rules._fields))


def rests_on_jobs(forecast: Prediction) -> bool:
    """Return whether a prediction is based on more than the request itself."""
    return forecast.grounds not in (Grounds.LIMIT, Grounds.NO_HISTORY)


def advised_limit(advice: Prediction, own: float, rules: Rules, partition: Mapping[str, Any]) -> float | None:
    """Return the suggested limit in seconds; None if the prediction is based only on the limit itself.

    The limit is rounded up to the site's step and floor. The suggestion does not exceed the job's `own` limit unless
    the predicted bound does, and never exceeds the longest limit of the partition.

    >>> at_risk = Prediction(500.0, (0.95,), (500.0,), "", Grounds.CLASS)
    >>> advised_limit(at_risk, 3600.0, Rules(), {}), advised_limit(at_risk, 550.0, Rules(), {})
    (600.0, 550.0)
    >>> advised_limit(at_risk, 400.0, Rules(), {"max_time_s": 450.0})
    450.0
    """
    if not rests_on_jobs(advice):
        return None
    most = min(partition.get("max_time_s") or math.inf, rules.limit_most)
    limit = rounded_request(advice.point, rules.limit_floor, rules.limit_step, most)
    return min(limit, own) if advice.point <= own else limit


def advised_memory(forecast: Prediction, risk: float, rules: Rules, partition: Mapping[str, Any]) -> float | None:
    """Return the suggested memory per node in KiB; None if the prediction is based only on the request.

    The suggestion is the predicted upper bound at this risk, plus a tenth because accounting samples memory use and
    misses short peaks. The suggestion is rounded up to the site's step and floor, and does not exceed the memory of the
    partition's largest node. If the prediction has no quantiles, the suggestion is the point prediction, without the
    added tenth.

    >>> like = Prediction(50.0, (0.5, 0.95), (50.0, 100e3), "", Grounds.CLASS)
    >>> [advised_memory(like, 0.05, Rules(), node) for node in ({}, {"node_mem_kib": 105e3})]
    [204800.0, 105000.0]
    """
    if not rests_on_jobs(forecast):
        return None
    wanted = SAMPLING_MARGIN * bound_at(forecast, 1.0 - risk) if forecast.levels else forecast.point
    most = partition.get("node_mem_kib") or math.inf
    return rounded_request(wanted, rules.memory_floor, rules.memory_step, most)


def reaches_risk(forecast: Prediction, risk: float) -> bool:
    """Return whether the prediction has a bound for this risk."""
    return bool(forecast.levels) and 1.0 - risk <= forecast.levels[-1] + 1e-12


LEAST_JOBS = 5


class MemoryNeed(NamedTuple):
    """The memory that an ended job used and requested (KiB per node; NaN: unknown), and whether it ran out of it."""

    peak_kib: float
    request_kib: float
    ran_out: bool


def need_of(row: Mapping[str, Any]) -> MemoryNeed:
    """Return the memory need of an ended job. A job that ran out of memory used at least its request."""
    held, asked, out = node_peak(row), asked_a_node(row), row["status"] == OUT_OF_MEMORY
    return MemoryNeed(asked if out and asked == asked and not held > asked else held, asked, out)


def is_copied_in(needs: Sequence[Any]) -> bool:
    """Return whether accounting only repeats the requests of these jobs instead of measuring their memory."""
    same = sum(not need.ran_out and abs(need.peak_kib - need.request_kib) <= SAME * need.peak_kib for need in needs)
    return is_copied(same, len(needs))


def measured_memory(rows: Sequence[Mapping[str, Any]]) -> list[MemoryNeed] | None:
    """Return the memory needs of measured jobs. A job that ran out of memory needed more than its request.

    If the measurement equals the request in nine of ten jobs, accounting copies the request instead of measuring. Then
    the result is None. O(n).

    >>> row = {"used_mem_kib": 100.0, "alloc_nodes": 2.0, "req_mem_kib": 400.0, "req_nodes": 2.0, "status": "failed"}
    >>> needs = measured_memory([row, {**row, "status": "out_of_memory"}, {**row, "used_mem_kib": None}])
    >>> [(need.peak_kib, need.ran_out) for need in needs]
    [(50.0, False), (200.0, True)]
    """
    needs = [need for need in map(need_of, rows) if need.peak_kib > 0]
    return None if is_copied_in(needs) else needs


def request_for(needs: Sequence[Any], risk: float, rules: Rules, most: float = math.inf) -> Advice:
    """Return the memory request (KiB per node) that at most a share `risk` of jobs with these needs exceed, plus a
    tenth because memory use is sampled. `most` is the memory of the largest node.
    """
    peaks, ran_out = [need.peak_kib * SAMPLING_MARGIN for need in needs], [need.ran_out for need in needs]
    return recommend_limit(peaks, ran_out, risk, floor=rules.memory_floor, step=rules.memory_step, most=most)


class Needs(NamedTuple):
    """The words of sentences about similar jobs, for run times or for memory."""

    counted: str
    within: str
    cut: str
    how: str
    most: str
    bound: str


TIME = Needs("finished", "ran {} or less", "were ended at their time limit", "how long", "the longest", "end within {}")
MEMORY = Needs("measured", "used {} per node or less", "ran out of memory", "how much", "the most", "use {} or less")


def similar_words(advice: Advice, needs: Needs, alike: str, risk: float, say: Callable[[float], str]) -> str:
    """Return a sentence that explains a suggestion by what similar jobs needed."""
    jobs = f"{advice.jobs} {needs.counted} jobs of {alike}"
    if advice.reached:
        return f"{1 - risk:.0%} of your last {jobs} {needs.within.format(say(advice.quantile_s))}"
    above = f"The suggestion is a quarter above {needs.most}"
    if advice.cut:
        return f"{advice.cut} of your last {jobs} {needs.cut}, so it is unknown {needs.how} they need. {above}"
    return f"{jobs} are too few for a {risk:.0%} bound. {above}, {say(advice.longest_s)}"


def forecast_words(forecast: Prediction, method: str, needs: Needs, risk: float, bound: str) -> str:
    """Return a sentence that explains a suggestion by the bound that `method` predicts."""
    if reaches_risk(forecast, risk):
        return f"{method}: {1 - risk:.0%} of similar jobs {needs.bound.format(bound)} ({forecast.basis})"
    return f"{method} has no bound for a risk as small as {risk:.1%}. The suggestion is its highest bound, {bound}"


RECENT = 10
"""Number of the latest jobs from which the rule of thumb is computed."""


class Similar(NamedTuple):
    """Ended jobs that are similar to the next job, the latest first; what they have in common, in words; the name of
    the partition; and the share of jobs that a suggestion may cut off.
    """

    rows: Sequence[Row]
    alike: str
    partition: str | None
    risk: float


def advise_limit(
    site: Site, similar: Similar, job: JobRequest | None = None, forecast: Prediction | None = None, method: str = ""
) -> dict[str, Any]:
    """Return the suggested time limit as fields of an answer.

    The suggestion comes from the `forecast` of `method` for the next job (`job`), as the collector would store it if
    the job were submitted now. Without a forecast, the suggestion comes from the similar finished jobs.
    """
    rows, alike, partition, risk = similar
    rules, runs = rules_of(site.settings), [row["end_time"] - row["start_time"] for row in rows]
    thumb = rule_of_thumb(runs[:RECENT])
    rule = f"the rule of thumb, 1.25 x the longest of the last {RECENT}, gives {span(thumb)}"
    most = min(of_partition(site.memory, partition).get("max_time_s") or math.inf, rules.limit_most)
    cut = [row["status"] == "timeout" for row in rows]
    advice = recommend_limit(runs, cut, risk, floor=rules.limit_floor, step=rules.limit_step, most=most)
    why, shaped = similar_words(advice, TIME, alike, risk, span), f"; {advice.shaped_by}" if advice.shaped_by else ""
    answer = {
        **_limit_fields(advice.limit_s, "similar jobs", advice.quantile_s, advice.reached, f"{why}{shaped} ({rule})."),
        "cut_at_limit": advice.cut,
        "similar_limit_s": advice.limit_s,
        "asked_limit_s": rows[0]["req_time"],
        "rule_of_thumb_s": thumb,
        "rule_of_thumb": format_duration(thumb),
    }
    if job is None or forecast is None:
        return answer
    limit = advised_limit(forecast, job.req_time, rules, of_partition(site.memory, job.partition_id))
    if limit is None:
        return answer
    who, raised = method_name(method), forecast.point > job.req_time
    why = forecast_words(forecast, who, TIME, risk, span(forecast.point))
    if raised:
        why = (
            f"{who}: more than {risk:.0%} of similar jobs reach their limit of {span(job.req_time)} "
            f"({forecast.basis}), so the time that they need is unknown. The suggestion is a quarter above the limit"
        )
    shaped = "; the longest allowed limit" if limit < forecast.point else ""
    shaped = "; the shortest limit here" if limit == rules.limit_floor > forecast.point else shaped
    alone = f"Similar jobs alone suggest --time={format_duration(advice.limit_s)}"
    kept = reaches_risk(forecast, risk) and not raised and limit >= forecast.point
    return answer | _limit_fields(limit, method, forecast.point, kept, f"{why}{shaped}. {alone}; {rule}.")


def _limit_fields(limit: float, by: str, quantile: float, kept: bool, why: str) -> dict[str, Any]:
    """Return a suggested limit (s) as fields of an answer."""
    shown = {"limit": format_duration(limit), "limit_s": limit, "limit_by": by}
    return {**shown, "quantile_s": quantile, "risk_kept": kept, "why": why}


def advise_memory(site: Site, similar: Similar, forecast: Prediction | None = None, method: str = "") -> dict[str, Any]:
    """Return the suggested memory per node as fields of an answer. If there is no suggestion, `memory` is None and
    `memory_why` gives the reason.

    If the `forecast` of `method` has quantiles, the suggestion comes from these quantiles, as in the suggestions stored
    at submissions. Without quantiles, the suggestion comes from the similar ended jobs: the order statistic of
    `recommend_limit` at the risk, plus a tenth, rounded up to the site's floor and step, and at most the memory of the
    partition's largest node.
    """
    rows, alike, partition, risk = similar
    rules, limits, needs = rules_of(site.settings), of_partition(site.memory, partition), measured_memory(rows)
    node, jobs = limits.get("node_mem_kib") or math.inf, needs or []
    asked = asked_a_node(rows[0]) if rows else math.nan
    shown: dict[str, Any] = {
        **dict.fromkeys(("memory", "memory_kib", "memory_by", "memory_quantile_kib", "memory_risk_kept")),
        "memory_jobs": len(jobs),
        "ran_out_of_memory": sum(need.ran_out for need in jobs),
        "asked_memory_kib": asked if math.isfinite(asked) else None,
        "node_memory_kib": node if math.isfinite(node) else None,
        "similar_memory_kib": None,
        "memory_why": _why_not(site.memory.get("site", {}), needs, len(rows)),
    }
    beside = ""
    if len(jobs) >= LEAST_JOBS:
        advice = request_for(jobs, risk, rules, node)
        why = similar_words(advice, MEMORY, alike, risk, lambda kib: format_memory(kib / SAMPLING_MARGIN))
        quantile, shown["similar_memory_kib"] = advice.quantile_s / SAMPLING_MARGIN, advice.limit_s
        shown |= _memory_fields(advice.limit_s, node, "similar jobs", quantile, advice.reached, why)
        beside = f". Similar jobs alone suggest {as_request(advice.limit_s)}"
    if forecast is None or not forecast.levels or needs is None:
        return shown
    if (amount := advised_memory(forecast, risk, rules, limits)) is None:
        return shown
    bound = bound_at(forecast, 1.0 - risk)
    why = forecast_words(forecast, method, MEMORY, risk, f"{format_memory(bound)} per node")
    kept = reaches_risk(forecast, risk) and amount != node
    return shown | _memory_fields(amount, node, method, bound, kept, why, beside)


def _memory_fields(
    kib: float, node: float, by: str, quantile: float, kept: bool, why: str, beside: str = ""
) -> dict[str, Any]:
    """Return a suggestion of `kib` per node as fields of an answer. `node` is the memory of the largest node."""
    shaped = "; no node of the partition has more" if kib == node else ""
    return {
        "memory": as_request(kib),
        "memory_kib": kib,
        "memory_by": by,
        "memory_quantile_kib": quantile,
        "memory_risk_kept": kept,
        "memory_why": f"{why}; a tenth is added, because memory use is sampled{shaped}{beside}.",
    }


def _why_not(site: Mapping[str, Any], needs: Sequence[MemoryNeed] | None, ended: int) -> str:
    """Return why similar jobs suggest no memory. `needs` are the needs of the measured jobs among `ended` jobs."""
    from ...formats.sighting import gathers_memory

    if needs is None:
        return "accounting only repeats the memory request of nearly every job, so memory is not measured."
    if "gathers" in site and not gathers_memory(site["gathers"]):
        return "accounting measures no memory here (JobAcctGatherType): batchcast doctor says what to set."
    return f"memory was measured for {len(needs)} of these {ended} jobs; {LEAST_JOBS} are needed."


WITHIN_S = 180 * 86400.0
MOST_JOBS = 1000
MOST_FINISHED = 20_000


class _NextJob(NamedTuple):
    """The next job, as far as it is known: user, name (a pattern unless `is_exact`), processors and partition, and the
    stored job (`row`) or the request of the script that describe it.
    """

    user: str
    name: str | None
    procs: float | None = None
    partition: str | None = None
    is_exact: bool = True
    row: Row | None = None
    request: Request | None = None


def advise(
    site: Site, job: str | None, glob: str | None, user: str, risk: float, request: Request | None = None
) -> Answer:
    """Suggest a limit and memory, with reasons. `request` is the request of a script."""
    wanted = _next_job(site, job, glob, user) if request is None else _of_script(request, user)
    limits, memory = Rules._fields[:3], Rules._fields[3:]
    rules = {name: format_duration(site.settings[name]) for name in limits}
    rules |= {name: as_request(site.settings[name]) for name in memory}
    shown = {"risk": risk, **rules, "similar_within_days": _within_days(site)}
    return site.answer(shown, [_advised(site, wanted, risk, _clock(site))])


def with_limits_of_walltime(site: Site, advised: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace each time limit from `usage.advise_requests` by the limit that `advise` suggests for the last job of that
    name. A suggestion that is not shorter than the present limit is removed.
    """
    clock: Forecaster | None = None
    rows = []
    for one in advised:
        own: list[Row] = []
        if one["flag"] == "--time" and not one["cut_off"]:
            clock = clock or _clock(site)
            own = [row for row in _finished(site, one["user"]) if (row["job_name"] or "-") == one["job_name"]]
        if own:
            last = max(own, key=itemgetter("start_time"))
            wanted = _of_row(_latest(site, last["job_id"]) or last)
            with suppress(NoAnswer, Refused):
                limit = _advised(site, wanted, RISK, clock)["limit_s"]
                if not limit < one["asked_s"]:
                    continue
                if limit != one["advised"]:
                    asked, ran, flag = span(one["asked_s"]), span(one["ran_s"]), f"--time={format_duration(limit)}"
                    words = Sentence(ADVISED, asked=asked, ran=ran, procs=f"{wanted.procs or 0:g}", flag=flag)
                    one = {**one, "advised": limit, "advice": words}
        rows.append(one)
    return rows


def _latest(site: Site, job_id: str) -> Row | None:
    """Return the latest run of a job in the store; None if the store does not have the job."""
    return next(iter(site.reader.ask("latest", cluster=site.cluster, job_id=job_id)), None)


def _of_row(row: Row) -> _NextJob:
    """Return what a job in the store says about the next job."""
    return _NextJob(row["user_id"], row["job_name"], row["req_procs"], row["partition_id"], row=row)


def _within_days(site: Site) -> int:
    """Return the number of past days in which similar jobs are searched."""
    return round(min(WITHIN_S / 86400, site.days))


def advise_script(site: Site, request: Request, clock: Forecaster) -> dict[str, Any] | None:
    """Return the suggestion for the viewer's job with this request; None without similar jobs or a known viewer."""
    if site.viewer.name is None or not request.options.get("job-name"):
        return None
    try:
        return _advised(site, _of_script(request, site.viewer.name), RISK, clock)
    except (NoAnswer, Refused):
        return None


def _advised(site: Site, wanted: _NextJob, risk: float, clock: Forecaster | None) -> dict[str, Any]:
    """Return the suggested limit and memory for a job, from predictions if `clock` has them, else from similar jobs."""
    site.check_may_see(wanted.user)
    similar, alike = _similar(_finished(site, wanted.user), wanted)
    job = _job(site, wanted, similar)
    limit = clock.limit(job, risk) if clock and job else None
    known = limit if limit is not None and limit.levels and rests_on_jobs(limit) else None
    least = LEAST_JOBS if known is None or site.private else 1  # if jobs are hidden, only own jobs count
    if len(similar) < least:
        of = f"{f'only {len(similar)}' if similar else 'no'} similar finished jobs of {wanted.user}"
        why = f"{of} in the last {_within_days(site)} days; {least} are needed"
        raise NoAnswer(why, hint="a wider --name GLOB, or let some jobs finish first")
    like = Similar(similar, alike, wanted.partition or similar[0]["partition_id"], risk)
    answer = {"user": wanted.user, "similar_by": alike, "jobs": len(similar), "risk": risk}
    by = clock.methods["limit"] if clock and known is not None else ""
    answer |= advise_limit(site, like, job, known, by)
    peak = clock.peak(job, risk) if clock and job else None
    by = clock.methods["memory"] if clock and peak is not None else ""
    return {**answer, **advise_memory(site, like, peak, by)}


def _clock(site: Site) -> Forecaster | None:
    """Return the predictors that suggest limits and memory, from the collector's clock; None without a collector."""
    if not (site.memory.get("limit_methods") or site.memory.get("memory_methods")):
        return None
    from .forecaster import forecaster

    try:
        return forecaster(site, ("limit", "memory"))
    except NoAnswer:
        return None


def _job(site: Site, wanted: _NextJob, similar: Sequence[Row]) -> JobRequest | None:
    """Return the request of the next job, as if it were submitted now: from the script, or from the last
    similar job.
    """
    if wanted.request is not None:
        from .forecaster import job_of

        return job_of(wanted.request, site, wanted.user)
    row = wanted.row or (_latest(site, similar[0]["job_id"]) if similar else None)
    return None if row is None else live_job({**row, "row": -1, "submit_time": site.now}).request


def service_parameters(job: str | None, glob: str | None) -> dict[str, str]:
    """Return the parameters of a question to the service: a job id, a pattern of names, or the options of a script."""
    if job is None or glob is not None:
        return {"name": glob or ""}
    if _is_job(job):
        return {"job": job}
    from .forecaster import read_request

    return read_request(job).heard


def _is_job(what: str) -> bool:
    """Return whether the text is a job id and not the name of a file."""
    return JOB_ID.fullmatch(what) is not None and not Path(what).exists()


def _next_job(site: Site, job: str | None, glob: str | None, user: str) -> _NextJob:
    """Return the known fields of the next job, from a job id or script, or a pattern of names (`glob`)."""
    if glob is not None:
        return _NextJob(user, glob, is_exact=False)
    assert job is not None
    if not _is_job(job):
        from .forecaster import read_request

        # as `start --test` reads the script, to suggest its limit
        return _of_script(read_request(job), user)
    row, whose = _latest(site, job), site.viewer.name
    if site.private and (row is None or row["user_id"] != whose):
        why = f"jobs are private here, and job {job} does not belong to {whose or 'a known user'}"
        raise Refused(why, hint="your own jobs")
    if row is None:
        why = f"job {job} is not in the store of {site.cluster}"
        raise NoAnswer(why, hint="a job just submitted appears within a minute")
    return _of_row(row)


def _of_script(request: Request, user: str) -> _NextJob:
    """Return what a script's request says about the next job."""
    name, partition = request.options["job-name"], request.partition or None
    return _NextJob(user, name, request.procs, partition, request=request)


def _finished(site: Site, user: str) -> list[Row]:
    """Return the user's finished jobs, the latest first."""
    chosen = {"user": user, "since": site.now - WITHIN_S, "until": math.inf, "most": MOST_FINISHED}
    return site.reader.ask("ran_by_itself", cluster=site.cluster, **chosen)


def _similar(rows: list[Row], wanted: _NextJob) -> tuple[list[Row], str]:
    """Return the narrowest group with enough jobs, and its description: same name and size, same name, or same size."""
    name, procs = wanted.name or "", wanted.procs
    is_alike = operator.eq if wanted.is_exact else fnmatch.fnmatchcase
    named = [row for row in rows if is_alike(row["job_name"] or "", name)]
    groups = [(named, f"the name {name}" if wanted.is_exact else f"names like {name}")]
    if procs:
        sized = [row for row in rows if row["req_procs"] == procs]
        both = [row for row in named if row["req_procs"] == procs]
        groups = [(both, f"the same name and {procs:g} processors"), *groups, (sized, f"{procs:g} processors")]
    similar, alike = next((group for group in groups if len(group[0]) >= LEAST_JOBS), groups[0])
    return similar[:MOST_JOBS], alike
