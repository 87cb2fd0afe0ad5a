# SPDX-License-Identifier: Apache-2.0
"""Read and compare the results of a study: one row per plan (policy and predictor), with pictures and data frames.

Each plan is compared with a reference plan, paired by replicate and by job. `ablation` shows the effect of each single
word of a plan, such as one setting of its policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from .. import plots
from ..errors import UsageError
from ..metrics.measure import OverReplicates, mean
from ..metrics.paired import paired_differences
from ..metrics.schedule import COMPARED, DIFFERENCES, MEAN_SLOWDOWN, MEAN_WAIT, RATIOS
from ..predict.registry import parse_spec
from ..simulation.policies import policy_of
from ..simulation.policy import AGES, Policy
from ..table.result import Picture, Rows
from ..units import format_duration
from .dataset import results

CELL = ("log", "period", "settings")
PLAN = ("policy", "predictor")
ORACLE = "actual"
FEW_JOBS = 50
LONGER = 1.1
YES_NO = {True: "yes", False: "no"}


def compare(table: Any, against: str | None = None, *, seed: int = 0) -> list[dict[str, Any]]:
    """Return one flat row for each log, period, settings and plan, in the study's order; the reference is the plan
    `against` (`POLICY, PREDICTOR`), by default the first plan.
    """
    # Measures are means over the replicates, or the values of the log itself if there are none. `replicated` and
    # `ratios`: the paired difference from and the ratio to the reference over the replicates. `differences`: the
    # difference on the log itself, with its 90 % interval over user-weeks. `users_longer`: share of the users with at
    # least 50 jobs whose mean wait is above 1.1 times their mean wait under the reference. `frontier`: whether no other
    # plan for the same log, period and settings has both a smaller mean bounded slowdown and a smaller longest wait;
    # plans with perfect knowledge are ignored.
    plans = [f"{policy}, {predictor}" for policy, predictor in table.select(PLAN).unique(maintain_order=True).rows()]
    reference = against or plans[0]
    if reference not in plans:
        raise UsageError(f"--against: {reference!r} is not a plan of this study (accepted: {'; '.join(plans)})")
    rows = []
    for cell, by_plan in _cells(table):
        theirs = next((mine for plan, mine in by_plan.items() if ", ".join(plan) == reference), None)
        of_cell = [_row(cell, plan, mine, theirs, reference, seed) for plan, mine in by_plan.items()]
        points = [(row["mean_bounded_slowdown"], row["max_wait_s"]) for row in of_cell]
        to_be_had = [point for point, row in zip(points, of_cell) if row["predictor"] != ORACLE]
        for row, (slowdown, wait) in zip(of_cell, points):
            row["frontier"] = not any(s <= slowdown and w <= wait and (s, w) != (slowdown, wait) for s, w in to_be_had)
        rows += of_cell
    return rows


def _cells(table: Any) -> Iterator[tuple[dict[str, str], dict[tuple[str, str], Any]]]:
    """Yield each log, period and settings by their names, and its results by plan (policy, predictor)."""
    for cell, part in table.group_by(CELL, maintain_order=True):
        plans = part.group_by(PLAN, maintain_order=True)
        yield dict(zip(CELL, map(str, cell))), {(str(p), str(r)): mine for (p, r), mine in plans}


def _drawn(mine: Any) -> Any:
    """Return the results of a plan's replicates, or of the log itself if there are no replicates."""
    import polars as pl

    drawn = mine.filter(pl.col("replicate") > 0)
    return drawn if drawn.height else mine


def _row(
    cell: dict[str, str], plan: tuple[str, str], mine: Any, theirs: Any, reference: str, seed: int
) -> dict[str, Any]:
    """Return the row of one plan for one log, period and settings."""
    shown = _drawn(mine)
    row: dict[str, Any] = {**cell, **dict(zip(PLAN, plan)), "replicates": int((shown["replicate"] > 0).sum())}
    differences = [each.name for each in DIFFERENCES]
    ratios = [each.name for each in (RATIOS[0], MEAN_WAIT, *RATIOS[1:])]
    row |= {key: shown[key].mean() for key in dict.fromkeys(("jobs", *differences, *ratios))}
    if theirs is None or ", ".join(plan) == reference:
        return row
    row["against"] = reference
    pairs = shown.join(theirs, on="replicate", suffix="_theirs", maintain_order="left")
    users = np.array([_users_longer(*lists) for lists in pairs.select(_USERS).iter_rows()], dtype=float).reshape(-1, 2)
    row |= _changes(pairs, differences, ratios)
    row["users_longer"] = OverReplicates.from_values(users[:, 0], 0.0)
    row["worst_user_ratio"] = OverReplicates.from_values(users[:, 1], 1.0)
    return row | _paired(mine, theirs, seed)


_USERS = ("user", "user_jobs", "user_wait_s", "user_theirs", "user_jobs_theirs", "user_wait_s_theirs")


def _changes(pairs: Any, differences: Sequence[str], ratios: Sequence[str]) -> dict[str, dict[str, OverReplicates]]:
    """Return the paired differences and ratios of measures over the replicates; a ratio is NaN if the other plan's
    value is 0. The other plan's columns have names that end in `_theirs`.
    """
    names = dict.fromkeys((*differences, *ratios))
    mine = {key: pairs[key].to_numpy() for key in names}
    theirs = {key: pairs[f"{key}_theirs"].to_numpy() for key in names}
    above_0 = {key: np.where(theirs[key] > 0, theirs[key], np.nan) for key in ratios}
    return {
        "replicated": {key: OverReplicates.from_values(mine[key] - theirs[key], 0.0) for key in differences},
        "ratios": {key: OverReplicates.from_values(mine[key] / above_0[key], 1.0) for key in ratios},
    }


def _users_longer(
    user: Sequence[int], jobs: Sequence[int], wait: Sequence[float],
    users: Sequence[int], their_jobs: Sequence[int], waits: Sequence[float],
) -> tuple[float, float]:  # fmt: skip
    """Return the share of users with `FEW_JOBS` or more whose mean wait is above `LONGER` times their mean wait under
    the reference plan, and the largest ratio of the two means.

    A mean wait of the reference below one second counts as one second.
    """
    theirs = {u: max(w / j, 1.0) for u, j, w in zip(users, their_jobs, waits)}
    ratios = [w / j / theirs[u] for u, j, w in zip(user, jobs, wait) if j >= FEW_JOBS and u in theirs]
    return mean(np.array(ratios) > LONGER), max(ratios, default=float("nan"))


def _paired(mine: Any, theirs: Any, seed: int) -> dict[str, Any]:
    """Return the differences on the log itself, job by job, with intervals over groups and the contribution of the
    largest group.
    """
    import polars as pl

    columns = ("job_wait_s", "job_bounded_slowdown", "job_group")
    ours, other = (table.filter(pl.col("replicate") == 0).select(columns).rows() for table in (mine, theirs))
    if not ours or not other or ours[0][0] is None or other[0][0] is None or len(ours[0][0]) != len(other[0][0]):
        return {}
    group = np.array(ours[0][2])
    stated = {}
    for column, measure in enumerate(COMPARED):
        values, reference = np.array(ours[0][column]), np.array(other[0][column])
        pair = paired_differences(values[None], reference, group, np.random.default_rng(seed))[0]
        stated[measure.name] = pair.stated()
    return {"differences": stated}


def ablation(table: Any) -> list[dict[str, Any]]:
    """Return one flat row for each pair of plans whose policy or predictor differs by one word, in the study's
    order.
    """
    # `without` is the word that one plan lacks, of the policy (`refresh=yes`) or the predictor (`kernel
    # point=geometric`). `replicated` has each measure without the word minus the measure with it, and `ratios` their
    # quotient: the word helps if the difference is above 0 and the quotient above 1.
    rows = []
    for cell, by_plan in _cells(table):
        for (plan, mine), (reference, bare) in product(by_plan.items(), repeat=2):
            if word := word_between(plan, reference):
                pairs = _drawn(bare).join(_drawn(mine), on="replicate", suffix="_theirs", maintain_order="left")
                replicates = int((pairs["replicate"] > 0).sum())
                row = {**cell, **dict(zip(PLAN, plan)), "without": word, "replicates": replicates}
                rows.append(row | _changes(pairs, [MEAN_SLOWDOWN.name], [each.name for each in RATIOS]))
    return rows


def word_between(plan: tuple[str, str], reference: tuple[str, str]) -> str:
    """Return the one word that the plan (policy, predictor) has and the reference plan lacks; empty if the plans
    differ in any other way.

    >>> word_between(("easy:first_after=48h,refresh=yes", "kernel"), ("easy:first_after=48h", "kernel"))
    'refresh=yes'
    >>> word_between(("easy", "kernel:point=geometric"), ("easy", "kernel")), word_between(("easy", "x"), ("fcfs", "x"))
    ('kernel point=geometric', '')
    """
    mine, theirs = _words(*plan), _words(*reference)
    changed = [key for key in mine | theirs if mine.get(key) != theirs.get(key)]
    return f"{changed[0]}={mine[changed[0]]}" if len(changed) == 1 and changed[0] not in theirs else ""


def _words(policy: str, predictor: str) -> dict[str, str]:
    """Return the words of a plan as a user writes them, by name: the settings of the policy that are not the default,
    and the parameters of the predictor. The scheduler and the predictor's name are in every plan.
    """
    rules, (name, parameters) = policy_of(policy), parse_spec(predictor)
    words = {"scheduler": rules.backfill if isinstance(rules, Policy) else policy, "method": name}
    for field in fields(Policy) if isinstance(rules, Policy) else ():
        value = getattr(rules, field.name)
        if value != field.default and field.name != "backfill":
            words[field.name] = format_duration(value) if field.name in AGES else YES_NO.get(value, str(value))
    return words | {f"{name} {key}": value for key, value in parameters.items()}


@dataclass(frozen=True, slots=True, repr=False)
class SweepPlans(Rows):
    """Result with one row for each log, period, settings and plan, compared with a reference plan; `table` has one row
    per task (polars).
    """

    table: Any

    def __repr__(self) -> str:
        return f"<SweepPlans of {len(self.rows)} cells and plans, {self.table.height} tasks>"

    def _pictures(self) -> Mapping[str, Picture]:
        differing = [name for name in CELL if len({row[name] for row in self.rows}) > 1]
        names = (*differing, *PLAN)
        titles = (", ".join(str(row[name]) for name in names if row[name]) for row in self.rows)
        hours = ((row["mean_wait_s"] / 3600.0, row["max_wait_s"] / 3600.0) for row in self.rows)
        return {
            "frontier": partial(plots.tradeoff, dict(zip(titles, hours)), "mean wait (h)", "longest wait (h)"),
            "differences": partial(plots.differences, self.rows, MEAN_SLOWDOWN.name, names, of="replicated"),
        }


def read_sweep(folder: str | Path, against: str | None = None, *, seed: int = 0) -> SweepPlans:
    """Read the results of `batchcast sweep` and compare each plan with a reference plan.

    Parameters
    ----------
    folder
        The folder that `batchcast sweep -o` wrote.
    against
        The reference plan as `POLICY, PREDICTOR`. By default, the study's first plan is the reference.
    seed
        Random seed of the confidence intervals, which resample groups of jobs.

    Returns
    -------
    SweepPlans
        The plans, with `rows`, `table`, `plot()` (`frontier`, `differences`) and data frames.

    Raises
    ------
    NoAnswer
        If the study has no results.

    Examples
    --------
    >>> read_sweep("no-such-folder")
    Traceback (most recent call last):
    batchcast.errors.NoAnswer: no-such-folder: no results of a study
      try: batchcast sweep STUDY.toml -o FOLDER
    """
    table = results(folder)
    return SweepPlans(compare(table, against, seed=seed), table)
