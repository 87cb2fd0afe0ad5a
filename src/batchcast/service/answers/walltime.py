# SPDX-License-Identifier: Apache-2.0
"""Suggests a time limit and a memory request from the finished jobs of a store that are similar to the next job."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import NoAnswer, Refused
from ...formats.slurm.sbatch import processors
from ...job import JobRequest
from ...predict.protocol import Prediction, method_name
from ...predict.recommend import recommend_limit, rule_of_thumb
from ...store.reader import Row
from ...store.rows import live_job
from ...units import format_duration, span
from .advice import RISK, TIME, advise_memory, advised_limit, reaches_risk, rests_on_jobs, rules_of, similar_words
from .answer import Sentence
from .disclosure import Site
from .track_record import JOB_ID
from .usage import ADVISED

if TYPE_CHECKING:
    from .forecaster import Forecaster

WITHIN_S = 180 * 86400.0
LEAST_JOBS = 5
MOST_JOBS = 1000
RECENT = 10
MOST_FINISHED = 20_000


def advise(
    site: Site, what: str | None, glob: str | None, user: str, risk: float, options: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the suggested limit and memory with reasons, as one flat object. `options` are the options of a script."""
    wanted = _wanted(site, what, glob, user) if options is None else _of_script(options, user)
    return _advised(site, wanted, risk, _clock(site))


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
            wanted = _of_job(site, last["job_id"], last)
            with suppress(NoAnswer, Refused):
                limit = _advised(site, wanted, RISK, clock)["limit_s"]
                if not limit < one["asked_s"]:
                    continue
                if limit != one["advised"]:
                    parts = {
                        "asked": span(one["asked_s"]),
                        "ran": span(one["ran_s"]),
                        "procs": f"{wanted['procs'] or 0:g}",
                    }
                    words = Sentence(ADVISED, **parts, flag=f"--time={format_duration(limit)}")
                    one = {**one, "advised": limit, "advice": words}
        rows.append(one)
    return rows


def _of_job(site: Site, job_id: str, row: Row) -> dict[str, Any]:
    """Return name, user, processors and partition of a job in the store."""
    row = next(iter(site.reader.ask("latest", cluster=site.cluster, job_id=job_id)), row)
    names = {"user": "user_id", "name": "job_name", "procs": "req_procs", "partition": "partition_id"}
    return {"exact": True, "row": row, **{name: row[column] for name, column in names.items()}}


def within_days(site: Site) -> int:
    """Return the number of past days in which similar jobs are searched."""
    return round(min(WITHIN_S / 86400, site.days))


def advise_script(site: Site, options: Mapping[str, str], clock: Forecaster) -> dict[str, Any] | None:
    """Return the suggestion for the viewer's job with these options; None without similar jobs or a known viewer."""
    if site.viewer.name is None or not options.get("job-name"):
        return None
    try:
        return _advised(site, _of_script(options, site.viewer.name), RISK, clock)
    except (NoAnswer, Refused):
        return None


def _advised(site: Site, wanted: dict[str, Any], risk: float, clock: Forecaster | None) -> dict[str, Any]:
    site.check_may_see(wanted["user"])
    similar, alike = _similar(_finished(site, wanted["user"]), wanted)
    job = _job(site, wanted, similar)
    limit = clock.limit(job, risk) if clock and job else None
    known = limit if limit is not None and limit.levels and rests_on_jobs(limit) else None
    least = LEAST_JOBS if known is None or site.private else 1  # if jobs are hidden, only own jobs count
    if len(similar) < least:
        of = f"{f'only {len(similar)}' if similar else 'no'} similar finished jobs of {wanted['user']}"
        why = f"{of} in the last {within_days(site)} days; {least} are needed"
        raise NoAnswer(why, hint="a wider --name GLOB, or let some jobs finish first")
    partition = wanted.get("partition") or similar[0]["partition_id"]
    answer = {
        "user": wanted["user"],
        "similar_by": alike,
        "jobs": len(similar),
        "risk": risk,
        **_of_similar(site, partition, similar, alike, risk),
    }
    if clock is not None and job is not None and known is not None:
        answer |= _of_forecast(site, job, known, clock.method("limit"), risk, answer)
    peak = clock.peak(job, risk) if clock and job else None
    by = clock.method("memory") if clock and peak is not None else ""
    return {**answer, **advise_memory(site.settings, site.memory, similar, partition, alike, risk, peak, by)}


def _of_similar(site: Site, partition: str | None, similar: Sequence[Row], alike: str, risk: float) -> dict[str, Any]:
    """Return the suggestion from similar finished jobs alone."""
    rules, runs = rules_of(site.settings), [row["end_time"] - row["start_time"] for row in similar]
    thumb = rule_of_thumb(runs[:RECENT])
    most = min(site.partition(partition).get("max_time_s") or math.inf, rules.limit_most)
    cut = [row["status"] == "timeout" for row in similar]
    advice = recommend_limit(runs, cut, risk, floor=rules.limit_floor, step=rules.limit_step, most=most)
    why = similar_words(advice, TIME, alike, risk, span)
    return {
        "limit": format_duration(advice.limit_s),
        "limit_s": advice.limit_s,
        "limit_by": "similar jobs",
        "quantile_s": advice.quantile_s,
        "risk_kept": advice.reached,
        "cut_at_limit": advice.cut,
        "similar_limit_s": advice.limit_s,
        "why": f"{why}{f'; {advice.shaped_by}' if advice.shaped_by else ''} ({_rule_words(thumb)}).",
        "asked_limit_s": similar[0]["req_time"],
        "rule_of_thumb_s": thumb,
        "rule_of_thumb": format_duration(thumb),
    }


def _of_forecast(
    site: Site, job: JobRequest, advice: Prediction, method: str, risk: float, beside: dict[str, Any]
) -> dict[str, Any]:
    """Return a predictor's suggestion, as the collector would store it if the job were submitted now."""
    rules = rules_of(site.settings)
    limit = advised_limit(advice, job.req_time, rules, site.partition(job.partition_id))
    assert limit is not None  # the caller has checked that the prediction gives a limit
    who = method_name(method)
    bound, raised = span(advice.point), advice.point > job.req_time
    if raised:
        why = (
            f"{who}: more than {risk:.0%} of similar jobs reach their limit of {span(job.req_time)} "
            f"({advice.basis}), so the time that they need is unknown. The suggestion is a quarter above the limit"
        )
    elif reaches_risk(advice, risk):
        why = f"{who}: {1 - risk:.0%} of similar jobs end within {bound} ({advice.basis})"
    else:
        why = f"{who} has no bound for a risk as small as {risk:.1%}. The suggestion is its highest bound, {bound}"
    shaped = "the longest allowed limit" if limit < advice.point else ""
    shaped = "the shortest limit here" if limit == rules.limit_floor > advice.point else shaped
    alone = f"Similar jobs alone suggest --time={format_duration(beside['similar_limit_s'])}; "
    return {
        "limit": format_duration(limit),
        "limit_s": limit,
        "limit_by": method,
        "quantile_s": advice.point,
        "risk_kept": reaches_risk(advice, risk) and not raised and limit >= advice.point,
        "why": f"{why}{f'; {shaped}' if shaped else ''}. {alone}{_rule_words(beside['rule_of_thumb_s'])}.",
    }


def _clock(site: Site) -> Forecaster | None:
    """Return the predictors that suggest limits and memory, from the collector's clock; None without a collector."""
    if not (site.memory.get("limit_methods") or site.memory.get("memory_methods")):
        return None
    from .forecaster import forecaster

    try:
        return forecaster(site, ("limit", "memory"))
    except NoAnswer:
        return None


def _job(site: Site, wanted: dict[str, Any], similar: Sequence[Row]) -> JobRequest | None:
    """Return the request of the next job, as if it were submitted now: from the script, or from the last
    similar job.
    """
    if "options" in wanted:
        from .forecaster import request_of

        return request_of(wanted["options"], site, wanted["user"])
    row = wanted.get("row")
    if row is None and similar:
        row = next(iter(site.reader.ask("latest", cluster=site.cluster, job_id=similar[0]["job_id"])), None)
    return None if row is None else live_job({**row, "row": -1, "submit_time": site.now}).request


def _rule_words(thumb: float) -> str:
    return f"the rule of thumb, 1.25 x the longest of the last {RECENT}, gives {span(thumb)}"


def service_parameters(what: str | None, glob: str | None) -> dict[str, str]:
    """Return the parameters of a question to the service: a job id, a pattern of names, or the options of a script."""
    if what is None or glob is not None:
        return {"name": glob or ""}
    if _is_job(what):
        return {"job": what}
    from .forecaster import options_of

    return options_of(what, {})[0]


def _is_job(what: str) -> bool:
    return JOB_ID.fullmatch(what) is not None and not Path(what).exists()


def _wanted(site: Site, what: str | None, glob: str | None, user: str) -> dict[str, Any]:
    """Return user, name or pattern, processors and partition of the next job, as far as they are known."""
    if glob is not None:
        return {"user": user, "name": glob, "procs": None, "exact": False}
    assert what is not None
    if _is_job(what):
        rows = site.reader.ask("latest", cluster=site.cluster, job_id=what)
        whose = site.viewer.name
        if site.private and not any(row["user_id"] == whose for row in rows):
            why = f"jobs are private here, and job {what} does not belong to {whose or 'a known user'}"
            raise Refused(why, hint="your own jobs")
        if not rows:
            why = f"job {what} is not in the store of {site.cluster}"
            raise NoAnswer(why, hint="a job just submitted appears within a minute")
        return _of_job(site, what, rows[0])
    from .forecaster import options_of

    return _of_script(
        options_of(what, {})[0], user
    )  # as in `start --test`, so that both commands suggest the same limit


def _of_script(options: Mapping[str, str], user: str) -> dict[str, Any]:
    request = {"name": options["job-name"], "procs": processors(options)[0], "partition": options.get("partition")}
    return {"user": user, "exact": True, "options": options, **request}


def _finished(site: Site, user: str) -> list[Row]:
    """Return the user's finished jobs, the latest first."""
    chosen = {"user": user, "since": site.now - WITHIN_S, "until": math.inf, "most": MOST_FINISHED}
    return site.reader.ask("ran_by_itself", cluster=site.cluster, **chosen)


def _similar(rows: list[Row], wanted: dict[str, Any]) -> tuple[list[Row], str]:
    """Return the narrowest group with enough jobs, and its description: same name and size, same name, or same size."""
    name, procs = wanted["name"], wanted["procs"]
    is_alike = str.__eq__ if wanted["exact"] else fnmatch.fnmatchcase
    named = [row for row in rows if is_alike(row["job_name"] or "", name)]
    groups = [(named, f"the name {name}" if wanted["exact"] else f"names like {name}")]
    if procs:
        sized = [row for row in rows if row["req_procs"] == procs]
        both = [row for row in named if row["req_procs"] == procs]
        groups = [(both, f"the same name and {procs:g} processors"), *groups, (sized, f"{procs:g} processors")]
    similar, alike = next((group for group in groups if len(group[0]) >= LEAST_JOBS), groups[0])
    return similar[:MOST_JOBS], alike
