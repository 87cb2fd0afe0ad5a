"""The commands behind the figures of the papers' pages and of two pages of evidence, and what is read from each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from batchcast.units import span
from batchcast_papers.vasp.study import PAPER_MRE

from .files import Figures, Study
from .studies import BLUE, CTC, DAS2, DS, HPC2N, KTH, LPC, SP2, ends_of, table

QUICK_STARTERS = {"CTC": CTC, "HPC2N": HPC2N, "SDSC-BLUE": BLUE, "SDSC-SP2": SP2}


def percent(share: float) -> str:
    """Return a share in per cent with one decimal."""
    return f"{100 * share:.1f}"


def beside(ours: str, printed: float | None, form: str = ".0f", factor: float = 100.0) -> str:
    """Return our figure and the printed one in brackets."""
    return ours if printed is None else f"{ours} ({factor * printed:{form}})"


def between(row: dict[str, Any], name: str = "gain") -> str:
    """Return a gain in per cent with its 90 % interval."""
    return f"{percent(row[name])} ({percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])})"


def read_quick_starters(documents: list[Any], _: Path) -> Figures:
    """Read quick starters found on four logs, compared with the paper's Tables 1, 2, 3 and 7."""
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
    """Read the ratios between heuristics, printed and ours."""
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
    """Read accuracy and relative error on public runs, split in time and by system, and on synthetic jobs."""
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
        stated = found[name, part]["differences"]["apa"]
        values |= {f"{name}.{part}.{end}": round(abs(stated[end]), 3) for end in ("low", "high")}
    for name in ("forest", "boosted", "irpa", "parzen", "user_clusters"):
        values[f"{name}.system"] = round(found[name, "system"]["apa"], 3)
    return Figures(values, {"accuracy": table(f"{head} | synthetic: accuracy | synthetic: MRE | printed MRE", rows)})


OLDER = {"CTC": CTC, "SDSC-SP2": SP2, "HPC2N": HPC2N, "SDSC-BLUE": BLUE}
EARLIER = ("pqstar:reading=tables", "ibl", "recent_wait", "qbets")


def read_older(documents: list[Any], _: Path) -> Figures:
    """Read coverage and errors of `forecast` on four logs, compared with the best earlier method."""
    found, rows = Figures(), []
    for log, document in zip(OLDER, documents, strict=True):
        by = {row["predictor"]: row for row in document["results"]}
        ours = by["forecast"]
        best = min(by[name]["mean_abs_error_s"] for name in EARLIER)
        ends = " to ".join(f"{end:.2f}" for end in ends_of(ours, "crps_log")[1:])
        rows.append(
            (log, f"{ours['jobs']:,}", *(percent(ours[f"interval_{level}"]) for level in (80, 90)),
             f"{ours['crps_log']:.2f}", ends, span(ours["mean_abs_error_s"]), span(best))
        )  # fmt: skip
        found.values |= {f"{log}.kept{level}_share": round(ours[f"interval_{level}"], 4) for level in (80, 90)}
    head = "log | jobs | 80 % interval covers, % | 90 % interval covers, % | CRPS | CRPS minus `ibl`'s (90 % interval)"
    found.blocks["older"] = table(f"{head} | mean error | mean error of the best earlier method", rows)
    return found


SU_MODELS = ("linear", "forest", "svr")


def errors(row: dict[str, Any], digits: int = 3) -> str:
    """Return mean absolute error, accuracy if there is one, and share of underestimates."""
    shares = (row[name] for name in ("apa", "underestimate_rate") if name in row)
    return " ".join([f"{row['mae_s']:,.0f}", *(f"{share:.{digits}f}".lstrip("0") for share in shares)])


def read_su(documents: list[Any], _: Path) -> Figures:
    """Read errors of `su` and of plain regression on two logs, and the gains of `su` with their intervals."""
    found, rows = Figures(), []
    results = documents[0]["results"]
    by = {(row["log"], row["jobs_of"], row["predictor"]): row for row in results if row["table"] == "5"}
    names = [f"{kind} {model}" for kind in ("SU", "plain") for model in SU_MODELS]
    sets = dict.fromkeys((log, jobs_of) for log, jobs_of, _ in by if log != "NREL")
    for log, jobs_of in sets:
        rows.append((f"{log}, {jobs_of}", *(errors(by[log, jobs_of, name]) for name in names)))
    printed = [next(row for key, row in by.items() if key[2] == name) for name in names]
    cells = ({"mae_s": row["printed_mae_s"], "apa": row["printed_apa"], "underestimate_rate": row["printed_ur"]}
             for row in printed)  # fmt: skip
    rows.append(("printed (its own log)", *map(errors, cells)))
    head = f"log, jobs | {' | '.join(names)}"
    found.blocks["errors"] = table(head, rows)
    for row in results:
        if row["table"] == "noise" and row["measure"] == "MAE" and (row["log"], row["jobs_of"]) in sets:
            name = f"{row['log']}.{row['jobs_of']}.{row['method']}/{row['against']}".replace(" ", "_")
            found.values |= {f"{name}.{end}_share": round(row[end], 4) for end in ("gain", "gain_low", "gain_high")}
            # the mean error of `su` is larger here, so the page states by how much
            if row["against"] in ("last_2", "recent_mean"):
                ends = {"more": "gain", "more_low": "gain_high", "more_high": "gain_low"}
                found.values |= {f"{name}.{end}_share": round(-row[gain], 4) for end, gain in ends.items()}
    return found


KNN_FIXED = "knn_ga:h=1000000,first=0"
KNN_SHOWN = ("knn_ga", KNN_FIXED, "recent_mean")


def knn_rows(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Return the rows of Tables 3 and 4 by set and protocol, then by predictor."""
    by: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in document["results"]:
        if row["table"] == "3-4" and row["selection"] == "papers'":
            by.setdefault((row["set"], row["protocol"]), {})[row["predictor"]] = row
    return by


def knn_gain(document: dict[str, Any], name: tuple[str, str], against: str, measure: str) -> dict[str, Any]:
    """Return the row with the gain of `knn_ga` over a method, and its interval."""
    (row,) = (
        row for row in document["results"]
        if row["table"] == "noise" and (row["set"], row["protocol"]) == name
        and (row["against"], row["measure"]) == (against, measure)
    )  # fmt: skip
    return row


def read_knn(documents: list[Any], _: Path) -> Figures:
    """Read errors of `knn_ga`, of its fixed rule and of `recent_mean` on the paper's four sets, under both
    protocols."""
    found, rows = Figures(), []
    for name, by in knn_rows(documents[0]).items():
        log, protocol = name
        printed = by["knn_ga"]
        said = f"{printed['printed_mae_s']:,} {printed['printed_pu']:.2f}".replace(" 0.", " .")
        rows.append((log, protocol, *(without_accuracy(by[spec]) for spec in KNN_SHOWN), said))
        late = knn_gain(documents[0], name, KNN_FIXED, "PU")
        error = knn_gain(documents[0], name, KNN_FIXED, "MAE")
        found.values |= {
            f"{log}.{protocol}.more_than_fixed_share": round(-error["gain"], 4),
            f"{log}.{protocol}.more_than_fixed_low_share": round(-error["gain_high"], 4),
            f"{log}.{protocol}.more_than_fixed_high_share": round(-error["gain_low"], 4),
            f"{log}.{protocol}.fewer_underestimates": round(100 * late["gain"], 1),
        }
    head = "data set | protocol | `knn_ga` | fixed rule | `recent_mean` | printed"
    found.blocks["errors"] = table(head, rows)
    return found


def without_accuracy(row: dict[str, Any]) -> str:
    """Return mean absolute error and share of underestimates of a row."""
    return errors({name: row[name] for name in ("mae_s", "underestimate_rate")})


MINH = "minh_wolters:population=50,generations=100,sample=1500"
READINGS = {"whole": MINH, "apart": f"{MINH},apart=yes"}


def read_minh(documents: list[Any], _: Path) -> Figures:
    """Read errors of `knn_ga` and of both readings of Minh and Wolters, and the gain of `knn_ga` over each reading."""
    found, rows = Figures(), []
    for name, by in knn_rows(documents[0]).items():
        log, protocol = name
        cells = [without_accuracy(by[spec]) for spec in ("knn_ga", *READINGS.values())]
        gains = {reading: knn_gain(documents[0], name, spec, "MAE") for reading, spec in READINGS.items()}
        ends = (f"{percent(row['gain'])} ({percent(row['gain_low'])} to {percent(row['gain_high'])})"
                for row in gains.values())  # fmt: skip
        rows.append((log, protocol, *cells, *ends, percent(gains["whole"]["printed_gain"])))
        found.values[f"{log}.{protocol}.jobs"] = by["knn_ga"]["jobs"]
        for reading, row in gains.items():
            found.values |= {f"{log}.{protocol}.{reading}.{end}_share": round(row[end], 4)
                             for end in ("gain", "gain_low", "gain_high")}  # fmt: skip
        whole, apart = (by[spec] for spec in READINGS.values())
        found.values |= {
            f"{log}.{protocol}.split_error_share": round(apart["mae_s"] / whole["mae_s"] - 1, 4),
            f"{log}.{protocol}.split_late": round(100 * (apart["underestimate_rate"] - whole["underestimate_rate"]), 1),
        }
    head = "data set | protocol | `knn_ga` | Minh and Wolters, one pool | with the split | gain over one pool, %"
    found.blocks["readings"] = table(f"{head} | gain over the split, % | printed gain, %", rows)
    return found


PLANNED = {"KTH": KTH, "CTC": CTC, "SDSC-SP2": SP2, "SDSC-BLUE": BLUE}
POLICY_LINE = re.compile(r"^ {4}(\S.*?) +(-?[\d.]+) +5 to 95 %: +(-?[\d.]+) to +(-?[\d.]+)", re.MULTILINE)
POLICY_BASE = re.compile(r"(\d+) replicates.*?limits ([\d.]+), EASY-SJBF with perfect knowledge ([\d.]+)", re.DOTALL)


def read_policy(printed: list[Any], _: Path) -> Figures:
    """Read the policy `forecast` against EASY with limits and against perfect knowledge, on four logs."""
    found = Figures()
    columns: dict[str, dict[str, list[float]]] = {}
    bases = {}
    for text in re.split(r"(?m)^(?=\S+\.swf\.gz: )", "\n".join(printed)):
        if not text.strip():
            continue
        log = next(name for name, file in PLANNED.items() if text.startswith(file))
        base = POLICY_BASE.search(text)
        assert base is not None
        bases[log] = base.groups()
        of_forecast = text[text.index("\n  forecast") :]
        lines = {line[1]: [float(value) for value in line.groups()[1:]] for line in POLICY_LINE.finditer(of_forecast)}
        columns[log] = lines
        count = int(base[1])
        found.values |= {
            f"{log}.replicates": count,
            f"{log}.wait_shorter_share": round(1 - lines["wait / easy"][0], 4),
            f"{log}.longest_times": round(lines["maximum / easy"][0], 2),
            f"{log}.p99_times": round(lines["p99 / easy"][0], 2),
            f"{log}.users_longer_share": round(lines["users above 1.10"][0], 4),
            f"{log}.below_perfect": round(count * lines["below perfect"][0]),
        }
    shown = (
        ("mean wait over EASY's", "", lambda log: "{:.2f}, {:.2f} to {:.2f}".format(*columns[log]["wait / easy"])),
        ("mean bounded slowdown", "", lambda log: f"{columns[log]['mean'][0]:.1f}"),
        ("the same: EASY with time limits; perfect knowledge", "", lambda log: "; ".join(bases[log][1:])),
        ("longest wait over EASY's", "at most 1.25", lambda log: f"{columns[log]['maximum / easy'][0]:.2f}"),
        ("99th percentile over EASY's", "at most 1.10", lambda log: f"{columns[log]['p99 / easy'][0]:.2f}"),
        ("users who wait 10 % longer", "none", lambda log: f"{100 * columns[log]['users above 1.10'][0]:.0f} %"),
    )  # fmt: skip
    logs = [log for log in PLANNED if log in columns]
    rows = [(title, target, *map(cell, logs)) for title, target, cell in shown]
    found.blocks["table"] = table(f"`forecast` with `kernel` | target | {' | '.join(logs)}", rows)
    shorter = sorted(found.values[f"{log}.wait_shorter_share"] for log in logs)
    longer = sorted(found.values[f"{log}.users_longer_share"] for log in logs)
    found.values |= {
        f"{name}_{end}": f"{100 * values[at]:.0f}"
        for name, values in (("wait_shorter", shorter), ("users_longer", longer))
        for end, at in (("least", 0), ("most", -1))
    }
    return found


BOUNDED = {"KTH": KTH, "DAS2": DAS2, "SDSC-SP2": SP2, "CTC": CTC, "SDSC-DS": DS, "SDSC-BLUE": BLUE, "HPC2N": HPC2N,
           "LPC": LPC}  # fmt: skip
BOUND = re.compile(r"^(\S+) +(lots|) +80\.0%.*? 90\.0% ([\d.]+) ([\d.]+) ", re.MULTILINE)
"""A line of `benchmarks.speed.kernel_bounds`: log, whether with lots, share of jobs and of windows at 90 %."""


def read_bounds(printed: list[Any], _: Path) -> Figures:
    """Read the coverage of the 90 % bounds of `calibrated` on eight logs, with and without `lots`."""
    cells: dict[str, dict[str, tuple[str, str]]] = {}
    for log, lots, *shares in BOUND.findall("\n".join(printed)):
        cells.setdefault(log, {})[lots] = (shares[0], shares[1])
    rows = [(log, *by[""], *by["lots"]) for log, by in cells.items()]
    near = sum(float(by[""][1]) >= 0.95 for by in cells.values())
    head = "log | 90 % bound: jobs within | windows within 2 points | `lots=yes`: jobs within | windows within 2 points"
    return Figures({"logs": len(rows), "near": near}, {"windows": table(head, rows)})


def each(command: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the command once for each name."""
    return tuple(command.format(name) for name in names)


COMPARED = f"forecast,{','.join(EARLIER)} --against ibl --details"
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
        "paper-su",
        ("batchcast reproduce su --data-set CTC --data-set SDSC-DS --first 20000 --every 10 --schedule-first 0",),
        read_su, (CTC, DS), rerun="long",
    ),
    Study(
        "paper-knn-ga", ("batchcast reproduce online-knn-ga --part accuracy",), read_knn, (HPC2N, BLUE, DS),
        rerun="long",
    ),
    Study(
        "paper-minh",
        ("batchcast reproduce online-knn-ga --part minh --data-set HPC2N04 --data-set SDSC02 --first 7000",),
        read_minh, (HPC2N, BLUE), rerun="long",
    ),
    Study(
        "policy-study", each("python -m benchmarks.policy.study {} --replicates 20", PLANNED.values()),
        read_policy, tuple(PLANNED.values()), rerun="long",
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
