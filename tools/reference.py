"""docs/reference/*.md from the registry and the command line: `make reference` writes, `--check` compares.

A page that is written by hand is wrong by the next commit; this one is asked of the program itself, and a test
(tests/docs/test_reference.py) fails while the files differ from what it would write.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

PLACE = Path(__file__).parents[1] / "docs" / "reference"
KINDS = {
    "runtime": "Run-time predictors",
    "wait": "Wait predictors",
    "heuristic": "Grid heuristics",
}


def methods() -> str:
    """Every registered method by kind: what it is in one line, and its parameters with their defaults."""
    from batchcast.predict.registry import OBJECTS, available, load

    lines = [
        "# Methods and their parameters",
        "",
        "Written by `make reference` from the registry. A method is named `NAME:key=value,key=value` wherever one is",
        "asked for; lists are parted by `+`.",
    ]
    for kind, title in KINDS.items():
        lines += ["", f"## {title}", "", "| name | what it answers with | parameters (defaults) |", "|---|---|---|"]
        for name in available(kind):
            factory = load(kind, name)
            shown = ", ".join(f"`{text}`" for text in _parameters(factory, OBJECTS)) or "none"
            lines.append(f"| `{name}` | {_escaped(_summary(factory))} | {shown} |")
    return "\n".join([*lines, *_policies(), ""])


def _policies() -> list[str]:
    from batchcast.schedule import orders
    from batchcast.schedule import orders as corrections

    return [
        "",
        "## Policies",
        "",
        f"Queue orders: {_listed(orders.NAMES)}; each but `fcfs` takes `on=planned|requested` and `ageing=WEIGHT`, and",
        "`MODULE:FUNCTION` is an order of your own.",
        "",
        f"Corrections of a plan that a job outlived: {_listed(corrections.CORRECTIONS)}.",
    ]


def commands() -> str:
    """Every verb with its usage, arguments and options, as `--help` says them."""
    from batchcast.cli.main import cli

    lines = ["# Commands and their options", "", "Written by `make reference` from the command line itself."]
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


PAGES = {"methods.md": methods, "commands.md": commands}


def stale() -> list[str]:
    """The pages that are not what would be written now."""
    return [name for name, page in PAGES.items() if _read(PLACE / name) != page()]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check say which are not current (1)."""
    if "--check" in arguments:
        names = stale()
        for name in names:
            print(f"docs/reference/{name} is not current: make reference")
        return int(bool(names))
    for name, page in PAGES.items():
        (PLACE / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
