# SPDX-License-Identifier: Apache-2.0
"""Conclusions from the schedules of an evaluation: validity, the schedule to try first, and the effect of the order
alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..metrics.bursts import WEEK_S
from ..metrics.paired import Difference, PairedDifference
from ..planning.record import OrderBy
from ..predict.protocol import name_and_settings
from ..simulation import Schedule
from ..simulation.models import LEAST_WORK, ORACLE, SLURM, YARDSTICK
from .differences import Comparison, ResultRow
from .validity import STATED, Verdict


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One policy that plans with one predictor: the schedule, its measures, and their differences from today's
    schedule.
    """

    policy: str  # The simulated scheduling policy and its predictor
    predictor: str
    # The measures in `metrics.schedule.SCHEDULE` over the scored jobs, by name, and the number of `jobs`.
    measures: Mapping[str, float]
    schedule: Schedule = field(repr=False, compare=False)  # The simulated schedule
    share_of_perfect: float = float("nan")  # See `share_of_perfect_knowledge`
    comparison: Comparison | None = None  # With the first policy that plans with the users' limits

    @property
    def name(self) -> str:
        """The schedule's policy and predictor as one name."""
        return f"{self.policy}, {self.predictor}"

    @property
    def mean_wait_s(self) -> float:
        """The schedule's mean wait in seconds."""
        return float(self.measures["mean_wait_s"])

    @property
    def wait_change(self) -> Difference | None:
        """The difference in mean wait to today's schedule; None if this row is today's schedule."""
        return self.comparison.differences.get("mean_wait_s") if self.comparison else None

    def row(self) -> ResultRow:
        """Return the schedule's row of results."""
        named = {"policy": self.policy, "predictor": self.predictor}
        return ResultRow({**named, **self.measures, "share_of_perfect": self.share_of_perfect}, self.comparison)


Optimism = Callable[[Sequence[ScheduleRow]], float]
"""Seconds by which the shortest mean wait of these rows is too short because it was selected."""
Compare = Callable[[ScheduleRow, ScheduleRow], PairedDifference | None]
"""The paired difference in wait of two rows' schedules; None without both schedules."""
SAME = 0.02
"""Mean waits that differ by less are treated as equal."""
LEAST_GAIN_S = 10.0
"""No user notices a mean wait below this (tau of the bounded slowdown)."""
LEAST_GAIN = 0.05


def share_of_perfect_knowledge(requests: float, planned: float, actual: float) -> float:
    """The share of perfect knowledge's gain that predictions reach: (requests - planned) / (requests - actual) of mean
    waits in seconds, not clipped.

    NaN if perfect knowledge gains next to nothing (less than `LEAST_GAIN_S` or than the share `LEAST_GAIN` of the
    wait), because a share of so small a gain would be noise.

    >>> share_of_perfect_knowledge(100.0, 60.0, 20.0), share_of_perfect_knowledge(100.0, 120.0, 60.0)
    (0.5, -0.5)
    >>> share_of_perfect_knowledge(8.0, 0.5, 5.8), share_of_perfect_knowledge(9000.0, 9100.0, 8980.0)
    (nan, nan)
    """
    gain = requests - actual
    return (requests - planned) / gain if gain >= max(LEAST_GAIN_S, LEAST_GAIN * requests) else float("nan")


@dataclass(frozen=True, slots=True)
class Step:
    """One step from today's schedule to perfect knowledge: the mean wait, and the change of the mean wait from the step
    before, in seconds.

    The verdict of the first step is empty, because it has no change.
    """

    name: str
    policy: str
    predictor: str
    mean_wait_s: float
    change: Difference

    def row(self) -> dict[str, Any]:
        """Return the step as one flat object for JSON."""
        return {
            "part": "step", "step": self.name, "policy": self.policy, "predictor": self.predictor,
            "mean_wait_s": self.mean_wait_s, **_ends(self.change), "verdict": self.change.verdict,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gain:
    """The change in mean wait from today's schedule to the best schedule, corrected for the selection of the best."""

    # Change in seconds, negative if jobs wait less. The change and the ends of its interval are corrected by
    # `optimism_s`.
    change: Difference
    candidates: int = 1  # Number of schedules from which the best schedule was selected
    # How much of the gain is due to chance, because the shortest mean wait was selected (`optimism`), in seconds, at
    # least 0.
    optimism_s: float = 0.0
    # Difference between the recorded and the simulated mean wait, seconds. NaN if the log has no recorded waits.
    error_s: float = float("nan")

    @property
    def is_clear(self) -> bool:
        """Whether the gain is real: the interval does not contain zero (without an interval: jobs wait less)."""
        return self.change.value < 0 and not self.change.high >= 0

    @property
    def is_hint(self) -> bool:
        """Whether the simulation is off by more than half of the gain."""
        return bool(self.error_s > -self.change.value / 2)

    def row(self) -> dict[str, Any]:
        """Return the gain as one flat object for JSON."""
        return {
            "part": "gain", **_ends(self.change), "candidates": self.candidates, "optimism_s": self.optimism_s,
            "mean_wait_error_s": self.error_s, "hint": self.is_hint,
        }  # fmt: skip


def _ends(change: Difference) -> dict[str, float]:
    """Return a change and the ends of its interval under their names in JSON."""
    return {"change_s": change.value, "change_low_s": change.low, "change_high_s": change.high}


@dataclass(frozen=True, slots=True)
class Findings:
    """The conclusions of an evaluation from its simulated schedules. All tiles, sentences and pictures about gains use
    these conclusions.
    """

    # How well the simulation reproduces the recorded waits. If the verdict is `far` or `unchecked`, there is no `best`.
    verdict: Verdict
    today: ScheduleRow  # The row of the first policy that plans with the users' time limits
    shortest: ScheduleRow  # The row with the shortest mean wait, without perfect knowledge
    # The schedule to try first: the shortest mean wait among the rows whose difference from `today` has a 90 % interval
    # below zero. None if there is no such row, or if the gain's interval contains zero after the correction for
    # selection. If planning with time limits is as good as planning with a prediction, the row with time limits.
    best: ScheduleRow | None
    # The best row that is planned with a prediction. None if no row that plans with a prediction has a clearly shorter
    # mean wait than `today`.
    forecast: ScheduleRow | None
    # Today's schedule, then the policy of `best` (else of `shortest`) planned with limits, with predictions and with
    # perfect knowledge.
    steps: Sequence[Step]
    # The gain of `best`, corrected for the selection of the best schedule. None without `best`.
    gain: Gain | None = None

    @property
    def believed(self) -> bool:
        """Whether reports state gains: yes if the simulation is close, or rough (each gain is then only a hint)."""
        return self.verdict in STATED

    @property
    def is_hint(self) -> bool:
        """Whether the gain is only a hint: the simulation is rough, or off by more than half of the gain."""
        return self.verdict is Verdict.ROUGH or (self.gain is not None and self.gain.is_hint)

    @property
    def idle(self) -> bool:
        """Whether jobs hardly wait in the simulation of today's schedule, so that no change can shorten waits."""
        return self.today.mean_wait_s < LEAST_GAIN_S


def find(
    rows: Sequence[ScheduleRow], verdict: Verdict, compare: Compare, optimism: Optimism = lambda rows: 0.0,
    error_s: float = float("nan"),
) -> Findings | None:  # fmt: skip
    """Return the conclusions from the rows of schedules (`Evaluation.outcomes`); None if no simulated job is scored.

    `compare` returns the paired difference of two rows; if it returns None, as for rows built by hand, the mean waits
    decide. If mean waits are equal, the first row is selected.

    >>> rows = [ScheduleRow("easy", name, {"jobs": 9, "mean_wait_s": wait}, None)
    ...         for name, wait in (("requested", 600.0), ("last_2", 450.0), ("actual", 300.0))]
    >>> found = find(rows, Verdict.CLOSE, lambda one, other: None)
    >>> found.best.predictor, [(step.name, step.change.value) for step in found.steps[1:]]
    ('last_2', [('forecasts', -150.0), ('perfect knowledge', -150.0)])
    """
    if not rows or not rows[0].measures["jobs"]:
        return None
    today = next(row for row in rows if row.policy == rows[0].policy and row.predictor == YARDSTICK)
    possible = [row for row in rows if row.predictor != ORACLE]
    shortest = _least(possible) or today
    ahead = [row for row in possible if row is not today and _is_ahead(row, today)]
    best, forecast = _best(ahead, compare)
    steps = _steps(rows, today, (best or shortest).policy, compare)
    candidates = [row for row in possible if row is not today]
    gain = None
    if best is not None and verdict in STATED:
        change, extra = best.mean_wait_s - today.mean_wait_s, optimism(candidates)
        wait = best.wait_change or Difference(change)
        corrected = replace(wait, value=change + extra, low=wait.low + extra, high=wait.high + extra)
        gain = Gain(corrected, len(candidates), extra, error_s)
    if gain is None or not gain.is_clear:
        best = forecast = gain = None
    return Findings(verdict, today, shortest, best, forecast, steps, gain)


def _least(rows: Iterable[ScheduleRow]) -> ScheduleRow | None:
    return min(rows, key=lambda row: row.mean_wait_s, default=None)


def _is_ahead(row: ScheduleRow, today: ScheduleRow) -> bool:
    is_shorter = row.mean_wait_s <= (1 - SAME) * today.mean_wait_s
    return is_shorter and (row.wait_change is None or row.wait_change.verdict == "ahead")


def _best(ahead: Sequence[ScheduleRow], compare: Compare) -> tuple[ScheduleRow | None, ScheduleRow | None]:
    """Return the schedule to try first, and the best schedule that plans with a prediction. Time limits are preferred
    if their schedule is as good as the schedule with predictions."""
    limits = _least(row for row in ahead if row.predictor == YARDSTICK)
    forecast = _least(row for row in ahead if row.predictor != YARDSTICK)
    if forecast is None or limits is None:
        return forecast or limits, forecast
    is_ahead = _change(limits, forecast, compare).verdict == "ahead"
    return forecast if is_ahead else limits, forecast


def _steps(rows: Sequence[ScheduleRow], today: ScheduleRow, policy: str, compare: Compare) -> list[Step]:
    mine = [row for row in rows if row.policy == policy]
    forecast = _least(row for row in mine if row.predictor not in (YARDSTICK, ORACLE))
    ladder = [("order", row) for row in mine if row.predictor == YARDSTICK and row is not today]
    ladder += [("forecasts", forecast)] if forecast else []
    ladder += [("perfect knowledge", row) for row in mine if row.predictor == ORACLE]
    none = Difference(float("nan"), verdict="")
    steps, before = [Step("today", today.policy, today.predictor, today.mean_wait_s, none)], today
    for name, row in ladder:
        steps.append(Step(name, row.policy, row.predictor, row.mean_wait_s, _change(before, row, compare)))
        before = row
    return steps


def _change(before: ScheduleRow, row: ScheduleRow, compare: Compare) -> Difference:
    """Return the change in mean wait between two rows, with the 90 % interval of the paired difference of waits."""
    change = row.mean_wait_s - before.mean_wait_s
    pair = compare(row, before)
    if pair is not None:
        return replace(pair.stated(), value=change)
    is_small = abs(change) < SAME * before.mean_wait_s
    return Difference(change, verdict="level" if is_small else "ahead" if change < 0 else "behind")


def optimism(changes: Mapping[str, np.ndarray], submit_time: np.ndarray) -> float:
    """Return by how many seconds the smallest of several mean waits is too small on average, because it was selected.

    The shortest of several mean waits is partly short by chance. The schedule with the shortest mean wait in one half
    of the weeks is evaluated in the other half; then the halves change roles. The optimism is the gain in the weeks
    used for the choice minus the gain in the weeks used for the evaluation.

    `changes` has the change in wait of each job against today's schedule, in seconds, for each candidate; even and odd
    weeks form the halves. The result is at least 0.

    >>> week = np.repeat(np.arange(4) * 7 * 86400.0, 2)
    >>> even = np.arange(8) // 2 % 2 == 0
    >>> one, other = np.where(even, -60.0, 0.0), np.where(even, 0.0, -40.0)
    >>> optimism({"one": one, "other": other}, week), optimism({"one": one}, week)
    (30.0, 0.0)
    """
    if len(changes) < 2 or not len(submit_time):
        return 0.0
    table = np.array(list(changes.values()), float)
    known = ~np.isnan(table).any(axis=0)
    table, submit_time = table[:, known], submit_time[known]
    if not known.any():
        return 0.0
    is_even = ((submit_time - submit_time.min()) // WEEK_S).astype(int) % 2 == 0
    if not is_even.any() or is_even.all():
        return 0.0
    even, odd = table[:, is_even].mean(axis=1), table[:, ~is_even].mean(axis=1)
    share = float(is_even.mean())
    confirmed = share * even[np.argmin(odd)] + (1 - share) * odd[np.argmin(even)]
    return max(0.0, float(confirmed - table.mean(axis=1).min()))


POINTS_ONLY = ("last_2", "largest_recent", "recent_mean", "soft_walltime")
"""Predictors without quantiles: `batchcast plan` plans no time limit with their predictions."""


def recommended_settings(policy: str, predictor: str) -> dict[str, str | float] | None:
    """Return the collector's settings under which Slurm follows the schedule that a row of an evaluation simulated;
    empty for today's schedule, None if `batchcast plan` cannot carry it out.

    >>> recommended_settings("slurm-least-work", "requested")
    {'plan': 'order', 'plan_order_by': 'limits'}
    >>> recommended_settings("slurm-least-work", "kernel")
    {'plan': 'order', 'plan_order_by': 'forecast', 'runtime': 'kernel'}
    >>> recommended_settings("slurm", "kernel")
    {'plan': 'limits', 'plan_length_quantile': 0.8, 'runtime': 'kernel'}
    >>> recommended_settings("forecast", "kernel") is recommended_settings("slurm", "last_2") is None
    True
    """
    # `batchcast plan` can order only by work, only on Slurm and never by a policy of a pool; it needs a predictor with
    # quantiles for time limits; and true run times (`actual`) are not known in advance.
    if policy not in (SLURM, LEAST_WORK) or predictor == ORACLE:
        return None
    if predictor == YARDSTICK:
        return {} if policy == SLURM else {"plan": "order", "plan_order_by": str(OrderBy.LIMITS)}
    if policy == SLURM:
        if name_and_settings(predictor)[0] in POINTS_ONLY:
            return None
        from ..planning.order import LENGTH_QUANTILE  # `simulate` imports this module and does not plan

        return {"plan": "limits", "plan_length_quantile": LENGTH_QUANTILE, "runtime": predictor}
    return {"plan": "order", "plan_order_by": str(OrderBy.FORECAST), "runtime": predictor}


def settings_toml(settings: Mapping[str, str | float]) -> str:
    """Return settings as lines of `batchcast.toml`.

    >>> print(settings_toml({"plan": "limits", "plan_length_quantile": 0.8}))
    plan = "limits"
    plan_length_quantile = 0.8
    """
    return "\n".join(f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value:g}"
                     for name, value in settings.items())  # fmt: skip
