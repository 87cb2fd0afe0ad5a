# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce su`: compares Tables 5 and 6 of Wang et al. 2021 with our results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ...cli.grammar import output_option, verb
from ...cli.output import progress, say
from ..shared import ComputedParts, print_reproduced

TITLE = "Run times from clusters of job names (Wang et al. 2021)"
NAMES = ("CTC", "SDSC-DS", "NREL")


@verb("su")
@click.option("--data-set", "names", multiple=True, type=click.Choice(NAMES), help="Only this log (repeatable).")
@click.option(
    "--log",
    "own",
    type=click.Path(),
    metavar="FILE",
    help="Use your own log instead; it needs job names or application numbers.",
)
@click.option(
    "--timezone", metavar="ZONE", help="With --log: time zone for the hour of submission. Default: the log's."
)
@click.option(
    "--also",
    default="",
    metavar="COLUMNS",
    help="With --log: further numeric columns for `su`, known at submission, as a mesh size; separated by commas.",
)
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Only the first N jobs of each log.")
@click.option(
    "--every", type=click.IntRange(min=1), default=5, show_default=True, help="Score every N-th job (1: all)."
)
@click.option(
    "--schedule-first",
    type=click.IntRange(min=0),
    default=5000,
    show_default=True,
    help="Number of jobs of Table 6 (0: none).",
)
@click.option("--quick", is_flag=True, help="Only the NREL sample and the first 1,500 jobs of CTC.")
@output_option("Folder for the page and the JSON file.", metavar="FOLDER", default="su", show_default=True)
@click.option("--again", is_flag=True, help="Recompute the results of earlier runs in FOLDER/parts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def command(
    names: Sequence[str],
    own: str | None,
    timezone: str | None,
    also: str,
    first: int | None,
    every: int,
    schedule_first: int,
    quick: bool,
    output: str,
    again: bool,
    as_json: bool,
) -> None:
    """Reproduce Tables 5 and 6 of Wang et al. 2021 on CTC, SDSC-DS and the NREL sample, or on your own log.

    The paper's log is not public, so only the ranking and relative gains can be compared. A forest per prediction takes
    tens of milliseconds; --every and --first reduce the work. Finished parts are stored in FOLDER/parts and reused by
    the next run with the same code, logs and settings.
    """
    from ...errors import UsageError
    from ...trace import read_trace
    from .study import LOGS, READING, Gathered, findings, local_offset, settings_of

    if own is None and (timezone or also):
        raise UsageError("--timezone and --also belong to a log of your own", hint="--log FILE")
    if own is not None and names:
        raise UsageError("give --log or --data-set, not both")
    if quick:
        names, first, schedule_first = names or ("NREL", "CTC"), min(first or 1500, 1500), min(schedule_first, 500)
    chosen = [] if own is not None else list(names or NAMES)
    columns = [word.strip() for word in also.split(",") if word.strip()]
    settings: dict[str, Any] = {
        "logs": chosen or [str(own)], "first": first, "every": every, "schedule_first": schedule_first,
        "protocol": "honest", "loop": "open", "policy": "easy", "seed": 0, "timezone": timezone, "also": columns,
    }  # fmt: skip
    gathered = Gathered(ComputedParts(Path(output) / "parts", again), first, progress, say, every, schedule_first)

    def gather(traces: Path) -> tuple[list[str], list[Any]]:
        for name in chosen:
            gathered.add(name, read_trace(traces / LOGS[name]))
        if own is not None:
            trace = read_trace(own, timezone=timezone).knowing(columns)
            zone = timezone or trace.info.timezone or "UTC"
            gathered.add(Path(own).name, trace, settings_of(local_offset(trace, zone), columns))
        return findings(gathered.rows), gathered.tables()

    print_reproduced("su", TITLE, gathered, gather, READING, settings, output, as_json, own)
