"""A machine as TOML, by hand or captured, and back. Pure."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..errors import InputError, input_error
from .machine import Association, Limits, Machine, NodeGroup, Partition, Qos, Reservation

TABLES = {
    "nodes": NodeGroup,
    "partition": Partition,
    "qos": Qos,
    "association": Association,
    "reservation": Reservation,
}
Expand = Any  # a text of node names to the names
Fold = Any


def write_machine(machine: Machine, fold: Fold) -> str:
    """The machine as TOML; `fold` shortens lists of nodes. What is unknown or unlimited is left away."""
    lines = [f"name = {json.dumps(machine.name)}", "", "[settings]  # slurm.conf's words"]
    lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in machine.settings.items()]
    if machine.licenses:
        lines += ["", "[licenses]"]
        lines += [f"{json.dumps(key)} = {value:g}" for key, value in machine.licenses.items()]
    for title, items in (
        ("nodes", machine.nodes),
        ("partition", machine.partitions),
        ("qos", machine.qos),
        ("association", machine.associations),
        ("reservation", machine.reservations),
    ):
        for item in items:
            lines += ["", f"[[{title}]]", *_pairs(item, fold)]
    if machine.left_out:
        lines = [lines[0], f"left_out = {_value(machine.left_out)}", *lines[1:]]
    return "\n".join(lines) + "\n"


def read_machine_toml(text: str, expand: Expand, path: str = "machine.toml") -> Machine:
    """The machine of such a text. InputError names the table, the key and what is accepted.

    >>> text = '[[nodes]]\\nnames = "n[1-2]"\\ncpus = 16\\n[[partition]]\\nname = "all"\\nnodes = "n[1-2]"'
    >>> read_machine_toml(text, lambda names: ("n1", "n2")).cpus
    32
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}", hint="batchcast machine capture -o machine.toml") from None
    unknown = set(table) - {*TABLES, "settings", "name", "left_out", "licenses"}
    if unknown:
        raise input_error(path, "no such table", value=min(unknown), accepted=", ".join([*TABLES, "settings"]))
    items = {
        key: tuple(_item(kind, key, item, expand, path) for item in table.get(key, [])) for key, kind in TABLES.items()
    }
    machine = Machine(
        items["nodes"], items["partition"], items["qos"], items["association"], items["reservation"],
        {key: str(value) for key, value in table.get("settings", {}).items()}, table.get("name", ""),
        tuple(table.get("left_out", ())),
        {key: float(value) for key, value in table.get("licenses", {}).items()},
    )  # fmt: skip
    if not machine.nodes or not machine.partitions:
        raise InputError(f"{path}: a machine needs [[nodes]] and [[partition]]", hint="see docs/machines.md")
    known = set(machine.node_names())
    for partition in machine.partitions:
        strange = [name for name in partition.nodes if name not in known]
        if strange:
            raise input_error(path, f"partition {partition.name} has a node that is in no [[nodes]]", value=strange[0])
    return machine


def _item(kind: Any, title: str, item: Mapping[str, Any], expand: Expand, path: str) -> Any:
    names = {f.name: f for f in fields(kind)}
    limits = {f.name for f in fields(Limits)}
    given: dict[str, Any] = {}
    inside: dict[str, Any] = {}
    for key, value in item.items():
        if key in names and key != "limits":
            nodes = key in ("names", "nodes", "down")
            given[key] = (
                expand(value)
                if nodes and isinstance(value, str)
                else tuple(value)
                if isinstance(value, list)
                else value
            )
        elif "limits" in names and key in limits:
            inside[key] = value
        else:
            accepted = ", ".join(sorted((set(names) - {"limits"}) | (limits if "limits" in names else set())))
            raise input_error(path, f"no such key in [[{title}]]", value=key, accepted=accepted)
    if "limits" in names:
        given["limits"] = Limits(**inside)
    try:
        return kind(**given)
    except TypeError as error:
        raise InputError(f"{path}: [[{title}]] is not complete: {error}") from None


def _pairs(item: Any, fold: Fold) -> list[str]:
    lines = []
    for f in fields(item):
        value = getattr(item, f.name)
        if f.name == "limits":
            lines += _pairs(value, fold)
        elif f.name in ("names", "nodes", "down") and value:
            lines.append(f"{f.name} = {json.dumps(fold(value))}")
        elif value not in ("", (), {}) and not (isinstance(value, float) and not math.isfinite(value)):
            lines.append(f"{f.name} = {_value(value)}")
    return lines


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return json.dumps(value)
