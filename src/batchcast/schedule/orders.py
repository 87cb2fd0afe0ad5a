"""Orders of the queue by integer code: (now, submit, procs, planned, wait) -> key, the smallest key first.

`FCFS` needs no key: the queue is kept in arrival order. Ties go to the earlier arrival.
"""

from __future__ import annotations

from .compiled import kernel

FCFS, SJF = range(2)
NAMES = {"fcfs": FCFS, "sjf": SJF}


@kernel
def order_key(order, now, submit, procs, planned, wait):
    """The key of a queued job under a built-in order; SJF: the planned run time, seconds."""
    if order == SJF:
        return planned
    return submit
