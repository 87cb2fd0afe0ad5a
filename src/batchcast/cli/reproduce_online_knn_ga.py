"""`batchcast reproduce online-knn-ga`: Tables 2 to 6 of Xu et al. 2018 beside ours, and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..papers.shared_logs import provenance, shared_folder
from .output import document, dumps, progress, say
from .reproduced import print_reproduced

if TYPE_CHECKING:
    import numpy as np

    from ..evaluation.accuracy import Scores
    from ..papers.kept import Kept
    from ..papers.online_knn_ga.study import DataSet
    from ..table import Trace

PARTS = ("accuracy", "minh", "local", "operator", "baselines", "schedules", "sensitivity")
NAMES = ("HPC2N04", "HPC2N05", "SDSC02", "SDSC04")


@click.command("online-knn-ga")
@click.option("--set", "names", multiple=True, type=click.Choice(NAMES), help="Only this data set (repeatable).")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part (repeatable).")
@click.option("--first", type=click.IntRange(min=6000), metavar="N", help="Only the first N jobs of each set.")
@click.option("--quick", is_flag=True, help="HPC2N04's first 7,000 jobs, no sensitivity.")
@click.option(
    "--closed-corrections",
    default="requested",
    show_default=True,
    metavar="NAMES",
    help="Corrections of the closed loop (each trains anew): requested,incremental,doubling or none.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FOLDER",
    default="online-knn-ga",
    show_default=True,
    help="Page and JSON.",
)
@click.option("--again", is_flag=True, help="Compute anew what an earlier run left in FOLDER/parts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(
    names: Sequence[str],
    parts: Sequence[str],
    first: int | None,
    quick: bool,
    closed_corrections: str,
    output: str,
    again: bool,
    as_json: bool,
) -> None:
    """Print Tables 2 to 6 of Xu, Xiong & Xiao 2018 beside ours, under both protocols; write a page and JSON.

    Everything but `minh` takes some 40 minutes on one idle core; `minh`, the paper's baseline searched as hard as the
    method, takes hours. `--set`, `--part` and `--first` choose. What is done is kept in FOLDER/parts and found again by
    the next run with the same code, logs and settings. Training is seeded.
    """
    from ..papers.kept import Kept
    from ..papers.online_knn_ga import page as shown
    from ..papers.online_knn_ga.study import CORRECTIONS, chosen_sets
    from ..report import page
    from ..report.folder import folder

    if quick:
        names, first = names or NAMES[:1], min(first or 7_000, 7_000)
        parts = parts or ("accuracy", "minh", "local", "schedules", "baselines")
    closed = [] if closed_corrections == "none" else closed_corrections.split(",")
    if strange := [word for word in closed if word not in CORRECTIONS]:
        raise UsageError(f"--closed-corrections: no {strange[0]!r} (accepted: {', '.join(CORRECTIONS)}, none)")
    wanted = set(parts or PARTS)
    traces = shared_folder() / "traces"
    sets = chosen_sets(names)
    settings = {
        "sets": [each.name for each in sets], "first": first, "parts": sorted(wanted), "seed": 0, "tau_s": 10.0,
        "closed_corrections": closed, "event_order": "pyss",
        "h": 3000, "t1": 1500, "t2": 1000, "population": 50, "generations": 100,
    }  # fmt: skip
    gathered = Gathered(Kept(Path(output) / "parts", again), first)
    with folder(output) as place:
        for each in sets:
            gathered.add(each, traces, wanted, closed, sensitivity=each is sets[0])
        settings["cpu_s"] = round(gathered.kept.cpu_s)
        summary, tables = findings(gathered.rows, sets), gathered.tables(sets[0].name)
        results = [{"table": table, **row} for table, rows in gathered.rows.items() for row in rows]
        log = {"source": str(traces), "sha256": gathered.hashes}
        doc = document("reproduce-online-knn-ga", log, settings, summary, results)
        (place / "result.json").write_text(dumps(doc))
        sections = shown.sections(summary, tables, gathered.pictures, shown.READING)
        title = "Online run-time prediction by similar jobs (Xu et al. 2018)"
        (place / "index.html").write_text(page(title, sections, provenance(gathered.hashes, settings)))
    print_reproduced(gathered.kept, output, doc, [*tables, *summary], as_json)


class Gathered:
    """Rows by table, pictures and log hashes, gathered set by set; every part is kept as soon as it is done."""

    def __init__(self, kept: Kept, first: int | None = None) -> None:
        self.kept, self.first = kept, first
        tables = ("2", "3-4", "noise", "near", "5-6", "baselines", "sensitivity")
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
        self.pictures: list[Any] = []
        self.hashes: dict[str, str] = {}

    def add(self, each: DataSet, traces: Path, wanted: set[str], closed: Sequence[str], sensitivity: bool) -> None:
        """Everything that is wanted of one data set."""
        from ..papers.online_knn_ga import page as shown
        from ..papers.online_knn_ga import study as paper

        whole, trace = paper.load(each, traces, self.first)
        self.hashes[each.log] = whole.info.sha256
        self.rows["2"].append({**paper.table_2_row(each, whole), "selection": _words(each), "taken": len(trace)})
        forecasts: dict[str, dict[str, np.ndarray]] = {}
        needed = {"accuracy", "minh", "local", "baselines", "schedules", "sensitivity"}
        for protocol in paper.PROTOCOLS if wanted & needed else ():
            forecasts[protocol] = self._accuracy(each, trace, protocol)
            for part, specs in {"minh": [paper.MINH], "local": paper.LOCAL}.items():
                if part in wanted:
                    forecasts[protocol] |= self._more(each, trace, protocol, part, specs)
        for protocol, said in forecasts.items():
            self.rows["noise"] += paper.noise_rows(each, trace, said, protocol)
            self.rows["near"] += paper.near_rows(each, trace, said, protocol)
        if forecasts:
            self.pictures += shown.pictures(each.name, trace.req_time, trace.run_time, forecasts)
        plain = {protocol: points[paper.METHOD] for protocol, points in forecasts.items()}
        if "operator" in wanted:
            scored = partial(paper.operators_scores, each, whole, progress, self.first)
            part = self._part(each, "operator", {"specs": paper.OPERATORS}, partial(_kept_figures, scored))
            self._add_accuracy(each, part["rows"], "honest", "operator's")
        if "baselines" in wanted:
            points = _untrained_too(trace, plain["paper"])
            run = partial(paper.baselines, each, whole, trace, points)
            figures = self._part(each, "baselines", {"method": paper.METHOD, "protocol": "paper"}, run)
            self.rows["baselines"] += shown.with_printed_requests([{"set": each.name, **row} for row in figures], each)
        if "schedules" in wanted:
            minh = {protocol: points[paper.MINH] for protocol, points in forecasts.items() if paper.MINH in points}
            figures = self._schedules(each, trace, plain, minh, closed)
            self.rows["5-6"] += shown.with_gains(figures, {each.name: each})
        if "sensitivity" in wanted and sensitivity:
            self._sensitivity(each, trace, forecasts)

    def _part(self, each: DataSet, name: str, made_of: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        origin = {"log": self.hashes[each.log], "selection": _words(each), "first": self.first, **made_of}
        return self.kept.part(f"{each.name}-{name}", origin, compute)

    def _add_accuracy(self, each: DataSet, figures: Sequence[Mapping[str, Any]], protocol: str, selection: str) -> None:
        self.rows["3-4"] += _accuracy_rows(each, figures, protocol, selection)
        _tell(self.rows["3-4"])

    def _accuracy(self, each: DataSet, trace: Trace, protocol: str) -> dict[str, np.ndarray]:
        """Rows of Tables 3 and 4; forecasts (n,) of the method as published, without the trade, and untrained."""
        import numpy as np

        from ..papers.online_knn_ga import study as paper

        specs = [paper.METHOD, *paper.BESIDE]
        scored = partial(paper.accuracy_of, trace, specs, protocol, progress, f"{each.name}, {protocol} protocol")
        origin = {"specs": specs, "protocol": protocol}
        part = self._part(each, protocol, origin, partial(_kept_figures, scored, paper.TRAINED))
        self._add_accuracy(each, part["rows"], protocol, "papers'")
        return {spec: np.array(points) for spec, points in part["points"].items()}

    def _more(
        self, each: DataSet, trace: Trace, protocol: str, part: str, specs: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Rows of Tables 3 and 4 of methods beside the paper's own, and their forecasts (n,)."""
        import numpy as np

        from ..papers.online_knn_ga import study as paper

        label = f"{each.name}, {protocol} protocol, {part}"
        scored = partial(paper.accuracy_of, trace, specs, protocol, progress, label)
        origin = {"specs": list(specs), "protocol": protocol}
        kept = self._part(each, f"{protocol}-{part}", origin, partial(_kept_figures, scored, specs))
        self.rows["3-4"] += _accuracy_rows(each, kept["rows"], protocol, "papers'")
        return {spec: np.array(points) for spec, points in kept["points"].items()}

    def _schedules(
        self,
        each: DataSet,
        trace: Trace,
        minh_forecasts: Mapping[str, np.ndarray],
        minh: Mapping[str, np.ndarray],
        closed: Sequence[str],
    ) -> list[dict[str, Any]]:
        from ..papers.online_knn_ga import study as paper

        planned = {name: _untrained_too(trace, points) for name, points in minh_forecasts.items()}
        beside = {name: _untrained_too(trace, points) for name, points in minh.items()}
        settings = [*paper.plans(trace, planned, closed), *paper.baseline_plans(trace, beside)]
        rows = []
        for policy in paper.POLICIES:
            for plan in settings:
                words = [policy, plan.loop.replace(", ", "-"), plan.protocol, plan.correction.replace(" ", "-")]
                words.append("" if plan.predictor in (paper.METHOD, "requested", "actual") else plan.predictor)
                name = "-".join(filter(None, words))
                compute = partial(paper.scheduled, trace, policy, plan, progress, f"{each.name} {name}")
                origin = {"method": paper.MINH if plan.predictor == "minh_wolters" else paper.METHOD}
                rows.append({"set": each.name, **self._part(each, name, origin, compute)})
        return rows

    def _sensitivity(self, each: DataSet, trace: Trace, forecasts: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Other settings, and those of Tables 3 and 4 again over the same jobs."""
        from ..metrics.accuracy import accuracy
        from ..papers.online_knn_ga import study as paper

        mask = paper.trained_everywhere(trace)
        for protocol in paper.PROTOCOLS:
            for spec, points in forecasts[protocol].items():
                row = {"predictor": spec, **accuracy(points[mask], trace.run_time[mask])}
                self.rows["sensitivity"].append({"protocol": protocol, **row})
            for at, spec in enumerate(paper.SENSITIVITY):
                label = f"{each.name}: {spec}, {protocol} protocol"
                scored = partial(paper.accuracy_of, trace, [spec], protocol, progress, label, mask)
                origin = {"spec": spec, "protocol": protocol}
                part = self._part(each, f"sensitivity-{protocol}-{at}", origin, partial(_kept_figures, scored))
                self.rows["sensitivity"] += [{"protocol": protocol, **row} for row in part["rows"]]

    def tables(self, sensitive: str) -> list[Any]:
        """The tables there are rows for."""
        from ..papers.online_knn_ga import page as shown

        makers: dict[str, Callable[[Any], Any]] = {
            "2": shown.table_2,
            "3-4": shown.tables_3_and_4,
            "noise": shown.noise_table,
            "near": shown.near_table,
            "5-6": shown.tables_5_and_6,
            "baselines": shown.baseline_table,
            "sensitivity": lambda rows: shown.sensitivity_table(rows, sensitive),
        }
        return [makers[name](rows) for name, rows in self.rows.items() if rows]


def _words(each: DataSet) -> str:
    chosen = each.selection
    parts = [f"from {chosen.since}" if chosen.since else "", f"to {chosen.until}" if chosen.until else ""]
    parts += [f"status {','.join(chosen.status)}" if chosen.status else "", each.timezone or ""]
    return ", ".join(filter(None, parts))


def _kept_figures(scored: Callable[[], Scores], points_of: Sequence[str] = ()) -> dict[str, Any]:
    """What is kept of a replay: figures, and some methods' forecasts."""
    from ..evaluation.accuracy import figures

    scores = scored()
    return {"rows": figures(scores), "points": {spec: scores.points[spec].tolist() for spec in points_of}}


def _accuracy_rows(
    each: DataSet,
    figures: Sequence[Mapping[str, Any]],
    protocol: str,
    selection: str,
) -> list[dict[str, Any]]:
    """Figures beside what the paper prints of the method and of its baseline, whatever the protocol: it names none."""
    printed = {
        "knn_ga": {"printed_pu": each.pu, "printed_mae_s": each.mae},
        "minh_wolters": {"printed_pu": each.pu_minh, "printed_mae_s": each.mae_minh},
    }
    return [
        {
            "set": each.name, "protocol": protocol, "selection": selection, **row,
            **(printed.get(row["predictor"].partition(":")[0], {}) if _is_the_papers(row["predictor"]) else {}),
        }
        for row in figures
    ]  # fmt: skip


def _is_the_papers(spec: str) -> bool:
    """Whether a method is one the paper prints figures of, at its settings."""
    from ..papers.online_knn_ga.study import METHOD, MINH

    return spec in (METHOD, MINH)


def _tell(rows: Sequence[Mapping[str, Any]]) -> None:
    """The last of the method's rows, as soon as it is known: the whole takes long."""
    row = next(row for row in reversed(rows) if row["predictor"] == "knn_ga")
    where = f"{row['set']}, {row['protocol']} protocol, {row['selection']} selection"
    say(f"{where}: MAE {row['mae_s']:,.0f} s, PU {row['underestimate_rate']:.3f}, {row['seconds']:.0f} s")


def _untrained_too(trace: Any, points: np.ndarray) -> np.ndarray:
    """The forecasts with the jobs that were not asked about (the untrained first ones) planned by their request."""
    import numpy as np

    return np.where(np.isnan(points), trace.req_time, points)


def findings(rows: Mapping[str, Sequence[Mapping[str, Any]]], sets: Sequence[DataSet]) -> list[str]:
    """What the tables say, in sentences."""
    sentences = []
    for each in sets:
        name = each.name
        mine = {
            row["protocol"]: row
            for row in rows["3-4"]
            if row["set"] == name and row["predictor"] == "knn_ga" and row["selection"] == "papers'"
        }
        if mine:
            words = [f"{p} protocol {r['mae_s']:,.0f} s (PU {r['underestimate_rate']:.2f})" for p, r in mine.items()]
            sentences.append(
                f"{name}: mean absolute error {' and '.join(words)}; printed {each.mae:,} s (PU {each.pu:.2f})."
            )
    for each in sets:
        name = each.name
        base = [r for r in rows["5-6"] if r["set"] == name and r["policy"] == "easy" and r["loop"] == "requests"]
        if base:
            sentences.append(
                f"{name}, EASY planned with requests: mean wait {base[0]['mean_wait_min']:.1f} min by our averages, "
                f"{base[0]['pyss_mean_wait_min']:.1f} by pyss' own; printed {each.waits[0]:.1f}."
            )
        theirs = [r for r in rows["3-4"] if (r["set"], r["protocol"], r["selection"]) == (name, "honest", "papers'")]
        honest = {r["predictor"]: r["mae_s"] for r in theirs}
        if "knn_ga" in honest:
            errors = ", ".join(f"{predictor} {error:,.0f} s" for predictor, error in honest.items())
            sentences.append(f"{name}, honest protocol, mean absolute error: {errors}.")
        best = {
            row["loop"] + " " + row["protocol"]: row["wait_gain"]
            for row in rows["5-6"]
            if row["set"] == name and row["policy"] == "easy" and row["correction"] in ("requested", "none needed")
        }
        gains = [
            f"{setting.strip()} {round(100 * gain) + 0} %"
            for setting, gain in best.items()
            if not setting.startswith("requests")
        ]
        if gains:
            sentences.append(f"{name}, EASY, mean wait shorter than with requests by: {'; '.join(gains)}.")
    return sentences
