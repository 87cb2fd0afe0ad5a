# SPDX-License-Identifier: Apache-2.0
"""Suggests a time limit and a memory request from the finished jobs of a store that are similar to the next job."""

from __future__ import annotations

import fnmatch
import math
import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import NoAnswer, Refused
from ...formats.slurm.sbatch import processors
from ...job import JobRequest
from ...store.reader import Row
from ...store.rows import live_job
from ...units import format_duration, span
from .advice import LEAST_JOBS, RISK, advise_limit, advise_memory, rests_on_jobs
from .answer import Sentence
from .disclosure import Site
from .track_record import JOB_ID
from .usage import ADVISED

if TYPE_CHECKING:
    from .forecaster import Forecaster

WITHIN_S = 180 * 86400.0
MOST_JOBS = 1000
MOST_FINISHED = 20_000


class _Wanted(NamedTuple):
    """The next job, as far as it is known: user, name (a pattern unless `is_exact`), processors and partition, and the
    stored job (`row`) or the options of the script that describe it.
    """

    user: str
    name: str | None
    procs: float | None = None
    partition: str | None = None
    is_exact: bool = True
    row: Row | None = None
    options: Mapping[str, str] | None = None


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


def _of_row(row: Row) -> _Wanted:
    """Return what a job in the store says about the next job."""
    return _Wanted(row["user_id"], row["job_name"], row["req_procs"], row["partition_id"], row=row)


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


def _advised(site: Site, wanted: _Wanted, risk: float, clock: Forecaster | None) -> dict[str, Any]:
    """Return the suggested limit and memory for a job, from predictions if `clock` has them, else from similar jobs."""
    site.check_may_see(wanted.user)
    similar, alike = _similar(_finished(site, wanted.user), wanted)
    job = _job(site, wanted, similar)
    limit = clock.limit(job, risk) if clock and job else None
    known = limit if limit is not None and limit.levels and rests_on_jobs(limit) else None
    least = LEAST_JOBS if known is None or site.private else 1  # if jobs are hidden, only own jobs count
    if len(similar) < least:
        of = f"{f'only {len(similar)}' if similar else 'no'} similar finished jobs of {wanted.user}"
        why = f"{of} in the last {within_days(site)} days; {least} are needed"
        raise NoAnswer(why, hint="a wider --name GLOB, or let some jobs finish first")
    partition = wanted.partition or similar[0]["partition_id"]
    answer = {"user": wanted.user, "similar_by": alike, "jobs": len(similar), "risk": risk}
    by = clock.method("limit") if clock and known is not None else ""
    answer |= advise_limit(site.settings, site.memory, similar, partition, alike, risk, job, known, by)
    peak = clock.peak(job, risk) if clock and job else None
    by = clock.method("memory") if clock and peak is not None else ""
    return {**answer, **advise_memory(site.settings, site.memory, similar, partition, alike, risk, peak, by)}


def _clock(site: Site) -> Forecaster | None:
    """Return the predictors that suggest limits and memory, from the collector's clock; None without a collector."""
    if not (site.memory.get("limit_methods") or site.memory.get("memory_methods")):
        return None
    from .forecaster import forecaster

    try:
        return forecaster(site, ("limit", "memory"))
    except NoAnswer:
        return None


def _job(site: Site, wanted: _Wanted, similar: Sequence[Row]) -> JobRequest | None:
    """Return the request of the next job, as if it were submitted now: from the script, or from the last
    similar job.
    """
    if wanted.options is not None:
        from .forecaster import request_of

        return request_of(wanted.options, site, wanted.user)
    row = wanted.row or (_latest(site, similar[0]["job_id"]) if similar else None)
    return None if row is None else live_job({**row, "row": -1, "submit_time": site.now}).request


def service_parameters(what: str | None, glob: str | None) -> dict[str, str]:
    """Return the parameters of a question to the service: a job id, a pattern of names, or the options of a script."""
    if what is None or glob is not None:
        return {"name": glob or ""}
    if _is_job(what):
        return {"job": what}
    from .forecaster import options_of

    return options_of(what, {})[0]


def _is_job(what: str) -> bool:
    """Return whether the text is a job id and not the name of a file."""
    return JOB_ID.fullmatch(what) is not None and not Path(what).exists()


def _wanted(site: Site, what: str | None, glob: str | None, user: str) -> _Wanted:
    """Return what is known of the next job, from a job id or a script (`what`), or from a pattern of names (`glob`)."""
    if glob is not None:
        return _Wanted(user, glob, is_exact=False)
    assert what is not None
    if not _is_job(what):
        from .forecaster import options_of

        return _of_script(options_of(what, {})[0], user)  # as `start --test` reads the script, to suggest its limit
    row, whose = _latest(site, what), site.viewer.name
    if site.private and (row is None or row["user_id"] != whose):
        why = f"jobs are private here, and job {what} does not belong to {whose or 'a known user'}"
        raise Refused(why, hint="your own jobs")
    if row is None:
        why = f"job {what} is not in the store of {site.cluster}"
        raise NoAnswer(why, hint="a job just submitted appears within a minute")
    return _of_row(row)


def _of_script(options: Mapping[str, str], user: str) -> _Wanted:
    """Return what a script's options say about the next job."""
    return _Wanted(user, options["job-name"], processors(options)[0], options.get("partition"), options=options)


def _finished(site: Site, user: str) -> list[Row]:
    """Return the user's finished jobs, the latest first."""
    chosen = {"user": user, "since": site.now - WITHIN_S, "until": math.inf, "most": MOST_FINISHED}
    return site.reader.ask("ran_by_itself", cluster=site.cluster, **chosen)


def _similar(rows: list[Row], wanted: _Wanted) -> tuple[list[Row], str]:
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
