# SPDX-License-Identifier: Apache-2.0
"""Output of all verbs: one JSON document or tables on stdout; notes and progress on stderr."""

from __future__ import annotations

import codecs
import io
import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from ..document import document, dumps, in_number, plain
from ..errors import UsageError
from ..units import format_memory, span

if TYPE_CHECKING:
    from ..report.blocks import Block
    from ..service.answers.answer import Answer

__all__ = ["console", "document", "dumps", "echo", "emit",
           "plain", "print_columns", "print_parsable", "progress", "say",
           "show_tables"]  # fmt: skip

EMITTED = "batchcast.emitted"
IN_A_PIPE = 2000  # width if stdout is not a terminal, so that rows are never wrapped for a program that reads them


def emit(doc: Mapping[str, Any]) -> None:
    """Print the document on stdout."""
    if context := click.get_current_context(silent=True):
        context.meta[EMITTED] = True
    escaped = _HIDDEN if _is_unicode(sys.stdout) else re.compile(rf"{_HIDDEN.pattern}|[^\x00-\x7f]")
    click.echo(escaped.sub(lambda each: json.dumps(each[0])[1:-1], dumps(doc)))


def is_emitted(context: click.Context) -> bool:
    """Return whether this command has printed its document."""
    return EMITTED in context.meta


_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters (C0, C1) and text direction marks, any of which a name in a log may contain."""


def visible(text: str) -> str:
    """Replace each character that controls a terminal or reorders text by a question mark.

    >>> visible("relax\\x1b[2J\\u202e"), visible("two\\nlines")
    ('relax?[2J?', 'two\\nlines')
    """
    return _HIDDEN.sub("?", text)


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text for people; all texts and tables of verbs go through this function or `console`."""
    click.echo(visible(text), nl=nl, err=err)


PLAIN = {"\u2500": "-", "\u2501": "-", "\u2502": "|", "\u2503": "|", "\u2026": "...", "\u2013": "-", "\u2192": "->"}
"""Replacements for characters that the terminal's encoding lacks."""


def speak_any_encoding() -> None:
    """Let stdout accept every text: characters missing from its encoding become similar ones, or \\xNN or \\uNNNN.

    A name in a log may contain any character (a file name even bytes that are no character), and LANG=C or latin-1 are
    common beside schedulers. No output may fail with a UnicodeEncodeError. In JSON, these characters are escaped
    anyway.
    """
    codecs.register_error("batchcast", _likeness)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace" if _is_unicode(sys.stdout) else "batchcast")


def _likeness(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace one character in a codec's error handler."""
    if isinstance(error, UnicodeEncodeError):
        if plain_text := PLAIN.get(error.object[error.start]):
            return plain_text, error.start + 1
        error.end = error.start + 1
    return codecs.backslashreplace_errors(error)


def _is_unicode(stream: Any) -> bool:
    """Return whether a stream's encoding has every character."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


def print_parsable(results: Sequence[Mapping[str, Any]]) -> None:
    """Print flat objects as columns separated by |, with a header; unknown values are empty."""
    echo("|".join(results[0]))
    for result in results:
        echo("|".join(_cell(value) for value in result.values()))


def _cell(value: Any) -> str:
    """Return a value as text without separators; unknown values are empty."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and abs(value) > 1 and value not in (float("inf"), float("-inf")):
        return f"{value:.0f}" if abs(value) >= 1e6 else f"{value:g}"
    return f"{value:g}" if isinstance(value, float) else str(value).replace("|", "/").replace("\n", " ")


def printed(verb: str, reply: Answer, as_json: bool, parsable2: bool) -> bool:
    """Print a reply as JSON or columns if requested; else print only its warnings, and let the verb print for
    people.
    """
    if as_json:
        emit(document(verb, *reply))
        return True
    say(*reply.warnings)
    if parsable2:
        print_parsable(reply.results)
    return parsable2


def show_tables(
    blocks: Iterable[Block], details: bool, more: Sequence[Block] = (), *, headline: str = "", next_step: str = ""
) -> None:
    """Print a headline, tables and sentences, and the command of the next step.

    `details` also prints all columns and the blocks of `more`. Without it, no sentence is wider than 100 characters,
    and the last line names `--details` if something is left out.
    """
    from ..report.blocks import Table
    from ..report.terminal import WIDEST, show

    shown = [*([headline, ""] if headline else []), *blocks, *(more if details else ())]
    has_more = bool(more) or any(column.more for block in shown if isinstance(block, Table) for column in block.columns)
    out = console()
    show(out, shown, details, None if details else WIDEST)
    if next_step:
        out.print(f"Next: {next_step}", markup=False, soft_wrap=True)
    if has_more and not details:
        out.print("--details for everything else.", markup=False, soft_wrap=True)


def show_blocks(*blocks: Block, stderr: bool = False) -> None:
    """Print tables and sentences of a report, without the columns that are marked `more`."""
    from ..report.terminal import show

    show(console(stderr), blocks)


LONGEST_NAME = 30
"""Longest name of a log, in characters, that stands in the command of the next step: the line has at most 100."""


def log_as_typed() -> str:
    """Return the log's name as typed on the command line, quoted for a shell.

    The result is LOG if the name is too long for one line with a command, or if there are several logs or none.
    """
    context = click.get_current_context(silent=True)
    typed = context.params.get("log") if context else None
    names = [typed] if isinstance(typed, (str, Path)) else list(typed or ())
    return shlex.quote(str(names[0])) if len(names) == 1 and len(str(names[0])) <= LONGEST_NAME else "LOG"


class Cell(str):
    """A cell of a printed table, with its color."""

    color: str | None

    def __new__(cls, text: str, color: str | None) -> Cell:
        """Create the text with its color on a terminal; None: no color."""
        made = super().__new__(cls, text)
        made.color = color
        return made


def print_columns(lines: Sequence[Sequence[str]], left: int, indent: str = "") -> None:
    """Print rows of cells, the titles first; columns are as wide as needed, the first `left` are left-aligned."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    for line in lines:
        shown_cells = [visible(c).replace("\n", " ") for c in line]
        cells = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(shown_cells, widths))]
        colors = (getattr(cell, "color", None) for cell in line)
        shown = (click.style(cell, fg=color) if color else cell for cell, color in zip(cells, colors))
        click.echo(indent + "  ".join(shown).rstrip())


Row = Mapping[str, Any]
DECIMALS = {"hours": 1, "slowdown": 1, "kwh": 2, "used": 2}
"""Decimals of numbers, by the last word of their keys."""


def text_of(key: str, value: Any, now: float = 0.0) -> str:
    """Return a value as text, - if it is unknown; its key says whether it is an instant, a duration, memory or a share.

    >>> text_of("median_wait_s", 7200.0), text_of("memory_kib", None), text_of("coverage_90", 0.256)
    ('2 h', '-', '26%')
    """
    if value is None or value != value or value == "":
        return "-"
    if re.search("(start|end|created|expires)_s$|^at$", key):
        return clock(value, now)
    if key.endswith("_s"):
        return span(value)
    if key.endswith("_kib"):
        return format_memory(value)
    if re.search("share|rate$|coverage|chance", key):
        return f"{value:.0%}"
    if (decimals := DECIMALS.get(key.rpartition("_")[2])) is not None:
        return f"{value:.{decimals}f}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def print_rows(
    columns: str,
    rows: Iterable[Row],
    left: int,
    cells: Mapping[str, Callable[[Row], str]] = MappingProxyType({}),
    now: float = 0.0,
    indent: str = "",
) -> None:
    """Print rows with `print_columns`.

    `columns` has the key of each column, and its title unless the title is the key in capitals: `jobs, wait_s|WAITED`.
    A cell is the text of the key's value, or what the key's function in `cells` returns for the row.
    """
    pairs = [column.partition("|") for column in columns.split(", ")]
    titles = [title or key.removesuffix("_s").replace("_", " ").upper() for key, _, title in pairs]
    lines = ([cells[key](row) if key in cells else text_of(key, row[key], now) for key, _, _ in pairs] for row in rows)
    print_columns([titles, *lines], left, indent)


def percent(share: float | None) -> str:
    """Return a share as text in whole per cent, - if it is unknown.

    >>> percent(0.256), percent(None)
    ('26%', '-')
    """
    return "-" if share is None or share != share else f"{share:.0%}"


def clock(epoch: float, now: float) -> str:
    """Return a local time as Slurm prints it, without the date if it is today.

    >>> clock(float("nan"), 0.0)
    '-'
    """
    if epoch != epoch or epoch in (float("inf"), float("-inf")):
        return "-"
    there, here = time.localtime(epoch), time.localtime(now)
    return time.strftime("%H:%M:%S" if there[:3] == here[:3] else "%Y-%m-%dT%H:%M:%S", there)


def say(*lines: str) -> None:
    """Print lines for people on stderr."""
    for line in lines:
        echo(in_number(line), err=True)


def note(*lines: str) -> None:
    """Print notes on what a verb assumes or leaves out, on stderr."""
    say(*(f"note: {line}" for line in lines))


def refuse_two_on_stdout(out: str, as_json: bool) -> None:
    """Raise UsageError if `-o -` and `--json` would both write to stdout."""
    if out == "-" and as_json:
        raise UsageError("-o - and --json both write on stdout", hint="-o FILE with --json, or -o - alone")


def wants_json() -> bool:
    """Return whether the running verb prints a JSON document, which then contains the notes instead of stderr."""
    context = click.get_current_context(silent=True)
    return bool(context and context.params.get("as_json"))


def write_text(path: Path, text: str) -> None:
    """Write the whole text atomically, so that no reader finds half a file."""
    from ..trace.whole_file import whole_file

    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def console(stderr: bool = False) -> Any:
    """A rich console that respects --color, NO_COLOR and whether this is a terminal."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the reader has closed the pipe: end with exit code 0, as every other verb does

        def _render_buffer(self, buffer: Any) -> str:
            """Render segments as text without control characters in their content; rich's own codes stay."""
            clean = (each if each.control else Segment(visible(each.text), each.style) for each in buffer)
            return super()._render_buffer(clean)

    context = click.get_current_context(silent=True)
    color = (context.find_root().obj or {}).get("color", "auto") if context else "auto"
    stream = sys.stderr if stderr else sys.stdout
    forced = {"always": True, "never": False, "auto": None}[color]
    # COLUMNS is ignored: a parent process's readline may have exported it.
    width = None if stream.isatty() else IN_A_PIPE
    return Plain(file=stream, force_terminal=forced, no_color=color == "never" or None, width=width, highlight=False)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Any]:
    """Show a progress bar on a terminal, nothing in a pipe; yields `tick(done)`.

    >>> with progress("reading", 10) as tick:
    ...     tick(10)
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%")
    with Progress(*columns, TimeRemainingColumn(), console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def show_new_job(
    verb: str, log: Any, job: Any, settings: Row, predicted: tuple[str, str], rows: Sequence[Row], as_json: bool
) -> None:
    """Print the predictions for one new job (`runtime --new`, `wait --new`); `log` is an `options.Log`, and `predicted`
    has the rows' key and the column's heading."""
    from ..predict.protocol import spec_words
    from ..report.blocks import Table, columns_of

    if as_json:
        log.emit(f"{verb}-new", settings, rows)
        return
    key, heading = predicted
    columns = columns_of(
        "predictor", f"{key}|{heading}|seconds", "bound_s|bound|seconds", "level|level|share", "basis|from"
    )
    limit = "" if job.request != job.request else f" for at most {span(job.request)}"
    title = f"A new job of {job.procs:g} processors{limit} · {log.trace.info.source}"
    show_tables([Table(title, columns, [{**row, "predictor": spec_words(row["predictor"])} for row in rows])], True)
