# SPDX-License-Identifier: Apache-2.0
"""What every verb prints: one JSON document or tables on stdout; notes and progress on stderr."""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..document import document, dumps, in_number, plain

if TYPE_CHECKING:
    from ..report.blocks import Block
    from ..service.answers.answer import Answer

__all__ = ["console", "document", "dumps", "echo", "emit",
           "plain", "print_columns", "print_parsable", "progress", "say",
           "show_tables", "table_options"]  # fmt: skip

EMITTED = "batchcast.emitted"
IN_A_PIPE = 2000  # no row of a table is folded for a program that reads it


def emit(doc: Mapping[str, Any]) -> None:
    """Print the document on stdout."""
    if context := click.get_current_context(silent=True):
        context.meta[EMITTED] = True
    text = dumps(doc)
    if not _is_unicode(sys.stdout):
        text = "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)
    click.echo("".join(json.dumps(each)[1:-1] if ord(each) in _HIDDEN else each for each in text)
               if any(ord(each) in _HIDDEN for each in set(text)) else text)  # fmt: skip


def is_emitted(context: click.Context) -> bool:
    """Whether this command has printed its document."""
    return EMITTED in context.meta


_HIDDEN = {
    code: "?"
    for code in (
        *range(0x20), 0x7F, *range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)
    )
    if chr(code) not in "\t\n"
}  # fmt: skip
"""Control characters (C0, C1) and marks of writing direction: a name in a log may hold any of them."""


def visible(text: str) -> str:
    """A text without what a terminal obeys or reorders by: each such character becomes a question mark.

    >>> visible("relax\\x1b[2J\\u202e"), visible("two\\nlines")
    ('relax?[2J?', 'two\\nlines')
    """
    return text.translate(_HIDDEN)


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text for people; every verb prints by this, or as a table."""
    click.echo(visible(text), nl=nl, err=err)


PLAIN = {"\u2500": "-", "\u2501": "-", "\u2502": "|", "\u2503": "|", "\u2026": "...", "\u2013": "-", "\u2192": "->"}
"""What stands for a character that the terminal's encoding does not have."""


def speak_any_encoding() -> None:
    """Let stdout take every text: what its encoding lacks is written as a likeness, else as \\xNN or \\uNNNN.

    A name in a log may hold any character (or, from a file system, no character at all), and LANG=C or latin-1 are
    common beside schedulers: no answer is lost to a UnicodeEncodeError. In JSON such characters are escapes anyway.
    """
    codecs.register_error("batchcast", _likeness)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace" if _is_unicode(sys.stdout) else "batchcast")


def _likeness(error: UnicodeError) -> tuple[str | bytes, int]:
    """A codec's error handler: one character at a time."""
    if isinstance(error, UnicodeEncodeError):
        if plain_text := PLAIN.get(error.object[error.start]):
            return plain_text, error.start + 1
        error.end = error.start + 1
    return codecs.backslashreplace_errors(error)


def _is_unicode(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


def print_parsable(results: Sequence[Mapping[str, Any]]) -> None:
    """Flat objects as columns parted by |, with a header; what is unknown is empty."""
    echo("|".join(results[0]))
    for result in results:
        echo("|".join(_cell(value) for value in result.values()))


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float) and abs(value) > 1 and value not in (float("inf"), float("-inf")):
        return f"{value:.0f}" if abs(value) >= 1e6 else f"{value:g}"
    return f"{value:g}" if isinstance(value, float) else str(value).replace("|", "/").replace("\n", " ")


def printed(verb: str, reply: Answer, as_json: bool, parsable2: bool) -> bool:
    """Print a reply for a program if that is asked for; else its warnings alone: what people read is still to come."""
    if as_json:
        emit(document(verb, *reply))
        return True
    for note in reply.warnings:
        say(note)
    if parsable2:
        print_parsable(reply.results)
    return parsable2


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what tables on a terminal leave out: hand what the options gave to `show_tables`."""
    for option in (
        click.option("--explain", is_flag=True, help="Also print what decides each difference."),
        click.option("--all-columns", "every_column", is_flag=True, help="Print all columns of the tables."),
    ):
        command = option(command)
    return command


def show_tables(blocks: Iterable[Block], every_column: bool, explain: bool, explained: Sequence[Block] = ()) -> None:
    """Print tables and sentences; `explained` only where that was asked for, else a line says how to get more."""
    from ..report.blocks import Table
    from ..report.terminal import show

    shown = [*blocks, *(explained if explain else ())]
    options = ["--all-columns"] if not every_column and any(
        column.more for block in shown if isinstance(block, Table) for column in block.columns
    ) else []  # fmt: skip
    options += ["--explain"] if explained and not explain else []
    out = console()
    show(out, shown, every_column)
    if options:
        out.print(f"more: {' '.join(options)}, or all of it in --json", markup=False, soft_wrap=True)


class Cell(str):
    """A cell with a colour."""

    color: str | None

    def __new__(cls, text: str, color: str | None) -> Cell:
        """The text, and its colour on a terminal; None for none."""
        made = super().__new__(cls, text)
        made.color = color
        return made


def print_columns(lines: Sequence[Sequence[str]], left: int, indent: str = "") -> None:
    """Lines of cells, the first the titles, each column as wide as it needs; the first `left` lean left."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    for line in lines:
        shown_cells = [visible(c).replace("\n", " ") for c in line]
        cells = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(shown_cells, widths))]
        colors = (getattr(cell, "color", None) for cell in line)
        shown = (click.style(cell, fg=color) if color else cell for cell, color in zip(cells, colors))
        click.echo(indent + "  ".join(shown).rstrip())


def say(text: str) -> None:
    """A note for people, on stderr."""
    echo(in_number(text), err=True)


def refuse_two_on_stdout(out: str, as_json: bool) -> None:
    """UsageError where `-o -` and `--json` both want stdout."""
    if out == "-" and as_json:
        from ..errors import UsageError

        raise UsageError("-o - and --json both write on stdout", hint="-o FILE beside --json, or -o - alone")


def wants_json() -> bool:
    """Whether the verb at work was asked for a document: notes stand in it, and not on stderr."""
    context = click.get_current_context(silent=True)
    return bool(context and context.params.get("as_json"))


def write_text(path: Path, text: str) -> None:
    """The whole text or none of it: a reader never meets half a file."""
    from ..trace.whole_file import whole_file

    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")


def console(stderr: bool = False) -> Any:
    """A rich console that respects --color, NO_COLOR and whether this is a terminal."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # who reads has enough: exit code 0, as with every other verb

        def _render_buffer(self, buffer: Any) -> str:
            """The segments as text, what they say without control characters; rich's own codes stay."""
            clean = (each if each.control else Segment(visible(each.text), each.style) for each in buffer)
            return super()._render_buffer(clean)

    context = click.get_current_context(silent=True)
    color = (context.find_root().obj or {}).get("color", "auto") if context else "auto"
    stream = sys.stderr if stderr else sys.stdout
    forced = {"always": True, "never": False, "auto": None}[color]
    width = None if stream.isatty() else IN_A_PIPE  # COLUMNS is no wish: readline exports it from any parent
    return Plain(file=stream, force_terminal=forced, no_color=color == "never" or None, width=width, highlight=False)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Any]:
    """A progress bar on a terminal, nothing in a pipe; yields `tick(done)`.

    >>> with progress("reading", 10) as tick:
    ...     tick(10)
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)
