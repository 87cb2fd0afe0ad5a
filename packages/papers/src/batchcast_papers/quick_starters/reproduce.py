# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce pqstar`: compares Tables 1 to 8 of Kumar & Vadhiyar 2012 with our results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from batchcast.cli.grammar import option, page_option, verb
from batchcast.cli.output import document, emit, progress, say, show_blocks

from ..shared import provenance, shared_folder, write_page

LOGS = {
    "CTC": "CTC-SP2-1996-3.1-cln.swf.gz",
    "HPC2N": "HPC2N-2002-2.2-cln.swf.gz",
    "SDSC-BLUE": "SDSC-BLUE-2000-4.2-cln.swf.gz",
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz",
    "DAS2-fs1": "DAS2-fs1-2003-1.swf.gz",
    "KTH": "KTH-SP2-1996-2.1-cln.swf.gz",
}


LOGS_HELP = f"Public logs to use: {','.join(LOGS)}. Default: all, with --log FILE none."
OWN_HELP = (
    "Your own log (repeatable); with --logs in addition to public logs. The paper has results for LANL, ANL, Paragon "
    "and DAS2-fs0."
)


@verb("pqstar", json="Print one JSON document instead of tables.")
@option("--logs NAMES", LOGS_HELP)
@option("--log FILE", OWN_HELP, "own", multiple=True, type=click.Path())
@option("--quick", "Only KTH and CTC, jobs 10,001 to 16,000.")
@page_option("Also write an HTML page with tables and pictures.")
def command(logs: str | None, own: tuple[str, ...], quick: bool, page: Path | None, as_json: bool) -> None:
    """Find quick starters with log_uniform, qbets, ibl and pqstar, each in two readings (a minute per log)."""
    from batchcast.errors import UsageError
    from batchcast.trace.read import read_trace
    from batchcast.trace.select import describe_log

    from . import study

    if logs is None:
        logs = "" if own else "KTH,CTC" if quick else ",".join(LOGS)
    names = [name.strip() for name in logs.split(",") if name.strip()]
    if strange := [name for name in names if name not in LOGS]:
        raise UsageError(f"--logs: no {strange[0]!r} (accepted: {', '.join(LOGS)})")
    places = {name: shared_folder() / "traces" / LOGS[name] for name in names} if names else {}
    places |= {study.name_of(Path(path)): Path(path) for path in own}
    jobs = study.QUICK_JOBS if quick else study.JOBS
    studies, rows, thresholds, noise, described = [], [], [], list[dict[str, Any]](), {}
    with progress("replaying logs", len(places) * len(study.METHODS)) as tick:
        for k, (name, place) in enumerate(places.items()):
            trace = read_trace(place)
            described[name] = describe_log(trace)
            scored = jobs if name in names else study.own_jobs(len(trace), jobs)
            if scored != jobs:
                say(f"note: {name}: jobs {scored[0]:,} to {scored[1]:,} are predicted, because the log is short")
            studies.append(study.study_log(name, trace, tick, scored, before=k * len(study.METHODS)))
            rows += study.table_rows(studies[-1])
            noise += study.noise_rows(studies[-1])
            if name == study.THRESHOLD_LOG and not quick:
                thresholds = study.threshold_rows(studies[-1])
    settings: dict[str, Any] = {
        "logs": list(places), "jobs": f"{jobs[0]}:{jobs[1]}", "quick_s": 3600.0,
        "predictor": list(study.METHODS.values()), "cancelled": "count", "protocol": "own",
    }  # fmt: skip
    if page is not None:
        sections = study.pqstar_sections(rows, thresholds, studies, noise)
        made_by = provenance({name: log["sha256"] for name, log in described.items()}, settings)
        write_page(page, "Quick starters: PQStar", sections, made_by)
    if as_json:
        emit(document("reproduce-pqstar", {"logs": described}, settings, [], [*rows, *thresholds, *noise]))
        return
    show_blocks(*study.pqstar_tables(rows, thresholds), study.noise_table(noise), *study.discussion(rows))
    say("-o FILE.html writes the tables and the paper's pictures")
