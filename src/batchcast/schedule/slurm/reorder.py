# SPDX-License-Identifier: Apache-2.0
"""Somebody's factors in Slurm's queue: looks between the loops' instants, at which waiting jobs get new ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...errors import UsageError
from .arrays import (
    ASKED,
    CYCLE,
    DIRTY,
    FAR,
    FIRST,
    FIRST_POLL,
    HEAP,
    POLLS,
    QUEUE,
    QUEUED,
    QUIET,
    RUNNING_COUNT,
    SUBMITTED,
    Jobs,
    Rules,
    State,
)
from .clock import PATIENCE

LOOKS_S = 30.0
"""So often somebody looks; looks at which nothing could change are left out."""


class Seen(NamedTuple):
    """Waiting jobs at one look, arrays (k,): places among the requests, since when only the queue holds each (s, NaN:
    something else does), its priority, the factor in it; numbers of array (-1: none), account and user."""

    now: float
    places: np.ndarray
    arrival: np.ndarray
    priority: np.ndarray
    factor: np.ndarray
    array: np.ndarray
    account: np.ndarray
    user: np.ndarray


Reorder = Callable[[Seen], tuple[np.ndarray, float]]
"""New factors (k,), and when they change next by themselves (s; infinity: not before somebody else comes)."""


def looks(jobs: Jobs, rules: Rules, s: State, reorder: Reorder) -> Iterator[Rules]:
    """The rules to go on with up to each look; between two of them `reorder` is asked. Ends when nothing is to come.

    UsageError where a QOS may preempt: its order is no order of priorities.
    """
    if jobs.row["preempts"].any():
        raise UsageError("order: this machine's QOS preempt each other, and that is not modelled together")
    factor = np.zeros(len(jobs.row), np.int64)
    submits = np.sort(jobs.row["submit"][:-1])
    first = float(submits[0]) if len(submits) else 0.0
    due = first
    while True:
        at = first + math.ceil((due - first) / LOOKS_S) * LOOKS_S if due < FAR else FAR
        yield rules._replace(until=at)
        if at >= FAR or _over(s):
            return
        changes = _look(jobs, rules, s, factor, at, reorder)
        k = int(np.searchsorted(submits, at, side="right"))
        due = max(min(float(submits[k]) if k < len(submits) else FAR, changes), at + LOOKS_S)


def _over(s: State) -> bool:
    """Whether the last job has ended, or what still waits waits for nothing."""
    idle = s.reg[SUBMITTED] == len(s.order) and s.reg[RUNNING_COUNT] == 0 and s.reg[HEAP] == 0
    return bool(idle and (s.reg[QUEUE] == s.reg[FIRST] or s.reg[QUIET] > PATIENCE))


def _look(jobs: Jobs, rules: Rules, s: State, factor: np.ndarray, at: float, reorder: Reorder) -> float:
    """One look: who waits, their new factors, the queue in its new order."""
    queue = s.queue[int(s.reg[FIRST]) : int(s.reg[QUEUE])]
    waits = s.job["status"][queue["job"]] == QUEUED
    places, pairs = np.unique(queue["job"][waits], return_index=True)
    if not len(places):
        return FAR
    row, since = jobs.row[places], s.job["eligible"][places]
    seen = Seen(
        at, places, np.where(since >= 0, since, np.nan), -queue["order"][waits][pairs], factor[places], row["array"],
        row["account"], row["user"],
    )  # fmt: skip
    new, changes = reorder(seen)
    if (new != seen.factor).any():
        more = np.zeros(len(factor), np.int64)
        more[places] = new - seen.factor
        factor[places] = new
        jobs.row["nice"] -= more
        queue["order"] -= more[queue["job"]]
        _sort(jobs, s, queue)
        _wake(rules, s, at)
    return min(changes, FAR)


def _sort(jobs: Jobs, s: State, queue: Any) -> None:
    """The queue as `queue.comes_before` has it, without preemption."""
    row = jobs.row[queue["job"]]
    keys = queue["job"], row["task"], s.group_sequence[row["group"]], queue["order"], queue["tier"]
    queue[:] = queue[np.lexsort(keys)]


def _wake(rules: Rules, s: State, at: float) -> None:
    """Slurm schedules after an update; instants that were skipped because nothing changed are there again."""
    s.reg[ASKED] = s.reg[DIRTY] = 1
    s.reg[POLLS] = min(s.reg[POLLS], max(math.ceil((at - s.reg[FIRST_POLL]) / rules.poll), 0))
    s.reg[CYCLE] -= max(math.floor((s.reg[CYCLE] - at) / rules.bf_interval), 0) * rules.bf_interval
