"""The commands behind the figures of the papers' pages and of two pages of evidence, and what is read from each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from batchcast.papers.vasp.page import PAPER_MRE
from batchcast.units import span

from .files import Figures, Study
from .studies import BLUE, CTC, DAS2, DS, HPC2N, KTH, LPC, SP2, table

QUICK_STARTERS = {"CTC": CTC, "HPC2N": HPC2N, "SDSC-BLUE": BLUE, "SDSC-SP2": SP2}


def percent(share: float) -> str:
    """A share in per cent with one digit after the point."""
    return f"{100 * share:.1f}"


def beside(ours: str, printed: float | None, form: str = ".0f", factor: float = 100.0) -> str:
    """Our figure and the printed one in brackets."""
    return ours if printed is None else f"{ours} ({factor * printed:{form}})"


def between(row: dict[str, Any], name: str = "gain") -> str:
    """A gain in per cent with its 90 % interval."""
    return f"{percent(row[name])} ({percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])})"


def read_quick_starters(documents: list[Any], _: Path) -> Figures:
    """Quick starters found on four logs beside the paper's Tables 1, 2, 3 and 7."""
    found, shares, gains, others = Figures(), [], [], []
    for log, document in zip(QUICK_STARTERS, documents, strict=True):
        rows = {row["predictor"]: row for row in document["results"] if "table" not in row}
        pqstar = rows["pqstar"]
        cells = (
            beside(percent(rows[name]["identified"]), rows[name]["identified_printed"])
            for name in ("log_uniform", "qbets", "ibl:reading=text", "pqstar")
        )
        shares.append((log, *cells, beside(percent(pqstar["misguided"]), pqstar["misguided_printed"])))
        (gain,) = (
            row for row in document["results"]
            if row.get("table") == "noise" and (row["against"], row["measure"]) == ("ibl:reading=text", "identified")
        )  # fmt: skip
        gains.append((log, between(gain), f"{100 * gain['printed_gain']:.0f}"))
        others.append(
            (log, beside(percent(pqstar["quick_share_log"]), pqstar["quick_share_log_printed"]),
             beside(percent(pqstar["near_share"]), pqstar["near_share_printed"]),
             beside(f"{pqstar['near_jobs']:.0f}", pqstar["near_jobs_printed"], factor=1.0),
             beside(percent(pqstar["good"]), pqstar["good_printed"]),
             beside(f"{pqstar['mean_ppert']:.1f}", pqstar["mean_ppert_printed"], ".1f", 1.0))
        )  # fmt: skip
        found.values |= {
            f"{log}.pqstar_share": round(pqstar["identified"], 4),
            f"{log}.ibl_share": round(rows["ibl"]["identified"], 4),
        }
    head = "log | `log_uniform` | `qbets` | `ibl:reading=text` | `pqstar` | `pqstar`: misguided, % of all jobs"
    found.blocks["identified"] = table(head, shares)
    found.blocks["gains"] = table("log | ours, points (90 % interval) | printed", gains)
    head = "log | quick starters, % | found by the near history, % | jobs in the near history | good predictions, %"
    found.blocks["others"] = table(f"{head} | mean percentage error", others)
    return found


RELATIONS = (
    ("emin_min", "min_min", "AMJ UFJ"), ("emin_min", "asjs", "AWT AMJ UFJ"), ("ebest", "min_min", "AMJ UFJ"),
    ("ebest:reading=job", "min_min", "AMJ UFJ"), ("esufferage", "min_min", "AMJ UFJ"),
    ("esufferage:lone=last,urgent=0", "min_min", "AMJ UFJ"),
)  # fmt: skip


def read_grid(documents: list[Any], _: Path) -> Figures:
    """The printed ratios between heuristics beside ours."""
    given = [row for row in documents[0]["results"] if row["table"] == "relations"]
    by_name = {(row["heuristic"], row["against"], row["measure"]): row for row in given}
    rows = []
    values: dict[str, float] = {}
    for name, against, measures in RELATIONS:
        cells = [by_name[name, against, measure] for measure in measures.split()]
        gap = max(abs(cell["gap_points"]) for cell in cells)
        printed = ", ".join(f"{cell['printed']:.3f}" for cell in cells)
        ours = ", ".join(f"{cell['ours']:.3f} ± {cell['ours_ci95']:.3f}" for cell in cells)
        rows.append((f"`{name}` / `{against}`: {', '.join(measures.split())}", printed, ours, f"{gap:.1f}"))
        values |= {f"{name}/{against}.{cell['measure']}": round(cell["ours"], 3) for cell in cells}
    return Figures(values, {"relations": table("ratio | printed | ours | largest gap, points", rows)})


SHOWN = ("forest", "svr", "bayesian_ridge", "irpa", "brbf", "parzen", "user_clusters", "boosted")


def read_vasp(documents: list[Any], _: Path) -> Figures:
    """Accuracy and relative error on public runs, split in time and by system, and on synthetic jobs."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in documents[0]["results"]:
        if "apa" in row:  # a method's variants come after the method itself
            found.setdefault((row["predictor"].partition(":")[0], row.get("data", row["split"])), row)

    def cell(name: str, part: str, measure: str) -> str:
        value = found[name, part][measure]
        return "" if value is None or value != value else f"{value:.3f}"

    columns = [(part, measure) for part in ("time", "system", "first") for measure in ("apa", "best_90_mre")]
    del columns[1]
    rows = [(f"`{name}`", *(cell(name, *one) for one in columns), PAPER_MRE.get(name, "")) for name in SHOWN]
    head = "predictor | public runs, split in time: accuracy | split by system: accuracy | split by system: MRE"
    values: dict[str, Any] = {}
    for name, part in (("irpa", "system"), ("irpa", "first"), ("brbf", "first")):
        row = found[name, part]
        values |= {f"{name}.{part}.{end}": round(abs(row[f"apa_difference_{end}"]), 3) for end in ("low", "high")}
    for name in ("forest", "boosted", "irpa", "parzen", "user_clusters"):
        values[f"{name}.system"] = round(found[name, "system"]["apa"], 3)
    return Figures(values, {"accuracy": table(f"{head} | synthetic: accuracy | synthetic: MRE | printed MRE", rows)})


OLDER = {"CTC": CTC, "SDSC-SP2": SP2, "HPC2N": HPC2N, "SDSC-BLUE": BLUE}
EARLIER = ("pqstar:reading=tables", "ibl", "recent_wait", "qbets")


def read_older(documents: list[Any], _: Path) -> Figures:
    """Coverage and errors of `forecast` on four logs, beside the best of the earlier methods."""
    found, rows = Figures(), []
    for log, document in zip(OLDER, documents, strict=True):
        by = {row["predictor"]: row for row in document["results"]}
        ours = by["forecast"]
        best = min(by[name]["mean_abs_error_s"] for name in EARLIER)
        ends = " to ".join(f"{ours[f'crps_log_difference_{end}']:.2f}" for end in ("low", "high"))
        rows.append(
            (log, f"{ours['jobs']:,}", *(percent(ours[f"interval_{level}"]) for level in (80, 90)),
             f"{ours['crps_log']:.2f}", ends, span(ours["mean_abs_error_s"]), span(best))
        )  # fmt: skip
        found.values |= {f"{log}.kept{level}_share": round(ours[f"interval_{level}"], 4) for level in (80, 90)}
    head = "log | jobs | 80 % interval covers, % | 90 % interval covers, % | CRPS | CRPS minus `ibl`'s (90 % interval)"
    found.blocks["older"] = table(f"{head} | mean error | mean error of the best earlier method", rows)
    return found


BOUNDED = {"KTH": KTH, "DAS2": DAS2, "SDSC-SP2": SP2, "CTC": CTC, "SDSC-DS": DS, "SDSC-BLUE": BLUE, "HPC2N": HPC2N,
           "LPC": LPC}  # fmt: skip
BOUND = re.compile(r"^(\S+) +(lots|) +80\.0%.*? 90\.0% ([\d.]+) ([\d.]+) ", re.MULTILINE)
"""A line of `benchmarks.speed.kernel_bounds`: log, whether with lots, share of jobs and of windows at 90 %."""


def read_bounds(printed: list[Any], _: Path) -> Figures:
    """Coverage of the 90 % bounds of `calibrated` on eight logs, with and without `lots`."""
    cells: dict[str, dict[str, tuple[str, str]]] = {}
    for log, lots, *shares in BOUND.findall("\n".join(printed)):
        cells.setdefault(log, {})[lots] = (shares[0], shares[1])
    rows = [(log, *by[""], *by["lots"]) for log, by in cells.items()]
    near = sum(float(by[""][1]) >= 0.95 for by in cells.values())
    head = "log | 90 % bound: jobs within | windows within 2 points | `lots=yes`: jobs within | windows within 2 points"
    return Figures({"logs": len(rows), "near": near}, {"windows": table(head, rows)})


def each(command: str, names: Iterable[str]) -> tuple[str, ...]:
    """The command once for each name."""
    return tuple(command.format(name) for name in names)


COMPARED = f"forecast,{','.join(EARLIER)} --against ibl --all-columns"
STUDIES = (
    Study("paper-grid", ("batchcast reproduce grid --jobs 2000 --runs 10",), read_grid, rerun="long"),
    Study(
        "paper-quick-starters", each("batchcast reproduce pqstar --logs {}", QUICK_STARTERS),
        read_quick_starters, tuple(QUICK_STARTERS.values()), rerun="long",
    ),
    Study(
        "paper-vasp", ("batchcast reproduce vasp --quick",), read_vasp, ("vasp-klimes.csv.gz",),
    ),
    Study(
        "waits-older", each(f"batchcast wait {{}} --places 10001:50000 --predictor {COMPARED}", OLDER.values()),
        read_older, tuple(OLDER.values()), rerun="long",
    ),
    Study(
        "bounds-windows",
        each('python -c "from benchmarks.speed.kernel_bounds import LOGS, held_and_cost; '
             "held_and_cost({{'{0}': LOGS['{0}']}})\"", BOUNDED),
        read_bounds, tuple(BOUNDED.values()),
    ),
)  # fmt: skip
