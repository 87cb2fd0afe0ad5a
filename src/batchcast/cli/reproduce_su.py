"""`batchcast reproduce su`: Tables 5 and 6 of Wang et al. 2021 on public logs, and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..papers.shared_logs import provenance, shared_folder
from .output import document, dumps, progress, say
from .reproduced import print_reproduced

if TYPE_CHECKING:
    from ..papers.kept import Kept
    from ..table import Trace

NAMES = ("CTC", "SDSC-DS", "NREL")


@click.command("su")
@click.option("--log", "names", multiple=True, type=click.Choice(NAMES), help="Only this log (repeatable).")
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Only the first N jobs of each log.")
@click.option(
    "--every", type=click.IntRange(min=1), default=5, show_default=True, help="Score each so many-th job (1: all)."
)
@click.option(
    "--schedule-first", type=click.IntRange(min=0), default=5000, show_default=True, help="Jobs of Table 6 (0: none)."
)
@click.option("--quick", is_flag=True, help="The NREL sample and the first 1,500 jobs of CTC.")
@click.option(
    "-o", "--output", type=click.Path(), metavar="FOLDER", default="su", show_default=True, help="Page and JSON."
)
@click.option("--again", is_flag=True, help="Compute anew what an earlier run left in FOLDER/parts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(
    names: Sequence[str],
    first: int | None,
    every: int,
    schedule_first: int,
    quick: bool,
    output: str,
    again: bool,
    as_json: bool,
) -> None:
    """Print the columns of Tables 5 and 6 of Wang et al. 2021 for CTC, SDSC-DS and the NREL sample; write a page.

    The paper's log is not public; order and relative gains are what can be compared. A forest for every forecast costs
    tens of milliseconds: --every and --first bound it. What is done is kept in FOLDER/parts and found again by the next
    run with the same code, logs and settings.
    """
    from ..papers.kept import Kept
    from ..papers.su import page as shown
    from ..report import page
    from ..report.folder import folder

    if quick:
        names, first, schedule_first = names or ("NREL", "CTC"), min(first or 1500, 1500), min(schedule_first, 500)
    traces = shared_folder() / "traces"
    settings: dict[str, Any] = {
        "logs": list(names or NAMES), "first": first, "every": every, "schedule_first": schedule_first,
        "protocol": "honest", "loop": "open", "policy": "easy", "seed": 0,
    }  # fmt: skip
    gathered = Gathered(Kept(Path(output) / "parts", again), first, every, schedule_first)
    with folder(output) as place:
        for name in names or NAMES:
            gathered.add(name, traces)
        settings["cpu_s"] = round(gathered.kept.cpu_s)
        summary, tables = findings(gathered.rows), gathered.tables()
        results = [{"table": table, **row} for table, kept_rows in gathered.rows.items() for row in kept_rows]
        doc = document("reproduce-su", {"source": str(traces), "sha256": gathered.hashes}, settings, summary, results)
        (place / "result.json").write_text(dumps(doc))
        title = "Run times from clusters of job names (Wang et al. 2021)"
        html = page(title, shown.sections(summary, tables, gathered.pictures), provenance(gathered.hashes, settings))
        (place / "index.html").write_text(html)
    print_reproduced(gathered.kept, output, doc, [*tables, *summary], as_json)


class Gathered:
    """Rows by table, pictures and log hashes, gathered log by log; every part is kept as soon as it is done."""

    def __init__(self, kept: Kept, first: int | None, every: int, schedule_first: int) -> None:
        self.kept, self.first, self.every, self.schedule_first = kept, first, every, schedule_first
        self.rows: dict[str, list[dict[str, Any]]] = {"5": [], "6": [], "class": [], "noise": []}
        self.pictures: list[Any] = []
        self.hashes: dict[str, str] = {}

    def add(self, name: str, traces: Path) -> None:
        """One log: with the jobs that failed, and cut to those that did not."""
        import numpy as np

        from ..papers.su import study as paper

        for failed in (True, False):
            trace = paper.load(name, traces, failed)
            self.hashes[paper.LOGS[name]] = trace.info.sha256
            trace = trace.take(np.arange(min(self.first or len(trace), len(trace))))
            kept = "all" if failed else "completed"
            compute = partial(paper.table_5, trace, self.every, progress, f"{name}, {kept} jobs")
            part = self._part(name, kept, {"every": self.every}, compute)
            self.rows["5"] += _table_5_rows(name, kept, part["figures"])
            self.rows["noise"] += [{"log": name, "jobs_of": kept, **row} for row in part["noise"]]
            say(f"{name}, {kept} jobs: {len(part['rows']):,} scored")
            if failed:
                self._classes(name, trace, part)
                if self.schedule_first and trace.info.max_procs > 0:
                    run = partial(paper.table_6, trace, self.schedule_first, progress, f"{name}, Table 6")
                    simulated = self._part(name, "schedules", {"schedule_first": self.schedule_first}, run)
                    self.rows["6"] += [{"log": name, **row} for row in simulated if "noise" not in row]
                    noise = [row["noise"] for row in simulated if "noise" in row]
                    self.rows["noise"] += [{"log": name, "jobs_of": kept, **row} for row in noise]

    def tables(self) -> list[Any]:
        """The tables there are rows for."""
        from ..papers.su import page as shown

        waits = [shown.table_6(self.rows["6"])] if self.rows["6"] else []
        tables = [shown.table_5(self.rows["5"], self.every), *waits]
        return [*tables, shown.noise_table(self.rows["noise"]), shown.class_table(self.rows["class"])]

    def _part(self, name: str, kind: str, made_of: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        from ..papers.su.study import LOGS

        return self.kept.part(
            f"{name}-{kind}", {"log": self.hashes[LOGS[name]], "first": self.first, **made_of}, compute
        )

    def _classes(self, name: str, trace: Trace, part: Mapping[str, Any]) -> None:
        """Measures by class of names and by size, and the paper's pictures."""
        import numpy as np

        from ..papers.su import page as shown
        from ..papers.su import study as paper

        specs = [spec for spec in paper.PAPER if "svr" in spec]
        rows = np.array(part["rows"], dtype=int)
        actual = trace.run_time[rows]
        points = {spec: np.array(values) for spec, values in part["points"].items()}
        user, labels, clusters = paper.clustered_users(trace)
        classes = paper.by_class(actual, points, labels[rows], specs)
        self.rows["class"] += [{"log": name, **row} for row in classes] + _size_rows(name, part["by_size"], specs)
        errors = {words: points[spec] - actual for spec, words in paper.PAPER.items()}
        self.pictures += shown.clustering_pictures(name, user, clusters.tried, clusters.sse, clusters.score, clusters.k)
        rows_5 = [row for row in self.rows["5"] if (row["log"], row["jobs_of"]) == (name, "all")]
        self.pictures += [*shown.table_5_pictures(name, rows_5), shown.error_picture(name, errors)]
        self.pictures += shown.class_pictures(name, classes)


def _table_5_rows(name: str, kept: str, figures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from ..papers.su.study import PAPER, PRINTED

    rows = []
    for row in figures:
        words = PAPER.get(row["predictor"], row["predictor"])
        printed = dict(zip(("printed_mae_s", "printed_apa", "printed_ur"), PRINTED.get(words, ())))
        rows.append({"log": name, "jobs_of": kept, **row, "predictor": words, **printed})
    return rows


def _size_rows(name: str, by_size: Sequence[Mapping[str, Any]], specs: Sequence[str]) -> list[dict[str, Any]]:
    from ..papers.su.study import PAPER

    return [
        {"log": name, "class": f"{row['group']} processors", **row, "predictor": PAPER[row["predictor"]]}
        for row in by_size
        if row["predictor"] in specs
    ]


def findings(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What the tables say, in sentences."""
    sentences = []
    for log, kept in dict.fromkeys((row["log"], row["jobs_of"]) for row in rows["5"]):
        mine = {row["predictor"]: row for row in rows["5"] if (row["log"], row["jobs_of"]) == (log, kept)}
        su, plain = (
            sum(mine[f"{kind} {model}"]["mae_s"] for model in ("linear", "forest", "svr")) / 3
            for kind in ("SU", "plain")
        )
        best = min((name for name in mine if name.startswith("SU")), key=lambda name: mine[name]["mae_s"])
        sentences.append(
            f"{log}, {kept} jobs: mean error with clusters and neighbours {su:,.0f} s, without {plain:,.0f} s "
            f"({1 - su / plain:+.0%}; printed +74%); smallest of the three: {best} (printed: SU svr)."
        )
        sentences += [
            _beside(row, mine)
            for row in rows["noise"]
            if (row["log"], row["jobs_of"], row["method"], row["measure"]) == (log, kept, "SU svr", "MAE")
            and row["against"] in ("recent_mean", "last_2")
            and row["gain"] < 0
        ]
    return sentences


def _beside(row: Mapping[str, Any], mine: Mapping[str, Mapping[str, Any]]) -> str:
    """Plain history that has a smaller mean error than SU, and whether that stands outside the noise of the log."""
    words = {"inside": "this log cannot tell the two apart", "too few groups": "too few groups to tell"}
    ours, theirs = mine["SU svr"]["mae_s"], mine[row["against"]]["mae_s"]
    return (
        f"{row['log']}, {row['jobs_of']} jobs: {row['against']}, plain history, has a mean error of {theirs:,.0f} s, "
        f"SU svr {ours:,.0f} s ({1 - theirs / ours:.0%} less); "
        f"{words.get(row['ours'], 'outside the noise of this log')}."
    )
