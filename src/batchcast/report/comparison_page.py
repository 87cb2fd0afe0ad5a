"""Two evaluations as a page: the verdict in figures, then what changed from A to B with intervals and distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..evaluation.comparison import Comparison
from .accuracy import named
from .axes import span
from .blocks import Block, Card, Cards, Figure, Kind, Section, Table
from .comparison import forecast_table, only_words, schedule_table, settings_table, validity_words, verdict
from .difference import VERDICTS
from .interval_figures import interval_figure
from .minus import cdf_change
from .policy_words import policy_words

Row = Mapping[str, Any]
MOST_CURVES = 8
CHANGES: tuple[tuple[str, str, str, str, Kind], ...] = (
    ("forecast", "mae_s", "mae_s_change", "mean error", "seconds"),
    ("schedule", "mean_wait_s", "wait_change", "mean wait", "seconds"),
    ("schedule", "mean_bounded_slowdown", "mean_bounded_slowdown_change", "mean slowdown", "number"),
)
"""Part, measure, the key its interval stands under, its name and kind."""


def comparison_sections(comparison: Comparison, level: float) -> list[Section]:
    """The page's sections: in short with the settings that differ, forecasts, simulated schedules."""
    short: list[Block] = [comparison_cards(comparison, level), verdict(comparison, level), *validity_words(comparison)]
    settings = [settings_table(comparison)] if comparison.part("setting") else []
    sections = [Section("In short", [*short, *only_words(comparison), *settings])]
    for part, heading, table, what, reads in (
        ("forecast", "Forecasts", forecast_table, "absolute error", "above zero more forecasts of B come so near."),
        ("schedule", "Simulated schedules", schedule_table, "wait", "above zero more jobs wait at most so long in B."),
    ):
        if rows := comparison.part(part):
            blocks: list[Block] = [_first_column_named(table(rows, level)), *_intervals(comparison, part)]
            sections.append(Section(heading, [*blocks, *_distributions(comparison, part, what, reads)]))
    return sections


def comparison_cards(comparison: Comparison, level: float) -> Cards:
    """The verdict, how many forecasts and schedules changed beyond chance, the largest change, settings that differ."""
    said = verdict(comparison, level)
    cards = [Card("Verdict", said.label.rstrip(":"), (*comparison.unlike, "the same log and selection")[0], said.tone)]
    for part, metric, key, title, _ in CHANGES[:2]:
        if comparison.part(part):
            cards += _change_cards(_changed(comparison.part(part), metric, key), part, metric, title, level)
    differing = [str(row["setting"]) for row in comparison.part("setting")]
    return Cards([*cards, Card("Settings that differ", str(len(differing)), ", ".join(differing) or "none")])


def _change_cards(rows: Sequence[Row], part: str, metric: str, title: str, level: float) -> list[Card]:
    """How many changed beyond chance, and the largest change among those, else among all."""
    if not rows:
        return [Card(f"{part.capitalize()}s", "the same", f"none changed in {title}")]
    clear = [row for row in rows if row[f"{metric}_verdict"] in ("ahead", "behind")]
    known = [row for row in rows if row[f"{metric}_verdict"] != "unknown"]
    count = f"{len(clear)} of {len(known)}" if known else "unknown"
    note = f"changed in {title}, clear of chance" if known else f"no intervals of {title}: see the table's note"
    row = max(clear or rows, key=lambda row: abs(float(row[f"{metric}_difference"])))
    value, low, high = (float(row[f"{metric}_difference{end}"]) for end in ("", "_low", "_high"))
    reach = f", {100 * level:g} % interval {_signed(low)} to {_signed(high)}" if low == low else ""
    verdict_of = str(row[f"{metric}_verdict"])
    words = f"{'B ' if verdict_of in ('ahead', 'behind') else ''}{VERDICTS[verdict_of]}"
    return [
        Card(f"{part.capitalize()}s", count, note),
        Card(f"Largest change in {title}", _signed(value), f"{row['name']}: {words}{reach}"),
    ]


def _signed(seconds: float) -> str:
    return f"+{span(seconds)}" if seconds > 0 else span(seconds)


def _changed(rows: Sequence[Row], metric: str, key: str) -> list[dict[str, Any]]:
    """What differs between A and B, as differences of B against A with the keys of `evaluation.differences`."""
    found = []
    for row in rows:
        if row[f"{metric}_change"] != row[f"{metric}_change"] or not row[f"{metric}_change"]:
            continue
        ends = {end: row.get(f"{key}_{end}", row.get(f"{key}_{end}_s", float("nan"))) for end in ("low", "high")}
        groups = str(row.get("blocks", "")).partition(" groups of ")[2]
        found.append(
            {
                **{"name": _name(row), "against": "A", f"{metric}_difference": row[f"{metric}_change"]},
                **{f"{metric}_difference_{end}": value for end, value in ends.items()},
                f"{metric}_verdict": row.get(f"{key}_verdict", "unknown"),
                **({"groups_of": groups} if groups else {}),
            }
        )
    return found


def _name(row: Row) -> str:
    if "policy" not in row:
        return named(row["predictor"])
    return f"{policy_words(row['policy'])} with {named(row['predictor'])}"


def _intervals(comparison: Comparison, part: str) -> list[Figure]:
    """The changes with their intervals, a figure for each measure that has any."""
    drawn = []
    for of, metric, key, title, kind in CHANGES:
        rows = _changed(comparison.part(of), metric, key) if of == part else []
        if rows:
            drawn.append(interval_figure(rows, metric, title, kind, {id(row): row["name"] for row in rows}))
    return drawn


def _distributions(comparison: Comparison, part: str, what: str, reads: str) -> list[Figure]:
    """The share of jobs up to each value in B minus that in A, a curve for each row that differs."""
    pairs = {}
    for row in comparison.part(part):
        pair = comparison.samples.get((part, str(row.get("policy", "")), str(row["predictor"])))
        known = pair is not None and all(np.isfinite(side).any() for side in pair)
        if pair is not None and known and not np.array_equal(*pair, equal_nan=True):
            pairs[_name(row)] = pair
    if not pairs:
        return []
    kept = dict(list(pairs.items())[:MOST_CURVES])
    left = f" {len(pairs) - len(kept)} more are not drawn." if len(pairs) > len(kept) else ""
    figure = cdf_change(f"{what.capitalize()}s, B minus A", kept, what)
    return [replace(figure, caption=f"Share of jobs up to each {what} in B minus that in A: {reads}{left}")]


def _first_column_named(table: Table) -> Table:
    """The table without its caption's words that the section's heading has said already."""
    return replace(table, caption="A, B and the change, B - A")
