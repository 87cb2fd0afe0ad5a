# SPDX-License-Identifier: Apache-2.0
"""How `batchcast report` prints jobs one by one, months side by side, and the page for mail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ...units import format_memory, span

SOUND, POOR = 0.6, 0.2
"""Shares of what was asked: green from here on, red below."""
Cell = tuple[str, str | None]  # a text and its colour
_BAD = {"FAILED": "red", "OUT_OF_MEMORY": "red", "NODE_FAIL": "red", "TIMEOUT": "yellow", "CANCELLED": "yellow"}


def print_jobs(rows: Sequence[Mapping[str, Any]]) -> None:
    """A line a job; shares in colours on a terminal."""
    gpus = any(row["gpus"] for row in rows)
    title = ["JOBID", "NAME", "STATE", "ELAPSED", "LIMIT", "TIME", "CPU", "MEMORY", "MEM"]
    lines: list[list[Cell]] = [[(word, None) for word in [*title, *(["GPUS", "GPU"] if gpus else []), "WAITED"]]]
    for row in rows:
        held, asked = row["memory_kib"], row["memory_asked_kib"]
        memory = f"{format_memory(held) if held == held else '-'}/{format_memory(asked) if asked == asked else '-'}"
        line: list[Cell] = [
            (str(row["job_id"]), None), (short_name(str(row["job_name"])), None),
            (row["state"], _BAD.get(row["state"].split(" ")[0])), (span(row["elapsed_s"], "-"), None),
            (span(row["limit_s"], "-"), None), _colored(row["time_share"]), _colored(row["processor_share"]),
            (memory, None), _colored(row["memory_share"]),
        ]  # fmt: skip
        line += [(f"{row['gpus']:g}", None), _colored(row["gpu_share"])] if gpus else []
        lines.append([*line, (span(row["waited_s"], "-"), None)])
    _print(lines, left=3)
    click.echo("TIME, CPU, MEM: used of what was requested. Memory of an array is that of its largest task.")


def print_months(rows: Sequence[Mapping[str, Any]], by: str) -> None:
    """Months by user, account or partition."""
    title = ("MONTH", by.upper(), "JOBS", "CPU HOURS", "CPU", "TIME", "MEM", "CUT OFF", "NO MEMORY", "WAITED")
    lines: list[list[Cell]] = [[(word, None) for word in title]]
    for row in rows:
        lines.append([
            (row["month"], None), (short_name(row[by]), None), (str(row["jobs"]), None),
            (f"{row['processor_hours']:.1f}", None), _colored(row["processor_share"]), _colored(row["time_share"]),
            _colored(row["memory_share"]), (str(row["timeouts"]), None), (str(row["out_of_memory"]), None),
            (span(row["median_wait_s"], "-"), None),
        ])  # fmt: skip
    _print(lines, left=2)


def print_advice(advised: Sequence[Mapping[str, Any]], most: int = 10) -> None:
    """A sentence for each kind of job that could ask for less, or needs more."""
    for one in advised[:most]:
        click.echo(f"advice: {short_name(one['job_name'])} ({one['user'] or '-'}, {one['jobs']} jobs): {one['advice']}")


def _colored(share: float) -> Cell:
    if math.isnan(share):
        return "-", None
    return f"{share:.0%}", "green" if share >= SOUND else "red" if share < POOR else "yellow"


def _print(lines: Sequence[Sequence[Cell]], left: int) -> None:
    widths = [max(len(line[k][0]) for line in lines) for k in range(len(lines[0]))]
    for line in lines:
        cells = [text.ljust(w) if k < left else text.rjust(w) for k, ((text, _), w) in enumerate(zip(line, widths))]
        shown = (click.style(cell, fg=color) if color else cell for cell, (_, color) in zip(cells, line))
        click.echo("  ".join(shown).rstrip())


def short_name(name: str, most: int = 24) -> str:
    """A job's name on one line, cut where it is longer than `most`."""
    plain = name.replace("\n", " ")
    return plain if len(plain) <= most else plain[: most - 3] + "..."
