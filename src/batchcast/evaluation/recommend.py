# SPDX-License-Identifier: Apache-2.0
"""The settings of `batchcast plan` that carry out a simulated schedule, for reports and for tests on a real Slurm."""

from __future__ import annotations

from collections.abc import Mapping

from ..planning.order import LENGTH_QUANTILE
from ..predict.protocol import name_and_settings
from ..simulation.models import LEAST_WORK, ORACLE, SLURM, YARDSTICK

POINTS_ONLY = ("last_2", "largest_recent", "recent_mean", "soft_walltime")
"""Predictors without quantiles: `batchcast plan` plans no time limit with their predictions."""


def recommended_settings(policy: str, predictor: str) -> dict[str, str | float] | None:
    """Return the collector's settings under which Slurm follows the schedule that a row of an evaluation simulated.

    Parameters
    ----------
    policy
        The policy of the row: `slurm` (the machine's own priorities) or `slurm-least-work`. Every other policy runs on
        a pool of processors.
    predictor
        The predictor of the row. `requested` stands for the users' time limits, `actual` for true run times.

    Returns
    -------
    dict or None
        Settings of `batchcast.toml` and their values; empty if the row is today's schedule. None if `batchcast plan`
        cannot carry out the row: it orders by work on a Slurm and knows no pool policy, plans no time limit with a
        predictor that has no quantiles, and nobody knows true run times in advance.

    Examples
    --------
    >>> recommended_settings("slurm-least-work", "requested")
    {'plan': 'order', 'plan_order_by': 'limits'}
    >>> recommended_settings("slurm-least-work", "kernel")
    {'plan': 'order', 'plan_order_by': 'prediction', 'runtime': 'kernel'}
    >>> recommended_settings("slurm", "kernel")
    {'plan': 'limits', 'plan_length_quantile': 0.8, 'runtime': 'kernel'}
    >>> recommended_settings("forecast", "kernel") is recommended_settings("slurm", "last_2") is None
    True
    """
    if policy not in (SLURM, LEAST_WORK) or predictor == ORACLE:
        return None
    if predictor == YARDSTICK:
        return {} if policy == SLURM else {"plan": "order", "plan_order_by": "limits"}
    if policy == SLURM:
        if name_and_settings(predictor)[0] in POINTS_ONLY:
            return None
        return {"plan": "limits", "plan_length_quantile": LENGTH_QUANTILE, "runtime": predictor}
    return {"plan": "order", "plan_order_by": "prediction", "runtime": predictor}


def settings_toml(settings: Mapping[str, str | float]) -> str:
    """Return settings as lines of `batchcast.toml`.

    Examples
    --------
    >>> print(settings_toml({"plan": "limits", "plan_length_quantile": 0.8}))
    plan = "limits"
    plan_length_quantile = 0.8
    """
    return "\n".join(f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value:g}"
                     for name, value in settings.items())  # fmt: skip
