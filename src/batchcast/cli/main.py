# SPDX-License-Identifier: Apache-2.0
"""`batchcast`: the entry point of the command line.

A verb's module is imported when the verb is called. Entry points of other packages add verbs. Known errors become one
message and an exit code.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from ..errors import BatchcastError, UsageError, flags_in_messages, how_to_install
from ..version import __version__
from .grammar import added_verbs, full_help, in_our_words, option
from .interrupt import end, end_on_interrupt
from .output import echo, speak_any_encoding

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path


def commands() -> dict[str, EntryPoint]:
    """Return every verb that installed packages add by an entry point, by name."""
    return {name: point for name, point in added_verbs().items() if "." not in name}


def summary(point: EntryPoint) -> str:
    """Return the first line of the docstring of a verb's module, read from its source without importing it.

    If the line contains `: `, only the words after it (`` `batchcast grid`: map jobs ... ``). If its source cannot be
    found, the module's name is returned.
    """
    import ast

    path = _source(point.module)
    try:
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path else None
    except (OSError, SyntaxError, UnicodeDecodeError):
        words = None
    if not words:
        return point.module
    line = words.splitlines()[0]
    line = line.partition(": ")[2] or line if line.startswith("`") else line
    return line[:1].upper() + line[1:]


def _source(module: str) -> Path | None:
    """Find the source file of a module, package by package as an import does, without executing any code."""
    from importlib.machinery import PathFinder
    from pathlib import Path

    parts, search = module.split("."), None
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or ())
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


VERBS: dict[str, str] = {
    "evaluate": "Report on a log: unused core-hours, prediction errors, and how much sooner jobs would start.",
    "demo": "Run `evaluate` on a synthetic log that comes with batchcast.",
    "compare": "Compare two evaluation reports, with confidence intervals for each difference.",
    "info": "Summarize a log: jobs, dates, machine size, available fields, data problems.",
    "runtime": "Predict the run times of a log's jobs and score the predictions. For your next job: walltime.",
    "wait": "Predict the queue waits of a log's jobs and score the predictions. For a waiting job: start.",
    "simulate": "Simulate scheduling policies on a log, with time limits or predictions.",
    "sweep": "Run many simulations declared in one file, on this machine, Dask or Slurm.",
    "limits": "Suggest time limits or memory requests for a log's jobs, and count kills and waste.",
    "whatif": "Simulate a changed machine, scheduler or limit, and compare waits by group.",
    "machine": "Describe a cluster in a file: from Slurm, from slurm.conf, or from a log.",
    "convert": "Convert a log to SWF, CSV, Parquet or a Batsim workload.",
    "anonymize": "Replace the names in a log by keyed hashes, so that the log can be shared.",
    "synth": "Generate a synthetic log from published workload models, or compare it with a real log.",
    "start": "Predict when your waiting jobs, or a script not yet submitted, will start. Over a log: wait.",
    "submit": "Submit a script to the cluster that is expected to finish it first.",
    "walltime": "Suggest a time limit and memory request for your next job, from your past jobs. Over a log: limits.",
    "report": "Show what jobs requested and used, and which options to change.",
    "mcp": "Answer an AI assistant's questions about your jobs (read-only).",
    "accuracy": "Show the coverage and errors of past predictions, beside `squeue --start`.",
    "collect": "Collect a running cluster's history and store predictions (read-only).",
    "serve": "Answer users over HTTP, with JSON and web pages (read-only).",
    "plan": "Show, start or stop planning: which waiting jobs have a new time limit or priority.",
    "doctor": "Check the installation and show every setting with its source.",
    "install": "Write systemd units for collector and service.",
    "site": "Manage the store: delete old history, issue tokens, export the history as a log.",
    "completion": "Print the completion script for bash, zsh or fish.",
}
ROOMS: dict[str, str] = {
    "study": "evaluate evaluate:demo evaluate:compare info runtime wait simulate limits whatif machine sweep",
    "users": "start submit walltime report accuracy mcp",
    "site": "collect collect:serve plan setup:doctor setup:install store:site",
    "logs": "convert convert:anonymize synth",
}
"""Folder beside this file that holds each verb: its module, or MODULE:VERB. Verbs not listed here lie in this
folder.
"""
VERB_MODULES = {
    (name or module): (room, module, name or "command")
    for room, places in ROOMS.items()
    for module, _, name in (place.partition(":") for place in places.split())
}
"""Folder, module and command of each verb in `ROOMS`."""
TITLES = {
    "study": "Study a log",
    "users": "For users",
    "site": "Run a site",
    "logs": "Logs",
    "": "More",
}
"""Titles in the help, above the verbs of each folder."""


FIRST = ("demo", "info", "evaluate", "report", "start", "walltime", "collect", "doctor")
"""The verbs that `batchcast --help` shows; `batchcast help` shows all."""


def _room(verb: str) -> str:
    """Return the folder (room) of a verb's module; empty if the module lies in this folder or in another package."""
    return VERB_MODULES[verb][0] if verb in VERB_MODULES else ""


def _load(verb: str) -> click.Command:
    """Import the module of one of batchcast's own verbs, and return the verb's command."""
    room, module, name = VERB_MODULES.get(verb, ("", verb, "command"))
    command: click.Command = getattr(import_module(".".join(filter(None, (__package__, room, module)))), name)
    return command


class LazyGroup(click.Group):
    """A group whose commands are modules of this package; a module is imported when its command is requested."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command; inside it, messages name command-line flags instead of Python arguments."""
        with flags_in_messages():
            return super().main(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does; also accept `--debug` after the verb, where people add it to a command that failed."""
        ours = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:ours]:
            args = ["--debug", *(word for word in args[:ours] if word != "--debug"), *args[ours:]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return batchcast's own verbs in the order of `VERBS`, most needed first, then the verbs of other packages."""
        return [*VERBS, *commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its command."""
        if cmd_name == "help":
            return help_command
        if cmd_name in VERBS:
            return _load(cmd_name)
        return commands()[cmd_name].load() if cmd_name in commands() else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete verbs and options at the cursor, without importing any verb."""
        from click.shell_completion import CompletionItem

        fitting = [verb for verb in (*self.list_commands(ctx), "help") if verb.startswith(incomplete)]
        return [CompletionItem(verb, help=VERBS.get(verb)) for verb in fitting] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one line for each verb that people need first, without importing any verb."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name]) for name in FIRST])
        formatter.write_paragraph()
        formatter.write_text("More: batchcast help")

    def format_all_commands(self, formatter: click.HelpFormatter) -> None:
        """Write one line for each verb under the title of its room, without importing any of batchcast's verbs."""
        said = {**VERBS, **{name: summary(point) for name, point in commands().items()}}
        for room, title in TITLES.items():
            with formatter.section(title):
                formatter.write_dl([(name, words) for name, words in said.items() if _room(name) == room])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command as click does. If the verb is unknown, the error names the nearest verbs."""
        is_verb = args and not args[0].startswith("-") and args[0] not in VERBS and args[0] != "help"
        if is_verb and args[0] not in (verbs := self.list_commands(ctx)):
            from difflib import get_close_matches

            site: Any = _load("site")
            near = [f"site {args[0]}"] if args[0] in site.commands else get_close_matches(args[0], verbs, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"accepted: {', '.join(verbs)}"
            raise click.UsageError(f"no command {args[0]!r} ({hint})", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "-v", "--version", message="batchcast %(version)s")
@option("--debug", "Show the traceback of an error.")
@option("--color auto|always|never", "Colour on the terminal.", default="auto", show_default=False)
@click.pass_context
def cli(ctx: click.Context, debug: bool, color: str) -> None:
    """Predict how long batch jobs run and wait, and simulate what a scheduler gains from the predictions.

    Data goes to stdout, everything else to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 no
    answer, 4 batch system or service unreachable.
    """
    ctx.obj = {"debug": debug, "color": color}


@click.command("help")
@click.argument("words", nargs=-1, metavar="[VERB]...")
@option("--all", "With VERB: also list the rare options that --set takes.", "with_rare")
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...], with_rare: bool) -> None:
    """Show all verbs, or the help of one verb."""
    parent: click.Context = ctx.find_root()
    if not words:
        formatter = parent.make_formatter()
        cli.format_all_commands(formatter)
        echo(formatter.getvalue().rstrip("\n"))
        return
    command: click.Command = cli
    for word in words:
        found = command.get_command(parent, word) if isinstance(command, click.Group) else None
        if found is None:
            raise UsageError(f"no command {' '.join(words)!r}", hint="batchcast help")
        parent, command = click.Context(found, info_name=word, parent=parent), found
    echo(full_help(command, parent) if with_rare else command.get_help(parent))


COMPLETING = "_BATCHCAST_COMPLETE"
PARTS = {"sqlalchemy": "store", "psycopg": "store", "pyarrow": "parquet", "sklearn": "learn", "lightgbm": "learn",
         "scipy": "learn", "rapidfuzz": "learn", "polars": "sweep", "distributed": "sweep", "dask": "sweep",
         "dask_jobqueue": "sweep"}  # fmt: skip
"""The optional part of the installation that contains each package."""


def _in_words(error: Exception) -> str:
    """Describe an error, with the next step: batchcast's own, an error of the system, or a missing package."""
    if isinstance(error, BatchcastError):
        return str(error)
    if isinstance(error, OSError) and "cannot open shared object file" in str(error):
        library = str(error).partition(":")[0]
        package = " (Debian: libgomp1; Red Hat and SUSE: libgomp)" if library.startswith("libgomp") else ""
        hint = f"install it with the system's package manager{package}"
        return f"a library of the system is missing: {library}\n  try: {hint}"
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        room = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "another place, or free space in this one" if room else "another place, or permissions for this one"
        return f"{place}{error.strerror or error}\n  try: {hint}"
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in PARTS:
        only = package if PARTS[package] == "store" else ""
        return f"{package} is not installed\n  try: {how_to_install(PARTS[package], only)}"
    return f"unexpected {type(error).__name__}: {error}\n  try: run it with --debug, and report the output"


def entry() -> None:
    """Run the command line; every known error is one message on stderr and its exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # saves 0.1 s of start-up; no verb uses its threads
    gc.set_threshold(100_000, 20, 50)  # start-up creates a million objects that live to the end
    debug = "--debug" in sys.argv
    speak_any_encoding()
    if not debug and not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries' warnings contain local paths; --debug shows them
        warnings.filterwarnings("once", "numba .* was never tried", RuntimeWarning)
        warnings.showwarning = lambda message, *_, **__: echo(f"note: {message}", err=True)
    end_on_interrupt()
    if COMPLETING in os.environ:
        import_module("batchcast.cli.completion")  # registers our bash
    try:
        code = cli.main(standalone_mode=False, prog_name="batchcast")
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        helps = isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ()))  # exists from click 8.2 on
        echo(error.format_message() if helps else f"batchcast: {in_our_words(error)}", err=True)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        end()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if debug:
            raise
        echo(f"batchcast: {_in_words(error)}", err=True)
        code = error.exit_code if isinstance(error, BatchcastError) else 1
    sys.exit(code if isinstance(code, int) else 0)
