"""What is advised by a forecast: the same at a submission, where it is kept and judged, and when somebody asks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..predict.protocol import Grounds, Prediction
from ..predict.recommend import bound_at, rounded_request

RISK = 0.05
"""The share of jobs that advice may cut off: of what is kept and judged, and where nobody says another."""
SAMPLED = 1.1
"""What is measured is sampled, so a job held a little more at times: advice adds a tenth to a bound."""


class Rules(NamedTuple):
    """A site's rules for what is advised: seconds, and KiB a node."""

    limit_floor: float = 300.0
    limit_step: float = 300.0
    limit_most: float = math.inf
    memory_floor: float = 100.0 * 1024
    memory_step: float = 100.0 * 1024


BUILT_IN = Rules()


def rules_of(settings: Any) -> Rules:
    """The rules as they are set."""
    return Rules(*(settings[name] for name in Rules._fields))


def rests_on_jobs(forecast: Prediction) -> bool:
    """Whether a forecast says more than the request itself."""
    return forecast.grounds not in (Grounds.LIMIT, Grounds.NO_HISTORY)


def of_partition(memory: Mapping[str, Any], name: Any) -> Mapping[str, Any]:
    """What the collector remembers of a partition; nothing of one it does not know."""
    partitions = (memory.get("site") or {}).get("partitions") or {}
    return partitions.get(name or "") or {}


def advised_limit(advice: Prediction, own: float, rules: Rules, partition: Mapping[str, Any]) -> float | None:
    """The limit to ask for by a `LimitAdvice`, seconds; None where it rests on nothing but the limit itself.

    Up to the site's step and floor; not above the job's `own` limit unless the advice is, and never above the longest
    there is.

    >>> at_risk = Prediction(500.0, (0.95,), (500.0,), "", Grounds.CLASS)
    >>> advised_limit(at_risk, 3600.0, Rules(), {}), advised_limit(at_risk, 550.0, Rules(), {})
    (600.0, 550.0)
    >>> advised_limit(at_risk, 400.0, Rules(), {"max_time_s": 450.0})
    450.0
    """
    if not rests_on_jobs(advice):
        return None
    most = min(partition.get("max_time_s") or math.inf, rules.limit_most)
    limit = rounded_request(advice.point, rules.limit_floor, rules.limit_step, most)
    return min(limit, own) if advice.point <= own else limit


def advised_memory(forecast: Prediction, risk: float, rules: Rules, partition: Mapping[str, Any]) -> float | None:
    """The memory to ask for a node by a forecast of the peak, KiB; None where it rests on nothing but the request.

    The bound at the risk, a tenth added since use is sampled, up to the site's step and floor, and never more than the
    partition's largest node has. A method without quantiles advises its point as it is.

    >>> like = Prediction(50.0, (0.5, 0.95), (50.0, 100e3), "", Grounds.CLASS)
    >>> [advised_memory(like, 0.05, Rules(), node) for node in ({}, {"node_mem_kib": 105e3})]
    [204800.0, 105000.0]
    """
    if not rests_on_jobs(forecast):
        return None
    wanted = SAMPLED * bound_at(forecast, 1.0 - risk) if forecast.levels else forecast.point
    most = partition.get("node_mem_kib") or math.inf
    return rounded_request(wanted, rules.memory_floor, rules.memory_step, most)


def promises(forecast: Prediction, risk: float) -> bool:
    """Whether the forecast has a bound for that risk."""
    return bool(forecast.levels) and 1.0 - risk <= forecast.levels[-1] + 1e-12
