# SPDX-License-Identifier: Apache-2.0
"""Compares Hao et al. 2014 with our results: figures 2 to 4, printed ratios and the growth of the measures, as tables
and as the HTML page of `reproduce grid`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from batchcast.broker.clock import REASONS, TOO_TIGHT
from batchcast.broker.model import Setting
from batchcast.document import plain
from batchcast.report.blocks import Block, Callout, Section, Table, TableColumn, TableRows, columns_of, page
from batchcast.report.figures import lines

from .study import MEASURES, SHORT, Study, half_width, with_width, with_widths

AXES = {"rate": "rate", "data_share": "p", "large_share": "q"}
RATES = (20.0, 22.0, 24.0, 26.0, 28.0, 30.0)
SHARES = (0.3, 0.5, 0.7)
PAPER_HEURISTICS = ("min_min", "asjs", "emin_min", "ebest", "esufferage", "sufferage")
READINGS = ("ebest:reading=job", "esufferage:lone=last,urgent=0")
OURS = ("deadline_search",)
# printed ratios: (heuristic, reference heuristic, measure, printed ratio)
PRINTED = (
    ("emin_min", "min_min", "mean_makespan", 1 - 0.1551),
    ("emin_min", "min_min", "unfinished", 1 - 0.2218),
    ("ebest", "min_min", "mean_makespan", 1 - 0.0832),
    ("ebest", "min_min", "unfinished", 1 - 0.1874),
    ("esufferage", "min_min", "mean_makespan", 1 - 0.2420),
    ("esufferage", "min_min", "unfinished", 1 - 0.0533),
    ("emin_min", "asjs", "mean_wait", 0.9645),
    ("emin_min", "asjs", "mean_makespan", 0.9828),
    ("emin_min", "asjs", "unfinished", 1.0155),
)
REASONS_WHY = {
    "ebest": "it postpones jobs by design, as the paper's text says; the printed mean contradicts this. The other "
    "reading (urgent jobs first, each on the resource where it ends first) is closest to the paper",
    "esufferage": "with few waiting jobs on 50 resources the order hardly matters, so it acts like emin_min. The "
    "reading without the urgent rule, in which a job with one feasible resource has sufferage 0, is closest",
}


def paper_study(jobs: int, runs: int, seed: int, extra: Sequence[str], rates: Sequence[float]) -> Study:
    """Return the published experiment: 6 arrival rates x 9 mixes of jobs, with the paper's heuristics, other readings
    of the paper, and our search."""
    cells = [Setting(r, p, q) for r in rates for p in SHARES for q in SHARES]
    return Study(cells, (*PAPER_HEURISTICS, *extra), jobs=jobs, runs=runs, seed=seed)


FLOOR = f"reason: {REASONS[TOO_TIGHT]}"


def floors(results: TableRows) -> list[dict[str, Any]]:
    """Return for each rate how many unfinished jobs no method could have finished: means over the nine mixes of jobs.

    `floor` counts jobs whose deadline is too tight even for an idle grid; `floor_share` is `floor` as a share of
    `emin_min`'s unfinished jobs. `against_min_min` is emin_min's number of unfinished jobs divided by min_min's number,
    minus one. `above_floor_against_min_min` is the same ratio without the jobs that `floor` counts.
    """
    rows = []
    for rate, ours, base, cells in _at_rates(results, "emin_min", "min_min"):
        floor, most = ours[FLOOR], ours["submitted"]
        row = {"rate": rate, "floor": floor, "floor_of_submitted": floor / most, "emin_min": ours["unfinished"]}
        row |= {"floor_share": floor / ours["unfinished"], "min_min": base["unfinished"]}
        row["against_min_min"] = ours["unfinished"] / base["unfinished"] - 1
        row["against_min_min_ci95"] = _width(cells, "emin_min", "min_min", "unfinished", of_sums=True)
        row["above_floor_against_min_min"] = (ours["unfinished"] - floor) / (base["unfinished"] - floor) - 1
        rows.append(row)
    return rows


def by_rate(results: TableRows) -> list[dict[str, Any]]:
    """Return the data of figures 2 to 4: each heuristic's mean over the nine mixes, in a row per arrival rate.

    A column `..._ci95` has the mean half width of the mixes' 95 % intervals over the runs; the mixes share random
    numbers, so the interval of their mean is at most as wide.
    """
    return _means(results, "rate", (*MEASURES, "decision_ms_per_job", "submitted", FLOOR))


def _means(results: TableRows, axis: str, keys: Sequence[str] = MEASURES) -> list[dict[str, Any]]:
    """Return each heuristic's means of the measures `keys` over the other settings, in a row per value of `axis` (the
    arrival rate, or the share p or q); columns `..._ci95` have the same meaning as in `by_rate`."""
    columns = (*keys, *(f"{key}_ci95" for key in MEASURES))
    rows: list[dict[str, Any]] = []
    for value in sorted({row[axis] for row in results}):
        for name in _names(results):
            cells = [row for row in results if row[axis] == value and row["heuristic"] == name]
            means = {key: float(np.mean([row.get(key, np.nan) for row in cells])) for key in columns}
            rows.append({axis: value, "heuristic": name, **means})
    return rows


def relations(results: TableRows) -> list[dict[str, Any]]:
    """Return every ratio that the paper prints, our ratio (a mean over settings), and the difference in percentage
    points."""
    rows = []
    for name, against, key, printed in PRINTED:
        for spec in (s for s in _names(results) if s.split(":")[0] == name):
            ratio, wide = ratio_of(results, spec, against, key), _width(_cells(results), spec, against, key)
            stands = "one run" if wide != wide else "outside" if abs(ratio - 1.0) > wide else "inside"
            rows.append(
                {
                    "heuristic": spec, "against": against, "measure": SHORT[key], "printed": printed, "ours": ratio,
                    "ours_ci95": wide, "stands": stands,
                    "gap_points": 100 * (ratio - printed), "same_sign": (ratio < 1) == (printed < 1),
                    "within_5_points": abs(ratio - printed) <= 0.05,
                }
            )  # fmt: skip
    return rows


def ratio_of(results: TableRows, name: str, against: str, key: str) -> float:
    """Return the mean over settings of the ratio of two heuristics' measures."""
    return float(np.mean([cell[name][key] / cell[against][key] for cell in _cells(results)]))


Cells = list[dict[str, Mapping[str, Any]]]


def _cells(results: TableRows) -> Cells:
    """Return each setting's results by heuristic, in order of rate, p and q."""
    cells: dict[tuple[float, ...], dict[str, Mapping[str, Any]]] = {}
    for row in results:
        cells.setdefault(tuple(row[axis] for axis in AXES), {})[row["heuristic"]] = row
    return [cells[setting] for setting in sorted(cells)]


def _width(cells: Cells, name: str, against: str, key: str, *, of_sums: bool = False) -> float:
    """Return the half width of the 95 % interval over the runs (paired) of the mean ratio of two heuristics' measures,
    or of the ratio of their sums over the settings; NaN for one run."""
    if any(f"{key}_runs" not in cell[spec] for cell in cells for spec in (name, against)):
        return float("nan")
    ours, base = (np.array([cell[spec][f"{key}_runs"] for cell in cells]) for spec in (name, against))
    return half_width(ours.sum(axis=0) / base.sum(axis=0) if of_sums else (ours / base).mean(axis=0))


def growth(results: TableRows) -> list[dict[str, Any]]:
    """Return whether each heuristic's unfinished jobs (UFJ), mean wait (AWT) and mean makespan (AMJ) grow at every step
    of the rate, of p and of q."""
    means = {axis: _means(results, axis) for axis in AXES}

    def grows(name: str, key: str, axis: str) -> bool:
        return bool((np.diff([row[key] for row in means[axis] if row["heuristic"] == name]) > 0).all())

    return [
        {"heuristic": name, "measure": SHORT[key]} | {f"grows_with_{axis}": grows(name, key, axis) for axis in AXES}
        for name in _names(results)
        for key in MEASURES
    ]


def against_emin_min(results: TableRows) -> list[dict[str, Any]]:
    """Compare `deadline_search` with `emin_min` at every arrival rate: unfinished jobs, makespan, and time of a
    decision."""
    rows = []
    for rate, ours, base, cells in _at_rates(results, OURS[0], "emin_min"):
        row = {"rate": rate, "heuristic": OURS[0]}
        for key in ("unfinished", "mean_makespan"):
            row[f"{key}_change"] = ours[key] / base[key] - 1
            row[f"{key}_change_ci95"] = _width(cells, OURS[0], "emin_min", key, of_sums=True)
        rows.append(row | {"decision_ms_per_job": ours["decision_ms_per_job"]})
    return rows


def _at_rates(results: TableRows, name: str, against: str) -> Iterator[tuple[float, Any, Any, Cells]]:
    """Yield each arrival rate with the means of two heuristics, and with each setting's results by heuristic."""
    table = {(row["rate"], row["heuristic"]): row for row in by_rate(results)}
    for rate in sorted({row["rate"] for row in results if row["heuristic"] == name}):
        cells = _cells([row for row in results if row["rate"] == rate])
        yield rate, table[rate, name], table[rate, against], cells


def _names(results: TableRows) -> list[str]:
    """Return the specs of the heuristics, each once, in order of their first row."""
    return list(dict.fromkeys(row["heuristic"] for row in results))


TITLES = {
    "mean_makespan": "Figure 2: mean makespan (AMJ)",
    "mean_wait": "Figure 3: mean wait (AWT)",
    "unfinished": "Figure 4: unfinished jobs (UFJ)",
}


def paper_tables(results: TableRows) -> list[Table]:
    """Return the tables for the terminal: printed ratios, figures 2 to 4, growth of the measures, and a comparison with
    `deadline_search`."""
    sentences = columns_of(
        "heuristic", "against", "measure", "printed|printed|ratio", "ours|ours|ratio",
        "ours_ci95|±|ratio|half the 95 % interval over the runs, paired: runs share their draws",
        "stands|noise of the runs|text|outside: the interval of the ratio does not contain 1",
        "gap_points|gap, points|number", "same_sign|same sign", "within_5_points|within 5 points",
    )  # fmt: skip
    caption = "Printed relations beside ours (each the mean over the settings of the ratio)"
    tables = [Table(caption, sentences, _worded(relations(results)))]
    rows = by_rate(results)
    names = sorted(_names(rows), key=lambda name: ":" in name)  # other readings last
    for key in TITLES:
        columns = [TableColumn("rate", "rate", "number"), *(TableColumn(name, name) for name in names)]
        table: dict[float, dict[str, Any]] = {row["rate"]: {"rate": row["rate"]} for row in rows}
        for row in rows:
            text = with_width(row, key, 1 if key == "unfinished" else 3).replace(" ", "\u00a0")
            table[row["rate"]][row["heuristic"]] = text
        note = "± half width of the 95 % interval over the runs, at most."
        tables.append(Table(TITLES[key], columns, list(table.values()), note))
    tables.append(floor_table(results))
    grown = columns_of("heuristic", "measure", *(f"grows_with_{key}|grows with {x}" for key, x in AXES.items()))
    tables.append(Table("Growth of the means with arrival rate, p and q", grown, _worded(growth(results))))
    search = columns_of(
        "rate|rate|number", "unfinished_change_words|UFJ against emin_min",
        "mean_makespan_change_words|AMJ against emin_min", "decision_ms_per_job|decision, ms per job|ratio",
    )  # fmt: skip
    beside = with_widths(against_emin_min(results), {"unfinished_change": 1, "mean_makespan_change": 1}, share=True)
    tables.append(Table("deadline_search beside emin_min", search, beside, WIDTH))
    return tables


def floor_table(results: TableRows) -> Table:
    """Return the table of unfinished jobs that no method could have finished."""
    columns = columns_of(
        "rate|rate|number", "floor|deadline too tight for an idle grid|number", "emin_min|emin_min unfinished|number",
        "floor_share|of them deadline too tight|share", "min_min|min_min unfinished|number",
        "against_min_min_words|emin_min against min_min",
        "above_floor_against_min_min|the same without too tight jobs|share",
    )  # fmt: skip
    note = (
        "Jobs whose deadline no resource could meet on an idle grid, under the units fitted to the paper. The paper "
        f"says that all heuristics are equal below rate 22; here they are not. {WIDTH}"
    )
    rows = with_widths(floors(results), {"against_min_min": 1}, share=True)
    return Table("Unfinished jobs that no heuristic could have finished", columns, rows, note)


WIDTH = "± half width of the 95 % interval over the runs, which all heuristics share."


SHARES_IN_WORDS = {"data_share": "p, share of data-intensive jobs", "large_share": "q, share of large jobs"}


def _figures(rows: TableRows, names: Sequence[str], x: str, words: str, caption: str) -> list[Block]:
    """Draw Figures 2 to 4 against the column `x`, with the 95 % intervals over the runs as error bars."""
    figures: list[Block] = []
    rows_of = {name: [row for row in rows if row["heuristic"] == name] for name in names}
    for key, title in TITLES.items():
        series = {name: ([row[x] for row in rows_of[name]], [row[key] for row in rows_of[name]]) for name in names}
        drawn = lines(f"{title} by {words.partition(',')[0]}", series, x=words, y=SHORT[key], markers=True)
        bars = [{"type": "data", "array": plain([row[f"{key}_ci95"] for row in rows_of[name]])} for name in names]
        data = [{**trace, "error_y": {**bar, "visible": True}} for trace, bar in zip(drawn.data, bars)]
        figures.append(replace(drawn, data=data, caption=f"{caption}; bars: 95 % interval over the runs, at most."))
    return figures


def _worded(rows: TableRows) -> list[dict[str, Any]]:
    """Return the rows with the words yes and no in place of True and False."""
    return [{k: ("no", "yes")[v] if isinstance(v, bool) else v for k, v in row.items()} for row in rows]


def paper_page(results: TableRows, provenance: Mapping[str, Any]) -> str:
    """Return the page of `reproduce grid`: the three figures and the relations."""
    rows = by_rate(results)
    # alternative readings of the paper are only in the tables: the palette has eight colours, and the lines overlap
    names = [name for name in _names(rows) if ":" not in name]
    figures = _figures(rows, names, "rate", "arrival rate, jobs a time unit", "Means over nine mixes")
    by_mix: list[Block] = []
    for share, words in SHARES_IN_WORDS.items():
        by_mix += _figures(_means(results, share), names, share, words, "Means over the rates and the other share")
    tables = paper_tables(results)
    why = [Callout(f"{name}: {words}.", "warning") for name, words in REASONS_WHY.items()]
    sections = [
        Section("Printed and ours", [tables[0], *why]),
        Section("Figures 2 to 4", figures),
        Section("Figures 2 to 4 by p and q", by_mix),
        Section("Tables", tables[1:]),
    ]
    return page("Grid scheduling with deadlines: Hao et al. 2014", sections, provenance)
