"""A budget of risk: what may pass a job reserved for by requests though its limit does not fit.

The chance that such a job runs on past the reserved start is read off the quantiles of its forecast. The chances of all
that passed one waiting job in this way add up, over all its passes, to the budget at most.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined
from ..compiled.arrays import Record
from .state import TAIL, asides_of, jobs_of, slots_of, tails_of


@inlined
def chance_beyond(s: Record, job: int, seconds: float) -> float:
    """The chance that a waiting job runs longer: what lies above its highest quantile that fits; infinity without."""
    if jobs_of(s)[job].request <= seconds:
        return 0.0
    quantiles = tails_of(s)[job]
    chance = np.inf
    for k in range(len(TAIL)):
        if quantiles[k] <= seconds:
            chance = 1.0 - TAIL[k]
    return chance


@inlined
def is_in_budget(s: Record, rules: Record, head: int, place: int) -> bool:
    """Whether the reserved job of the slot `head` can bear one more risk: that of the job at `place`."""
    slots = slots_of(s)
    chance = chance_beyond(s, slots[place].job, s.shadow_time - s.now)
    return bool(asides_of(s)[slots[head].job].spent + chance <= rules.risk_budget)


@inlined
def take_risk(s: Record, rules: Record, head: int, place: int) -> bool:
    """Charge the reserved job with the chance of being held up by the one at `place`, if its budget allows."""
    if not (rules.risk_budget > 0.0 and is_in_budget(s, rules, head, place)):
        return False
    slots = slots_of(s)
    reserved, passing = asides_of(s)[slots[head].job], asides_of(s)[slots[place].job]
    reserved.spent += chance_beyond(s, slots[place].job, s.shadow_time - s.now)
    passing.passed = slots[head].job
    passing.until = s.shadow_time
    return True
