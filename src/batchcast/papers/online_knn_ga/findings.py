"""What the tables of `reproduce online-knn-ga` say, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .study import DataSet


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
