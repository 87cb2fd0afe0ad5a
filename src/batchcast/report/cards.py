"""The first screen in figures: the verdict, the gain with its interval, waits, the nearest forecast, the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..evaluation.evaluation import LEAST_GAIN_S, Evaluation
from ..evaluation.simulated import YARDSTICK
from ..evaluation.validity import Verdict
from .axes import span
from .blocks import Card, Cards
from .difference import VERDICTS
from .policy_words import policy_words
from .trial import worth_trying

DOUBTS = {
    Verdict.ROUGH: ("A hint, no measurement", "the simulation matches the record's mean only, see Validity"),
    Verdict.FAR: ("Do not decide on it", "the simulation does not come near the record, see Validity"),
    Verdict.UNCHECKED: ("Not checked", "no recorded waits to hold the simulation to"),
}


def cards(evaluation: Evaluation) -> Cards:
    """The key figures of an evaluation; those that the log does not give are left out."""
    return Cards([*_schedules(evaluation), *_forecast(evaluation), *_limits(evaluation)])


def _schedules(evaluation: Evaluation) -> list[Card]:
    rows = evaluation.schedule_rows()
    if not rows or not rows[0]["jobs"]:
        return []
    today = next(row for row in rows if row["policy"] == rows[0]["policy"] and row["predictor"] == YARDSTICK)
    recorded = "" if evaluation.validity is None else f"recorded {span(evaluation.validity.recorded_mean_wait_s)}; "
    wait = Card("Mean wait", span(today["mean_wait_s"]), f"{recorded}here {_plan(today)}, simulated")
    if today["mean_wait_s"] < LEAST_GAIN_S:
        return [Card("Verdict", "Nothing to gain", "jobs hardly wait", "note"), wait]
    sure, shorter = worth_trying(rows, today)
    verdict = Verdict.UNCHECKED if evaluation.validity is None else evaluation.validity.verdict
    if verdict in DOUBTS:
        value, why = DOUBTS[verdict]
        first = Card("Verdict", value, why, "warning")
    elif sure:
        first = Card("Worth a trial first", _plan(sure[0]), "a shorter mean wait, clear of chance", "good")
    else:
        first = Card("Verdict", "Stay as it is", "nothing tried is clearly shorter than today", "note")
    gained = (sure or shorter)[:1]
    return [first, *(_gain(row, today) for row in gained), wait]


def _plan(row: Mapping[str, Any]) -> str:
    how = "limits" if row["predictor"] == YARDSTICK else row["predictor"]
    return f"{policy_words(row['policy'])} with {how}"


def _gain(row: Mapping[str, Any], today: Mapping[str, Any]) -> Card:
    """The change in mean wait, with its interval and word."""
    change = row["mean_wait_s"] - today["mean_wait_s"]
    low, high = (row.get(f"mean_wait_s_difference_{end}") for end in ("low", "high"))
    note = f"{_plan(row)}: {100 * change / today['mean_wait_s']:+.0f} %"
    if low is None or high is None or low != low:
        return Card("Change in mean wait", span(change), f"{note}; no interval, too few groups")
    word = VERDICTS[str(row.get("mean_wait_s_verdict", "unknown"))]
    return Card("Change in mean wait", span(change), f"{note}; {word}, 90 % interval {span(low)} to {span(high)}")


def _forecast(evaluation: Evaluation) -> list[Card]:
    rows = {row["predictor"]: row for row in evaluation.accuracy_rows() if row["jobs"]}
    others = [row for name, row in rows.items() if name != YARDSTICK and row["mae_s"] == row["mae_s"]]
    if not others:
        return []
    least = min(others, key=lambda row: row["mae_s"])
    limits = f"; the limits' {span(rows[YARDSTICK]['mae_s'])}" if YARDSTICK in rows else ""
    return [Card("Smallest mean error", span(least["mae_s"]), f"{least['predictor']}{limits}")]


def _limits(evaluation: Evaluation) -> list[Card]:
    run, limit = (v[evaluation.scores.scored] for v in (evaluation.trace.run_time, evaluation.trace.req_time))
    known = np.isfinite(limit) & np.isfinite(run) & (limit > 0)
    if not known.any():
        return []
    used = 100.0 * float(np.median(run[known] / limit[known]))
    return [Card("Used of the limit", f"{used:.0f} %", "median over the scored jobs")]
