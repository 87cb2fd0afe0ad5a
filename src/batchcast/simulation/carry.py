"""A scheduling kernel that stands still, moved to other job records: those it still needs, and new ones behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..schedule.state import (
    BLOCK,
    BLOCKS,
    GONE,
    PREDICTED,
    PYSS,
    STATE,
    KernelState,
    Memory,
    make_state,
)

ELSEWHERE = ("next_submit", "job", "tail", "head", "newest", "indexed", "leaves", "logged", "first_step", "steps",
             "instant_first", "instant_end")  # fmt: skip
"""Fields of the record that are places in arrays; every other one is carried as it is."""


def present_jobs(state: KernelState) -> np.ndarray:
    """The jobs that wait, run or are about to be planned, ascending: what is neither has ended for good."""
    s, arrays = state.record[0], state.arrays
    asked = [int(s["job"])] if s["phase"] == PREDICTED else []
    return np.unique(
        np.concatenate(
            [
                _queued(state)["job"],
                arrays["plan"]["job"][: s["running"]],
                arrays["endings"]["item"][: s["ending"]],
                arrays["instant"][s["instant_first"] : s["instant_end"]],
                np.arange(s["next_submit"], len(state.jobs)),
                np.array(asked, np.int64),
            ]
        ).astype(np.int64)
    )


def carried(state: KernelState, present: np.ndarray, new: np.ndarray, total: int, memory: Memory | None) -> KernelState:
    """The same machine at the same instant with the jobs `present` (`present_jobs`) and the `new` ones behind them.

    Nothing that decides a schedule changes: jobs keep their order, the queue its order of arrival, running jobs theirs
    by planned end. A shadow run and plans made anew (`due_after`, `refresh`), and what a risk is read off
    (`risk_budget`), are not carried. O(jobs present + new).
    """
    s, old = state.record[0], state.arrays
    place = np.full(len(state.jobs), -1, np.int64)
    place[present] = np.arange(len(present))
    jobs = np.concatenate([state.jobs[present], new])
    moved = make_state(jobs, total, memory=memory, log_size=len(state.log), **_rules(state))
    arrays = moved.arrays
    for name in STATE.names or ():
        if name not in ELSEWHERE and not _is_array(name):
            moved.record[name] = state.record[name]
    queue = _queued(state)
    waiting = len(queue)
    arrays["slots"][:waiting] = queue
    arrays["slots"]["job"][:waiting] = place[queue["job"]]
    arrays["blocks"][: -(-waiting // BLOCK)] = _minima(queue)
    arrays["plan"][: s["running"]] = old["plan"][: s["running"]]
    arrays["plan"]["job"][: s["running"]] = place[old["plan"]["job"][: s["running"]]]
    endings = old["endings"][: s["ending"]].copy()
    endings["item"] = place[endings["item"]]
    if state.rules["event_order"][0] != PYSS:
        endings["tie"] = endings["item"]
    arrays["endings"][: len(endings)] = endings
    instant = old["instant"][s["instant_first"] : s["instant_end"]]
    arrays["instant"][: len(instant)] = place[instant]
    steps = old["profile"][s["first_step"] : s["steps"]]
    arrays["profile"][: len(steps)] = steps
    newest = np.flatnonzero(queue["job"] == old["slots"]["job"][s["newest"]]) if waiting else np.zeros(0, np.int64)
    moved.record["newest"] = newest[0] if len(newest) else 0
    moved.record["tail"], moved.record["instant_end"], moved.record["steps"] = waiting, len(instant), len(steps)
    moved.record["job"] = place[s["job"]] if s["phase"] == PREDICTED else 0
    moved.record["next_submit"] = np.searchsorted(present, s["next_submit"])
    return moved


def _rules(state: KernelState) -> dict[str, Any]:
    return {name: state.rules[name][0] for name in state.rules.dtype.names or ()}


def _is_array(name: str) -> bool:
    return name.removesuffix("_size") in _ARRAYS


_ARRAYS = {name.removesuffix("_size") for name in STATE.names or () if name.endswith("_size")}


def _queued(state: KernelState) -> np.ndarray:
    """The slots that hold a job, in order of arrival."""
    s = state.record[0]
    slots = state.arrays["slots"][s["head"] : s["tail"]]
    live: np.ndarray = slots[slots["procs"] != GONE]
    return live


def _minima(queue: np.ndarray) -> np.ndarray:
    """The blocks of a queue without gaps."""
    edges = np.arange(0, len(queue), BLOCK)
    blocks = np.empty(len(edges), BLOCKS)
    for name in BLOCKS.names or ():
        blocks[name] = np.minimum.reduceat(queue[name], edges) if len(edges) else 0
    return blocks

