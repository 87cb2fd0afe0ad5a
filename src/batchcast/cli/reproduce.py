"""`batchcast reproduce`: the papers' tables on the shared logs, one command a paper."""

from __future__ import annotations

from importlib import import_module

import click

PAPERS: dict[str, tuple[str, str]] = {
    "pqstar": (
        "batchcast.cli.reproduce_pqstar:command",
        "Queue waits: quick starters found in near, mid and far history (Kumar & Vadhiyar 2012).",
    ),
    "online-knn-ga": (
        "batchcast.cli.reproduce_online_knn_ga:command",
        "Run times from similar jobs, tuned online by a genetic algorithm (Xu et al. 2018).",
    ),
    "su": ("batchcast.cli.reproduce_su:command", "Run times from clusters of job names (Wang et al. 2021)."),
    "vasp": ("batchcast.cli.reproduce_vasp:command", "Run time of VASP jobs from input files: IRPA and BRBF (2019)."),
    "grid": ("batchcast.cli.reproduce_grid:command", "Grid jobs with files and deadlines: Emin-min, Ebest (2014)."),
}


class Papers(click.Group):
    """A group whose commands are imported only when one is asked for by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The papers, in the order of the table."""
        return list(PAPERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the paper's command."""
        if cmd_name not in PAPERS:
            return None
        module, _, name = PAPERS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a paper, without importing any."""
        with formatter.section("Papers"):
            formatter.write_dl([(name, words) for name, (_, words) in PAPERS.items()])


@click.group(cls=Papers)
def command() -> None:
    """Print a paper's tables for the logs at hand: figures by its protocol, under its name.

    Logs are looked for in a folder `shared/traces` beside the project, or where BATCHCAST_SHARED points.
    """
