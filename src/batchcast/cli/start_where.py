"""The table of `start --test --where`: every way to submit, the best first, and that one as sbatch flags."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from .output import print_columns
from .site import clock


def print_where(results: Sequence[Mapping[str, Any]], now: float, deadline: bool, script: str) -> None:
    """One line a way, then the best one, to be copied."""
    from ..units import format_duration, format_memory

    asks = any(_known(r["memory_kib"]) for r in results)
    several = len({r["qos"] for r in results}) > 1
    titles = [
        "PARTITION",
        *(["QOS"] if several else []),
        "WHAT",
        "CPUS",
        "LIMIT",
        *(["MEMORY"] if asks else []),
        "STARTS",
        "BY 90%",
        "DONE",
    ]
    lines = [[*titles, *(["IN TIME"] if deadline else []), "CPU H"]]
    for r in results:
        chance = r["chance_done_by"]
        in_time = ["-" if chance is None or chance != chance else f"{chance:.0%}"] if deadline else []
        lines.append(
            [
                str(r["partition"] or "-"),
                *([str(r["qos"] or "-")] if several else []),
                r["what"],
                f"{r['procs']:g}",
                "-" if r["limit_s"] is None or r["limit_s"] != r["limit_s"] else format_duration(r["limit_s"]),
                *([format_memory(r["memory_kib"]) if _known(r["memory_kib"]) else "-"] if asks else []),
                *(clock(r[name], now) for name in ("likely_start_s", "by_90_start_s", "likely_end_s")),
                *in_time,
                f"{r['core_hours']:.1f}",
            ]
        )
    print_columns(lines, left=2)
    if results:
        click.echo(f"best: sbatch {results[0]['flags']} {shlex.quote(script)}")


def _known(value: float | None) -> bool:
    return value is not None and value == value
