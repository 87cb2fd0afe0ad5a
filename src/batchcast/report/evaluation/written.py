# SPDX-License-Identifier: Apache-2.0
"""The report of an evaluation as a folder: the page, the results as JSON, and the schedules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...document import document, dumps
from ...evaluation.differences import burst_groups
from ...evaluation.evaluation import Evaluation
from ...trace.schedule import FORECASTS, GROUPS, Forecasts, write_forecasts, write_groups, write_schedule
from ...trace.select import describe_log
from ...trace.whole_file import folder
from ..blocks import Section, page
from .first_screen import first_screen
from .page import sections as sections_of


def write_report(evaluation: Evaluation, target: str | Path) -> Path:
    """Write the report that `batchcast evaluate -o FOLDER` writes: index.html, result.json, schedules/*.csv.

    The report is written completely or not at all; other files in the folder stay.

    Parameters
    ----------
    evaluation
        The result of `batchcast.evaluate`.
    target
        The folder, which is created if it does not exist.

    Returns
    -------
    Path
        The path of the written index.html.

    Raises
    ------
    BatchcastError
        If the folder cannot be written.

    Examples
    --------
    >>> import batchcast, tempfile
    >>> log = batchcast.read_trace(batchcast.demo_path())
    >>> evaluation = batchcast.evaluate(log.take(np.arange(300)), predictor=["last_2"], policy=["easy"])
    >>> batchcast.write_report(evaluation, tempfile.mkdtemp()).name
    'index.html'
    """
    with folder(target) as place:
        fill(place, evaluation, evaluation.settings, evaluation.trace.info.notes, "batchcast.evaluate(...)")
    return Path(target) / "index.html"


def fill(
    place: Path, evaluation: Evaluation, settings: Mapping[str, Any], warnings: Sequence[str], command: str,
    title: str | None = None, preface: str = "",
) -> tuple[dict[str, Any], list[Section]]:  # fmt: skip
    """Write index.html, result.json, forecasts.csv and schedules/*.csv into a folder, from the JSON document and the
    page's sections.

    `settings` and `warnings` come from reading the log; `command` is the command that creates an equal report; `title`
    and `preface` are shown at the top of the page.
    """
    files = {}
    for each in evaluation.outcomes:
        name = re.sub(r"[^\w.=+-]+", "_", f"{each.policy}.{each.predictor}") + ".csv"
        files[each.policy, each.predictor] = f"schedules/{name}"
        (place / "schedules").mkdir(exist_ok=True)
        write_schedule(place / "schedules" / name, each.schedule)
    scores, log = evaluation.scores, evaluation.trace
    scored, group = np.flatnonzero(scores.scored), burst_groups(log, evaluation.procs)
    points = {spec: said[scored] for spec, said in scores.points.items()}
    write_forecasts(place / FORECASTS, Forecasts(log.job_id[scored], group[scored], log.run_time[scored], points))
    if evaluation.outcomes:  # a group is one user's submissions of one week; its number does not reveal the user
        schedule = evaluation.outcomes[0].schedule
        write_groups(place / GROUPS, schedule.job_id, group[schedule.rows])
    rows = [first_screen(evaluation).row(), *evaluation.results()]
    for row in rows:
        if row["part"] == "schedule":
            row["schedule_file"] = files[row["policy"], row["predictor"]]
    result = document("evaluate", describe_log(log), settings, [*warnings, *evaluation.warnings()], rows)
    (place / "result.json").write_text(dumps(result) + "\n", encoding="utf-8")
    sections = sections_of(evaluation, settings, preface)
    title = title or f"What predictions would change on {Path(log.info.source).name}"
    (place / "index.html").write_text(page(title, sections, _provenance(result, command)), encoding="utf-8")
    return result, sections


def _provenance(result: dict[str, Any], command: str) -> dict[str, Any]:
    """Return everything that is needed to create the same page again, and the changes made to the log."""
    from datetime import UTC, datetime

    log, settings = result["log"], result["settings"]
    dropped = {rule: f"{count:,} records" for rule, count in log["dropped"].items()}
    chosen = {key: value for key, value in settings.items() if value not in (None, "", [])}
    machine = f"{log['machine_procs']:,.0f} processors, from {log['machine_procs_source']}"
    return {
        "Log": f"{log['source']} ({log['format']})",
        "SHA-256": log["sha256"] or "none: not read from a file",
        "Machine": machine if log["machine_procs"] > 0 else "size unknown",
        "Time zone": f"{log['timezone']} ({log['timezone_source']})",
        "Command": command,
        "Seed": str(settings["seed"]),
        "Made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "Versions": versions(),
        "Settings": {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in chosen.items()},
        "Records left out": dropped or "none",
        "Notes": result["warnings"] or "none",
    }


def versions() -> str:
    """Return the versions of the software that computed the report."""
    from importlib.metadata import version
    from platform import python_version

    return ", ".join([f"Python {python_version()}", *(f"{n} {version(n)}" for n in ("batchcast", "numpy", "numba"))])
