"""One kernel of each kind that the project compiles, and their results in one text."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.unit.compiled.test_by_address import both, some, tail

from batchcast.compiled import allocating, branching, call_address, compile_key, inlined, inner, kernel
from batchcast.compiled.arrays import Record, address_of, array_in, bits, called_there, lowest
from batchcast.records import array_fields, point_to

JOB = np.dtype([("procs", np.int64), ("run", np.float64)])
STATE = np.dtype([("free", np.int64), *array_fields("jobs", "table")])
jobs_of = array_in("jobs", JOB)
table_of = array_in("table", np.float64, 3)


@inlined
def area(jobs: np.ndarray, k: int) -> float:
    """Processors times run time."""
    product: float = jobs[k].procs * jobs[k].run
    return product


@inner
def total(state: Record) -> float:
    """Return all areas, and a table's last column."""
    jobs, table, whole = jobs_of(state), table_of(state), 0.0
    for k in range(len(jobs)):
        whole += area(jobs, k) + table[k, 2]
    return whole


@branching
def step(record: np.ndarray, rules: np.ndarray) -> int:
    """Take one processor, if one is free."""
    state = record[0]
    if state.free > 0:
        state.free -= rules[0]
    free: int = state.free
    return free


step_there = called_there(step)


@kernel
def follow(place: int, record: np.ndarray, rules: np.ndarray, key: int) -> float:
    """Call a kernel directly, an inner kernel, bit operations, and a key function at its address."""
    left = step_there(place, record, rules)
    return total(record[0]) + 1000.0 * left + bits(left) + lowest(left) + call_address(key, 1.0, 2.0, 3.0, 4.0, 5.0)


@allocating
def doubled(values: np.ndarray) -> np.ndarray:
    """A new array."""
    return values * 2.0


def weight(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
    """A user's own key for the queue order."""
    return now + 2 * submit + 3 * procs + 4 * planned + 5 * wait


def results() -> str:
    """Return the result of each kind as text."""
    jobs = np.array([(2, 10.0), (3, 0.5)], JOB)
    table = np.arange(6.0).reshape(2, 3)
    record = np.zeros(1, STATE)
    record["free"] = 7
    point_to(record, jobs=jobs, table=table)
    rules: Any = np.ones(1, np.int64)
    key = compile_key(weight)
    told = follow(address_of(step, record, rules), record, rules, key.address)
    return str([told, int(record["free"][0]), doubled(table[0]).tolist(), both(some(), 3), tail(some()).tolist()])
