"""Tests how the client reads Slurm's answers."""

from __future__ import annotations

import pytest

from batchcast.errors import Unreachable
from batchcast.slurm.client import Slurm
from batchcast.slurm.transport import Answer

NOW = 1_700_000_000.0


class Says:
    """A transport whose every answer is the same text, requested at NOW + 0.4 and received at NOW + 0.9."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def now(self) -> float:
        return NOW + 0.9

    def ask(self, command: object) -> Answer:
        if self.text is None:
            raise Unreachable("refused")
        return Answer(self.text, "", NOW + 0.4)


@pytest.mark.parametrize(("stamp", "ahead"), [(0, 0.0), (-1, 0.4), (-30, 29.4), (30, -29.1)])
def test_how_far_the_clocks_are_apart_is_never_overstated(stamp: int, ahead: float) -> None:
    text = f"*****\nsdiag output at Sat Nov 21 12:00:00 2026 ({NOW + stamp:.0f})\nData since ...\n"
    assert Slurm(Says(text)).clock_ahead() == pytest.approx(ahead, abs=1e-3)


@pytest.mark.parametrize("text", [None, "", "sdiag output at noon"])
def test_clocks_that_nobody_compares_are_unknown(text: str | None) -> None:
    assert Slurm(Says(text)).clock_ahead() is None


class Site:
    """A transport that answers as a small site whose accounting uses the given plug-in."""

    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.asked: list[tuple[str, ...]] = []

    def now(self) -> float:
        return NOW

    def ask(self, command: tuple[str, ...]) -> Answer:
        self.asked.append(command)
        texts = {
            "scontrol show config": f"ClusterName = c\nJobAcctGatherType = {self.plugin}\n"
            "JobAcctGatherFrequency = 15\n",
            "scontrol --oneliner": "PartitionName=main TotalCPUs=20 Nodes=a[1-2],b1 Default=YES MaxTime=1:00:00\n"
            "PartitionName=short TotalCPUs=8 Nodes=b[1-2]\n",
            "sinfo --noheader": "main a[1-2] 8+ 4000\nmain b1 4 16000\nshort b[1-2] 4 16000\nother c1 4 1\n",
        }
        words = " ".join(command)
        return Answer(next((text for start, text in texts.items() if words.startswith(start)), ""), "~", NOW)


@pytest.mark.parametrize(("plugin", "steps"), [("jobacct_gather/linux", True), ("jobacct_gather/none", False)])
def test_steps_are_asked_for_where_they_say_anything_and_cost_no_further_question(plugin: str, steps: bool) -> None:
    site = Site(plugin)
    Slurm(site).history(NOW - 100, NOW)
    whole, cancelled = [command for command in site.asked if command[0] == "sacct"]
    assert ("--allocations" not in whole) == steps
    assert ("MaxRSS" in whole[-1]) == steps
    assert "--allocations" in cancelled


def test_a_site_says_how_it_measures_and_what_a_node_has() -> None:
    site = Slurm(Site("jobacct_gather/cgroup")).site()
    assert site.gathers == {"Type": "jobacct_gather/cgroup", "Frequency": "15", "Params": ""}
    assert site.partitions["main"]["node_mem_kib"] == 16000 * 1024.0
    assert site.partitions["main"]["node_procs"] == 8.0
    assert set(site.partitions) == {"main", "short"}
    assert site.total_procs == 24.0  # a node in two partitions counts once
