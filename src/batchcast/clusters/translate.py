# SPDX-License-Identifier: Apache-2.0
"""Translate a script's options for another cluster, by the tables of its `[[cluster]]`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from ..errors import UsageError
from ..formats.slurm.sbatch import count_of
from .configured import Cluster

_GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task", "gres", "tres-per-task")


def translated(options: Mapping[str, str], home: Cluster, there: Cluster) -> tuple[dict[str, str], list[str]]:
    """Return the options for the cluster, and one sentence for each option that no table translates.

    Without a translation of the partition, every partition is compared. An account or a QOS without a translation is
    a UsageError: sbatch would read it from the script and reject the job. Features and types of GPU are passed on: they
    often have the same name, and Slurm rejects an unknown one.

    >>> home, beta = Cluster(name="a"), Cluster(name="b", translate={"qos": {"long": "week"}})
    >>> translated({"partition": "main", "qos": "long"}, home, beta)
    ({'qos': 'week'}, ["b: no translation of partition 'main': every partition is compared"])
    """
    if there.name == home.name:
        return dict(options), []
    new, notes = dict(options), []
    for kind in ("partition", "qos", "account", "constraint"):
        if kind not in options:
            continue
        word = there.translate.get(kind, {}).get(options[kind])
        if word:
            new[kind] = word
        elif kind == "partition":
            del new[kind]
            notes.append(f"{there.name}: no translation of partition {options[kind]!r}: every partition is compared")
        elif kind == "constraint":
            notes.append(f"{there.name}: no translation of constraint {options[kind]!r}: requested as it is")
        else:
            raise UsageError(
                f"no translation of {kind} {options[kind]!r}: add {options[kind]} = ... to [cluster.translate.{kind}]"
            )
    notes += _gpus(new, there)
    _nodes(new, home.cores_per_node, there.cores_per_node)
    return new, notes


def _gpus(options: dict[str, str], there: Cluster) -> list[str]:
    """Translate GPU types in place; return one sentence for each type that is not in the table."""
    table, notes = there.translate.get("gpu", {}), []
    for name in _GPU_OPTIONS:
        parts = re.split(r"([:,/=])", options.get(name, ""))
        for k, word in enumerate(parts):
            if word in table:
                parts[k] = table[word]
            elif word and re.fullmatch(r"[A-Za-z]\w*", word) and word not in ("gpu", "gres"):
                notes.append(f"{there.name}: no translation of GPU type {word!r}: requested as it is")
        if name in options:
            text = re.sub(r":+", ":", "".join(parts)).strip(":")  # a type that is left out leaves its colon
            options[name] = text
    return notes


def _nodes(options: dict[str, str], here: int, there: int) -> None:
    """Change nodes and tasks per node in place, if the script fills whole nodes here or does not fit on nodes there.

    >>> asked = {"nodes": "2", "ntasks-per-node": "64"}
    >>> _nodes(asked, 64, 128)
    >>> asked
    {'nodes': '1', 'ntasks-per-node': '128'}
    """
    if not there or not options.get("nodes", "").isdigit() or not options.get("ntasks-per-node", "").isdigit():
        return
    nodes, tasks = int(options["nodes"]), int(options["ntasks-per-node"])
    each = int(count_of(options.get("cpus-per-task") or "1"))
    if tasks * each != here and tasks * each <= there:
        return
    fit = max(there // each, 1)
    fewest = math.ceil(nodes * tasks / fit)
    options["nodes"], options["ntasks-per-node"] = str(fewest), str(math.ceil(nodes * tasks / fewest))
