# SPDX-License-Identifier: Apache-2.0
"""Computes and collects the results on the paper's data sets: rows of each table, figures, checksums of the logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...evaluation.accuracy import Scores, figures
from ...metrics.accuracy import accuracy
from ...table import Trace
from ..shared import Gathering
from . import page as shown
from . import study as paper


class Gathered(Gathering):
    """The rows of each table, the figures and the logs' checksums; each part of the results is stored when it is
    finished."""

    made = ("2", "3-4", "noise", "near", "5-6", "baselines", "sensitivity")

    def add(
        self, each: paper.DataSet, traces: Path, wanted: set[str], closed: Sequence[str], sensitivity: bool
    ) -> None:
        """Compute and add all requested results for one data set."""
        whole, trace = paper.load(each, traces, self.first)
        self.hashes[each.log] = whole.info.sha256
        self.rows["2"].append({**paper.table_2_row(each, whole), "selection": _words(each), "taken": len(trace)})
        forecasts: dict[str, dict[str, np.ndarray]] = {}
        needed = {"accuracy", "minh", "local", "baselines", "schedules", "sensitivity"}
        for protocol in paper.PROTOCOLS if wanted & needed else ():
            # the method's settings as published, without the accuracy trade-off, and untrained
            forecasts[protocol] = self._scored(each, trace, protocol, "", [paper.METHOD, *paper.BESIDE], paper.TRAINED)
            self.say(_latest(self.rows["3-4"]))
            for part, specs in {"minh": [paper.MINH, paper.MINH_APART], "local": paper.LOCAL}.items():
                if part in wanted:
                    forecasts[protocol] |= self._scored(each, trace, protocol, part, specs, specs)
        for protocol, said in forecasts.items():
            self.rows["noise"] += paper.noise_rows(each, trace, said, protocol)
            self.rows["near"] += paper.near_rows(each, trace, said, protocol)
        if forecasts:
            self.pictures += shown.pictures(each.name, trace.req_time, trace.run_time, forecasts)
        plain = {protocol: points[paper.METHOD] for protocol, points in forecasts.items()}
        if "operator" in wanted:
            scored = partial(paper.operators_scores, each, whole, self.progress, self.first)
            part = self._part(each, "operator", {"specs": paper.OPERATORS}, partial(_kept_figures, scored))
            self.rows["3-4"] += _accuracy_rows(each, part["rows"], "honest", "operator's")
            self.say(_latest(self.rows["3-4"]))
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

    def _part(self, each: paper.DataSet, name: str, made_of: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        origin = {"log": self.hashes[each.log], "selection": _words(each), "first": self.first, **made_of}
        return self.kept.part(f"{each.name}-{name}", origin, compute)

    def _scored(
        self,
        each: paper.DataSet,
        trace: Trace,
        protocol: str,
        part: str,
        specs: Sequence[str],
        points_of: Sequence[str],
    ) -> dict[str, np.ndarray]:
        """Add rows of Tables 3 and 4 for the given methods; return the predictions (n,) of `points_of`."""
        label = ", ".join(filter(None, (each.name, f"{protocol} protocol", part)))
        scored = partial(paper.accuracy_of, trace, specs, protocol, self.progress, label)
        origin = {"specs": list(specs), "protocol": protocol}
        name = "-".join(filter(None, (protocol, part)))
        kept = self._part(each, name, origin, partial(_kept_figures, scored, points_of))
        self.rows["3-4"] += _accuracy_rows(each, kept["rows"], protocol, "papers'")
        return {spec: np.array(points) for spec, points in kept["points"].items()}

    def _schedules(
        self,
        each: paper.DataSet,
        trace: Trace,
        minh_forecasts: Mapping[str, np.ndarray],
        minh: Mapping[str, np.ndarray],
        closed: Sequence[str],
    ) -> list[dict[str, Any]]:
        planned = {name: _untrained_too(trace, points) for name, points in minh_forecasts.items()}
        beside = {name: _untrained_too(trace, points) for name, points in minh.items()}
        settings = [*paper.plans(trace, planned, closed), *paper.baseline_plans(trace, beside)]
        rows = []
        for policy in paper.POLICIES:
            for plan in settings:
                words = [policy, plan.loop.replace(", ", "-"), plan.protocol, plan.correction.replace(" ", "-")]
                words.append("" if plan.predictor in (paper.METHOD, "requested", "actual") else plan.predictor)
                name = "-".join(filter(None, words))
                compute = partial(paper.scheduled, trace, policy, plan, self.progress, f"{each.name} {name}")
                origin = {"method": paper.MINH if plan.predictor == "minh_wolters" else paper.METHOD}
                rows.append({"set": each.name, **self._part(each, name, origin, compute)})
        return rows

    def _sensitivity(
        self, each: paper.DataSet, trace: Trace, forecasts: Mapping[str, Mapping[str, np.ndarray]]
    ) -> None:
        """Add rows for the settings of SENSITIVITY, and for the settings of Tables 3 and 4 over the jobs that all
        settings score."""
        mask = np.arange(len(trace)) >= 5000 + 2000  # then all settings of SENSITIVITY are trained
        for protocol in paper.PROTOCOLS:
            for spec, points in forecasts[protocol].items():
                row = {"predictor": spec, **accuracy(points[mask], trace.run_time[mask])}
                self.rows["sensitivity"].append({"protocol": protocol, **row})
            for at, spec in enumerate(paper.SENSITIVITY):
                label = f"{each.name}: {spec}, {protocol} protocol"
                scored = partial(paper.accuracy_of, trace, [spec], protocol, self.progress, label, mask)
                origin = {"spec": spec, "protocol": protocol}
                part = self._part(each, f"sensitivity-{protocol}-{at}", origin, partial(_kept_figures, scored))
                self.rows["sensitivity"] += [{"protocol": protocol, **row} for row in part["rows"]]


def _words(each: paper.DataSet) -> str:
    chosen = each.selection
    parts = [f"from {chosen.since}" if chosen.since else "", f"to {chosen.until}" if chosen.until else ""]
    parts += [f"status {','.join(chosen.status)}" if chosen.status else "", each.timezone or ""]
    return ", ".join(filter(None, parts))


def _kept_figures(scored: Callable[[], Scores], points_of: Sequence[str] = ()) -> dict[str, Any]:
    """Return the part of a replay's results that is stored: the accuracy measures, and the predictions of some
    methods."""
    scores = scored()
    return {"rows": figures(scores), "points": {spec: scores.points[spec].tolist() for spec in points_of}}


def _accuracy_rows(
    each: paper.DataSet,
    figures: Sequence[Mapping[str, Any]],
    protocol: str,
    selection: str,
) -> list[dict[str, Any]]:
    """Return our figures beside the paper's figures, under every protocol of learning, because the paper does not state
    its protocol."""
    of_minh = {"printed_pu": each.pu_minh, "printed_mae_s": each.mae_minh}
    of_method = {"printed_pu": each.pu, "printed_mae_s": each.mae}
    printed = {paper.METHOD: of_method, paper.MINH: of_minh, paper.MINH_APART: of_minh}
    return [
        {
            "set": each.name, "protocol": protocol, "selection": selection, **row,
            **printed.get(row["predictor"], {}),
        }
        for row in figures
    ]  # fmt: skip


def _latest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the latest result of `knn_ga` as a line of text, to show the progress of a long run."""
    row = next(row for row in reversed(rows) if row["predictor"] == "knn_ga")
    where = f"{row['set']}, {row['protocol']} protocol, {row['selection']} selection"
    return f"{where}: MAE {row['mae_s']:,.0f} s, PU {row['underestimate_rate']:.3f}, {row['seconds']:.0f} s"


def _untrained_too(trace: Trace, points: np.ndarray) -> np.ndarray:
    """Return the predictions, with the requested time in place of a prediction for the first jobs, which have none."""
    return np.where(np.isnan(points), trace.req_time, points)
