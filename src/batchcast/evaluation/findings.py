# SPDX-License-Identifier: Apache-2.0
"""What an evaluation concludes from its schedules: are they valid, what shortens waits, how much is the order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..metrics.paired import PairedDifference
from ..simulation.models import ORACLE, YARDSTICK
from .validity import Verdict

Row = Mapping[str, Any]
Compare = Callable[[Row, Row], PairedDifference | None]
"""The paired difference in wait of the first row's schedule to the second row's; None without both schedules."""
SAME = 0.02
"""A mean wait that differs by less is the same to whoever waits."""
LEAST_GAIN_S = 10.0
"""A mean wait below this (tau of the bounded slowdown) leaves nothing that anybody would notice."""
LEAST_GAIN = 0.05


def share_of_perfect_knowledge(requests: float, planned: float, actual: float) -> float:
    """(requests - planned) / (requests - actual) of mean waits in seconds, not clipped.

    NaN where knowing the truth gains next to nothing (under `LEAST_GAIN_S` or under the share `LEAST_GAIN` of the
    wait): a share of that would be noise with a per cent sign.

    >>> share_of_perfect_knowledge(100.0, 60.0, 20.0), share_of_perfect_knowledge(100.0, 120.0, 60.0)
    (0.5, -0.5)
    >>> share_of_perfect_knowledge(8.0, 0.5, 5.8), share_of_perfect_knowledge(9000.0, 9100.0, 8980.0)
    (nan, nan)
    """
    gain = requests - actual
    return (requests - planned) / gain if gain >= max(LEAST_GAIN_S, LEAST_GAIN * requests) else float("nan")


@dataclass(frozen=True, slots=True)
class Step:
    """One step from today's schedule to perfect knowledge: mean wait, and the change since the step before, seconds.

    `low_s` to `high_s` is the 90 % interval of the change, NaN where there are too few groups; `verdict` is `ahead`,
    `behind`, `level` or `unknown`, and empty for the first step.
    """

    name: str
    policy: str
    predictor: str
    mean_wait_s: float
    change_s: float = float("nan")
    low_s: float = float("nan")
    high_s: float = float("nan")
    verdict: str = ""

    def row(self) -> dict[str, Any]:
        """One flat object for JSON."""
        return {
            "part": "step", "step": self.name, "policy": self.policy, "predictor": self.predictor,
            "mean_wait_s": self.mean_wait_s, "change_s": self.change_s, "change_low_s": self.low_s,
            "change_high_s": self.high_s, "verdict": self.verdict,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Findings:
    """What may be said of an evaluation's schedules; every tile, sentence and picture reads this and nothing else.

    Attributes
    ----------
    verdict
        How far the simulation may be believed. Where it is not `close` there is no `best`, whatever the rows say.
    today
        The row of the first policy planned with the users' limits.
    shortest
        The row with the shortest mean wait of all that a site can have (perfect knowledge is not among them).
    best
        What to try first: the shortest mean wait among rows clearly ahead of today (its 90 % interval holds no zero);
        None where there is none. Where limits do as well as the forecast that would be best, the row with limits.
    forecast
        The row with a forecast that would be best; None where none is clearly ahead of today.
    steps
        Today, then the policy of `best` (else of `shortest`) by limits, by forecasts and by perfect knowledge.
    """

    verdict: Verdict
    today: Row
    shortest: Row
    best: Row | None
    forecast: Row | None
    steps: Sequence[Step]

    @property
    def believed(self) -> bool:
        """Whether gains may be told as measured."""
        return self.verdict is Verdict.CLOSE

    @property
    def idle(self) -> bool:
        """Whether jobs hardly wait as simulated today, so that nothing can be gained."""
        return bool(self.today["mean_wait_s"] < LEAST_GAIN_S)


def find(rows: Sequence[Row], verdict: Verdict, compare: Compare) -> Findings | None:
    """The findings of schedules' rows (`Evaluation.schedule_rows`); None where no simulated job is scored.

    Parameters
    ----------
    rows
        A row for each policy and predictor; the first one's policy with the users' limits is today's.
    verdict
        How far the simulation may be believed.
    compare
        Compares two rows of these, paired over groups of one user's submissions of one week. Where it gives None (rows
        made by hand), means decide.

    Ties of mean waits go to the row that stands first.

    Examples
    --------
    >>> rows = [{"policy": "easy", "predictor": name, "jobs": 9, "mean_wait_s": wait}
    ...         for name, wait in (("requested", 600.0), ("last_2", 450.0), ("actual", 300.0))]
    >>> found = find(rows, Verdict.CLOSE, lambda one, other: None)
    >>> found.best["predictor"], [(step.name, step.change_s) for step in found.steps[1:]]
    ('last_2', [('forecasts', -150.0), ('perfect knowledge', -150.0)])
    """
    if not rows or not rows[0]["jobs"]:
        return None
    today = next(row for row in rows if row["policy"] == rows[0]["policy"] and row["predictor"] == YARDSTICK)
    possible = [row for row in rows if row["predictor"] != ORACLE]
    shortest = _least(possible)
    ahead = [row for row in possible if row is not today and _is_ahead(row, today)]
    best, forecast = _best(ahead, compare)
    steps = _steps(rows, today, (best or shortest)["policy"], compare)
    if verdict is not Verdict.CLOSE:
        best = forecast = None
    return Findings(verdict, today, shortest, best, forecast, steps)


def _least(rows: Sequence[Row]) -> Row:
    return min(rows, key=lambda row: float(row["mean_wait_s"]))


def _is_ahead(row: Row, today: Row) -> bool:
    shorter = row["mean_wait_s"] <= (1 - SAME) * today["mean_wait_s"]
    return bool(shorter and row.get("mean_wait_s_verdict", "ahead") == "ahead")


def _best(ahead: Sequence[Row], compare: Compare) -> tuple[Row | None, Row | None]:
    """What to try first, and the best with a forecast: limits go before it where they do as well."""
    plain = [row for row in ahead if row["predictor"] == YARDSTICK]
    planned = [row for row in ahead if row["predictor"] != YARDSTICK]
    forecast = _least(planned) if planned else None
    if forecast is None or not plain:
        return forecast or (_least(plain) if plain else None), forecast
    limits = _least(plain)
    is_ahead = step_between("", limits, forecast, compare).verdict == "ahead"
    return forecast if is_ahead else limits, forecast


NAMES = ("today", "order", "forecasts", "perfect knowledge")


def _steps(rows: Sequence[Row], today: Row, policy: str, compare: Compare) -> list[Step]:
    mine = [row for row in rows if row["policy"] == policy]
    forecasts = [row for row in mine if row["predictor"] not in (YARDSTICK, ORACLE)]
    ladder = [(NAMES[0], today)]
    ladder += [(NAMES[1], row) for row in mine if row["predictor"] == YARDSTICK and row is not today]
    ladder += [(NAMES[2], _least(forecasts))] if forecasts else []
    ladder += [(NAMES[3], row) for row in mine if row["predictor"] == ORACLE]
    first = Step(NAMES[0], today["policy"], today["predictor"], float(today["mean_wait_s"]))
    pairs = pairwise(ladder)
    return [first, *(step_between(name, before, row, compare) for (_, before), (name, row) in pairs)]


def step_between(name: str, before: Row, row: Row, compare: Compare) -> Step:
    """The step from one row to another, with the 90 % interval of the paired difference of their waits."""
    wait = float(row["mean_wait_s"])
    change = wait - float(before["mean_wait_s"])
    pair = compare(row, before)
    if pair is not None:
        return Step(name, row["policy"], row["predictor"], wait, change, pair.low, pair.high, pair.word())
    small = abs(change) < SAME * float(before["mean_wait_s"])
    verdict = "level" if small else "ahead" if change < 0 else "behind"
    return Step(name, row["policy"], row["predictor"], wait, change, verdict=verdict)
