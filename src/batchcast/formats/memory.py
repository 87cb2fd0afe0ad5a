# SPDX-License-Identifier: Apache-2.0
"""Memory in Slurm's notation: the request of a job, and the peak use over the rows of its steps.

Other code of batchcast compares two amounts in KiB of the whole job: the request, and the peak of the busiest node
times the allocated nodes. The second amount is the smallest sufficient request if every node gets an equal share.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..errors import UsageError
from ..units import KIB_OF, parse_memory
from .slurm.resources import parse_tres

MOST_KIB = 1024.0**4
"""Largest plausible memory of one node or processor, in KiB: one pebibyte."""
STEP_FIELDS = ("JobID", "MaxRSS", "TRESUsageInMax", "TRESUsageInTot", "NTasks", "NNodes")
"""Fields that `sacct` (without -X) prints about steps; `AllocNodes` can replace `NNodes`."""
_USAGE = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)", re.IGNORECASE)


class Peak(NamedTuple):
    """The peak memory of a job's busiest node."""

    node_kib: float  # The peak in KiB; NaN if no step was measured
    zeros: int = 0  # Number of job steps that ended before the first sample, so that Slurm recorded 0
    bad: int = 0  # Number of job steps whose value is not a plausible amount


def requested(reqmem: str, *, nodes: float, procs: float, tres: str = "") -> float:
    """Return the requested memory of a whole job in KiB; NaN if the request is unknown, 0, or "all memory of the node".

    >>> requested("4Gn", nodes=2, procs=8), requested("2Gc", nodes=2, procs=8), requested("4000M", nodes=2, procs=8)
    (8388608.0, 16777216.0, 4096000.0)
    >>> requested("0n", nodes=1, procs=1, tres="billing=8,cpu=8,mem=16G,node=1")
    16777216.0
    """
    # sacct's ReqMem is per node (`4Gn`), per processor (`2Gc`), or for the whole job (a plain amount of newer sacct).
    # The `mem` of ReqTRES is used if ReqMem is unknown.
    amount = parse_memory(reqmem, nodes=nodes, procs=procs)
    return parse_memory(parse_tres(tres).get("mem", "")) if math.isnan(amount) else amount


def usage_kib(text: str) -> float:
    """Return the KiB of a measured amount of memory (MaxRSS, or `mem` of TRESUsageInMax); a bare number is in bytes,
    and an empty text is NaN.

    >>> usage_kib("1292K"), usage_kib("2.5G"), usage_kib("2048"), usage_kib("")
    (1292.0, 2621440.0, 2.0, nan)
    """
    word = text.strip()
    if not word:
        return math.nan
    match = _USAGE.fullmatch(word)
    if match is None:
        raise UsageError(f"not a measured amount of memory: {text!r} (accepted: a number, then K, M, G, T, P or none)")
    return float(match[1]) * KIB_OF[match[2].upper()]


def node_peak(row: Mapping[str, str]) -> float:
    """Return the peak memory of the busiest node of one step in KiB; NaN means unknown.

    >>> node_peak({"MaxRSS": "1000K", "TRESUsageInTot": "cpu=9,mem=3600K", "NTasks": "4", "NNodes": "1"})
    3600.0
    >>> node_peak({"MaxRSS": "1000K", "NTasks": "4", "NNodes": "2"}), node_peak({"TRESUsageInMax": "mem=7M"})
    (2000.0, 7168.0)
    """
    # MaxRSS and TRESUsageInMax describe only the largest task. For several tasks per node, TRESUsageInTot (the sum of
    # all tasks' peaks) divided by the nodes is a second estimate, and the larger estimate counts. Without
    # TRESUsageInTot, the result is the largest task times the tasks per node.
    largest, inside = usage_kib(row.get("MaxRSS", "")), _tres_mem(row.get("TRESUsageInMax", ""))
    task = max((value for value in (largest, inside) if value == value), default=math.nan)
    total, tasks = _tres_mem(row.get("TRESUsageInTot", "")), _count(row.get("NTasks", ""))
    nodes = max(_count(row.get("NNodes", "") or row.get("AllocNodes", "")), 1.0)
    if total == total:
        return max(total / nodes, task)  # max() returns its first argument if `task` is NaN
    return task * max(math.ceil(tasks / nodes), 1)


def peak(steps: Iterable[Mapping[str, str]]) -> Peak:
    """Return the largest peak over the steps of a job (12.batch, 12.extern, 12.0, ...).

    >>> peak([{"MaxRSS": "0"}, {"MaxRSS": "1292K"}, {"MaxRSS": "-5K"}, {"MaxRSS": ""}])
    Peak(node_kib=1292.0, zeros=1, bad=1)
    """
    # A step that ended before the first sample has the value 0, which is not a measurement. Amounts that cannot be read
    # or exceed a pebibyte are ignored. Both are counted.
    amounts = []
    for row in steps:
        try:
            amounts.append(node_peak(row))
        except UsageError:
            amounts.append(math.inf)
    usable = [amount for amount in amounts if 0 < amount <= MOST_KIB]
    return Peak(max(usable, default=math.nan), amounts.count(0), sum(amount > MOST_KIB for amount in amounts))


def outgrew(step: Mapping[str, str]) -> bool:
    """Whether Slurm killed a step because it exceeded its node's share of the memory.

    >>> step = {"State": "CANCELLED by 0", "MaxRSS": "200M", "AllocTRES": "cpu=2,mem=200M,node=2", "AllocNodes": "2"}
    >>> outgrew(step), outgrew({**step, "MaxRSS": "90M"}), outgrew({**step, "State": "CANCELLED by 1000"})
    (True, False, False)
    """
    # With JobAcctGatherParams=OverMemoryKill, the step is CANCELLED by user 0 and the job is FAILED; no field of sacct
    # gives the reason. A cancellation by another user (scancel) does not count.
    word, _, by = step.get("State", "").partition(" by ")
    if word != "CANCELLED" or by.strip() not in ("", "0"):
        return False
    try:
        asked = parse_memory(parse_tres(step.get("AllocTRES", "")).get("mem", ""))
        return peak([step]).node_kib > asked / max(_count(step.get("AllocNodes", "")), 1.0)
    except UsageError:
        return False


def _tres_mem(text: str) -> float:
    return usage_kib(parse_tres(text).get("mem", ""))


def _count(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 13 else 1.0
