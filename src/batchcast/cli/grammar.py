# SPDX-License-Identifier: Apache-2.0
"""What all verbs share: options under headings, rare options behind `--set`, and `-o` for output files.

A verb is declared with `verb` instead of `click.command`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import BatchcastError, UsageError
from ..units import parse_share
from .output import document, emit, is_emitted, say

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

HEADINGS: dict[str, tuple[str, ...]] = {
    "Read": ("--format", "--map", "--timezone", "--strict", "--keep-repeats", "--procs-total", "--procs",
             "--known-at-submit", "--private", "--in-periods"),
    "Select": ("--from", "--to", "--status", "--partition", "--queue", "--user", "--cluster", "--first", "--clean",
               "--score-from", "--score-to", "--score-status"),
    "Plan": ("--predictor", "--policy", "--machine", "--scheduler", "--vary", "--order", "--order-within", "--age",
             "--plan-level", "--partitions", "--protocol", "--loop", "--wide", "--no-kill", "--default-request"),
}  # fmt: skip
"""Headings in the help of verbs that read a LOG; options without a heading come first."""

RARE = frozenset({
    "--strict", "--keep-repeats", "--procs", "--cluster", "--score-to", "--score-status", "--order-within", "--age",
    "--plan-level", "--partitions", "--protocol", "--loop", "--wide", "--no-kill", "--default-request", "--seed",
    "--resamples", "--trace-parameters", "--schedule-format", "--log-format",
})  # fmt: skip
"""Options of verbs that read a LOG which the help leaves out: `--set KEY=VALUE` sets them, `help VERB --all` lists
them.

They work as flags too, so scripts may write `--seed 3` as well as `--set seed=3`.
"""
_ALL = "batchcast.help.all"  # key in a click context's `meta`: the help also lists rare options


class Verb(click.Command):
    """A click command with batchcast's options, help and error messages."""

    says_first: Callable[[Mapping[str, Any]], str] | None = None
    """The sentence on stderr that says, before a long command begins, what it will do and how long that takes."""

    def __init__(self, *args: Any, json: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if json and not any(each.name == "as_json" for each in self.params):
            self.params.append(click.Option(["--json", "as_json"], is_flag=True, help=json))
        reads_log = any(each.name == "log" and isinstance(each, click.Argument) for each in self.params)
        self.rare = {_long(each)[2:]: each for each in self.params if reads_log and _long(each) in RARE}
        self.takes_more = any("--set" in each.opts for each in self.params)
        if self.rare and not self.takes_more:
            help = "Rare settings: see `batchcast help VERB --all`."
            self.params.append(
                click.Option(["--set"], multiple=True, metavar="KEY=VALUE", help=help, expose_value=False)
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, with `--set KEY=VALUE` read as `--KEY VALUE`.

        If the command line has `--json`, an error also prints an empty document with the message as a warning.
        """
        ours = args[: args.index("--")] if "--" in args else args
        as_json = "--json" in ours and any(each.name == "as_json" for each in self.params)
        try:
            return super().parse_args(ctx, [*self._written_out(ours, str(ctx.info_name)), *args[len(ours) :]])
        except (BatchcastError, click.UsageError) as error:
            if as_json and not ctx.resilient_parsing:
                _leave_document(ctx, error)
            raise

    def _written_out(self, args: list[str], verb: str) -> list[str]:
        """Return the arguments with `--set KEY=VALUE` replaced by the option `--KEY VALUE`, if KEY is a rare option."""
        words, out = iter(args), []
        for word in words:
            if not self.rare or not (word == "--set" or word.startswith("--set=")):
                out.append(word)
                continue
            setting = word[len("--set=") :] if word != "--set" else next(words, "")
            key, is_given, value = setting.partition("=")
            option = self.rare.get(key.replace("_", "-"))
            if option is None and self.takes_more:
                out += ["--set", setting]
            elif option is None or not is_given:
                raise UsageError(f"--set {setting}: no such setting (accepted: {', '.join(sorted(self.rare))})",
                                 hint=f"batchcast help {verb} --all")  # fmt: skip
            elif not getattr(option, "is_flag", False):
                out += [_long(option), value]
            elif value in ("yes", "no"):
                out += [_long(option)] * (value == "yes")
            else:
                raise UsageError(f"--set {setting}: {value!r} is not a switch (accepted: yes, no)")
        return out

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command as click does; with `--json`, an error also prints an empty document with the message as a
        warning."""
        if self.says_first is not None:
            say(self.says_first(ctx.params))
        try:
            return super().invoke(ctx)
        except (BatchcastError, click.UsageError) as error:
            if ctx.params.get("as_json"):
                _leave_document(ctx, error)
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verb's own options first, then shared ones by heading, and rare ones only for `help VERB --all`."""
        under: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *HEADINGS)}
        reads = any(each.name == "log" for each in self.params)
        place = {name: heading for heading, names in HEADINGS.items() for name in names} if reads else {}
        for parameter in self.get_params(ctx):
            is_left_out = _long(parameter)[2:] in self.rare and not ctx.meta.get(_ALL)
            if not is_left_out and (record := parameter.get_help_record(ctx)):
                under[place.get(_long(parameter), "Options")].append(record)
        for heading, records in under.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def full_help(command: click.Command, ctx: click.Context) -> str:
    """Return a verb's help with its rare options."""
    ctx.meta[_ALL] = True
    return command.get_help(ctx)


GROUP = "batchcast.commands"
"""The group of entry points with verbs."""


@cache
def added_verbs() -> dict[str, EntryPoint]:
    """Return every verb that installed packages add by an entry point, by name; `grid.map` is a verb of `grid`."""
    # importing the entry points takes 25 ms, and batchcast's own verbs do not need them
    from importlib.metadata import entry_points

    points = entry_points(group=GROUP)
    return {point.name: point for point in sorted(points, key=lambda point: point.name)}


class Verbs(click.Group):
    """A click group of batchcast's commands; the entry point `GROUP.VERB` of another package adds a verb."""

    command_class = Verb

    def _added(self) -> dict[str, EntryPoint]:
        """Return the verbs that installed packages add to this group, by their names inside the group."""
        group = f"{self.name}."
        return {name.removeprefix(group): point for name, point in added_verbs().items() if name.startswith(group)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the group's own verbs and the added verbs, sorted by name."""
        return sorted({*self.commands, *self._added()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb of the group; the module of an added verb is imported when the verb is requested."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in (added := self._added()):
            return own
        command: click.Command = added[cmd_name].load()
        return command


JSON = "Print one JSON document."
TABLES_OR_JSON = "Print one JSON document instead of tables."


def verb(name: str | None = None, *, json: str = JSON, **named: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Like `click.command`, for a verb of batchcast; adds the option `--json` with this help, if it is not empty."""
    return click.command(name, cls=Verb, json=json, **named)


def _leave_document(ctx: click.Context, error: BatchcastError | click.UsageError) -> None:
    """Print an empty document with the error as a warning, unless the verb has printed its document."""
    if not is_emitted(ctx):
        said = in_our_words(error) if isinstance(error, click.UsageError) else str(error)
        emit(document(_verb_of(ctx), {}, {}, [said], []))


def in_our_words(error: click.ClickException) -> str:
    """Return the message of click's usage error in the form of batchcast's messages: what is wrong, then the next step.

    >>> print(in_our_words(click.NoSuchOption("--polcy", possibilities=["--policy", "--loop"])))
    no option --polcy
      try: --policy
    """
    from difflib import get_close_matches

    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context else ""
    if isinstance(error, click.NoSuchOption):
        near = get_close_matches(error.option_name, error.possibilities or (), n=2, cutoff=0.75)
        said, hint = f"no option {error.option_name}", " or ".join(near) or hint
    elif isinstance(error, click.MissingParameter):
        said = error.format_message().strip().rstrip(".")
        said = said[:1].lower() + said[1:]
    else:
        said = re.sub(r"^Invalid value for '?(.*?)'?(?: / '.*?')?: ", r"\1: ", error.format_message()).rstrip(".")
    return f"{said}\n  try: {hint}" if hint else said


def option(form: str, help: str, name: str = "", **named: Any) -> Callable[..., Any]:
    """Return the click option that a form declares.

    `-o, --output TEXT` takes a value, and `--machine FILE` a path. `--user NAMES...` may be repeated; its help shows
    NAMES. `--by user|queue` accepts only these lower-case words. `--risk TEXT [5%]` has the default 5%. `--details` is
    a switch.

    `name` is the parameter of the verb, if it differs from the option's long name. The help shows the default.
    """
    flags = re.findall(r"(?:^|, )(-[^\s,]+)", form)
    value, _, default = form.partition(flags[-1])[2].lstrip().partition(" [")
    named |= {"default": default.removesuffix("]")} if default else {}
    kind: dict[str, Any] = {"metavar": value} if value else {} if "type" in named else {"is_flag": True}
    if value.endswith("..."):
        kind = {"metavar": value.removesuffix("..."), "multiple": True}
    elif value == "FILE":
        kind["type"] = click.Path()
    elif "|" in value and value.islower():
        kind = {"type": click.Choice(value.split("|"))}
    shows = {"show_default": True} if named.get("default") is not None else {}
    return click.option(*flags, *filter(None, [name]), help=help, **{**kind, **shows, **named})


def adds(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds these click options to a command, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def parsed(read: Callable[[str], float]) -> Callable[..., float | None]:
    """Return a click callback that converts an option's text by `read`, and turns its error into an error of click."""

    def callback(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            return read(text)
        except UsageError as error:
            raise click.BadParameter(error.message) from None

    return callback


def risk_option(jobs: str) -> Callable[..., Any]:
    """The option `--risk` of verbs that suggest time limits or memory requests; `jobs` names the jobs in its help
    text."""
    help = f"Accepted share of {jobs} that exceed the suggestion."
    return option("--risk TEXT [5%]", help, callback=parsed(parse_share))


def output_option(help: str, name: str = "output", metavar: str = "OUT", **named: Any) -> Callable[..., Any]:
    """The option `-o`: the output file, whose ending sets the format; `-` is stdout if the verb writes text."""
    return option(f"-o, --output {metavar}", help, name, **{"type": click.Path(), **named})


formulas_option = option(
    "--mark-formulas", "In CSV, put ' before texts that a spreadsheet would run as formulas (=, +, -, @)."
)
"""The option of verbs that write CSV."""


table_options = option("--details", "Print all columns, and what decides each difference.")
"""Prints what tables on a terminal leave out; `output.show_tables` uses its value."""


def page_option(help: str) -> Callable[..., Any]:
    """The option `-o FILE.html`: a page in addition to the printed answer."""
    return output_option(help, "page", "FILE.html", type=click.Path(path_type=Path))


def _verb_of(ctx: click.Context) -> str:
    """Return the verb's name as its JSON documents give it: `token create`, not `batchcast site token create`."""
    return " ".join(word for word in ctx.command_path.split()[1:] if word != "site") or str(ctx.command.name)


def typed_options(ctx: click.Context) -> dict[str, str]:
    """Return the long name of each option that the command line has, by the parameter's name."""
    typed = click.core.ParameterSource.COMMANDLINE
    return {str(p.name): _long(p) for p in ctx.command.params if ctx.get_parameter_source(str(p.name)) is typed}


def _long(parameter: click.Parameter) -> str:
    """Return the option's long name, as it is typed."""
    return next((each for each in parameter.opts if each.startswith("--")), parameter.opts[0])
