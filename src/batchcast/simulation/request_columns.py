# SPDX-License-Identifier: Apache-2.0
"""What a log has of a job's request beside its size: dependencies, sharing, wanted nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..cluster.machine import Machine
from ..cluster.request import NodeRequest
from ..table import Trace

WORDS = {
    "dependency": "dependencies",
    "array_throttle": "array throttles",
    "exclusive": "whole nodes",
    "constraint": "features",
    "partition_list": "lists of partitions",
    "reservation": "reservations",
    "licenses": "licenses",
    "nice": "nice",
    "cpus_per_task": "processors a task",
}
"""Columns that complete a request, and their names in a sentence."""
ENDED_WELL = ("completed", None)
_CHOICE = re.compile(r"[|*\[\]()!]")
_SOON = 2.0  # seconds in which Slurm finds a job eligible that nothing holds


class RequestDetails:
    """The rest of each request of a log on a machine.

    What the machine does not have (a feature, a license, a partition) and what is not known of the log's own jobs (one
    it depends on that is not in it) is passed over. A job that neither its dependency nor its throttle holds back waits
    until the log says it was eligible: that is where a hold or a begin time ended.
    """

    def __init__(self, trace: Trace, machine: Machine) -> None:
        self._names = {name: trace.nominal(name).decode() for name in WORDS if _is_nominal(trace, name)}
        self._numbers = {name: trace.number(name).tolist() for name in WORDS if _is_number(trace, name)}
        self._features = {word for group in machine.nodes for word in group.features}
        self._licenses, self._partitions = set(machine.licenses), {p.name for p in machine.partitions}
        self._eligible = trace.number("eligible_time").tolist()
        self._status = trace.nominal("status").decode()
        self._ids = trace.job_id.tolist()
        self._rows = _rows_of(self._ids) if "dependency" in self._names else {}
        self._arrays = trace.job_id.dtype.kind not in "iu"
        self._silent = not (self._names or self._numbers or self._arrays or "eligible_time" in trace.names)

    def complete(self, row: int, request: NodeRequest) -> NodeRequest:
        """The request with what the log tells of it."""
        if self._silent:
            return request
        more = self._of(row, request)
        return replace(request, **more) if more else request

    def sentence(self) -> str:
        """Which of these the log tells, and which it does not."""
        there = [words for name, words in WORDS.items() if name in self._names or name in self._numbers]
        missing = [words for words in WORDS.values() if words not in there]
        known = f"the log tells {', '.join(there)}; " if there else ""
        unknown = f"it does not tell {', '.join(missing)}; " if missing else ""
        held = "a job waits at least until the log says it was eligible"
        return f"{known}{unknown}{held if any(e == e for e in self._eligible) else 'holds and begin times neither'}"

    def _word(self, row: int, column: str) -> str:
        return str(self._names[column][row] or "") if column in self._names else ""

    def _number(self, row: int, column: str) -> float:
        return float(self._numbers[column][row]) if column in self._numbers else 0.0

    def _of(self, row: int, request: NodeRequest) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if features := features_of(self._word(row, "constraint"), self._features):
            more["features"] = features
        if self._number(row, "exclusive") > 0:
            more["exclusive"] = True
            if request.mem_per_cpu == request.mem_per_cpu:  # of the processors asked for, while it gets all of a node
                memory = request.mem_per_cpu * request.cpus / request.min_nodes
                more |= {"mem_per_cpu": math.nan, "mem_per_node": memory}
        if self._number(row, "nice") > 0:
            more["nice"] = int(self._number(row, "nice"))
        if (each := self._number(row, "cpus_per_task")) > 1 and request.tasks % each == 0:
            more |= {"cpus_per_task": int(each), "tasks": request.tasks // int(each)}
        if licenses := licenses_of(self._word(row, "licenses"), self._licenses):
            more["licenses"] = licenses
        if parts := tuple(p for p in self._word(row, "partition_list").split(",") if p in self._partitions):
            more["partitions"] = parts
        if self._word(row, "reservation"):
            more["reservation"] = self._word(row, "reservation")
        if self._arrays and (found := re.fullmatch(r"(\d+)_(\d+)", str(self._ids[row]))):
            most = self._number(row, "array_throttle")
            more |= {"array": found[1], "task": int(found[2]), "throttle": int(most) if most > 0 else 0}
        if text := self._word(row, "dependency"):
            depends, singleton = depends_of(text, self._rows, row)
            more |= {"depends": depends, "singleton": singleton}
        if self._rows and self._status[row] not in ENDED_WELL:
            more["fails"] = True
        held = more.get("depends") or more.get("singleton") or more.get("throttle")
        if self._eligible[row] > request.submit + _SOON and not held:
            more["begin"] = float(self._eligible[row])
        return more


def features_of(text: str, known: set[str]) -> tuple[str, ...]:
    """Features that a node must all have; of a choice (`a|b`) none, and none that no node has.

    >>> features_of("skylake&ib", {"skylake", "ib"}), features_of("a|b", {"a"}), features_of("", {"a"})
    (('skylake', 'ib'), (), ())
    """
    if not text or _CHOICE.search(text):
        return ()
    return tuple(word for word in re.split("[&,]", text) if word in known)


def licenses_of(text: str, known: set[str]) -> Mapping[str, int]:
    """Licenses and how many: `matlab:2,ansys`.

    >>> licenses_of("matlab:2,other", {"matlab"})
    {'matlab': 2}
    """
    pairs = (re.split("[:=]", item.split("@")[0] if ":" not in item else item) for item in text.split(",") if item)
    return {p[0]: int(p[1]) if len(p) > 1 and p[1].isdigit() else 1 for p in pairs if p[0] in known}


def depends_of(text: str, rows: Mapping[str, list[int]], row: int) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Kinds and keys of what a job waits for, as far as the log has it, and whether as a singleton.

    >>> depends_of("afterok:7:8_1,singleton", {"7": [0, 1], "8_1": [3]}, 4)
    ((('afterok', '0'), ('afterok', '1'), ('afterok', '3')), True)
    """
    pairs = []
    for item in re.split("[,?]", text):
        kind, *jobs = item.split(":")
        for job in jobs:
            pairs += [(kind, str(other)) for other in rows.get(job.partition("+")[0], ()) if other != row]
    return tuple(pairs), "singleton" in text


def _rows_of(ids: list[Any]) -> dict[str, list[int]]:
    """Rows by id, and of an array's tasks by the array's."""
    rows: dict[str, list[int]] = {}
    for row, job in enumerate(map(str, ids)):
        rows.setdefault(job, []).append(row)
        if "_" in job:
            rows.setdefault(job.partition("_")[0], []).append(row)
    return rows


def _is_nominal(trace: Trace, name: str) -> bool:
    return name in trace.names and not isinstance(trace.column(name), np.ndarray)


def _is_number(trace: Trace, name: str) -> bool:
    return name in trace.names and isinstance(trace.column(name), np.ndarray)
