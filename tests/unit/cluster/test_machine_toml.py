"""A machine by hand: what is written can be read, and what cannot be read says so."""

from __future__ import annotations

import pytest

from batchcast.cluster.machine import Association, Limits, Machine, NodeGroup, Partition, Qos, Reservation
from batchcast.cluster.toml import read_machine_toml
from batchcast.errors import InputError
from batchcast.formats.slurm.resources import expand
from batchcast.formats.slurm.scontrol import read_machine
from batchcast.trace.machine import toml_of

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
        ('[[nodes]]\nnames = "a1"', "not complete"),
        ('[[nodes]]\nnames = "a1"\ncpus = 4\n[[partition]]\nname = "p"\nnodes = "b1"', "in no [[nodes]]"),
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
