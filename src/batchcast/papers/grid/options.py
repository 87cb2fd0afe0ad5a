# SPDX-License-Identifier: Apache-2.0
"""Options that several `batchcast grid` commands share, and the parsing of their values."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from ...cli.completion import specs as complete_specs
from ...errors import UsageError

setting = partial(click.option, show_default=True)
"""An option whose default its help shows."""
FILE, COUNT, SEED = click.Path(path_type=Path), click.IntRange(min=1), click.IntRange(min=0)
SAME_JOBS = "Random seed; run k of every setting uses the same jobs."
heuristic_option = partial(setting, "--heuristic", shell_complete=complete_specs("heuristic"))
heuristics_option = heuristic_option(
    "heuristics", default="all", metavar="SPECS", help="Heuristics, NAME:key=value,..., or all."
)
every_option = partial(setting, "--map-every", "every", metavar="T|events")
LATE_WORDS = click.Choice(["run", "stop", "drop"])
late_option = setting("--late", type=LATE_WORDS, default="run", help="What happens to jobs after their deadline.")
WORKERS_HELP = "Number of processes. Default: the available processors."
workers_option = click.option("--workers", type=COUNT, default=lambda: os.cpu_count() or 1, help=WORKERS_HELP)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def numbers(option: str, text: str, *, above: float = -1.0, most: float = float("inf")) -> list[float]:
    """Parse `FROM:TO:STEP` (both ends included) or a comma list, and check the range of each number.

    >>> numbers("--rate", "20:30:5"), numbers("--data-share", ".3,.5", most=1.0)
    ([20.0, 25.0, 30.0], [0.3, 0.5])
    """
    parts = text.split(":")
    if len(parts) == 3:
        low, high, step = (_number(option, part) for part in parts)
        if not step > 0 or high < low or (high - low) / step > 1000:
            raise UsageError(f"{option} {text!r} (accepted: FROM:TO:STEP, ascending, or a comma list)")
        values = [round(low + k * step, 12) for k in range(int((high - low) / step + 1e-9) + 1)]
    else:
        values = [_number(option, part) for part in text.split(",")]
    for value in values:
        if not (max(above, 0.0) <= value <= most and value > above):
            accepted = f"above {max(above, 0):g}, at most {most:g}"
            raise UsageError(f"{option}: {value:g} is out of range (accepted: {accepted})")
    return values


def heuristics_named(text: str, left_out: Sequence[str]) -> list[str]:
    """Return the requested heuristics, each once; `all` omits slow heuristics, which must be named."""
    from ...predict.registry import available, load, parse_spec, split_specs

    every = [name for name in available("heuristic") if name not in left_out]
    pieces = [piece.strip() for piece in text.split(",")]
    named = split_specs(",".join(piece for piece in pieces if piece != "all"), "heuristic")
    specs = list(dict.fromkeys([*(every if "all" in pieces else ()), *named]))
    if not specs:
        raise UsageError("--heuristic names none", hint="--heuristic all")
    for spec in specs:
        load("heuristic", parse_spec(spec)[0])
    return specs


def mapping_interval(text: str) -> float | None:
    """Return the value of --map-every in time units; None for `events`."""
    return None if text == "events" else _number("--map-every", text)


def _number(option: str, text: str) -> float:
    """Return an option's value as a finite number; UsageError names the option."""
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is not a number") from None
    if not math.isfinite(value):
        raise UsageError(f"{option}: {text!r} is not a finite number")
    return value
