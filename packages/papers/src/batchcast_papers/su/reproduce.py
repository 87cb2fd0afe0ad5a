# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce su`: compares Tables 5 and 6 of Wang et al. 2021 with our results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from batchcast.cli.grammar import option, output_option, verb

NAMES = ("CTC", "SDSC-DS", "NREL")
COUNT = click.IntRange(min=1)
ALSO_HELP = "With --log: further numeric columns for `su`, known at submission, as a mesh size; separated by commas."


@verb("su", json="Print one JSON document instead of tables.")
@option("--data-set", "Only this log (repeatable).", "names", multiple=True, type=click.Choice(NAMES))
@option("--log FILE", "Use your own log instead; it needs job names or application numbers.", "own", type=click.Path())
@option("--timezone ZONE", "With --log: time zone for the hour of submission. Default: the log's.")
@option("--also COLUMNS", ALSO_HELP, default="", show_default=False)
@option("--first N", "Only the first N jobs of each log.", type=COUNT)
@option("--every", "Score every N-th job (1: all).", type=COUNT, default=5)
@option("--schedule-first", "Number of jobs of Table 6 (0: none).", type=click.IntRange(min=0), default=5000)
@option("--quick", "Only the NREL sample and the first 1,500 jobs of CTC.")
@output_option("Folder for the page and the JSON file.", metavar="FOLDER", default="su")
@option("--again", "Recompute the results of earlier runs in FOLDER/parts.")
def command(
    names: Sequence[str], own: str | None, timezone: str | None, also: str, quick: bool, as_json: bool, **how: Any
) -> None:
    """Reproduce Tables 5 and 6 of Wang et al. 2021 on CTC, SDSC-DS and the NREL sample, or on your own log.

    The paper's log is not public, so only the ranking and relative gains can be compared. A forest per prediction takes
    tens of milliseconds; --every and --first reduce the work. Finished parts are stored in FOLDER/parts and reused by
    the next run with the same code, logs and settings.
    """
    from batchcast.errors import UsageError
    from batchcast.trace import read_trace

    from .study import LOGS, Gathered, findings, local_offset, settings_of

    if own is None and (timezone or also):
        raise UsageError("--timezone and --also belong to a log of your own", hint="--log FILE")
    if own is not None and names:
        raise UsageError("give --log or --data-set, not both")
    if quick:
        names = names or ("NREL", "CTC")
        how |= {"first": min(how["first"] or 1500, 1500), "schedule_first": min(how["schedule_first"], 500)}
    chosen = [] if own is not None else list(names or NAMES)
    columns = [word.strip() for word in also.split(",") if word.strip()]
    gathered = Gathered(**how)
    settings: dict[str, Any] = {
        "logs": chosen or [str(own)], "first": gathered.first, "every": gathered.every,
        "schedule_first": gathered.schedule_first, "protocol": "honest", "loop": "open", "policy": "easy", "seed": 0,
        "timezone": timezone, "also": columns,
    }  # fmt: skip

    def gather(traces: Path) -> tuple[list[str], list[Any]]:
        for name in chosen:
            gathered.add(name, read_trace(traces / LOGS[name]))
        if own is not None:
            trace = read_trace(own, timezone=timezone).knowing(columns)
            zone = timezone or trace.info.timezone or "UTC"
            gathered.add(Path(own).name, trace, settings_of(local_offset(trace, zone), columns))
        return findings(gathered.rows), gathered.tables()

    gathered.print_results(gather, settings, as_json, own)
