# SPDX-License-Identifier: Apache-2.0
"""Tests that an operator's slurm.conf becomes the machine that slurmctld would build from it, on examples written by
hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.forked import batchcast

from batchcast.errors import InputError
from batchcast.formats.slurm.conf import dumps_of
from batchcast.machines.machine import Machine
from batchcast.trace.machine_files import machine_of, open_machine

PLAIN = "NodeName=n[1-4] CPUs=8 RealMemory=16000\nPartitionName=all Nodes=ALL Default=YES MaxTime=60\n"


def machine(text: str, **files: str) -> Machine:
    return machine_of({"slurm.conf": text} | {f"{name}.conf": body for name, body in files.items()}, "site")


def partition(text: str, name: str = "all") -> object:
    return next(p for p in machine(text).partitions if p.name == name)


def test_the_smallest_file_is_a_machine() -> None:
    made = machine(PLAIN)
    assert (made.cpus, made.nodes[0].memory_mib, made.partitions[0].max_time) == (32, 16000, 3600)
    assert made.left_out == ()


def test_processors_are_sockets_times_cores_times_threads_where_none_are_named() -> None:
    made = machine(
        "nodename=a SocketsPerBoard=2 CoresPerSocket=16 ThreadsPerCore=2 Boards=2\nPARTITIONNAME=p nodes=a\n"
    )
    assert (made.cpus, made.nodes[0].sockets, made.nodes[0].threads) == (128, 4, 2)


def test_default_lines_hold_for_the_lines_after_them() -> None:
    made = machine(
        "NodeName=first CPUs=2\nNodeName=DEFAULT CPUs=64 Feature=amd,milan Weight=5 State=UNKNOWN\n"
        "NodeName=c[01-10]\nNodeName=DEFAULT Weight=9\nNodeName=d1 CPUs=32\n"
        "PartitionName=DEFAULT MaxTime=2-0 DefMemPerCPU=2000\nPartitionName=p Nodes=c[01-10]\n"
        "PartitionName=q Nodes=d1 MaxTime=INFINITE\n"
    )
    c, d, first = made.nodes
    assert (c.cpus, c.weight, c.features, c.down) == (64, 5, ("amd", "milan"), ())
    assert (d.cpus, d.weight, first.cpus, first.weight) == (32, 9, 2, 1)
    assert [p.max_time for p in made.partitions] == [172800, float("inf")]
    assert {p.default_mem_per_cpu for p in made.partitions} == {2000}


def test_lines_go_on_after_a_backslash_and_end_at_a_hash() -> None:
    made = machine("NodeName=a,b \\\n  CPUs=4 # four\n# NodeName=c CPUs=4\nPartitionName=all \\\n Nodes=a,b\n")
    assert made.cpus == 8
    assert machine("PartitionName=all Nodes=ALL\nNodeName=a CPUs=4 \\").cpus == 4


def test_names_may_have_two_ranges() -> None:
    made = machine("NodeName=r[1-2]n[01-03] CPUs=4\nPartitionName=all Nodes=r1n[01-03],r2n01\n")
    assert made.partitions[0].nodes == ("r1n01", "r1n02", "r1n03", "r2n01")


def test_quoted_values_keep_their_equal_signs() -> None:
    made = machine(PLAIN + 'PartitionName=gpu Nodes=n1 TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=8"\n')
    assert made.partitions[1].billing_weights == {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 8.0}


def test_gpus_take_their_types_from_gres_conf_where_the_counts_agree() -> None:
    text = "GresTypes=gpu\nNodeName=g[1-2] CPUs=8 Gres=gpu:4\nNodeName=h1 CPUs=8 Gres=gpu:v100:no_consume:2,ssd:2K\n"
    gres = (
        "AutoDetect=nvml\nNodeName=g[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"
        "NodeName=g[1-2] Name=gpu Type=h100 Count=2\nNodeName=h1 Name=gpu Type=v100 File=/dev/nvidia[0-1]\n"
    )
    made = machine(text + "PartitionName=all Nodes=ALL\n", gres=gres)
    assert made.nodes[0].gres == {"gpu:a100": 2, "gpu:h100": 2}
    assert made.nodes[1].gres == {"gpu:v100": 2, "ssd": 2048}
    assert machine(text + "PartitionName=all Nodes=ALL\n").nodes[0].gres == {"gpu": 4}


def test_node_sets_name_nodes_and_features() -> None:
    made = machine(
        "NodeName=a[1-2] CPUs=4 Features=fast\nNodeName=b[1-2] CPUs=4\nNodeSet=quick Feature=fast\n"
        "NodeSet=some Nodes=b2\nPartitionName=p Nodes=quick,some\nPartitionName=q Nodes=a[1-2],b1\n"
    )
    assert [p.nodes for p in made.partitions] == [("a1", "a2", "b2"), ("a1", "a2", "b1")]


def test_nodes_out_of_use_are_down() -> None:
    made = machine(
        PLAIN + "NodeName=f[1-2] CPUs=4 State=FUTURE\nNodeName=cloud1 CPUs=4 State=CLOUD\n"
        'DownNodes=n[2-3] State=DRAIN Reason="disk, 3 May"\n'
    )
    assert {name for group in made.nodes for name in group.down} == {"n2", "n3", "f1", "f2"}


def test_settings_are_read_in_any_case_and_weights_mean_multifactor() -> None:
    made = machine(
        PLAIN + "PRIORITYWEIGHTFAIRSHARE=1000\npriorityweightage=10\nPriorityDecayHalfLife=14-0\n"
        "SchedulerParameters=bf_continue,bf_window=2880\nSchedulerParameters+=bf_interval=60\nLicenses=abaqus:50,tool\n"
    )
    assert made.settings["PriorityWeightFairShare"] == "1000"
    assert made.settings["PriorityType"] == "priority/multifactor"
    assert (made.settings["bf_window"], made.settings["bf_interval"]) == ("2880", "60")
    assert made.licenses == {"abaqus": 50, "tool": 1}


def test_words_of_old_files_are_understood() -> None:
    made = machine("NodeName=n1 Procs=16\nPartitionName=p Nodes=n1 Priority=7 Shared=EXCLUSIVE AllowGroups=ALL\n")
    assert made.cpus == 16
    assert (made.partitions[0].priority_tier, made.partitions[0].exclusive) == (7, True)


def test_a_partition_is_made_of_several_lines() -> None:
    made = machine(PLAIN + "PartitionName=p Nodes=n1 MaxTime=10\nPartitionName=p,q PriorityTier=3 Nodes=n2\n")
    assert [(p.name, p.nodes, p.max_time, p.priority_tier) for p in made.partitions[1:]] == [
        ("p", ("n2",), 600, 3),
        ("q", ("n2",), float("inf"), 3),
    ]


def test_preemption_and_limits_come_through() -> None:
    text = PLAIN + "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nPreemptExemptTime=-1\nKillWait=60\n"
    made = machine(text + "PartitionName=low Nodes=ALL PreemptMode=CANCEL GraceTime=120\n")
    assert made.partitions[1].preempt
    assert made.partitions[1].grace_time == 120
    enforced = machine(PLAIN + "AccountingStorageEnforce=limits\n")
    assert any("sacctmgr -P show qos" in name for name in enforced.left_out)
    qos = machine_of(
        {"slurm.conf": PLAIN + "AccountingStorageEnforce=limits\n", "qos.txt": "Name|MaxJobsPU\na|2\n"}, "s"
    )
    assert qos.left_out == ()
    assert qos.qos[0].limits.max_jobs_per_user == 2


def test_what_is_not_modelled_is_named() -> None:
    made = machine(
        PLAIN
        + "TopologyPlugin=topology/tree\nSchedulerParameters=bf_window=10,new_word_of_2030,defer\nMaxNodeCount=99\n"
        "PriorityFlags=FAIR_TREE,MAX_TRES\nPreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\n"
        "NodeName=x1 CPUs=4 CpuSpecList=0,1\nPartitionName=p Nodes=x1 DenyAccounts=a DefMemPerGPU=1000\n"
    )
    assert set(made.left_out) == {
        "TopologyPlugin=tree", "new_word_of_2030", "defer", "nodes that join later (MaxNodeCount)",
        "PriorityFlags=MAX_TRES", "PreemptMode=SUSPEND", "PreemptMode=GANG", "CPUSpecList", "partition DenyAccounts",
        "partition DefMemPerGPU",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NodeName=n1 CPUs=many\n", "site/slurm.conf:1: CPUTot=many (accepted: a whole number"),
        ("ClusterName=c\nInclude nodes.conf\n", "site/slurm.conf:2: Include nodes.conf: no such file"),
        ("NodeName=n1\nPartitionName=p Nodes=n1 MaxTime=soon\n", "site/slurm.conf:2: MaxTime=soon"),
        ("NodeName=n[1-\n" + PLAIN, "site/slurm.conf:1: not a node list"),
        ("Include slurm.conf\n", "slurm.conf:1: Include slurm.conf: includes itself"),
        ("what is this\n", "site/slurm.conf:1: 'what is this' is not a line of a slurm.conf"),
        (PLAIN + "PartitionName=p Nodes=m[1-2]\n", "partition p names m[1-2], which no NodeName= line has"),
        (PLAIN + "SchedulerParameters=bf_window=two\n", "site/slurm.conf:3: bf_window=two"),
        ("PartitionName=p Nodes=ALL\n", "no NodeName="),
        ("NodeName=n1\n", "no PartitionName="),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        machine(text)
    assert said in str(error.value)


def test_includes_are_found_beside_the_file_and_dumps_come_first(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=tin\ninclude /etc/slurm/nodes.conf\nInclude parts.conf\n")
    (tmp_path / "nodes.conf").write_text("NodeName=n[1-4] CPUs=8\n")
    (tmp_path / "parts.conf").write_text("PartitionName=all Nodes=ALL\n")
    assert (open_machine(tmp_path).cpus, open_machine(tmp_path).name) == (32, "tin")
    (tmp_path / "node.txt").write_text("NodeName=n1 CPUTot=8\n")
    assert open_machine(tmp_path).cpus == 8
    assert open_machine(tmp_path / "slurm.conf").cpus == 32
    (tmp_path / "parts.conf").write_text("Include nodes.conf\nInclude parts.conf\n")
    done = batchcast("machine", "capture", tmp_path / "slurm.conf")
    assert done.returncode != 0
    assert "parts.conf:2: Include parts.conf: includes itself" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_include_opens_regular_files_alone_and_shows_no_line_of_them(tmp_path: Path) -> None:
    """A stranger's slurm.conf may include a FIFO, an endless device, or another user's file."""
    site, secret = tmp_path / "site", tmp_path / "secret.txt"
    site.mkdir()
    secret.write_text("root:my-secret-word\n")
    os.mkfifo(tmp_path / "fifo")
    conf = site / "slurm.conf"
    for name in (tmp_path / "fifo", "/dev/zero", tmp_path, "a\0b"):
        conf.write_text(f"NodeName=n1\nPartitionName=p Nodes=n1\nInclude {name}\n")
        with pytest.raises(InputError, match=r"slurm.conf:3: Include .*no such file"):
            open_machine(conf)
    conf.write_text(f"Include {secret}\n")
    with pytest.raises(InputError, match=r"secret.txt:1: this is not a line of a slurm.conf") as error:
        open_machine(conf)
    assert "my-secret-word" not in str(error.value)


def test_superscripts_are_no_numbers() -> None:
    with pytest.raises(InputError, match="not a node list"):
        dumps_of("NodeName=n[1-²]\nPartitionName=p Nodes=ALL\n")
    assert "NodeName=n²" in dumps_of("NodeName=n²\nPartitionName=p Nodes=ALL\n")["node.txt"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NodeName=n[1-1000000]\nPartitionName=p Nodes=ALL", "more than 262144 nodes"),
        ("NodeName=n[1-9999]\nPartitionName=p Nodes=" + "ALL," * 1999 + "ALL", "16777216 names together"),
        ("NodeName=n1\nNodeSet=s Nodes=s\nPartitionName=p Nodes=s", "NodeSet=s names itself"),
        ("NodeName=n1\nNodeSet=s Nodes=t\nNodeSet=t Nodes=s\nPartitionName=p Nodes=s", "NodeSet=s names itself"),
        ("NodeName=n[1-9]\nGresTypes=gpu\nPartitionName=p Nodes=n[" + "1-1000000," * 999 + "1]", "1048576 names"),
        ("NodeName=" + "n" * 5000 + "[1-9]\nPartitionName=p Nodes=ALL", "more than 255 characters"),
    ],
)  # fmt: skip
def test_a_short_text_that_names_millions_of_nodes_is_refused_by_its_ceiling(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dumps_of(text)


def test_each_of_many_sets_that_name_one_set_nine_times_has_its_nodes_once() -> None:
    """Fully expanded, the last of thirty node sets would name its node 9**29 times."""
    sets = "".join(f"NodeSet=s{k} Nodes={','.join([f's{k - 1}'] * 9)}\n" for k in range(1, 30))
    text = dumps_of(f"NodeName=n1\nNodeSet=s0 Nodes=n1\n{sets}PartitionName=p Nodes=s29")["partition.txt"]
    assert text == "PartitionName=p Nodes=n1 \n"
