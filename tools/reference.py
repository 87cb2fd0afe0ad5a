"""The reference pages that the docs build writes from the code: commands, methods, settings and columns.

MkDocs loads this module as a hook (`hooks` in mkdocs.yml) and calls `on_files` once per build. The pages exist only in
the built site, so they cannot be out of date and no commit has to repeat them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
KINDS = {
    "runtime": "Run-time predictors",
    "wait": "Wait predictors",
    "heuristic": "Grid heuristics",
}
MEMBERS = ("    options:", "      members: []", "      show_root_heading: false", "      show_root_toc_entry: false")


def methods() -> str:
    """Every registered method by kind: what it is in one line, and its parameters with their defaults."""
    from batchcast.predict.registry import OBJECTS, available, load

    lines = [
        "# Methods and their parameters",
        "",
        "Options and settings take a method as `NAME:key=value,key=value`. A `+` separates the items of a list.",
        "How the methods work: [run-time predictors](runtime.md), [wait predictors](waits.md), and each method",
        "[in detail](method-details.md).",
    ]
    for kind, title in KINDS.items():
        lines += ["", f"## {title}", "", "| name | what it does | parameters with their defaults |", "|---|---|---|"]
        for name in available(kind):
            factory = load(kind, name)
            shown = ", ".join(f"`{text}`" for text in _parameters(factory, OBJECTS)) or "none"
            lines.append(f"| `{name}` | {_escaped(_summary(factory))} | {shown} |")
    return "\n".join([*lines, *_policies(), ""])


def details() -> str:
    """The docstring of every run-time and wait predictor: parameters, how it works, sources, examples."""
    from batchcast.predict.registry import available

    lines = [
        "# Methods in detail",
        "",
        "Parameters, algorithm, departures from the source, and cost of each predictor.",
    ]
    for kind in ("runtime", "wait"):
        lines += ["", f"## {KINDS[kind]}"]
        for name, place in available(kind).items():
            lines += ["", f"### {name}", "", f"::: {place.replace(':', '.')}", *MEMBERS]
    return "\n".join([*lines, ""])


def _policies() -> list[str]:
    from batchcast.schedule import orders

    return [
        "",
        "## Policies",
        "",
        f"Queue orders: {_listed(orders.NAMES)}. Every order except `fcfs` takes `on=planned|requested` and",
        "`ageing=WEIGHT`. `MODULE:FUNCTION` names your own order.",
        "",
        f"Corrections of a planned end that a job has outlived: {_listed(orders.CORRECTIONS)}.",
        "",
        "What each word means: [policies](policies.md).",
    ]


def commands() -> str:
    """Return the page of commands: each verb with its arguments and all its options, as its help describes them."""
    from batchcast.cli.main import cli

    lines = ["# Commands and their options", "", "The text of `batchcast help VERB --all` for every verb."]
    for path, command in _walk(cli, ()):
        lines += ["", f"## batchcast {' '.join(path)}", "", *_paragraph(command), *_options(command)]
    return "\n".join([*lines, ""])


def _walk(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _walk(command, (*path, name))


def _paragraph(command: click.Command) -> list[str]:
    text = inspect.cleandoc(command.help or command.short_help or "").partition("\f")[0].replace("\b\n", "")
    usage = " ".join(p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument))
    return ([f"Arguments: `{usage}`", ""] if usage else []) + [_escaped(text), ""]


def _options(command: click.Command) -> list[str]:
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if not options:
        return []
    lines = ["| option | meaning |", "|---|---|"]
    for option in options:
        record = option.get_help_record(click.Context(command))
        if record is not None:
            lines.append(f"| `{record[0].replace('|', chr(92) + '|')}` | {_escaped(' '.join(record[1].split()))} |")
    return lines


def _parameters(factory: Callable[..., Any], objects: frozenset[str]) -> list[str]:
    shown = []
    for name, parameter in inspect.signature(factory).parameters.items():
        if name in objects or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = parameter.default
        if default is parameter.empty:
            shown.append(name)
        elif isinstance(default, bool):
            shown.append(f"{name}={'yes' if default else 'no'}")
        elif isinstance(default, tuple):
            shown.append(f"{name}={'+'.join(map(str, default))}")
        else:
            shown.append(f"{name}={default}")
    return shown


def _summary(factory: Any) -> str:
    return (inspect.getdoc(factory) or "").partition("\n")[0]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def settings() -> str:
    """Every setting of the service: meaning, accepted values and default."""
    from batchcast.service.settings import MEMORY_FORMS, NAMES, SPAN_FORMS, Values, accepted, meaning

    forms = {f"seconds, {SPAN_FORMS}": "time", "a time limit as Slurm takes it": "time limit", MEMORY_FORMS: "memory"}
    lines = [
        "# Settings of the service",
        "",
        "`collect`, `serve` and the verbs for users read these settings. A later place overrides an earlier one:",
        "the default, `/etc/batchcast/batchcast.toml`, `~/.config/batchcast/batchcast.toml`, the environment",
        "(`BATCHCAST_INTERVAL_S`), a flag. `batchcast doctor --settings` prints each value and the place that set it.",
        "",
        f"A *time* is a number of {_escaped(next(iter(forms)))}.",
        "A *time limit* is written as Slurm takes it, and its default is shown in seconds.",
        f"*Memory* is {_escaped(MEMORY_FORMS)}, and its default is shown in KiB.",
        "",
        "| setting | meaning | accepted | default |",
        "|---|---|---|---|",
    ]
    defaults = Values()
    for name in NAMES:
        default, values = str(getattr(defaults, name)), accepted(name)
        cells = (f"`{name}`", _escaped(meaning(name)), _escaped(forms.get(values, values)))
        lines.append(f"| {' | '.join(cells)} | {f'`{default}`' if default else 'empty'} |")
    return "\n".join([*lines, ""])


def columns() -> str:
    """Every declared column: unit, when its value is known, and its names in SWF, sacct, squeue and PBS."""
    from batchcast.columns import COLUMNS, INPUT_COLUMNS

    head = "| column | unit | known | meaning | SWF field | sacct | squeue | PBS |"
    lines = [
        "# Columns of a log",
        "",
        "A predictor receives only the columns that are known at `submission`. Unknown values are NaN or null.",
        "",
        head,
        "|---|---|---|---|---|---|---|---|",
    ]
    for column in COLUMNS.values():
        sources = (str(column.swf or ""), *(f"`{name}`" if name else "" for name in _sources(column)))
        shown = (f"`{column.name}`", column.unit, column.known_at, _escaped(column.meaning), *sources)
        lines.append(f"| {' | '.join(shown)} |")
    lines += [
        "",
        "## Units in a column map",
        "",
        "The first unit is the default.",
        "",
        "| columns | units |",
        "|---|---|",
    ]
    lines += [f"| {names} | {units} |" for names, units in _units()]
    lines += [
        "",
        "## Input files",
        "",
        "`batchcast vasp collect` adds columns from a job's input files:",
        "",
        "| column | unit | meaning |",
    ]
    lines += ["|---|---|---|"]
    lines += [f"| `{c.name}` | {c.unit} | {_escaped(c.meaning)} |" for c in INPUT_COLUMNS.values()]
    return "\n".join([*lines, ""])


def _units() -> Iterator[tuple[str, str]]:
    """The columns that share the units of a column map, and these units."""
    from batchcast.columns import COLUMNS
    from batchcast.formats.csv.column_map import INSTANTS, units_of

    groups: dict[str, list[str]] = {}
    for name in (*INSTANTS, *(name for name in COLUMNS if name not in INSTANTS)):
        groups.setdefault(_listed(units_of(name)), []).append(f"`{name}`")
    yield from ((", ".join(names), units) for units, names in groups.items())
    yield "your own columns (`[extra]`)", _listed(units_of(""))


def _sources(column: Any) -> Iterable[str | None]:
    return column.sacct, column.squeue, column.pbs


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "methods.md": methods,
    "method-details.md": details,
    "settings.md": settings,
    "columns.md": columns,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site under `reference/`. MkDocs calls this before it resolves navigation."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        files.append(File.generated(config, f"reference/{name}", content=page()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Include a file of the repository's root, with its links to `docs/` made relative to the site.

    A page of docs/ that consists of one line `--8<-- "FILE.md"` includes that file. The snippet extension would include
    it too, but its links lead from the root, so they would be broken on the site.
    """
    match = re.fullmatch(r'--8<-- "(\w+\.md)"', markdown.strip())
    if not match:
        return markdown
    text = (ROOT / match[1]).read_text(encoding="utf-8").replace("](docs/", "](")
    return text.replace("](ARCHITECTURE.md", "](architecture.md").replace("](CONTRIBUTING.md", "](contributing.md")
