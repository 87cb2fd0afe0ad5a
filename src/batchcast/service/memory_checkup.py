"""`doctor` on memory: does accounting measure it, what can such a figure say, and what is known so far."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..columns import FEWEST, is_copied
from ..formats.sighting import gathers_memory
from ..store.reader import Reader
from .plan_checkup import finding

WITHIN_S = 30 * 86400.0
SET = (
    "in slurm.conf JobAcctGatherType=jobacct_gather/cgroup (or /linux) and JobAcctGatherFrequency=30, then restart "
    "slurmctld and every slurmd: jobs that start from then on are measured"
)
_SAYS = {
    "linux": "of a task's processes added up, so that pages they share count for each (UsePss, NoShared: not)",
    "cgroup": "of a task's control group",
}


def gathering(gathers: Mapping[str, str]) -> dict[str, Any]:
    """The finding on how accounting measures memory, from JobAcctGather's settings by name (Type, Frequency, Params).

    >>> gathering({"Type": "jobacct_gather/none"})["state"]
    'warning'
    >>> gathering({"Type": "jobacct_gather/linux", "Frequency": "task=15", "Params": "OverMemoryKill"})["found"]
    "jobacct_gather/linux: every 15 s the memory of a task's processes added up, so that ..."
    """
    kind = gathers.get("Type", "")
    if kind.startswith("pbs"):
        return finding("memory", "ok", "PBS keeps the peak of each job over all its nodes (resources_used.mem)")
    if not gathers_memory(gathers):
        return finding("memory", "warning", f"accounting measures none (JobAcctGatherType = {kind or 'not set'})", SET)
    every = sampled_every(gathers.get("Frequency", ""))
    params = gathers.get("Params", "")
    says = _SAYS.get(kind.rpartition("/")[2], "of a task")
    kills = "; OverMemoryKill ends jobs by it" if "overmemorykill" in params.lower() else ""
    if every == 0:
        found = f"{kind}: only when a step ends the memory {says}{kills}"
        return finding("memory", "warning", found, "JobAcctGatherFrequency=30: at its end a step holds little")
    found = f"{kind}: every {every:g} s the memory {says}; what is held between two samples is not seen{kills}"
    return finding("memory", "ok", found)


def sampled_every(frequency: str) -> float:
    """Seconds between two samples of a task by JobAcctGatherFrequency; 30, Slurm's own, where it says nothing.

    >>> sampled_every("task=15,energy=60"), sampled_every("10"), sampled_every("0"), sampled_every("energy=60")
    (15.0, 10.0, 0.0, 30.0)
    """
    match = re.search(r"(?:^|task=)(\d+)", frequency.strip().lower())
    return float(match[1]) if match else 30.0


def memory_findings(reader: Reader, cluster: str, memory: Mapping[str, Any], now: float) -> Iterator[dict[str, Any]]:
    """What the store says of memory: how it is measured, and how many jobs of the last 30 days were."""
    gathers = (memory.get("site") or {}).get("gathers")
    if gathers is None:
        return
    yield gathering(gathers)
    if not gathers_memory(gathers):
        return
    (jobs,) = reader.ask("measured", cluster=cluster, since=now - WITHIN_S)
    words = [f"of {jobs['measured']} of {jobs['ended']} jobs that ran in the last 30 days"]
    words += [f"{jobs['zero']} ended before a sample"] if jobs["zero"] else []
    words += [f"{jobs['bad']} have an amount that is none, nothing is learned from them"] if jobs["bad"] else []
    words += [f"{jobs['ran_out']} ran out"] if jobs["ran_out"] else []
    many = jobs["ended"] >= FEWEST
    copied = is_copied(jobs["copied"], jobs["measured"])
    if copied:
        words.append("nearly all equal what was asked for: no measurement, and nothing is advised from it")
    silent = many and not jobs["measured"]
    do = "does sacct -a --format=JobID,MaxRSS show amounts for steps?" if copied or silent else ""
    yield finding("memory measured", "warning" if do else "ok", "; ".join(words), do)
