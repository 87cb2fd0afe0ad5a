# SPDX-License-Identifier: Apache-2.0
"""Memory as Slurm prints it: what a job asked for, and its peak use over the rows of its steps. Pure.

Two amounts are compared everywhere else, both in KiB of the whole job: what was asked, and the peak of the busiest node
times the nodes held, which is what an even share would have had to be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..errors import UsageError
from ..units import parse_memory
from .slurm.resources import parse_tres

MOST_KIB = 1024.0**4
"""A pebibyte of one node, or of one processor: beyond is no memory."""
STEP_FIELDS = ("JobID", "MaxRSS", "TRESUsageInMax", "TRESUsageInTot", "NTasks", "NNodes")
"""What `sacct` (without -X) is asked for beside a job's own fields; `AllocNodes` does for `NNodes`."""
_USAGE = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)", re.IGNORECASE)
_USAGE_UNITS = {"": 1 / 1024, "K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4, "E": 1024.0**5}
_PER_GPU = re.compile(r"--mem-per-gpu[= ]\s*(\S+)")


class Peak(NamedTuple):
    """The most one node of a job held at once, KiB (NaN: nobody measured it), and how its steps were read.

    `steps` rows were seen, of which `zeros` ended before the first sample and `bad` held what is no amount.
    """

    node_kib: float
    steps: int = 0
    zeros: int = 0
    bad: int = 0


def requested(reqmem: str, *, nodes: float, procs: float, tres: str = "") -> float:
    """KiB a whole job asked for; NaN when unknown, 0 or "all of the node".

    `ReqMem` (`4Gn` is per node, `2Gc` per processor, plain the whole job, as newer sacct prints it), else `mem` of
    `ReqTRES`. UsageError for a form that is none.

    >>> requested("4Gn", nodes=2, procs=8), requested("2Gc", nodes=2, procs=8), requested("4000M", nodes=2, procs=8)
    (8388608.0, 16777216.0, 4096000.0)
    >>> requested("0n", nodes=1, procs=1, tres="billing=8,cpu=8,mem=16G,node=1")
    16777216.0
    """
    amount = parse_memory(reqmem, nodes=nodes, procs=procs)
    return parse_memory(parse_tres(tres).get("mem", "")) if math.isnan(amount) else amount


def per_gpu(submit_line: str) -> float:
    """KiB of `--mem-per-gpu` in a command line; NaN where it has none.

    >>> per_gpu("sbatch --mem-per-gpu 2G -n1 a.sh"), per_gpu("sbatch a.sh")
    (2097152.0, nan)
    """
    match = _PER_GPU.search(submit_line)
    return parse_memory(match[1]) if match else math.nan


def usage_kib(text: str) -> float:
    """KiB of a measured amount: MaxRSS, or `mem` of TRESUsageInMax; a bare number is bytes. NaN when nothing is there.

    UsageError for a negative amount or a unit that is none.

    >>> usage_kib("1292K"), usage_kib("2.5G"), usage_kib("2048"), usage_kib("")
    (1292.0, 2621440.0, 2.0, nan)
    """
    word = text.strip()
    if not word:
        return math.nan
    match = _USAGE.fullmatch(word)
    if match is None:
        raise UsageError(f"not a measured amount of memory: {text!r} (accepted: a number, then K, M, G, T, P or none)")
    return float(match[1]) * _USAGE_UNITS[match[2].upper()]


def node_peak(row: Mapping[str, str]) -> float:
    """KiB that the busiest node of one step held at most, from the step's row by sacct's names; NaN unknown.

    MaxRSS and TRESUsageInMax are of the largest task alone. With several tasks a node, TRESUsageInTot, the sum over
    tasks of each one's peak, spread over the nodes stands beside it; where that is not there, the largest task times
    the tasks of a node. Fields may be absent. UsageError for what is no amount.

    >>> node_peak({"MaxRSS": "1000K", "TRESUsageInTot": "cpu=9,mem=3600K", "NTasks": "4", "NNodes": "1"})
    3600.0
    >>> node_peak({"MaxRSS": "1000K", "NTasks": "4", "NNodes": "2"}), node_peak({"TRESUsageInMax": "mem=7M"})
    (2000.0, 7168.0)
    """
    largest, inside = usage_kib(row.get("MaxRSS", "")), _tres_mem(row.get("TRESUsageInMax", ""))
    task = max((value for value in (largest, inside) if value == value), default=math.nan)
    total, tasks = _tres_mem(row.get("TRESUsageInTot", "")), _count(row.get("NTasks", ""))
    nodes = max(_count(row.get("NNodes", "") or row.get("AllocNodes", "")), 1.0)
    if total == total:
        spread = total / nodes
        return max(task, spread) if task == task else spread
    return task * max(math.ceil(tasks / nodes), 1)


def peak(steps: Iterable[Mapping[str, str]]) -> Peak:
    """The peak of a job's step rows (12.batch, 12.extern, 12.0, ...): the largest over steps; zeros and junk counted.

    The allocation's own row may be among them: sacct leaves its fields empty. A step that ended before the first sample
    has 0, which says nothing; neither does an amount that cannot be read or is beyond a pebibyte. O(rows).

    >>> peak([{"MaxRSS": "0"}, {"MaxRSS": "1292K"}, {"MaxRSS": "-5K"}, {"MaxRSS": ""}])
    Peak(node_kib=1292.0, steps=3, zeros=1, bad=1)
    """
    most, seen, zeros, bad = math.nan, 0, 0, 0
    for row in steps:
        try:
            amount = node_peak(row)
        except UsageError:
            amount = math.inf
        if amount != amount:
            continue
        seen += 1
        if amount > MOST_KIB:
            bad += 1
        elif amount == 0:
            zeros += 1
        else:
            most = amount if not most >= amount else most
    return Peak(most, seen, zeros, bad)


def outgrew(step: Mapping[str, str]) -> bool:
    """Whether a step was ended for its memory: by Slurm itself (CANCELLED by 0), holding more than its node's share.

    That is how JobAcctGatherParams=OverMemoryKill ends a step; the job is FAILED then, and no word says why. Needs
    `State` and `AllocTRES` beside the fields of `node_peak`; somebody's own scancel is no such end.

    >>> step = {"State": "CANCELLED by 0", "MaxRSS": "200M", "AllocTRES": "cpu=2,mem=200M,node=2", "AllocNodes": "2"}
    >>> outgrew(step), outgrew({**step, "MaxRSS": "90M"}), outgrew({**step, "State": "CANCELLED by 1000"})
    (True, False, False)
    """
    word, _, by = step.get("State", "").partition(" by ")
    if word != "CANCELLED" or by.strip() not in ("", "0"):
        return False
    try:
        asked = parse_memory(parse_tres(step.get("AllocTRES", "")).get("mem", ""))
        return peak([step]).node_kib > asked / max(_count(step.get("AllocNodes", "")), 1.0)
    except UsageError:
        return False


def of_whole_job(node_kib: float, nodes: float) -> float:
    """KiB of a whole job whose busiest node held `node_kib`: times the nodes it held (unknown counts as one)."""
    return node_kib * (nodes if nodes > 0 else 1.0)


def _tres_mem(text: str) -> float:
    return usage_kib(parse_tres(text).get("mem", ""))


def _count(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 13 else 1.0
