"""Tests which nodes a machine can use: the same result from text, JSON, a slurm.conf and a live Slurm."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from batchcast.slurm.client import Slurm
from batchcast.slurm.transport import Answer
from batchcast.trace.machine_files import machine_of

USABLE = (
    "IDLE", "MIXED+PLANNED", "ALLOCATED+CLOUD", "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERING_DOWN",
    "IDLE+CLOUD+POWER_DOWN", "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+POWER", "IDLE+CLOUD+POWER_UP",
    "IDLE+MAINTENANCE+RESERVED", "IDLE+DYNAMIC_FUTURE", "IDLE+DYNAMIC_NORM", "IDLE+UNDRAIN", "IDLE+REBOOT_REQUESTED",
)  # fmt: skip
AWAY = (
    "DOWN", "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", "IDLE+DRAIN", "MIXED+DRAIN", "IDLE*", "IDLE+NOT_RESPONDING",
    "DOWN*+DRAIN", "IDLE+INVALID_REG", "IDLE+FAIL", "UNKNOWN", "ERROR", "IDLE+CLOUD+DRAIN+POWERED_DOWN",
)  # fmt: skip
PARTITION = "PartitionName=main Default=YES MaxTime=UNLIMITED Nodes=n1 State=UP\n"


def is_down(node: dict[str, str]) -> bool:
    return machine_of({"partition.txt": PARTITION, **node}, "here").nodes[0].down == ("n1",)


@pytest.mark.parametrize(("state", "away"), [*((s, False) for s in USABLE), *((s, True) for s in AWAY)])
def test_text_and_json_agree_on_a_node(state: str, away: bool) -> None:
    words = [*state.replace("*", "+NOT_RESPONDING").split("+")]
    new = json.dumps({"nodes": [{"name": "n1", "cpus": 8, "state": words}]})
    old = json.dumps({"nodes": [{"name": "n1", "cpus": 8, "state": words[0].lower(), "state_flags": words[1:]}]})
    assert is_down({"node.txt": f"NodeName=n1 CPUTot=8 Sockets=8 State={state} ThreadsPerCore=1\n"}) == away
    assert is_down({"node.json": new}) == away
    assert is_down({"node.json": old}) == away


@pytest.mark.parametrize(
    ("state", "away"), [("", False), ("CLOUD", False), ("UNKNOWN", False), ("DOWN", True), ("DRAIN", True),
                        ("FAIL", True), ("FAILING", True), ("FUTURE", True)]
)  # fmt: skip
def test_a_slurm_conf_says_it_by_fewer_words(state: str, away: bool) -> None:
    conf = f"NodeName=n1 CPUs=8{f' State={state}' if state else ''}\nPartitionName=main Nodes=n1 Default=YES\n"
    assert (machine_of({"slurm.conf": conf}, "here").nodes[0].down == ("n1",)) == away


def test_the_machine_does_not_depend_on_the_minute_of_the_capture() -> None:
    def at(*states: str) -> str:
        return "".join(
            f"NodeName=dy-{k} CPUTot=8 RealMemory=62000 Sockets=8 State={state} ThreadsPerCore=1 Weight=1000\n"
            for k, state in enumerate(states, 1)
        )

    partition = PARTITION.replace("n1", "dy-[1-2]")
    by_day = {"node.txt": at("ALLOCATED+CLOUD", "IDLE+CLOUD"), "partition.txt": partition}
    by_night = {"node.txt": at("IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERING_DOWN"), "partition.txt": partition}
    assert machine_of(by_day, "day") == machine_of(by_night, "night")


def test_live_a_node_that_sleeps_or_wakes_up_is_not_away() -> None:
    shown = {
        "n1": "drained", "n2": "down*", "n3": "idle*", "n4": "allocated#", "n5": "idle~", "n6": "drained~",
        "n7": "down~", "n8": "mixed%", "n9": "inval", "n10": "draining@",
    }  # fmt: skip

    class Sinfo:
        def ask(self, command: Sequence[str]) -> Answer:
            assert "--format=%N %R %c %T" in command
            return Answer("".join(f"{node} main 8 {state}\n" for node, state in shown.items()), "", 0.0)

    away = Slurm(Sinfo()).nodes_away()
    assert [one.node for one in away] == ["n1", "n2", "n3", "n6", "n7", "n9", "n10"]
    assert {one.procs for one in away} == {8.0}
