"""What each part of a plan is worth: a study's plans that differ by one word alone, paired replicate by replicate."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..predict.registry import parse_spec
from ..simulation.policies import AGES, policy_of
from ..simulation.policy import Policy
from ..units import format_duration
from .compare import CELL, over_replicates, ratio

DIFFERENCE = "mean_bounded_slowdown"
RATIOS = ("geometric_mean_bounded_slowdown", "p99_wait_s", "max_wait_s")


def ablation(table: Any) -> list[dict[str, Any]]:
    """A flat row for each pair of plans of a cell of which one is the other without one word, in the study's order.

    `without` is that word, of the policy (`refresh=yes`) or of its predictor (`kernel point=geometric`). The figures
    are those of the plan without it, less those of the plan with it (`NAME_difference`) or over them (`NAME_ratio`):
    above zero and above one where the word helps. Means over the replicates (over the log itself where there are none)
    with `_low` and `_high`, the 5th and 95th percentile of paired ones. Empty where no two plans are so.
    """
    import polars as pl

    rows = []
    for cell, part in table.group_by(CELL, maintain_order=True):
        drawn = part.filter(pl.col("replicate") > 0)
        shown = drawn if drawn.height else part
        plans = {(str(p), str(r)): mine for (p, r), mine in shown.group_by("policy", "predictor", maintain_order=True)}
        for plan, mine in plans.items():
            for other, bare in plans.items():
                word = word_between(plan, other)
                if not word:
                    continue
                pairs = bare.join(mine, on="replicate", suffix="_with", maintain_order="left")
                row: dict[str, Any] = {**dict(zip(CELL, map(str, cell))), "policy": plan[0], "predictor": plan[1]}
                row |= {"without": word, "replicates": drawn.height and pairs.height}
                less = (pairs[DIFFERENCE] - pairs[f"{DIFFERENCE}_with"]).to_numpy()
                row |= over_replicates(f"{DIFFERENCE}_difference", less, 0.0)
                for key in RATIOS:
                    shares = ratio(pairs[key].to_numpy(), pairs[f"{key}_with"].to_numpy())
                    row |= over_replicates(f"{key}_ratio", shares, 1.0)
                rows.append(row)
    return rows


def word_between(plan: tuple[str, str], other: tuple[str, str]) -> str:
    """The one word that the first plan (policy, predictor) has and the second lacks; empty where that is not all.

    >>> word_between(("easy:first_after=48h,refresh=yes", "kernel"), ("easy:first_after=48h", "kernel"))
    'refresh=yes'
    >>> word_between(("easy", "kernel:point=geometric"), ("easy", "kernel")), word_between(("easy", "x"), ("fcfs", "x"))
    ('kernel point=geometric', '')
    """
    words = [_of_policies(plan[0], other[0]), _of_specs(plan[1], other[1])]
    changed = [word for each in words for word in each]
    return changed[0] if len(changed) == 1 else ""


def _of_policies(one: str, other: str) -> list[str]:
    """Words by which they differ; empty text for one that the second does not merely lack, as another backfilling."""
    first, second, usual = policy_of(one), policy_of(other), Policy()
    changed = [f.name for f in fields(Policy) if getattr(first, f.name) != getattr(second, f.name)]
    return [
        f"{name}={_said(name, getattr(first, name))}"
        if name != "backfill" and getattr(second, name) == getattr(usual, name)
        else ""
        for name in changed
    ]


def _said(name: str, value: Any) -> str:
    """A word's value as a user writes it."""
    if name in AGES:
        return format_duration(value)
    return {True: "yes", False: "no"}.get(value, str(value))


def _of_specs(one: str, other: str) -> list[str]:
    (name, first), (other_name, second) = parse_spec(one), parse_spec(other)
    if name != other_name:
        return [""]
    return [
        f"{name} {key}={first[key]}" if key in first and key not in second else ""
        for key in sorted({*first, *second})
        if first.get(key) != second.get(key)
    ]
