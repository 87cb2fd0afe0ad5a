# SPDX-License-Identifier: Apache-2.0
"""Translates a script's sbatch options for another cluster, with the `translate` tables of its `[[cluster]]`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from ..errors import UsageError
from ..formats.slurm.sbatch import count_of
from .configured import Cluster

_GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task", "gres", "tres-per-task")


def translated(options: Mapping[str, str], home: Cluster, there: Cluster) -> tuple[dict[str, str], list[str]]:
    """Return a script's options for the cluster `there`, and one sentence for each option that no table translates.

    If the partition has no translation, every partition of the cluster is compared. An account or a QOS without a
    translation raises UsageError, because sbatch would read the name from the script and reject the job. Node features
    and GPU types without a translation are passed on unchanged: clusters often use the same names, and Slurm rejects
    unknown ones.

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
            notes.append(f"{there.name}: no translation of constraint {options[kind]!r}: requested without a change")
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
                notes.append(f"{there.name}: no translation of GPU type {word!r}: requested without a change")
        if name in options:
            text = re.sub(r":+", ":", "".join(parts)).strip(":")  # if a type is removed, its colon is removed too
            options[name] = text
    return notes


def _nodes(options: dict[str, str], here: int, there: int) -> None:
    """Change nodes and tasks per node in place, if the script fills whole nodes of the home cluster or its tasks do not
    fit on a node of the other cluster.

    `here` and `there` are the cores per node of the home and of the other cluster; 0 means unknown.

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
