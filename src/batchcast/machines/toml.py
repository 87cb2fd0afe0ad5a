# SPDX-License-Identifier: Apache-2.0
"""Reads and writes a machine as TOML, and describes it for `batchcast machine show`. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import msgspec

from ..ceilings import parse_toml
from ..errors import InputError, UsageError, input_error
from ..units import span
from .machine import Association, Limits, Machine, NodeGroup, Partition, Qos, Reservation, check_machine

CAPTURE = "batchcast machine capture -o machine.toml"
TABLES = {
    "nodes": ("nodes", NodeGroup),
    "partition": ("partitions", Partition),
    "qos": ("qos", Qos),
    "association": ("associations", Association),
    "reservation": ("reservations", Reservation),
}
"""The tables of a machine's file: the field of `Machine`, and the class of its items."""
Expand = Any  # function that converts a text of node names to a list
Fold = Callable[[Sequence[str]], str]


def write_machine(machine: Machine, fold: Fold) -> str:
    """Return the machine as TOML text; `fold` shortens lists of nodes. The TOML text omits unknown and unlimited
    values.

    Required values are always written, such as `nodes = ""` for an empty partition.
    """
    lines = [f"name = {_value(machine.name)}"]
    lines += [f"left_out = {_value(machine.left_out)}"] if machine.left_out else []
    lines += ["", "[settings]  # names and values as in slurm.conf"]
    lines += [f"{_value(key)} = {_value(value)}" for key, value in machine.settings.items()]
    lines += ["", "[licenses]"] if machine.licenses else []
    lines += [f"{_value(key)} = {_value(value)}" for key, value in machine.licenses.items()]
    for title, (field, _) in TABLES.items():
        for item in getattr(machine, field):
            lines += ["", f"[[{title}]]", *_pairs(item, fold)]
    return "\n".join(lines) + "\n"


def read_machine_toml(text: str, expand: Expand, path: str = "machine.toml") -> Machine:
    """Return the machine described by a TOML text.

    For invalid text, InputError names the table, the key and the accepted values.

    >>> text = '[[nodes]]\\nnames = "n[1-2]"\\ncpus = 16\\n[[partition]]\\nname = "all"\\nnodes = "n[1-2]"'
    >>> read_machine_toml(text, lambda names: ("n1", "n2")).cpus
    32
    """
    table = parse_toml(text, path, CAPTURE)
    if unknown := set(table) - {*TABLES, "settings", "name", "left_out", "licenses"}:
        raise input_error(path, "no such table", value=min(unknown), accepted=", ".join([*TABLES, "settings"]))
    for key in TABLES:
        if not isinstance(table.get(key, []), list) or not all(isinstance(item, dict) for item in table.get(key, [])):
            raise input_error(path, f"{key} is not a list of tables", accepted=f"[[{key}]] before each table")
    given: dict[str, Any] = {key: table[key] for key in ("settings", "name", "left_out", "licenses") if key in table}
    for key, (field, kind) in TABLES.items():
        given[field] = tuple(_item(kind, key, item, expand, path) for item in table.get(key, []))
    if isinstance(given.get("settings"), Mapping):
        given["settings"] = {key: str(value) for key, value in given["settings"].items()}
    machine: Machine = _converted(Machine, given, path)
    if not machine.nodes or not machine.partitions:
        raise InputError(f"{path}: a machine needs [[nodes]] and [[partition]]", hint=CAPTURE)
    check_machine(machine, path)
    known = set(machine.node_names())
    for partition in machine.partitions:
        if strange := [name for name in partition.nodes if name not in known]:
            raise input_error(path, f"partition {partition.name} has a node that is not in [[nodes]]", value=strange[0])
    return machine


def _item(kind: Any, title: str, item: Mapping[str, Any], expand: Expand, path: str) -> Any:
    """Convert a table of the TOML file to an object of class `kind`; InputError for a wrong or missing key."""
    names = {f.name: f for f in fields(kind)}
    limits = {f.name for f in fields(Limits)} if "limits" in names else set[str]()
    where = f"{path}: [[{title}]]"
    given: dict[str, Any] = {}
    for key, value in item.items():
        if key in names and key != "limits":
            is_nodes = key in ("names", "nodes", "down") and isinstance(value, str)
            given[key] = _expanded(value, expand, f"{where} {key}") if is_nodes else value
        elif key in limits:
            given.setdefault("limits", {})[key] = value
        else:
            accepted = ", ".join(sorted((set(names) - {"limits"}) | limits))
            raise input_error(path, f"no such key in [[{title}]]", value=key, accepted=accepted)
    needed = (name for name, f in names.items() if f.default is MISSING and f.default_factory is MISSING)
    if absent := [name for name in needed if name not in given]:
        which = f" {item['name']!r}" if "name" in item else ""
        form = f"{absent[0]} = {FORMS[absent[0]]}"
        raise input_error(path, f"[[{title}]]{which} is not complete: it has no {absent[0]}", accepted=form)
    return _converted(kind, given, where)


FORMS = {
    "names": '"n[1-4]"', "cpus": "16", "name": '"all"', "nodes": '"n[1-4]", or "" for none', "start": "0",
    "end": "3600",
}  # fmt: skip


def _expanded(text: str, expand: Expand, where: str) -> Any:
    """Return the node names that a text such as `n[1-4]` stands for; InputError if the text is invalid."""
    try:
        return expand(text)
    except UsageError as error:
        raise InputError(f"{where}: {error.message}", hint=error.hint) from None


def _converted(kind: Any, given: Mapping[str, Any], where: str) -> Any:
    """Return a TOML table's values as an object of class `kind`; InputError for a value of the wrong type."""
    try:
        return msgspec.convert(given, kind, from_attributes=True)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {str(error).replace(' - at `$', ' - at `')}") from None


def _pairs(item: Any, fold: Fold) -> list[str]:
    """Return the lines of one table, without empty, unknown and unlimited values that are defaults."""
    lines = []
    for f in fields(item):
        value = getattr(item, f.name)
        is_default = f.default_factory is not MISSING or repr(f.default) == repr(value)
        is_nothing = value in ("", (), {}) or (isinstance(value, float) and not math.isfinite(value))
        if f.name == "limits":
            lines += _pairs(value, fold)
        elif not (is_nothing and is_default):
            lines.append(f"{f.name} = {_value(fold(value) if f.name in ('names', 'nodes', 'down') else value)}")
    return lines


def _value(value: Any) -> str:
    """Format a value as TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, str):  # TOML has JSON's escapes, except surrogates, and must escape U+007F too
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value) if isinstance(value, float) else json.dumps(value)


SCHEDULER = ("SchedulerType", "PriorityType", "SelectType", "SelectTypeParameters", "AccountingStorageEnforce")


def describe(machine: Machine, fold: Fold) -> list[str]:
    """Return lines about nodes, partitions, scheduler, limits, reservations, and what the simulation ignores."""
    tuned = {key: value for key, value in machine.settings.items() if key.startswith(("bf_", "sched_"))}
    weights = {k: v for k, v in machine.settings.items() if k.startswith("PriorityWeight") and v not in ("0", "(null)")}
    settings = {key: machine.settings[key] for key in SCHEDULER if key in machine.settings} | tuned | weights
    limits = [(f"qos {q.name}: priority {q.priority:g}", _limits(q.limits)) for q in machine.qos]
    users = [(f"{a.account}{'/' + a.user if a.user else ''}", _limits(a.limits)) for a in machine.associations]
    sections = {
        "nodes": [_describe_group(group, fold) for group in machine.nodes],
        "partitions": [_describe_partition(partition, fold) for partition in machine.partitions],
        "scheduler": [f"{key} = {value}" for key, value in settings.items()],
        "limits": [name + words for name, words in [*limits, *(each for each in users if each[1])]],
        "licenses": [f"{name}: {count:g}" for name, count in machine.licenses.items()],
        "reservations": [
            f"{r.name}: {fold(r.nodes) or 'no nodes'}, {span(r.end - r.start)} {','.join(r.flags)}".rstrip()
            for r in machine.reservations
        ],
    }
    lines = [f"{machine.name or 'machine'}: {len(machine.node_names())} nodes, {machine.cpus} processors"]
    for title, rows in sections.items():
        lines += ["", title, *(f"  {row}" for row in rows)] if rows or title == "scheduler" else []
    return lines + (["", "not modelled: " + ", ".join(machine.left_out)] if machine.left_out else [])


def _describe_group(group: NodeGroup, fold: Fold) -> str:
    """Return a line about equal nodes."""
    memory = f"{group.memory_mib:.0f} MiB" if math.isfinite(group.memory_mib) else ""
    gres = (f"{n} {kind}" for kind, n in group.gres.items())
    size = ", ".join(filter(None, [f"{group.cpus} processors", memory, *gres, ",".join(group.features)]))
    down = f"; down: {fold(group.down)}" if group.down else ""
    return f"{fold(group.names)}: {size}, weight {group.weight}{down}"


def _describe_partition(part: Partition, fold: Fold) -> str:
    """Return a line about a partition."""
    usual = f", {span(part.default_time)} by default" if part.default_time > 0 else ""
    flags = (", default" if part.default else "") + ("" if part.up else ", not up")
    limit = f"limits of {span(part.max_time)} at most{usual}"
    return f"{part.name}: {fold(part.nodes) or 'no nodes'}, {limit}, tier {part.priority_tier}{flags}"


def _limits(limits: Limits) -> str:
    """Return the limits that are set as text that begins with a comma; empty if no limit is set."""
    words = []
    for name in limits.__slots__:
        value = getattr(limits, name)
        if isinstance(value, Mapping) and value:
            words.append(f"{name} {','.join(f'{k}={v:g}' for k, v in value.items())}")
        elif isinstance(value, float) and math.isfinite(value):
            words.append(f"{name} {value:g}")
    return ", " + ", ".join(words) if words else ""
