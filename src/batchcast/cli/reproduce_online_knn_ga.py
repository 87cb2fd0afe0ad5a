"""`batchcast reproduce online-knn-ga`: Tables 2 to 6 of Xu et al. 2018 beside ours, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .output import console, document, dumps, emit, progress, say
from .shared_logs import provenance, shared_folder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from ..evaluate.online_knn_ga import DataSet

PARTS = ("accuracy", "operator", "schedules", "sensitivity")
NAMES = ("HPC2N04", "HPC2N05", "SDSC02", "SDSC04")


@click.command("online-knn-ga")
@click.option("--set", "names", multiple=True, type=click.Choice(NAMES), help="Only this data set (repeatable).")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part (repeatable).")
@click.option(
    "--closed-corrections",
    default="requested",
    show_default=True,
    metavar="NAMES",
    help="Corrections of the closed loop (each trains anew): requested,incremental,doubling or none.",
)
@click.option("-o", "--output", metavar="FOLDER", default="online-knn-ga", show_default=True, help="Page and JSON.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(names: Sequence[str], parts: Sequence[str], closed_corrections: str, output: str, as_json: bool) -> None:
    """Print Tables 2 to 6 of Xu, Xiong & Xiao 2018 beside ours, under both protocols; write a page and JSON.

    Everything takes the better part of an hour on one idle core; `--set` and `--part` choose. Training is seeded.
    """
    from ..evaluate.online_knn_ga import CORRECTIONS, chosen_sets
    from ..report import online_knn_ga as shown
    from ..report import page
    from ..report.folder import folder
    from ..report.terminal import show

    closed = [] if closed_corrections == "none" else closed_corrections.split(",")
    if strange := [word for word in closed if word not in CORRECTIONS]:
        raise UsageError(f"--closed-corrections: no {strange[0]!r} (accepted: {', '.join(CORRECTIONS)}, none)")
    wanted = set(parts or PARTS)
    traces = shared_folder() / "traces"
    sets = chosen_sets(names)
    settings = {
        "sets": [each.name for each in sets], "parts": sorted(wanted), "closed_corrections": closed, "seed": 0,
        "h": 3000, "t1": 1500, "t2": 1000, "population": 50, "generations": 100, "event_order": "pyss", "tau_s": 10.0,
    }  # fmt: skip
    found = Found()
    with folder(output) as place:
        for each in sets:
            found.add(each, traces, wanted, closed, sensitivity=each is sets[0])
        summary, tables = findings(found.rows, sets), found.tables(sets[0].name)
        results = [{"table": table, **row} for table, rows in found.rows.items() for row in rows]
        log = {"source": str(traces), "sha256": found.hashes}
        doc = document("reproduce-online-knn-ga", log, settings, summary, results)
        (place / "result.json").write_text(dumps(doc))
        sections = shown.sections(summary, tables, found.pictures, shown.READING)
        title = "Online run-time prediction by similar jobs (Xu et al. 2018)"
        (place / "index.html").write_text(page(title, sections, provenance(found.hashes, settings)))
    say(f"page: {output}/index.html, numbers: {output}/result.json")
    if as_json:
        emit(doc)
        return
    show(console(), [*tables, *summary])


class Found:
    """Rows by table, pictures and log hashes, gathered set by set."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {"2": [], "3-4": [], "5-6": [], "sensitivity": []}
        self.pictures: list[Any] = []
        self.hashes: dict[str, str] = {}

    def add(self, each: DataSet, traces: Path, wanted: set[str], closed: Sequence[str], sensitivity: bool) -> None:
        """Everything that is wanted of one data set."""
        from ..evaluate import online_knn_ga as paper
        from ..report import online_knn_ga as shown

        whole, trace = paper.load(each, traces)
        self.hashes[each.log] = whole.info.sha256
        row = {"set": each.name, "log": each.log, "selection": _words(each), "jobs": len(trace)}
        self.rows["2"].append({**row, "printed_jobs": each.printed_jobs})
        said: dict[str, np.ndarray] = {}
        for protocol in paper.PROTOCOLS if wanted & {"accuracy", "schedules"} else ():
            everyone = (paper.METHOD, *paper.BESIDE)
            scores = paper.accuracy_of(trace, everyone, protocol, progress, f"{each.name}, {protocol} protocol")
            self.rows["3-4"] += _accuracy_rows(each, scores, protocol, "papers'")
            _tell(self.rows["3-4"])
            said[protocol] = scores.points[paper.METHOD]
        if said:
            self.pictures += shown.pictures(each.name, trace.req_time, trace.run_time, said)
        if "operator" in wanted:
            scores = paper.operators_scores(each, whole, progress)
            self.rows["3-4"] += _accuracy_rows(each, scores, "honest", "operator's")
            _tell(self.rows["3-4"])
        if "schedules" in wanted:
            planned = {name: _untrained_too(trace, points) for name, points in said.items()}
            made = list(paper.schedules(trace, planned, progress, each.name, closed))
            self.rows["5-6"] += shown.with_gains(made, {each.name: each})
        if "sensitivity" in wanted and sensitivity:
            self.rows["sensitivity"] = _sensitivity(trace, each.name)

    def tables(self, sensitive: str) -> list[Any]:
        """The tables there are rows for."""
        from ..report import online_knn_ga as shown

        makers = {
            "2": shown.table_2,
            "3-4": shown.tables_3_and_4,
            "5-6": shown.tables_5_and_6,
            "sensitivity": lambda rows: shown.sensitivity_table(rows, sensitive),
        }
        return [makers[name](rows) for name, rows in self.rows.items() if rows]


def _words(each: DataSet) -> str:
    chosen = each.selection
    parts = [f"from {chosen.since}" if chosen.since else "", f"to {chosen.until}" if chosen.until else ""]
    parts += [f"status {','.join(chosen.status)}" if chosen.status else "", each.timezone or ""]
    return ", ".join(filter(None, parts))


def _accuracy_rows(each: DataSet, scores: Any, protocol: str, selection: str) -> list[dict[str, Any]]:
    from ..evaluate.accuracy import figures

    rows = []
    for row in figures(scores):
        printed = {"printed_pu": each.pu, "printed_mae_s": each.mae} if row["predictor"] == "knn_ga" else {}
        rows.append({"set": each.name, "protocol": protocol, "selection": selection, **row, **printed})
    minh = {"predictor": "Minh, as printed", "printed_pu": each.pu_minh, "printed_mae_s": each.mae_minh}
    return rows + (
        [{"set": each.name, "protocol": "not stated", "selection": selection, **minh}] * (protocol == "paper")
    )


def _tell(rows: Sequence[Mapping[str, Any]]) -> None:
    """The last of the method's rows, as soon as it is known: the whole takes long."""
    row = next(row for row in reversed(rows) if row["predictor"] == "knn_ga")
    where = f"{row['set']}, {row['protocol']} protocol, {row['selection']} selection"
    say(f"{where}: MAE {row['mae_s']:,.0f} s, PU {row['underestimate_rate']:.3f}, {row['seconds']:.0f} s")


def _sensitivity(trace: Any, name: str) -> list[dict[str, Any]]:
    from ..evaluate import online_knn_ga as paper
    from ..evaluate.accuracy import figures

    mask = paper.trained_everywhere(trace)
    rows = []
    for protocol in paper.PROTOCOLS:
        for spec in paper.SENSITIVITY:
            scores = paper.accuracy_of(trace, [spec], protocol, progress, f"{name}: {spec}, {protocol} protocol", mask)
            rows += [{"protocol": protocol, **row} for row in figures(scores)]
    return rows


def _untrained_too(trace: Any, points: np.ndarray) -> np.ndarray:
    """The forecasts with the jobs that were not asked about (the untrained first ones) planned by their request."""
    import numpy as np

    return np.where(np.isnan(points), trace.req_time, points)


def findings(rows: Mapping[str, Sequence[Mapping[str, Any]]], sets: Sequence[DataSet]) -> list[str]:
    """What the tables say, in sentences."""
    told = []
    for each in sets:
        name = each.name
        mine = {
            row["protocol"]: row
            for row in rows["3-4"]
            if row["set"] == name and row["predictor"] == "knn_ga" and row["selection"] == "papers'"
        }
        if mine:
            words = [f"{p} protocol {r['mae_s']:,.0f} s (PU {r['underestimate_rate']:.2f})" for p, r in mine.items()]
            told.append(
                f"{name}: mean absolute error {' and '.join(words)}; printed {each.mae:,} s (PU {each.pu:.2f})."
            )
    for each in sets:
        name = each.name
        base = [r for r in rows["5-6"] if r["set"] == name and r["policy"] == "easy" and r["loop"] == "requests"]
        if base:
            told.append(
                f"{name}, EASY planned with requests: mean wait {base[0]['mean_wait_min']:.1f} min by our averages, "
                f"{base[0]['pyss_mean_wait_min']:.1f} by pyss' own; printed {each.waits[0]:.1f}."
            )
        best = {
            row["loop"] + " " + row["protocol"]: row["wait_gain"]
            for row in rows["5-6"]
            if row["set"] == name and row["policy"] == "easy" and row["correction"] in ("requested", "none needed")
        }
        gains = [
            f"{setting.strip()} {gain:+.0%}" for setting, gain in best.items() if not setting.startswith("requests")
        ]
        if gains:
            told.append(f"{name}, EASY, mean wait shorter than with requests by: {'; '.join(gains)}.")
    return told
