"""Everything that is wanted of the logs: rows by table, pictures, log hashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...table import Trace
from ..kept import Kept
from . import page as shown
from . import study as paper


class Gathered:
    """Rows by table, pictures and log hashes, gathered log by log; every part is kept as soon as it is done."""

    def __init__(
        self,
        kept: Kept,
        first: int | None,
        every: int,
        schedule_first: int,
        progress: paper.Progress,
        say: Callable[[str], None],
    ) -> None:
        self.kept, self.first, self.every, self.schedule_first = kept, first, every, schedule_first
        self.progress, self.say = progress, say
        self.rows: dict[str, list[dict[str, Any]]] = {"5": [], "6": [], "class": [], "noise": []}
        self.pictures: list[Any] = []
        self.hashes: dict[str, str] = {}

    def add(self, name: str, traces: Path) -> None:
        """One log: with the jobs that failed, and cut to those that did not."""
        for failed in (True, False):
            trace = paper.load(name, traces, failed)
            self.hashes[paper.LOGS[name]] = trace.info.sha256
            trace = trace.take(np.arange(min(self.first or len(trace), len(trace))))
            kept = "all" if failed else "completed"
            compute = partial(paper.table_5, trace, self.every, self.progress, f"{name}, {kept} jobs")
            part = self._part(name, kept, {"every": self.every}, compute)
            self.rows["5"] += _table_5_rows(name, kept, part["figures"])
            self.rows["noise"] += [{"log": name, "jobs_of": kept, **row} for row in part["noise"]]
            self.say(f"{name}, {kept} jobs: {len(part['rows']):,} scored")
            if failed:
                self._classes(name, trace, part)
                if self.schedule_first and trace.info.max_procs > 0:
                    run = partial(paper.table_6, trace, self.schedule_first, self.progress, f"{name}, Table 6")
                    simulated = self._part(name, "schedules", {"schedule_first": self.schedule_first}, run)
                    self.rows["6"] += [{"log": name, **row} for row in simulated if "noise" not in row]
                    noise = [row["noise"] for row in simulated if "noise" in row]
                    self.rows["noise"] += [{"log": name, "jobs_of": kept, **row} for row in noise]

    def tables(self) -> list[Any]:
        """The tables there are rows for."""
        waits = [shown.table_6(self.rows["6"])] if self.rows["6"] else []
        tables = [shown.table_5(self.rows["5"], self.every), *waits]
        return [*tables, shown.noise_table(self.rows["noise"]), shown.class_table(self.rows["class"])]

    def _part(self, name: str, kind: str, made_of: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        return self.kept.part(
            f"{name}-{kind}", {"log": self.hashes[paper.LOGS[name]], "first": self.first, **made_of}, compute
        )

    def _classes(self, name: str, trace: Trace, part: Mapping[str, Any]) -> None:
        """Measures by class of names and by size, and the paper's pictures."""
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
    rows = []
    for row in figures:
        words = paper.PAPER.get(row["predictor"], row["predictor"])
        printed = dict(zip(("printed_mae_s", "printed_apa", "printed_ur"), paper.PRINTED.get(words, ())))
        rows.append({"log": name, "jobs_of": kept, **row, "predictor": words, **printed})
    return rows


def _size_rows(name: str, by_size: Sequence[Mapping[str, Any]], specs: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"log": name, "class": f"{row['group']} processors", **row, "predictor": paper.PAPER[row["predictor"]]}
        for row in by_size
        if row["predictor"] in specs
    ]
