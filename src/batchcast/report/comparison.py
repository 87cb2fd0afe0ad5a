# SPDX-License-Identifier: Apache-2.0
"""Show two evaluations side by side: sentences and tables for the terminal, and a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..evaluation.comparison import Comparison
from ..metrics import accuracy, schedule
from ..metrics.measure import Measure
from ..metrics.paired import Difference
from . import difference, figures
from .accuracy import spec_words
from .blocks import Block, Callout, Card, Cards, Figure, Section, Table, TableColumn, as_text, columns_of
from .difference import USUAL_GROUPS, VERDICTS, Measures, cdf_change, interval_figure, signed
from .evaluation.gains import plan_words, policy_words

FORECAST: Measures = [each for each in accuracy.FORECAST if each.is_mean]
SCHEDULE: Measures = [*difference.SCHEDULE, *(each for each in schedule.SCHEDULE if each.name == "utilization")]


def comparison_blocks(comparison: Comparison, level: float) -> list[Block]:
    """Return sentences on whether the two reports are comparable, and on differences in settings, predictions,
    schedules and validity."""
    blocks: list[Block] = [verdict(comparison, level), *settings_table(comparison)]
    if forecasts := comparison.part("forecast"):
        blocks.append(forecast_table(forecasts, level))
    if schedules := comparison.part("schedule"):
        blocks.append(schedule_table(schedules, level))
    return [*blocks, *validity_words(comparison), *only_words(comparison)]


def settings_table(comparison: Comparison) -> list[Table]:
    """Return the settings that differ, with both values; empty if none differs."""
    rows = [
        {k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items() if k != "part"}
        for row in comparison.part("setting")
    ]
    return [Table("Settings that differ", columns_of("setting", "a|A", "b|B"), rows)] if rows else []


def validity_words(comparison: Comparison) -> list[str]:
    """Return a sentence on how well each simulation reproduces the recorded waits, if both reports have it."""

    def words(row: Row, side: str) -> str:
        is_trusted = "trusted" if row[f"trusted_{side}"] else "not to be trusted"
        return f"{as_text(row[f'recorded_over_simulated_{side}'], 'number')} in {side.upper()} ({is_trusted})"

    what = "Validity, recorded over simulated mean wait"
    return [f"{what}: {words(row, 'a')}, {words(row, 'b')}." for row in comparison.part("validity")]


def only_words(comparison: Comparison) -> list[str]:
    """Return one sentence per item that only one of the two reports has."""
    return [f"{text[0].upper()}{text[1:]}." for text in comparison.only]


def verdict(comparison: Comparison, level: float) -> Callout:
    """Return whether the two reports are comparable, and how many schedules changed by more than a few bursts of jobs
    can explain."""
    if comparison.unlike:
        text = f"{'; '.join(comparison.unlike)}. The differences below include the effect of this."
        return Callout(text, "warning", "Not like for like:")
    changes = (change for row in comparison.rows for change in row.get("differences", {}).values())
    changed = any(change.is_known and change.value for change in changes)
    if not changed and not comparison.part("setting") and not comparison.only:
        return Callout("The same log, settings and results.", "good", "Like for like:")
    text = "the same log and selection."
    waits = [row["differences"]["mean_wait_s"] for row in comparison.part("schedule")]
    known = [change for change in waits if change.has_interval]
    if known:
        beyond = [change for change in known if change.verdict in ("ahead", "behind")]
        text += f" In {len(beyond)} of {len(known)} schedules the change of the mean wait is larger than its "
        text += f"{100 * level:g} % interval explains by chance."
    return Callout(text, "good", "Like for like:")


def forecast_table(rows: list[Mapping[str, Any]], level: float) -> Table:
    """Return a table of the predictions in both reports, with the changes and their intervals."""
    columns = [TableColumn("predictor", "predictor"), *_columns(FORECAST, level, len(FORECAST))]
    note = _note(rows, "Intervals of the changes", FORECAST)
    return Table("Forecasts (change: B - A)", columns, [_with_changes(row, FORECAST) for row in rows], note)


def _interval_words(row: Mapping[str, Any], measure: Measure) -> str:
    change = row["differences"][measure.name]
    if not change.has_interval:
        return "not available"
    if not change.low and not change.high:
        return "0"
    return f"{signed(change.low, measure.unit)} to {signed(change.high, measure.unit)}"


def schedule_table(rows: list[Mapping[str, Any]], level: float) -> Table:
    """Return a table of the schedules in both reports, with the changes and their intervals."""
    columns = columns_of("policy", "predictor|planned with") + _columns(SCHEDULE, level, len(difference.SCHEDULE))
    shown_rows = [{**_with_changes(row, SCHEDULE), "policy": policy_words(row["policy"])} for row in rows]
    note = _note(rows, "90 % interval of the change in mean wait", SCHEDULE[:1])
    return Table("Simulated schedules (change: B - A)", columns, shown_rows, note)


def _note(rows: list[Mapping[str, Any]], what: str, measures: Measures) -> str:
    """Return sentences on the groups of jobs behind the intervals, on missing intervals, and on each change that one
    group decides."""
    blocks, reasons = (dict.fromkeys(r[key] for r in rows if r.get(key)) for key in ("blocks", "no_interval"))
    note = [f"{what}: bootstrap over {', '.join(blocks)}."] if blocks else []
    note += [f"No interval: {reason}." for reason in reasons]
    note += [
        f"{' '.join(str(row[name]) for name in ('policy', 'predictor') if name in row)}, {measure.title}: {sentence}."
        for row in rows
        for measure in measures
        if (sentence := row["differences"][measure.name].decided_by)
    ]
    return " ".join(note)


def _columns(measures: Measures, level: float, intervals: int) -> list[TableColumn]:
    """Return the columns of each measure, beginning with the measures that have intervals; after the first measure, a
    terminal shows only the changes."""
    columns = []
    for number, m in enumerate(measures):
        columns += [TableColumn(f"{m.name}_{side}", f"{m.title} {side.upper()}", m.unit, more=number > 0)
                    for side in "ab"]  # fmt: skip
        columns.append(TableColumn(f"{m.name}_change", f"{m.title} change", "difference"))
        if number < intervals:
            columns.append(TableColumn(f"{m.name}_interval", f"{100 * level:g} % interval", "difference"))
    return columns


def _with_changes(row: Mapping[str, Any], measures: Measures) -> dict[str, Any]:
    words = {f"{m.name}_change": _change(row, m) for m in measures}
    words |= {f"{m.name}_interval": _interval_words(row, m) for m in measures}
    return {**row, **words, "predictor": spec_words(row["predictor"])}


def _change(row: Mapping[str, Any], measure: Measure) -> str:
    """Return the difference B - A as text, with its ratio to A if the ratio is meaningful."""
    change, base = row["differences"][measure.name].value, row[f"{measure.name}_a"]
    if not change or change != change:
        return "–" if change else "0"
    part = f" ({100 * change / base:+.1f} %)" if base and measure.unit in ("seconds", "number") else ""
    return f"{signed(change, measure.unit)}{part}"


Row = Mapping[str, Any]
MOST_CURVES = 8
CHANGES = (("forecast", FORECAST[0]), *(("schedule", measure) for measure in difference.SCHEDULE))
"""Part and measure of the changes that are drawn."""


def comparison_sections(comparison: Comparison, level: float) -> list[Section]:
    """Return the page's sections: summary with the settings that differ, predictions, simulated schedules."""
    short: list[Block] = [comparison_cards(comparison, level), verdict(comparison, level), *validity_words(comparison)]
    sections = [Section("In short", [*short, *only_words(comparison), *settings_table(comparison)])]
    for part, heading, table, what, reads in (
        ("forecast", "Predictions", forecast_table, "absolute error",
         "above zero, B has more predictions with an error up to this value."),
        ("schedule", "Simulated schedules", schedule_table, "wait", "above zero, more jobs wait up to this time in B."),
    ):  # fmt: skip
        if rows := comparison.part(part):
            named_table = replace(table(rows, level), caption="A, B and the change, B - A")
            blocks: list[Block] = [named_table, *_intervals(comparison, part)]
            sections.append(Section(heading, [*blocks, *_distributions(comparison, part, what, reads)]))
    return sections


def comparison_cards(comparison: Comparison, level: float) -> Cards:
    """Return the verdict, the numbers of changes beyond chance, the largest change, and the settings that differ."""
    said = verdict(comparison, level)
    cards = [Card("Verdict", said.label.rstrip(":"), (*comparison.unlike, "the same log and selection")[0], said.tone)]
    for part, measure in CHANGES[:2]:
        if rows := comparison.part(part):
            cards += _change_cards(_changed(rows, measure), part, measure.title, level)
    differing = [str(row["setting"]) for row in comparison.part("setting")]
    return Cards([*cards, Card("Settings that differ", str(len(differing)), ", ".join(differing) or "none")])


def _change_cards(changes: Mapping[str, Difference], part: str, title: str, level: float) -> list[Card]:
    """Return the number of significant changes, and the largest significant change (if none: the largest change)."""
    if not changes:
        return [Card(f"{part.capitalize()}s", "the same", f"none changed in {title}")]
    clear = {name: change for name, change in changes.items() if change.verdict in ("ahead", "behind")}
    known = [change for change in changes.values() if change.verdict != "unknown"]
    count = f"{len(clear)} of {len(known)}" if known else "unknown"
    note = f"changed in {title} beyond its interval" if known else f"no intervals of {title}: see the table's note"
    name, largest = max((clear or changes).items(), key=lambda item: abs(item[1].value))
    ends = f"{figures.signed(largest.low)} to {figures.signed(largest.high)}"
    reach = f", {100 * level:g} % interval {ends}" if largest.has_interval else ""
    words = f"{'B ' if name in clear else ''}{VERDICTS[largest.verdict]}"
    return [
        Card(f"{part.capitalize()}s", count, note),
        Card(f"Largest change in {title}", figures.signed(largest.value), f"{name}: {words}{reach}"),
    ]


def _changed(rows: Sequence[Row], measure: Measure) -> dict[str, Difference]:
    """Return the differences of B to A in a measure, by name; rows with an equal or unknown value are left out."""
    changes = {_name(row): row["differences"][measure.name] for row in rows}
    return {name: change for name, change in changes.items() if change.is_known and change.value}


def _name(row: Row) -> str:
    return plan_words(row["policy"], row["predictor"]) if "policy" in row else spec_words(row["predictor"])


def _intervals(comparison: Comparison, part: str) -> list[Figure]:
    """Return the changes with their intervals, as one figure per measure."""
    rows = comparison.part(part)
    blocks = (str(row.get("blocks", "")).partition(" groups of ")[2] for row in rows)
    groups = next(filter(None, blocks), USUAL_GROUPS)
    changed = [(measure, _changed(rows, measure)) for of, measure in CHANGES if of == part]
    return [interval_figure(changes, m.title, m.unit, "A", groups) for m, changes in changed if changes]


def _distributions(comparison: Comparison, part: str, what: str, reads: str) -> list[Figure]:
    """Return a figure of distribution functions in B minus A, with one curve per row that differs."""
    pairs = {}
    for row in comparison.part(part):
        pair = comparison.samples.get((part, str(row.get("policy", "")), str(row["predictor"])))
        if pair and all(np.isfinite(side).any() for side in pair) and not np.array_equal(*pair, equal_nan=True):
            pairs[_name(row)] = pair
    if not pairs:
        return []
    kept = dict(list(pairs.items())[:MOST_CURVES])
    left = f" {len(pairs) - len(kept)} more are not drawn." if len(pairs) > len(kept) else ""
    figure = cdf_change(f"{what.capitalize()}s, B minus A", kept, what)
    return [replace(figure, caption=f"Share of jobs up to each {what} in B minus that in A: {reads}{left}")]
