# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce`: reproduce the tables of five papers, one command per paper."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import click

from batchcast.cli.grammar import Verb, option, output_option

PAPERS = {
    "pqstar": "Queue waits: jobs that start within an hour (quick starters; Kumar & Vadhiyar 2012).",
    "online-knn-ga": "Run times from similar jobs, tuned online by a genetic algorithm (Xu et al. 2018).",
    "su": "Run times from clusters of job names (Wang et al. 2021).",
    "vasp": "Run time of VASP jobs from input files: IRPA and BRBF (2019).",
    "grid": "Grid jobs with files and deadlines: Emin-min, Ebest (2014).",
}
FOLDERS = {"pqstar": "quick_starters"}
"""Folders of the papers whose command is named differently from their folder."""
QUICK_S = {"grid": 22, "vasp": 47, "pqstar": 65, "su": 175, "online-knn-ga": 94}
"""Seconds of CPU of `reproduce PAPER --quick` (docs/papers/index.md)."""


def _first_words(paper: str, given: Mapping[str, Any]) -> str:
    """Return a sentence about what will be computed, and how long it takes."""
    quick = f"about {QUICK_S[paper]} s of CPU"
    if given.get("quick"):
        return f"reproduce {paper} on a small part of the data: {quick}"
    return f"reproduce {paper} in full: minutes to hours of one core (--quick: {quick}, on a part of the data)"


class Papers(click.Group):
    """A group of commands that imports a command only when it is called by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the papers, in the order of the table of papers."""
        return [*PAPERS, "all"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of one paper."""
        if cmd_name not in PAPERS:
            return super().get_command(ctx, cmd_name)
        folder = FOLDERS.get(cmd_name, cmd_name.replace("-", "_"))
        verb: Verb = import_module(f"{__package__}.{folder}.reproduce").command
        verb.says_first = partial(_first_words, cmd_name)
        return verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one line of help per paper, without importing the papers' commands."""
        with formatter.section("Papers"):
            formatter.write_dl([*PAPERS.items(), ("all", "All of them.")])


@click.group(cls=Papers)
def command() -> None:
    """Reproduce the tables of a paper on the available logs.

    Logs are read from the folder `shared/traces` beside the project, or from BATCHCAST_SHARED.
    """


@command.command("all")
@option("--quick", "Use a small part of each paper's data (minutes instead of hours).")
@output_option("Folder of pages and results.", metavar="FOLDER", default="papers")
@option("--log FILE", "Add your own log to the tables that accept one.", "logs", multiple=True, type=click.Path())
@option("--json", "Print one JSON document with every paper's rows.", "as_json")
@click.pass_context
def everything(ctx: click.Context, quick: bool, output: str, logs: tuple[str, ...], as_json: bool) -> None:
    """Run the five reproductions; write a page of each to FOLDER."""
    import json
    from contextlib import nullcontext, redirect_stdout
    from io import StringIO
    from pathlib import Path
    from time import process_time

    from batchcast.cli.output import document, emit, say

    place = Path(output)
    place.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    for name in ("grid", "vasp", "pqstar", "su", "online-knn-ga"):
        # the other reproductions store parts of their results in a folder beside their page
        more = ["-o", str(place / (name if name in ("su", "online-knn-ga") else f"{name}.html"))]
        more += [word for log in logs for word in ("--log", log)] if name == "pqstar" else []
        begun = process_time()
        say(f"reproduce {name}{' --quick' if quick else ''}")
        paper = command.get_command(ctx, name)
        assert paper is not None
        printed = StringIO()
        options = [*more, *["--quick"] * quick, *["--json"] * as_json]
        with redirect_stdout(printed) if as_json else nullcontext():
            paper.main(options, prog_name=f"batchcast reproduce {name}", standalone_mode=False, parent=ctx, obj=ctx.obj)
        if as_json:
            rows += [{"paper": name, **row} for row in json.loads(printed.getvalue())["results"]]
        say(f"reproduce {name}: {process_time() - begun:,.0f} s of CPU in this process")
    if as_json:
        emit(document("reproduce all", {"source": "the papers' logs"}, {"quick": quick, "output": output}, [], rows))
