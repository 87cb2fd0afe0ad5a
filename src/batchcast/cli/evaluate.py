"""`batchcast evaluate`: the main job. Tables on the terminal; a folder with the page, the numbers, the schedules."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import Log, describe_log, log_options, score_options, take_log, take_score
from .output import console, document, dumps, emit, progress

if TYPE_CHECKING:
    import numpy as np

    from ..evaluate.evaluation import Evaluation


@click.command("evaluate")
@log_options
@score_options
@click.option("-o", "--output", default="report", show_default=True, metavar="FOLDER", help="Where the report goes.")
@click.option(
    "--predictor",
    "predictors",
    default="last_2,recent_mean",
    show_default=True,
    metavar="NAMES",
    help="Forecasts to try, NAME:key=value,...; `requested` and `actual` always run beside them.",
)
@click.option(
    "--policy",
    "policies",
    default="easy,easy-sjbf",
    show_default=True,
    metavar="NAMES",
    help="fcfs, easy, easy-sjbf, conservative; with parameters as easy:correct=incremental or easy:order=saf.",
)
@click.option("--protocol", type=click.Choice(["honest", "paper"]), default="honest", show_default=True)
@click.option(
    "--loop",
    type=click.Choice(["closed", "open"]),
    default="closed",
    show_default=True,
    help="closed: forecasts learn at the simulated ends; open: at the recorded ones.",
)
@click.option(
    "--wide",
    type=click.Choice(["drop", "widen", "cut"]),
    default="drop",
    show_default=True,
    help="Jobs wider than the machine: leave out, widen the machine, or cut the job.",
)
@click.option("--default-request", metavar="TIME", help="Plans jobs without a request. Default: the log's largest.")
@click.option("--seed", type=int, default=0, show_default=True, help="For methods that draw at random.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json as well, instead of tables.")
def command(**given: Any) -> None:
    """Evaluate LOG: how wrong are limits, how good are forecasts, how much sooner would jobs start.

    Writes FOLDER/index.html (one self-contained page), FOLDER/result.json and FOLDER/schedules/*.csv, all of them or
    none. LOG is SWF, a `sacct -X -P` dump, a PBS accounting log, CSV or Parquet; plain, .gz, .xz, or - for stdin.

    \b
    batchcast evaluate log.swf.gz -o report/
    """
    log = take_log(given, tell=not given["as_json"])
    run(log, take_score(given, log), given)


def run(log: Log, mask: np.ndarray, given: dict[str, Any], title: str | None = None, preface: str = "") -> None:
    """Evaluate a log with the command's options and leave the report; `title` and `preface` head the page."""
    from ..evaluate.evaluation import evaluate
    from ..predict.registry import split_specs
    from ..report.folder import folder
    from ..units import parse_duration

    options = {key: given[key] for key in ("protocol", "loop", "wide", "default_request", "seed")}
    chosen: dict[str, Any] = {
        "predictors": split_specs(given["predictors"]),
        "policies": split_policies(given["policies"]),
    }
    settings = {
        **log.settings,
        "predictor": chosen["predictors"],
        "policy": chosen["policies"],
        **options,
        "tau_s": 10.0,
    }
    request = options.pop("default_request")
    with folder(given["output"]) as place:
        found = evaluate(
            log.trace,
            **chosen,
            **options,
            default_request=parse_duration(request) if request else None,
            mask=mask,
            procs=log.procs,
            progress=progress,
        )
        text, sections = _write(place, found, log, settings, title, preface)
    if given["as_json"]:
        emit(text)
        return
    from ..report.terminal import show

    out = console()
    for section in sections:
        show(out, section.blocks)
    out.print(f"\nThe report: {Path(given['output']) / 'index.html'}", markup=False, soft_wrap=True)


def split_policies(text: str) -> list[str]:
    """A comma list of policies, where commas also part parameters.

    >>> split_policies("easy:correct=incremental,event_order=pyss,fcfs")
    ['easy:correct=incremental,event_order=pyss', 'fcfs']
    """
    from ..evaluate.evaluation import policy_of

    found: list[str] = []
    for piece in filter(None, (p.strip() for p in text.split(","))):
        if found and "=" in piece and ":" not in piece:
            found[-1] += "," + piece
        else:
            found.append(piece)
    for name in found:
        policy_of(name)
    return list(dict.fromkeys(found))


def _write(
    place: Path, found: Evaluation, log: Log, settings: dict[str, Any], title: str | None, preface: str
) -> tuple[dict[str, Any], Any]:
    from ..report import page
    from ..report.evaluation import sections as sections_of
    from ..trace.schedule import write_schedule

    files = {}
    for each in found.outcomes:
        name = re.sub(r"[^\w.=+-]+", "_", f"{each.policy}.{each.predictor}") + ".csv"
        files[each.policy, each.predictor] = f"schedules/{name}"
        (place / "schedules").mkdir(exist_ok=True)
        write_schedule(place / "schedules" / name, each.schedule)
    rows = found.results()
    for row in rows:
        if row["part"] == "schedule":
            row["schedule_file"] = files[row["policy"], row["predictor"]]
    warnings = [*log.warnings, *found.warnings()]
    result = document("evaluate", describe_log(log.trace), settings, warnings, rows)
    (place / "result.json").write_text(dumps(result) + "\n", encoding="utf-8")
    sections = sections_of(found, settings, preface)
    name = Path(log.trace.info.source).name
    html = page(title or f"How forecasts would serve {name}", sections, _provenance(result))
    (place / "index.html").write_text(html, encoding="utf-8")
    return result, sections


def _provenance(result: dict[str, Any]) -> dict[str, Any]:
    """Everything it takes to make the same page again, and what was done to the log on the way."""
    from datetime import UTC, datetime

    log, settings = result["log"], result["settings"]
    dropped = {rule: f"{count:,} records" for rule, count in log["dropped"].items()}
    chosen = {key: value for key, value in settings.items() if value not in (None, "", [])}
    return {
        "Log": f"{log['source']} ({log['format']})",
        "SHA-256": log["sha256"] or "none: not read from a file",
        "Machine": f"{log['machine_procs']:,.0f} processors, from {log['machine_procs_source']}"
        if log["machine_procs"] > 0
        else "size unknown",
        "Time zone": f"{log['timezone']} ({log['timezone_source']})",
        "Command": shlex.join(["batchcast", *sys.argv[1:]]),
        "Seed": str(settings["seed"]),
        "Made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "Versions": versions(),
        "Settings": {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in chosen.items()},
        "Records left out": dropped or "none",
        "Notes": result["warnings"] or "none",
    }


def versions() -> str:
    """The versions of what computed and drew."""
    from importlib.metadata import version
    from platform import python_version

    return ", ".join(
        [f"Python {python_version()}", *(f"{n} {version(n)}" for n in ("batchcast", "numpy", "numba", "plotly"))]
    )
