# SPDX-License-Identifier: Apache-2.0
"""The page of `reproduce vasp`: the paper's tables and figures for the available runs and for synthetic jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...metrics.paired import DECIDES, LEAST_GROUPS, Difference
from ...report.blocks import Block, Callout, Figure, Section, Table
from ...report.difference import difference_words
from ...report.figures import bars
from ...units import span
from ..shared import columns_of
from .runs import Runs
from .study import CUTS, PRINTED_SHARES, core_time, distribution, range_tables, shares_table

Rows = Sequence[Mapping[str, Any]]
PAPER_NAMES = {
    "forest": "RFR",
    "svr": "SVR",
    "bayesian_ridge": "BRR",
    "irpa": "IRPA",
    "brbf": "BRBF",
    "parzen": "PDR",
    "user_clusters": "UBCETE",
}
PAPER_MRE = {"forest": 0.268, "svr": 0.372, "bayesian_ridge": 0.532, "irpa": 0.203, "brbf": 0.178}
LONGEST_NAME = 28
SPLIT_WORDS = {
    "time": "split in time: the first 80 % of the runs are for training, the last 20 % for testing",
    "system": "split by system: no chemical formula is in both training and test runs",
}


def cannot(facts: Mapping[str, Any]) -> str:
    """Describe which claims the available runs cannot support, from `papers.vasp.study.facts`."""
    constant = ", ".join(facts["constant_features"]) or "none"
    return (
        "These are not the paper's jobs: its 16,700 runs of one centre are not public, so no figure here confirms or "
        f"refutes the paper's. These features are constant here: {constant}. BRBF's key (ISPIN, ISYM, LREAL, PREC) has "
        f"{facts['keys']} values here. The shortest run takes {span(facts['shortest_s'])}; "
        f"{100 * facts['share_under_30_min']:.0f} % of the runs take less than 30 minutes (in the paper 56 %). The "
        "table of runs has no input files: ISYM, ISTART, ICHARG, NELMIN and EDIFFG are VASP's defaults, and NBANDS is "
        "what VASP used, rounded up to its processors. The table has no users, so methods that use the user treat all "
        "runs as one user's."
    )


def can(facts: Mapping[str, Any]) -> str:
    """Describe which results the available runs show, from `papers.vasp.study.facts`."""
    return (
        "These runs can show that the methods work from end to end on real run times, how the methods rank on new "
        "systems, and how much worse they are when settings change over time: in the split in time, "
        f"{100 * facts['kinds_train_only']:.0f} % of the training runs are of a kind (functional and cutoff) that does "
        "not occur in the test runs. The split by system is the honest test for new chemistry, but methods then train "
        "on later runs to predict earlier runs. Trust a result only if both splits show it."
    )


def vasp_sections(
    results: Rows, runs: Runs, facts: Mapping[str, Any], resamples: int, synthetic: Sequence[Block] = ()
) -> list[Section]:
    """Return the page's sections from the results of `papers.vasp.study`."""
    limits = [Callout(cannot(facts), "warning"), Callout(can(facts))]
    return [
        Section("What this shows, and what it cannot", [*limits, *_best(results)]),
        Section("The runs", _runs(runs)),
        *(
            Section(words.capitalize(), _split_blocks(split, results, resamples, on_page=True))
            for split, words in SPLIT_WORDS.items()
        ),
        *([Section("Synthetic jobs at the paper's scale", list(synthetic))] if synthetic else []),
    ]


def summary_tables(results: Rows, resamples: int) -> list[Block]:
    """Return the tables for the terminal: for each split the overview and tables 3 to 5."""
    return [block for split in SPLIT_WORDS for block in _split_blocks(split, results, resamples)]


def differences_tables(rows: Rows, words: str) -> list[Table]:
    """Compare each method with the paper's random forest, with 90 % intervals; empty if there are no results of the
    forest."""
    first = next((row for row in rows if "against" in row), None)
    if first is None:
        return []
    against = shown_name(first["against"])
    columns = columns_of(
        "name|predictor", f"apa_words|apa against {against}|difference",
        f"mae_words|mean error against {against}|difference",
    )  # fmt: skip
    shown = [
        row
        | {"apa_words": difference_words(Difference.of(row, "apa"), "ratio")}
        | {"mae_words": difference_words(Difference.of(row, "mae_s"), "seconds")}
        for row in _named(row for row in rows if "against" in row)
    ]
    by_method = {str(row["predictor"]): apa for row in rows if (apa := Difference.of(row, "apa")) is not None}
    groups = next(iter(by_method.values())).groups or 0
    note = (
        f"Intervals of 90 % over {groups:,} groups of {first['groups_of']}, in the split itself, not resampled. "
        "Level: these runs do not show which of both methods is better."
    )
    if groups < LEAST_GROUPS:
        note = f"No interval: {groups} groups of {first['groups_of']}, {LEAST_GROUPS} are needed."
    decided = "; ".join(
        f"{shown_name(method)} {100 * apa.largest_share:.0f} %, and without this group the difference is "
        f"{apa.without_largest:+.3f}"
        for method, apa in by_method.items()
        if apa.largest_share > DECIDES
    )
    note += f" The largest group's share of the sum of absolute differences in apa: {decided}." if decided else ""
    return [Table(f"Differences between methods · {words}", columns, shown, note)]


def _best(results: Rows) -> list[str]:
    """Return a sentence for each split about the methods with the largest and the smallest accuracy."""
    sentences = []
    for split, words in SPLIT_WORDS.items():
        rows = [row for row in results if row["split"] == split and "apa" in row]
        if rows:
            last, lead = (extreme(rows, key=lambda row: float(row["apa"])) for extreme in (min, max))
            sentences.append(
                f"{words.capitalize()}: {shown_name(lead['predictor'])} has the largest mean apa "
                f"({_spread(lead, 'apa')}), {shown_name(last['predictor'])} the smallest ({last['apa']:.3f})."
            )
    return sentences


def _runs(runs: Runs) -> list[Block]:
    """Return the blocks about the public runs: a sentence, table 2 and figure 1."""
    dropped = "; ".join(f"{count:,} rows left out: {rule}" for rule, count in runs.trace.info.dropped.items())
    rows = [row | {"share_paper": PRINTED_SHARES.get(str(row["range_min"]))} for row in distribution(runs)]
    spent = core_time(runs)
    columns = columns_of(
        "range_min|run time, minutes",
        "share_paper|paper|share|the paper's table 2; it ends with 26.5 % over 120 minutes",
        "share_all|all runs|share", "share_train|first 80 %|share", "share_test|last 20 %|share",
    )  # fmt: skip
    caption = (
        "The paper's figure 1 shows the share of VASP among all applications of its machine. Here every run is a VASP "
        "run, and the kinds are functionals and cutoffs."
    )
    title, value = "Figure 1: processor time by kind of run", "share of processor time"
    return [
        f"{len(runs.trace):,} distinct runs of {len(np.unique(runs.system))} systems. {dropped}.",
        Table("Table 2: distribution of run times", columns, rows),
        bars(title, list(spent), {value: list(spent.values())}, value=value, kind="share", caption=caption),
    ]


def _split_blocks(split: str, results: Rows, resamples: int, *, on_page: bool = False) -> list[Block]:
    """Return the tables of one split of the runs: the overview, the differences and tables 3 to 5; on the page also
    figures."""
    rows, words = [row for row in results if row["split"] == split], SPLIT_WORDS[split]
    scored = _named(row for row in rows if "apa" in row)
    blocks: list[Block] = [_overview(rows, split, resamples), *differences_tables(scored, words)]
    if on_page:
        caption = f"Like the paper's figures 6 to 9, for the public runs, {words}."
        absent = {shown_name(row["predictor"]): row["note"] for row in rows if "note" in row}
        blocks += [Callout(f"{name}: {note}", "warning") for name, note in absent.items()]
        blocks += [cut_figure(scored, cut, split, caption) for cut in CUTS]
    return [*blocks, *range_tables(scored, words), _mre(scored, split)]


def _overview(rows: Rows, split: str, resamples: int) -> Table:
    columns = columns_of(
        "name|predictor", "apa|apa|ratio|mean of min(predicted, actual) / max(predicted, actual); 1 is perfect",
        "apa_sd|± apa|ratio|standard deviation over the resamples",
        "mae_s|mean error|seconds|mean absolute error (MAE)",
        "underestimate_rate|UR|share|underestimates: runs that took longer than predicted",
        "best_90_mre|MRE|ratio|mean relative error, best 90 % of the runs predicted under 1 h",
        "acc_under_60_min|ACC 1 h|ratio|precision of 'under 1 h'",
        "rec_under_60_min|REC 1 h|ratio|recall of 'under 1 h'", "acc_under_120_min|ACC 2 h|ratio",
        "rec_under_120_min|REC 2 h|ratio",
    )  # fmt: skip
    named = _named(row for row in rows if "note" not in row)
    absent = "".join(f" {row['predictor']}: {row['note']}." for row in rows if "note" in row)
    note = (
        "Means over the resamples; ± is their standard deviation. Methods are trained once and do not learn during the "
        "test (the paper's protocol)." + (" Each resample draws new systems." if split == "system" else "") + absent
    )
    return Table(f"VASP run times · {SPLIT_WORDS[split]} · {resamples} bootstrap resamples", columns, named, note)


def cut_figure(scored: Rows, cut: int, what: str, caption: str) -> Figure:
    """Draw the accuracy ACC and recall REC of each method for jobs that are predicted to run shorter than `cut`
    minutes."""
    names = [shown_name(str(row["predictor"])) for row in scored]
    shares = {"ACC (precision)": f"acc_under_{cut}_min", "REC (recall)": f"rec_under_{cut}_min"}
    series = {title: [row[key] for row in scored] for title, key in shares.items()}
    title, value = f"Recognition of runs under {cut // 60} h ({what})", f"ACC and REC of the cut at {cut // 60} h"
    return bars(title, names, series, value=value, kind="share", caption=caption)


def _mre(scored: Rows, split: str) -> Table:
    columns = columns_of("name|predictor", "text|MRE", "paper|paper|ratio|the paper's table 5, for other jobs")
    rows = [
        row | {"text": _spread(row, "best_90_mre"), "paper": PAPER_MRE.get(row["predictor"])} for row in _named(scored)
    ]
    return Table(f"Table 5: mean relative error, best 90 % predicted under 1 h · {SPLIT_WORDS[split]}", columns, rows)


def _named(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return copies of the rows with each method's name as the page shows it."""
    return [dict(row) | {"name": shown_name(str(row["predictor"]))} for row in rows]


def _spread(row: Mapping[str, Any], name: str) -> str:
    """Return a mean with its standard deviation, if there are enough resamples."""
    deviation = row[f"{name}_sd"]
    return f"{row[name]:.3f}" + (f"\u00a0±\u00a0{deviation:.3f}" if deviation == deviation else "")


def shown_name(spec: str) -> str:
    """Return the method's name and parameters (shortened to ... if long), with the paper's abbreviation.

    >>> shown_name("irpa:upper=forest"), shown_name("boosted"), shown_name("parzen:keys=ispin+isym+lreal+prec")
    ('irpa:upper=forest (IRPA)', 'boosted', 'parzen:... (PDR)')
    """
    name = spec.split(":")[0]
    short = PAPER_NAMES.get(name)
    shown = spec if len(spec) <= LONGEST_NAME else f"{name}:..."
    return f"{shown} ({short})" if short else shown


def synthetic_tables(results: Rows, shares: Rows) -> list[Table]:
    """Return the tables of the synthetic sets: the data of figures 6 to 9, and tables 2 to 5."""
    tables = []
    note = "Synthetic jobs (seeded) exercise every branch of the methods; they cannot confirm the paper's figures."
    for data, figures, printed in (("first", "Figures 6 and 7, table 5", PAPER_MRE), ("second", "Figures 8 and 9", {})):
        rows = _named(row for row in results if row["data"] == data)
        rows = [row | {"paper": printed.get(str(row["predictor"]))} for row in rows]
        tables += _set_tables(rows, figures, f"synthetic VASP jobs, {data} set", note)
        tables += range_tables(rows, "synthetic first set") if printed else []
    return [*tables, shares_table(shares)]


def own_tables(results: Rows, shares: Rows, source: str) -> list[Table]:
    """Return Tables 2 to 5 of a site's own jobs, split in time."""
    rows = _named(results)
    parts = ("share_all|all jobs|share", "share_train|training|share", "share_test|predicted|share")
    of_run_times = Table(f"Table 2: run times of {source}", columns_of("range_min|minutes", *parts), shares)
    return [*_set_tables(rows, "Table 5", source, ""), *range_tables(rows, source), of_run_times]


def _set_tables(rows: list[dict[str, Any]], figures: str, named: str, note: str) -> list[Table]:
    """Return the accuracy of all methods on one set of jobs, split in time, and the differences between methods."""
    columns = columns_of(
        "name|predictor", "apa|apa|ratio", "acc_under_60_min|ACC 1 h|ratio", "rec_under_60_min|REC 1 h|ratio",
        "acc_under_120_min|ACC 2 h|ratio", "rec_under_120_min|REC 2 h|ratio", "best_90_mre|MRE|ratio",
        *(["paper|MRE printed|ratio"] if any("paper" in row for row in rows) else []),
    )  # fmt: skip
    note += "".join(
        f" {row['name']}: {row['key_networks']:.0f} keys have their own network; these networks predicted "
        f"{100 * row['by_key_network']:.1f} % of the test jobs."
        for row in rows
        if row["by_key_network"] == row["by_key_network"]
    )
    return [Table(f"{figures}: {named}, split in time", columns, rows, note), *differences_tables(rows, named)]


def synthetic_figures(results: Rows) -> list[Block]:
    """Draw figures 6 and 7 from the first synthetic set, 8 and 9 from the second: results for cuts at one and two
    hours."""
    figures: list[Block] = []
    for number, data, cut in zip((6, 7, 8, 9), ("first", "first", "second", "second"), CUTS * 2):
        of = f"synthetic jobs of the {data} set"
        caption = f"The paper's figure {number} for {of}; it cannot confirm the paper's figure."
        rows = [row for row in results if row["data"] == data]
        figures.append(cut_figure(rows, cut, f"figure {number}, synthetic {data} set", caption))
    return figures
