# SPDX-License-Identifier: Apache-2.0
"""`batchcast grid`: map jobs onto the resources of a grid or onto clusters, as they arrive (`serve`)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from ..cli.completion import specs as complete_specs
from ..cli.grammar import Verbs, option, page_option
from ..errors import UsageError

FILE, FOLDER = click.Path(path_type=Path), click.Path(path_type=Path, file_okay=False)

heuristic_option = partial(option, shell_complete=complete_specs("heuristic"))
every_option = partial(option, "--map-every T|events", name="every")
late_option = option("--late run|stop|drop [run]", "What happens to jobs after their deadline.")


@click.group("grid", cls=Verbs, short_help="Map jobs onto a grid's resources: deadlines, data, heuristics.")
def command() -> None:
    """Map jobs with files and deadlines onto the resources of a grid."""


@command.command("serve")
@option("--platform", "Resources as TOML or CSV.", type=FILE)
@option("--clusters", "The resources are the [[cluster]] tables of batchcast.toml.")
@option("--submit", "With --clusters: submit each job to its cluster, exactly once.")
@heuristic_option("--heuristic SPEC [by_preference:cost=0]", "Heuristic, NAME:key=value,...")
@option("--state", "Folder for journal and answers.", required=True, type=FOLDER)
@option("--listen", "Unix socket: one job a line, as JSON.", type=FILE)
@option("--spool", "Folder with one job per .json file.", type=FOLDER)
@every_option("Map jobs every T, or at events.", default="events")
@late_option
@option("--virtual", 'Take the time from each job\'s `arrival`; a line {"end": true} ends.')
@option("--once", "Map the jobs that are in --spool now, then stop.")
@page_option("Also write an HTML page after each mapping: jobs, deadlines, slack, resources.")
def serve_command(platform: Path | None, listen: Path | None, spool: Path | None, **how: Any) -> None:
    """Map jobs onto the resources of a platform as they come, until stopped.

    A job is {"id": "a", "instructions": 3000, "file_mb": 100, "deadline": 900, "demands": {"procs": 8}}. Deadlines are
    seconds of the broker's clock (`allowed`: seconds after the arrival). The answer says at once if a deadline cannot
    be met. Decisions are written to STATE/assignments.jsonl. After a kill, the broker continues from its journal.

    With --clusters a job is {"id": "a", "script": "job.sh", "inputs": ["20G@archive"], "deadline": 1790000000}. Its
    times are predicted from the clusters' queues.

    \b
    batchcast grid serve --platform grid.toml --state broker --listen broker.sock -o broker.html
    batchcast grid serve --clusters --submit --state broker --spool jobs/ -o broker.html
    """
    from batchcast.broker.serving import serve

    if (platform is None) != how["clusters"]:
        raise UsageError("no resources to map jobs onto (accepted: one of --platform FILE and --clusters)")
    if how["virtual"] and how["clusters"]:
        raise UsageError("--virtual needs --platform: jobs on clusters run in real time")
    if how["submit"] and not how["clusters"]:
        raise UsageError("--submit needs --clusters")
    if (listen is None) == (spool is None):
        raise UsageError("no source of jobs (accepted: one of --listen SOCKET and --spool FOLDER)")
    if how["once"] and spool is None:
        raise UsageError("--once needs --spool")
    serve(platform, listen, spool, how)
