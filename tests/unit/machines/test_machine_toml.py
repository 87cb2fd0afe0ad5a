"""Tests machine files written by hand: a written file can be read, and an unreadable one gives a clear message."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from batchcast.errors import InputError
from batchcast.formats.slurm import scontrol
from batchcast.formats.slurm.resources import Names, expand, fold
from batchcast.formats.slurm.scontrol import read_machine
from batchcast.machines.machine import Association, Limits, Machine, NodeGroup, Partition, Qos, Reservation, vary
from batchcast.machines.toml import describe, read_machine_toml
from batchcast.trace.machine_files import machine_of, toml_of

WHOLE = Machine(
    (NodeGroup(("a1", "a2"), 16, memory_mib=64000.0, gres={"gpu:a100": 4}, features=("new",), down=("a2",)),),
    (Partition("all", ("a1", "a2"), max_time=3600.0, default_time=60.0, default_mem_per_cpu=1000.0, default=True),),
    (Qos("high", 10.0, ("low",), Limits(grp_tres={"cpu": 8.0}, max_jobs_per_user=2.0)),),
    (Association("root"), Association("one", parent="root", shares=3.0), Association("one", "ann")),
    (Reservation("maint", ("a1",), 100.0, 200.0, ("root",), flags=("MAINT",)),),
    {"bf_interval": "30"},
    "lab",
    ("PreemptType=qos",),
    {"matlab": 3.0},
)


def test_what_is_written_is_read_again() -> None:
    again = read_machine_toml(toml_of(WHOLE), expand)
    assert toml_of(again) == toml_of(WHOLE)
    assert (again.nodes, again.qos, again.associations) == (WHOLE.nodes, WHOLE.qos, WHOLE.associations)
    assert (again.licenses, again.left_out) == (WHOLE.licenses, WHOLE.left_out)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[node]]\ncpus = 1", "no such table"),
        ('[[nodes]]\nnames = "a1"\ncores = 4', "no such key"),
        ('[[nodes]]\nnames = "a1"', "has no cpus"),
        ('[[nodes]]\nnames = "a1"\ncpus = 4\n[[partition]]\nname = "p"\nnodes = "b1"', "not in [[nodes]]"),
        ("= 4", "not TOML"),
        ("", "needs [[nodes]]"),
    ],
)
def test_a_broken_description_names_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        read_machine_toml(text, expand)


def test_what_the_model_leaves_out_is_named() -> None:
    node = "NodeName=n1 CPUTot=4 RealMemory=1000 Sockets=1 ThreadsPerCore=1 State=IDLE Weight=1\n"
    part = "PartitionName=p Nodes=n1 MaxTime=UNLIMITED Default=YES State=UP\n"
    config = "Licenses                = matlab:4\nTopologyPlugin          = topology/tree\n"
    machine = read_machine(node, part, config)
    assert machine.left_out == ("TopologyPlugin=tree",)
    assert machine.licenses == {"matlab": 4.0}


def test_dumps_without_nodes_say_which_command_makes_them() -> None:
    with pytest.raises(InputError, match="NodeName") as error:
        read_machine("", "PartitionName=p Nodes=n1\n")
    assert "scontrol show node" in str(error.value)


NODE = "NodeName=n1 CPUTot=8 RealMemory=1000 Sockets=1 ThreadsPerCore=1 State=IDLE\n"
MAIN = "PartitionName=main Default=YES MaxTime=UNLIMITED Nodes=n1 State=UP\n"
EMPTY = "PartitionName=empty Default=NO MaxTime=UNLIMITED Nodes=(null) State=UP TotalCPUs=0 TotalNodes=0\n"
SEEN_AS = {
    "text": {"node.txt": NODE, "partition.txt": MAIN + EMPTY},
    "json": {
        "node.txt": NODE,
        "partition.json": json.dumps(
            {"partitions": [{"name": "main", "nodes": {"configured": "n1"}}, {"name": "empty", "nodes": {"total": 0}}]}
        ),
    },
    "slurm.conf": {"slurm.conf": 'NodeName=n1 CPUs=8\nPartitionName=main Nodes=n1\nPartitionName=empty Nodes=""\n'},
}


@pytest.mark.parametrize("form", SEEN_AS)
def test_a_partition_without_nodes_is_written_and_read(form: str) -> None:
    machine = machine_of(SEEN_AS[form], "here")
    assert [(p.name, p.nodes) for p in machine.partitions] == [("main", ("n1",)), ("empty", ())]
    again = read_machine_toml(toml_of(machine), expand)
    assert repr(again.partitions) == repr(machine.partitions)
    assert any("empty: no nodes" in line for line in describe(again, fold))
    assert vary(again, {"nodes": "+1"}).cpus == 16


@pytest.mark.parametrize(
    "machine",
    [
        replace(WHOLE, partitions=(Partition("", ()),)),
        replace(WHOLE, qos=(Qos("", limits=Limits(grp_tres={"cpu": math.inf}), preempt_exempt_time=math.inf),)),
        replace(WHOLE, reservations=(Reservation("", (), 0.0, 1.0, until=math.nan),)),
        replace(WHOLE, name='a "b" \x7f \\ \N{PARTY POPPER}', settings={"x y": "\t"}, licenses={"a": 1234567.0}),
    ],
)
def test_whatever_is_written_is_read(machine: Machine) -> None:
    again = read_machine_toml(toml_of(machine), expand)
    assert repr(again.qos) == repr(machine.qos)
    assert repr(again.reservations) == repr(machine.reservations)
    assert (again.name, again.settings, again.licenses) == (machine.name, machine.settings, machine.licenses)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[nodes]]\nnames = "a1"\ncpus = "x"', "cpus"),
        ('[[nodes]]\nnames = "a1"\ncpus = 0\n[[partition]]\nname = "p"\nnodes = "a1"', "cpus is 0"),
        ('[[nodes]]\nnames = "a1,a1"\ncpus = 4\n[[partition]]\nname = "p"\nnodes = "a1"', "node a1 is defined twice"),
        ('[[nodes]]\nnames = "a1"\ncpus = 4\n[[partition]]\nname = "p"', "partition]] 'p' .* it has no nodes"),
        ('[[nodes]]\nnames = "a[1"\ncpus = 4', "not a node list"),
        ("nodes = 5", "not a list of tables"),
        ("settings = 5", "settings"),
        ("[licenses]\na = 'x'", "licenses"),
    ],
)
def test_a_broken_description_is_told_without_python(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        read_machine_toml(text, expand)
    assert "__init__" not in error.value.message


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("node.txt", NODE.replace("CPUTot=8", "CPUTot=eight"), "NodeName=n1: CPUTot=eight"),
        ("node.txt", NODE.replace("CPUTot=8", "CPUTot=0"), "cpus is 0"),
        ("node.txt", NODE.replace("RealMemory=1000", "RealMemory=nan"), "RealMemory=nan"),
        ("node.txt", NODE + NODE, "node n1 is defined twice"),
        ("partition.txt", MAIN.replace("State", "PriorityTier=-1 State"), "PartitionName=main: PriorityTier=-1"),
        ("qos.txt", "Priority|Flags\n10|\n", "no column Name"),
        ("assoc.txt", "User|Share\nann|1\n", "no column Account"),
        ("node.json", '{"nodes": [{"cpus": 4}]}', r"nodes\[0\]: .*no 'name'"),
        ("node.json", '{"nodes": [5]}', "does not have Slurm's format"),
        ("node.json", "{" + '"a":[' * 9000, "not JSON"),
    ],
)
def test_a_bad_number_in_a_dump_names_its_record(file: str, text: str, says: str) -> None:
    texts = {"node.txt": NODE, "partition.txt": MAIN, file: text}
    if file == "node.json":
        del texts["node.txt"]
    with pytest.raises(InputError, match=says):
        machine_of(texts, "here")


def test_a_reservation_without_times_is_left_out_and_named() -> None:
    texts = {"node.txt": NODE, "partition.txt": MAIN, "reservation.txt": "ReservationName=r StartTime=? Nodes=n1\n"}
    machine = machine_of(texts, "here")
    assert machine.reservations == ()
    assert machine.left_out == ("reservation r (no start or no end)",)


def test_a_name_twice_among_a_hundred_thousand_is_found_at_once() -> None:
    """Counting the names one by one would take hours."""
    nodes = '[[nodes]]\nnames = "n[1-100000],n100000"\ncpus = 4\n'
    with pytest.raises(InputError, match="node n100000 is defined twice"):
        read_machine_toml(nodes + '[[partition]]\nname = "p"\nnodes = "n1"', expand)


def test_lists_of_a_million_names_in_each_partition_are_refused_by_their_ceiling() -> None:
    text = '[[nodes]]\nnames = "n1"\ncpus = 4\n' + '[[partition]]\nname = "p"\nnodes = "n[1-1000]"\n' * 20
    with pytest.raises(InputError, match=r"\[\[partition\]\] nodes: .* more than 9999 names together"):
        read_machine_toml(text, Names(most=9999))


def test_more_nodes_alike_than_a_machine_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = "".join(f"NodeName=n{k} CPUTot=4 State={'DOWN' if k % 2 else 'IDLE'}\n" for k in range(100))
    (group,) = read_machine(nodes, "PartitionName=p Nodes=ALL\n").nodes
    assert (len(group.names), group.down[:2], len(group.down)) == (100, ("n1", "n3"), 50)
    monkeypatch.setattr(scontrol, "MOST_NODES", 99)
    with pytest.raises(InputError, match="more than 99 nodes"):
        read_machine(nodes, "PartitionName=p Nodes=ALL\n")
