# SPDX-License-Identifier: Apache-2.0
"""`batchcast`: the entry point. Verbs are loaded when called, found here or as entry points.

Errors become one message and an exit code.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from ..errors import BatchcastError, UsageError, flags_in_messages, how_to_install
from ..version import __version__
from .grammar import Verbs, in_our_words
from .interrupt import end, end_on_interrupt
from .output import echo, speak_any_encoding

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

OURS = __name__.partition(".")[0]
GROUP = "batchcast.commands"


@cache
def commands() -> dict[str, EntryPoint]:
    """Every verb that an installed package brings, by name."""
    from importlib.metadata import entry_points  # 25 ms, and our own verbs need none

    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def summary(point: EntryPoint) -> str:
    """What the verb's module says of itself in its docstring's first line, read from its source, not imported.

    The words after `: ` where the line has them (`` `batchcast grid`: map jobs ... ``), else the whole line; the
    module's name where its source cannot be found.
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
    """The file of a module, found package by package as import does, with nothing executed."""
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
    "evaluate": "How wrong are limits, how good are forecasts, how much sooner would jobs start: table and page.",
    "demo": "The main job on a bundled synthetic workload.",
    "compare": "Two reports of evaluate side by side: what changed, and how far it could be chance.",
    "info": "What a log holds: counts, dates, machine, known fields, users' accuracy, what cleaning would drop.",
    "runtime": "How long did jobs of a log run, and how well is that forecast? A live job's limit: walltime.",
    "wait": "How long did jobs of a log wait, and how well is that forecast? For a live job: start.",
    "simulate": "Let a scheduler decide the starts, with predictors in the loop.",
    "sweep": "A whole study, declared once, on this machine, on Dask or on Slurm; and its tables.",
    "limits": "Which limits would have wasted least over a log? For one live job: walltime.",
    "whatif": "What if the machine, its scheduler or the limits changed: who gains, who pays.",
    "machine": "The cluster as Slurm describes it, or as a log implies it: capture, show, learn.",
    "convert": "A log in one format as a log in another: SWF, CSV, Parquet.",
    "anonymize": "A log that can be shared: names replaced by a keyed hash, times kept or moved.",
    "synth": "A synthetic log from published models of jobs, requests and users; or how like a real one it is.",
    "start": "When will my waiting job start: likely, by 90 %, and how right were such answers? Over a log: wait.",
    "walltime": "Which limit should my next job ask for, and why? Over a log: limits, runtime.",
    "report": "What jobs asked for and used, how long they waited, and which flag to change.",
    "accuracy": "How right our own past forecasts were, beside squeue --start.",
    "collect": "Beside a running cluster: keep its history and issue forecasts, read-only.",
    "serve": "The answers to users as JSON over HTTP, on this machine only, read-only.",
    "plan": "Let Slurm plan with forecasts, no job ended early: what it would do, does and did; off in one command.",
    "doctor": "Settings and where each came from; is everything there and does it answer; what to do.",
    "install": "The systemd units of collector and service, as this site needs them.",
    "site": "The store and who may ask it: purge, token, export.",
    "completion": "What makes bash, zsh or fish complete verbs, methods, policies and files.",
}
OF_THE_SITE: dict[str, str] = {
    "purge": "Let go of history older than a site keeps; what goes is said first and summed up.",
    "token": "Bearer tokens, by which scripts ask over HTTP in a user's name: create, list, revoke.",
    "export": "The cluster's own history as a log for evaluate and simulate.",
}
"""The verbs of `batchcast site`."""
ROOMS: dict[str, str] = {
    "study": "evaluate evaluate:demo evaluate:compare info runtime wait simulate limits whatif machine sweep",
    "users": "start walltime report accuracy",
    "site": "collect collect:serve plan setup:doctor setup:install store:token store:purge store:export",
    "logs": "convert convert:anonymize synth",
}
"""Which folder beside this file holds a verb: its module, or MODULE:VERB. What is not named here lies in this one."""
TITLES = {
    "study": "Study a log",
    "users": "For users",
    "site": "Run a site",
    "logs": "Logs",
    "papers": "Papers",
    "": "More",
}
"""What the help says above the verbs of each room."""


FIRST = ("demo", "info", "evaluate", "report", "start", "walltime", "collect", "doctor")
"""The verbs that `batchcast --help` shows; `batchcast help` shows all."""


def _place(verb: str) -> tuple[str, str]:
    """The module of a verb, and what its command is called there."""
    for room, places in ROOMS.items():
        for place in places.split():
            module, _, name = place.partition(":")
            if verb == (name or module):
                return f"{__package__}.{room}.{module}", name or "command"
    return f"{__package__}.{verb}", "command"


def _room(verb: str) -> str:
    """The room of a verb; that of a plug-in by where its module lies."""
    if verb == "site":
        return verb
    module = commands()[verb].module if verb not in VERBS and verb in commands() else _place(verb)[0]
    package, *words, _ = module.split(".")
    return next((word for word in words if package == OURS and word in TITLES), "")


class Site(Verbs):
    """The verbs of a site's own store, imported only when one is asked for by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return list(OF_THE_SITE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its command."""
        return _load(cmd_name) if cmd_name in OF_THE_SITE else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a verb, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(OF_THE_SITE.items()))


def _load(verb: str) -> click.Command:
    from importlib import import_module

    module, name = _place(verb)
    command: click.Command = getattr(import_module(module), name)
    return command


class LazyGroup(click.Group):
    """A group whose commands are modules of this package, imported only when one is asked for by name."""

    def main(self, *given: Any, **named: Any) -> Any:
        """As click does; errors name flags, which in Python are arguments."""
        with flags_in_messages():
            return super().main(*given, **named)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; `--debug` counts after the verb too, which is where people add it to what failed."""
        ours = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:ours]:
            args = ["--debug", *(word for word in args[:ours] if word != "--debug"), *args[ours:]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order a newcomer meets them; last those that entry points bring."""
        return [*VERBS, *commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its command."""
        if cmd_name in ("site", "help"):
            return site if cmd_name == "site" else help_command
        if cmd_name in VERBS:
            return _load(cmd_name)
        if cmd_name not in commands():
            return None
        command: click.Command = commands()[cmd_name].load()
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Verbs and options at the cursor; no verb is imported to name it."""
        from click.shell_completion import CompletionItem

        fitting = [verb for verb in (*self.list_commands(ctx), "help") if verb.startswith(incomplete)]
        return [CompletionItem(verb, help=VERBS.get(verb)) for verb in fitting] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line for each verb that people need first, without importing any verb."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name]) for name in FIRST])
        formatter.write_paragraph()
        formatter.write_text("More: batchcast help")

    def format_all_commands(self, formatter: click.HelpFormatter) -> None:
        """One line for each verb under the title of its room, without importing any verb."""
        said = {**VERBS, **{name: summary(point) for name, point in commands().items()}}
        for room, title in TITLES.items():
            with formatter.section(title):
                formatter.write_dl([(name, words) for name, words in said.items() if _room(name) == room])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click does, with the nearest verbs named when there is none of that name."""
        if not args or args[0].startswith("-") or args[0] in VERBS or args[0] == "help":
            pass
        elif args[0] not in (verbs := self.list_commands(ctx)):
            from difflib import get_close_matches

            near = [f"site {args[0]}"] if args[0] in OF_THE_SITE else get_close_matches(args[0], verbs, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"accepted: {', '.join(verbs)}"
            raise click.UsageError(f"no command {args[0]!r} ({hint})", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "-v", "--version", message="batchcast %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour on the terminal.")
@click.pass_context
def cli(ctx: click.Context, debug: bool, color: str) -> None:
    """Forecast batch jobs: how long they run, how long they wait, and what a scheduler gains by knowing.

    Data goes to stdout, everything else to stderr. Exit codes: 0 ok, 1 failed, 2 usage, 3 no answer, 4 unreachable.
    """
    ctx.obj = {"debug": debug, "color": color}


@click.command("help")
@click.argument("words", nargs=-1, metavar="[VERB]...")
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...]) -> None:
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
    echo(command.get_help(parent))


site = Site("site", help="The store of this site: its age, who may ask it, and its jobs as a log.")

COMPLETING = "_BATCHCAST_COMPLETE"
PARTS = {"sqlalchemy": "store", "psycopg": "store", "pyarrow": "parquet", "sklearn": "learn", "lightgbm": "learn",
         "scipy": "learn", "rapidfuzz": "learn", "polars": "sweep", "distributed": "sweep", "dask": "sweep",
         "dask_jobqueue": "sweep"}  # fmt: skip
"""Which optional part of the installation brings a package."""


def _outside(error: OSError | ModuleNotFoundError) -> str:
    """What the machine did not allow, or what is not installed, and the next step."""
    if isinstance(error, OSError) and "cannot open shared object file" in str(error):
        library = str(error).partition(":")[0]
        package = " (Debian: libgomp1; Red Hat and SUSE: libgomp)" if library.startswith("libgomp") else ""
        hint = f"install it with the system's package manager{package}"
        return f"a library of the system is missing: {library}\n  try: {hint}"
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        room = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "another place, or more room in this one" if room else "another place, or the rights to this one"
        return f"{place}{error.strerror or error}\n  try: {hint}"
    package = (error.name or "").partition(".")[0]
    if package in PARTS:
        only = package if PARTS[package] == "store" else ""
        return f"{package} is not installed\n  try: {how_to_install(PARTS[package], only)}"
    return f"unexpected {type(error).__name__}: {error}\n  try: the same with --debug, and report it"


def entry() -> None:
    """Run the command line; every known error is one message on stderr and its exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # 0.1 s of start-up for threads nobody uses
    gc.set_threshold(100_000, 20, 50)  # start-up makes a million objects, and they stay
    debug = "--debug" in sys.argv
    speak_any_encoding()
    if not debug and not sys.warnoptions:
        warnings.simplefilter("ignore")  # a library's, with a path of this machine; --debug shows them
        warnings.filterwarnings("once", "numba .* was never tried", RuntimeWarning)
        warnings.showwarning = lambda message, *_, **__: echo(f"note: {message}", err=True)
    end_on_interrupt()
    if COMPLETING in os.environ:
        from ..cli import completion  # noqa: F401  (registers our bash)
    try:
        code = cli.main(standalone_mode=False, prog_name="batchcast")
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        helps = isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ()))  # of click from 8.2
        echo(error.format_message() if helps else f"batchcast: {in_our_words(error)}", err=True)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        end()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except BatchcastError as error:
        if debug:
            raise
        echo(f"batchcast: {error}", err=True)
        code = error.exit_code
    except (OSError, ModuleNotFoundError) as error:
        if debug:
            raise
        echo(f"batchcast: {_outside(error)}", err=True)
        code = 1
    except Exception as error:
        if debug:
            raise
        echo(
            f"batchcast: unexpected {type(error).__name__}: {error}\n  try: the same with --debug, and report it",
            err=True,
        )
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
