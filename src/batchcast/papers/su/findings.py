"""What the tables of `reproduce su` say, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
