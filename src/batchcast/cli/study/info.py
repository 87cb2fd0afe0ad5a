# SPDX-License-Identifier: Apache-2.0
"""`batchcast info`: summarizes a log before other commands run on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...units import counted, format_memory, span
from ..grammar import TABLES_OR_JSON, option, verb
from ..options import log_options, take_log
from ..output import show_blocks


@verb("info", json=TABLES_OR_JSON)
@log_options
@option("--machine FILE", "Count the jobs that this machine can run.")
def command(as_json: bool, machine: str | None, **options: Any) -> None:
    """Summarize LOG: jobs, dates, machine size, available fields, data problems.

    LOG is SWF, a `sacct -P` dump, a PBS accounting log, CSV or Parquet: plain, .gz, .xz, or - for stdin.
    Selection and cleaning options apply as in the other verbs.
    """
    from ...trace.clean import cleaning, endings, irregularities, known_fields, memory, summary
    from ...trace.select import describe_log

    log = take_log(options)
    whole = summary(log.trace, log.procs)
    parts = {
        "status": endings(log.trace),
        "field": known_fields(log.trace),
        "clean": cleaning(log.trace),
        "irregularity": irregularities(log.trace),
    }
    if machine:
        from ...simulation.on_nodes import requests_of
        from ...trace.machine_files import open_machine

        jobs, left = requests_of(log.trace, open_machine(machine), log.procs)
        counts = {"it can run": len(jobs), **{why: count for why, count in left.items() if count}}
        parts["machine"] = [{"what": what, "jobs": count} for what, count in counts.items()]
    use = memory(log.trace)
    if as_json:
        rows = [{"part": "summary", **whole}, {"part": "memory", **use}]
        return log.emit("info", {}, [*rows, *({"part": part, **row} for part in parts for row in parts[part])])
    about = describe_log(log.trace)
    summaries = {
        str(about["source"]): _glance(about, whole),
        "Requested time: how accurate are users' time limits": _requests(whole),
        "Memory": _memory(use) if use["asked"] or use["measured"] or use["zeros"] else {},
    }
    parts["irregularity"] = [row for row in parts["irregularity"] if row["jobs"]]
    _show(summaries, parts)


TABLES = {
    "status": ("How jobs ended", "status", "jobs|jobs|count", "share|share|share"),
    "field": ("Known fields", "field", "known|known|share", "distinct|different|count", "meaning"),
    "clean": ("What each cleaning rule (--clean) would remove on its own", "rule", "drops|drops|count", "meaning"),
    "machine": ("Jobs on the machine of --machine", "what|result", "jobs|jobs|count"),
    "irregularity": ("Inconsistent records, and how a replay treats them", "irregularity|rule", "jobs|jobs|count"),
}
"""Title and columns of the table of each part of the results, in the order of the output."""


def _show(summaries: Mapping[str, Mapping[str, str]], parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the summaries, which have a text for each name, and the tables of the parts; empty ones are left out."""
    from ...report.blocks import Table, columns_of

    blocks = [
        Table(title, columns_of("what|", "value|"), [{"what": what, "value": value} for what, value in texts.items()])
        for title, texts in summaries.items()
        if texts
    ]
    for part, (title, *columns) in TABLES.items():
        blocks += [Table(title, columns_of(*columns), parts[part])] if parts.get(part) else []
    show_blocks(*blocks)


def _glance(about: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, str]:
    """Return the most important properties of the log as texts, by name."""
    never = f", {whole['never_ran']:,} never did" if whole["never_ran"] else ""
    return {
        "jobs": f"{whole['jobs']:,} ({whole['ran']:,} ran{never}), {_plain(whole['jobs_per_day'])} a day",
        "submitted": f"{about['first_submit']} to {about['last_submit']}",
        "time zone": f"{about['timezone']} (from {about['timezone_source']})",
        "machine": _machine(about, whole),
        "load": _percent(whole["load"], "of the machine, first submission to last end"),
        "run time": f"median {span(whole['median_run_s'])}, mean {span(whole['mean_run_s'])}",
        "wait": f"median {span(whole['median_wait_s'])}, mean {span(whole['mean_wait_s'])}",
        "processors": f"median {_plain(whole['median_procs'])}, widest job {_plain(whole['widest_job_procs'])}",
        "file": f"{about['format']}, sha256 {about['sha256'][:16]}",
    }


def _machine(about: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """Return the size of the machine, the source of the size, and the most processors in use."""
    size, source, peak = about["machine_procs"], about["machine_procs_source"], whole["peak_procs"]
    seen = f"recorded jobs used up to {_plain(peak)} at once" if peak == peak else "no job has a number of processors"
    if not size > 0:
        advice = "; give it with --procs-total N, or use the observed peak with --procs-total peak"
        return f"size unknown (no MaxProcs in a header); {seen}{advice if peak == peak else ''}"
    wide = whole["jobs_wider_than_machine"]
    source_words = {"header": "from the header", "peak": "inferred: the peak of what ran"}.get(source, f"from {source}")
    lies = ", more than it has" if peak > size else ""
    return f"{_plain(size)} processors ({source_words}); {seen}{lies}" + (f"; {wide:,} jobs are wider" if wide else "")


def _requests(whole: Mapping[str, Any]) -> dict[str, str]:
    """Return how the users' time limits compare with run times, as texts by name."""
    if not whole["jobs_with_run_and_request"]:
        return {"known for": "no job that ran has a time limit"}
    usual = ", ".join(span(seconds) for seconds in whole["usual_requests_s"])
    round_ones = _percent(whole["whole_hour_requests"], "of the requests are whole hours")
    return {
        "known for": counted(whole["jobs_with_run_and_request"]),
        "used, median": _percent(whole["request_used_median"], "of the request"),
        "used, total": _percent(whole["request_used_total"], "of the requested time"),
        "used < 10 %": _percent(whole["request_used_below_10"], "of the jobs"),
        "used > 100 %": _percent(whole["request_used_above_100"], "of the jobs"),
        "most used": f"{usual}: {_percent(whole['usual_requests'], 'of the requests')}",
        "round": f"{round_ones}, {whole['distinct_requests']:,} different ones",
    }


def _memory(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return how requested memory compares with used memory, as texts by name."""
    each = "" if facts["per"] == "job" else f" a {facts['per']}"
    share = _percent(facts["copied"], "of the jobs that have both")
    copy = f"not measured: it equals the request in {share}, so predictors ignore it"
    middle, largest = (format_memory(facts[f"{which}_used_kib"]) for which in ("median", "largest"))
    use = f"{counted(facts['measured'])}, median {middle}{each}, largest {largest}"
    asked = f"{counted(facts['asked'])}, median {format_memory(facts['median_asked_kib'])}{each}"
    use = copy if facts["copied"] >= 0.9 else use if facts["measured"] else "no job has a measurement"
    rows = {"requested": asked if facts["asked"] else "no job has a memory request", "used at the peak": use}
    if facts["both"]:
        both = f"of the request, over {facts['both']:,} jobs that have both"
        rows |= {
            "used, in all": _percent(facts["used_total"], both),
            "used > 100 %": _percent(facts["above"], "of them"),
        }
    if facts["zeros"]:
        rows["not measured"] = f"{facts['zeros']:,} jobs have a use of 0, which counts as unknown"
    if facts["out_of_memory"]:
        rows["out of memory"] = f"{facts['out_of_memory']:,} jobs, which needed more than they requested"
    return rows


def _percent(value: float, of: str) -> str:
    """Return a share as a percentage of something, or `unknown`."""
    return f"{100 * value:.1f} % {of}" if value == value else "unknown"


def _plain(value: float) -> str:
    """Return a number without decimals, or `unknown`."""
    return f"{value:,.0f}" if value == value else "unknown"
