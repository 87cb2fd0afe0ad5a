# SPDX-License-Identifier: Apache-2.0
"""Read slurm.conf, its included files and gres.conf, and convert them to the output of `scontrol show`.

Because of this conversion, other code reads a machine from one format only, whether it was described by slurm.conf or
by scontrol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...errors import InputError, UsageError
from ...units import parse_duration
from .resources import MOST_NODES, Names, fold

Load = Callable[[str], "str | None"]  # returns the text of an included file, or None if there is no such file

_PAIR = re.compile(r'([A-Za-z_][\w/]*)\s*\+?=\s*("[^"]*"|[^\s"]\S*|)')
_LINE = re.compile(r"\s*(?:include\s+(\S+)|([A-Za-z_]\w*)\s*(\+?=))", re.IGNORECASE)
_TABLES = ("nodename", "partitionname", "nodeset", "downnodes", "frontendname", "switchname", "blockname")
_NODE = {
    "cpus": "CPUTot", "procs": "CPUTot", "boards": "Boards", "sockets": "Sockets", "socketsperboard": "PerBoard",
    "corespersocket": "CoresPerSocket", "threadspercore": "ThreadsPerCore", "realmemory": "RealMemory",
    "memspeclimit": "MemSpecLimit", "corespeccount": "CoreSpecCount", "cpuspeclist": "CPUSpecList", "gres": "Gres",
    "feature": "AvailableFeatures", "features": "AvailableFeatures", "weight": "Weight", "state": "State",
}  # fmt: skip
_PARTITION = (
    "Nodes", "MaxTime", "DefaultTime", "PriorityTier", "PriorityJobFactor", "MaxNodes", "MinNodes", "DefMemPerCPU",
    "DefMemPerNode", "DefMemPerGPU", "OverSubscribe", "LLN", "Default", "State", "QoS", "PreemptMode", "GraceTime",
    "TRESBillingWeights", "ExclusiveUser", "ExclusiveTopo", "MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxMemPerNode",
    "MaxMemPerCPU", "AllowAccounts", "AllowQos", "AllowGroups", "DenyAccounts", "DenyQos", "ReqResv", "JobDefaults",
    "OverTimeLimit",
)  # fmt: skip
_OLDER = {"prioritytier": "priority", "priorityjobfactor": "priority", "oversubscribe": "shared"}
"""Current keys of a partition, and the keys that Slurm used before 16.05."""
_SETTINGS = (
    "AccountingStorageEnforce", "AuthInfo", "BurstBufferType", "ClusterName", "DefMemPerCPU", "DefMemPerNode",
    "EnforcePartLimits", "FederationParameters", "JobRequeue", "JobSubmitPlugins", "KillWait", "Licenses",
    "MaxNodeCount", "MessageTimeout", "OverTimeLimit", "PreemptExemptTime", "PreemptMode", "PreemptParameters",
    "PreemptType", "PriorityCalcPeriod", "PriorityDecayHalfLife", "PriorityFavorSmall", "PriorityFlags",
    "PriorityMaxAge", "PrioritySiteFactorPlugin", "PriorityType", "PriorityUsageResetPeriod", "PriorityWeightAge",
    "PriorityWeightAssoc", "PriorityWeightFairShare", "PriorityWeightJobSize", "PriorityWeightPartition",
    "PriorityWeightQOS", "PriorityWeightTRES", "RequeueExit", "ResumeProgram", "SchedulerParameters", "SchedulerType",
    "SelectType", "SelectTypeParameters", "TopologyPlugin",
)  # fmt: skip
_WHOLE_NUMBERS = (
    "CPUTot", "Boards", "Sockets", "PerBoard", "CoresPerSocket", "ThreadsPerCore", "RealMemory", "MemSpecLimit",
    "CoreSpecCount", "Weight", "PriorityTier", "PriorityJobFactor",
)  # fmt: skip
_NUMBER = re.compile(
    r"(bf_(?!continue|one|hetjob|allow|licenses|busy)\w+|default_queue_depth|sched_interval|requeue_delay)"
)
_USUAL = ("", "UNKNOWN", "CLOUD", "EXTERNAL")  # states in slurm.conf of nodes that run jobs


@dataclass(slots=True)
class Conf:
    """The content of slurm.conf: settings in Slurm's spelling, and nodes, partitions and node sets in order."""

    settings: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[str, dict[str, str]] = field(default_factory=dict)
    sets: dict[str, dict[str, str]] = field(default_factory=dict)
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    expand: Names = field(default_factory=Names)


def dumps_of(text: str, where: str = "slurm.conf", load: Load | None = None, gres: str = "") -> dict[str, str]:
    """Return the texts that scontrol would print for a slurm.conf: `node.txt`, `partition.txt` and `config.txt`.

    >>> texts = dumps_of("NodeName=n[1-2] Sockets=2 CoresPerSocket=8\\nPartitionName=all Nodes=ALL MaxTime=60")
    >>> texts["node.txt"].splitlines()[1]
    'NodeName=n2 CPUTot=16 Sockets=2 ThreadsPerCore=1 State=IDLE'
    """
    # gres.conf adds the types of devices that slurm.conf counts without a type.
    #
    # DEFAULT lines apply to the lines after them, and names of settings are case-insensitive (slurm.conf(5)). Nodes are
    # sorted by name and number, as in slurmctld's table. A node without the key CPUs has sockets times cores times
    # threads. Nodes in state FUTURE or DOWN are down. If weights are set but PriorityType is not, PriorityType becomes
    # priority/multifactor, because weights have no effect otherwise.
    conf = _read(text, where, load)
    for rows, word in ((conf.nodes, "NodeName="), (conf.partitions, "PartitionName=")):
        if not rows:
            raise InputError(f"{where}: no {word} line", hint="check whether these lines are in an included file")
    folder = where.rpartition("/")[0]
    typed = _types(gres, f"{folder}/gres.conf" if folder else "gres.conf", load)
    weights = any(name.startswith("PriorityWeight") for name in conf.settings)
    if weights and "PriorityType" not in conf.settings:
        conf.settings["PriorityType"] = "priority/multifactor"
    return {
        "node.txt": "".join(_node_line(n, conf.nodes[n], typed.get(n, {})) for n in sorted(conf.nodes, key=_by_number)),
        "partition.txt": "".join(_partition_line(name, row, conf, where) for name, row in conf.partitions.items()),
        "config.txt": "".join(f"{name} = {value}\n" for name, value in conf.settings.items()),
    }


def _read(text: str, where: str, load: Load | None) -> Conf:
    """Return the content of slurm.conf and its included files."""
    conf, defaults = Conf(), {"nodename": dict[str, str](), "partitionname": dict[str, str]()}
    for place, kind, words, sign in _lines(text, where, load, (where,)):
        if kind not in _TABLES:
            _settings(conf, words, place, added=sign == "+=")
        elif kind == "nodename":
            row = _spelled_row(words, _NODE, place)
            if words[kind].upper() == "DEFAULT":
                defaults[kind] |= row
            else:
                names = _names(words[kind], place, conf.expand)
                if len(conf.nodes) + len(names) > MOST_NODES:
                    raise InputError(f"{place}: more than {MOST_NODES} nodes (accepted: at most {MOST_NODES})")
                for name in names:
                    conf.nodes[name] = {**conf.nodes.get(name, {}), **defaults[kind], **row}
        elif kind == "partitionname":
            current = {new: words[old] for new, old in _OLDER.items() if old in words}
            row = _spelled_row({**current, **words}, {name.lower(): name for name in _PARTITION}, place)
            if words[kind].upper() == "DEFAULT":
                defaults[kind] |= row
            else:
                for name in words[kind].split(","):
                    conf.partitions[name] = {**defaults[kind], **conf.partitions.get(name, {}), **row}
        elif kind == "nodeset":
            conf.sets[words[kind]] = words
        elif kind == "downnodes":
            for name in _names(words[kind], place, conf.expand):
                conf.nodes.setdefault(name, {})["State"] = words.get("state", "DOWN")
    return conf


def _lines(
    text: str, where: str, load: Load | None, path: tuple[str, ...]
) -> Iterator[tuple[str, str, dict[str, str], str]]:
    """Yield each line of the file and its included files: place (file and line), first key, values by lower-case key,
    and `=` or `+=`."""
    joined = ""
    for number, raw in enumerate((*text.splitlines(), ""), 1):  # the empty line completes a last line with a backslash
        joined += re.sub(r"(?<!\\)#.*", "", raw).rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        line, joined = joined, ""
        if not line.strip():
            continue
        place, match = f"{where}:{number}", _LINE.match(line)
        if match is None:
            # An Include can name any file on the machine, so the message must not show the content of its lines.
            what = repr(line.strip()[:80]) if len(path) == 1 else "this"
            raise InputError(f"{place}: {what} is not a line of a slurm.conf (accepted: Name=value, Include)")
        if match[1]:
            yield from _lines(_included(match[1], place, load, path), match[1], load, (*path, match[1]))
            continue
        words = {name.lower(): value.strip('"') for name, value in _PAIR.findall(line)}
        yield place, match[2].lower(), words, match[3]


def _included(name: str, place: str, load: Load | None, path: tuple[str, ...]) -> str:
    """Return the text of an included file; InputError if it does not exist or includes itself."""
    text = None if load is None or name in path else load(name)
    if text is None:
        why = "includes itself" if name in path else "no such file, or no text file of at most 16 MiB"
        raise InputError(f"{place}: Include {name}: {why}", hint="put the included file beside slurm.conf")
    return text


def _settings(conf: Conf, words: Mapping[str, str], place: str, added: bool) -> None:
    """Store the settings of one line in scontrol's spelling; `added` means that the line uses `+=`."""
    spelled = {name.lower(): name for name in _SETTINGS}
    for key, value in words.items():
        name = spelled.get(key, "")
        if not name:
            continue
        if name in ("PreemptExemptTime", "PriorityUsageResetPeriod") and value == "-1":
            value = "00:00:00"
        before = conf.settings.get(name, "")
        conf.settings[name] = f"{before},{value}" if added and before else value
        if name.startswith("PriorityWeight") and name != "PriorityWeightTRES":
            _check_whole_number(name, value, place)
        for item in value.split(",") if name == "SchedulerParameters" else ():
            word, equals, number = item.strip().partition("=")
            if equals and _NUMBER.fullmatch(word):
                _check_whole_number(word, number, place)


def _spelled_row(words: Mapping[str, str], spelled: Mapping[str, str], place: str) -> dict[str, str]:
    """Return the values of keys in `spelled`, in scontrol's spelling; InputError for a wrong number or time."""
    row = {spelled[name]: value for name, value in words.items() if name in spelled}
    for name in set(_WHOLE_NUMBERS) & set(row):
        _check_whole_number(name, row[name], place)
    for name in {"MaxTime", "DefaultTime"} & set(row):
        try:
            parse_duration(row[name])
        except UsageError:
            what = f"{name}={row[name]} (accepted: minutes, 1-12:00:00, UNLIMITED)"
            raise InputError(f"{place}: {what}") from None
    return row


def _check_whole_number(name: str, value: str, place: str) -> None:
    if not re.fullmatch(r"-?[0-9]{1,18}", value):
        raise InputError(f"{place}: {name}={value or '(nothing)'} (accepted: a whole number, e.g. {name}=16)")


def _names(text: str | tuple[str, ...], place: str, expand: Names) -> tuple[str, ...]:
    """Return the names of a host list, or given names; count them towards the limit on all lists. InputError with the
    place if the list is broken or too long."""
    try:
        return expand(text)
    except UsageError as error:
        raise InputError(f"{place}: {error}") from None


def _by_number(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which n2 comes before n10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.findall(r"\d+|\D+", name)]


def _node_line(name: str, row: Mapping[str, str], typed: Mapping[str, dict[str, int]]) -> str:
    """Return a node as a line of `scontrol show node -o`."""

    def count(key: str, otherwise: int = 1) -> int:
        return int(row.get(key, otherwise))

    sockets = count("Sockets", count("PerBoard") * count("Boards"))
    threads = count("ThreadsPerCore")
    state = row.get("State", "").upper()
    fields = {
        "CPUTot": count("CPUTot", sockets * count("CoresPerSocket") * threads),
        "Sockets": sockets,
        "ThreadsPerCore": threads,
        "State": "IDLE" if state in _USUAL else state,
    }
    printed = ("RealMemory", "MemSpecLimit", "CoreSpecCount", "CPUSpecList", "AvailableFeatures", "Weight")
    fields |= {key: row[key] for key in printed if key in row}
    if row.get("Gres"):
        fields["Gres"] = ",".join(_gres(item, typed) for item in row["Gres"].split(","))
    return f"NodeName={name} " + " ".join(f"{key}={value}" for key, value in fields.items()) + "\n"


def _gres(item: str, typed: Mapping[str, dict[str, int]]) -> str:
    """Return one item of a node's Gres, with K and M expanded, and with the types of gres.conf if the counts agree."""
    words = [word for word in item.split(":") if word.lower() != "no_consume"]
    if scaled := re.fullmatch(r"(\d{1,12})([KMGkmg])", words[-1]):
        words[-1] = str(int(scaled[1]) * 1024 ** (" KMG".index(scaled[2].upper())))
    number = int(words[-1]) if words[-1].isdecimal() and len(words[-1]) < 19 else 1
    types = typed.get(words[0], {})
    if len(words) - words[-1].isdecimal() == 1 and "" not in types and sum(types.values()) == number:
        return ",".join(f"{words[0]}:{kind}:{n}" for kind, n in types.items())
    return ":".join(words)


def _types(text: str, where: str, load: Load | None) -> dict[str, dict[str, dict[str, int]]]:
    """Return the number of devices of each type in gres.conf, by node and name; lines without a node are ignored."""
    devices: dict[str, dict[str, dict[str, int]]] = {}
    expand = Names()
    for place, kind, words, _ in _lines(text, where, load, (where,)):
        if kind not in ("nodename", "name") or "name" not in words or "nodename" not in words:
            continue
        number = words.get("count", "")
        files = words.get("file", words.get("multiplefiles", ""))
        count = int(number) if number.isdecimal() and len(number) < 19 else max(len(_names(files, place, expand)), 1)
        for node in _names(words["nodename"], place, expand):
            types = devices.setdefault(node, {}).setdefault(words["name"], {})
            types[words.get("type", "")] = types.get(words.get("type", ""), 0) + count
    return devices


def _partition_line(name: str, row: Mapping[str, str], conf: Conf, where: str) -> str:
    """Return a partition as a line of `scontrol show partition -o`."""
    fields = " ".join(f"{key}={value}" for key, value in row.items() if key != "Nodes" and value)
    nodes = list(dict.fromkeys(n for item in _items(row.get("Nodes", "")) for n in _members(item, conf, name, where)))
    return f"PartitionName={name} Nodes={fold(nodes)} {fields}\n"


def _items(text: str) -> list[str]:
    """Return the comma-separated items of a list whose items can contain brackets."""
    return [item for item in re.split(r",(?![^\[]*\])", text) if item]


def _members(item: str, conf: Conf, partition: str, where: str, path: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the nodes of ALL, a node set or a host list; `path` lists the node sets that led to this item."""
    if item.upper() == "ALL":
        return _names(tuple(conf.nodes), where, conf.expand)
    if item in path:
        raise InputError(f"{where}: NodeSet={item} names itself (accepted: nodes, a feature or another node set)")
    if item in conf.members:
        return _names(conf.members[item], where, conf.expand)
    if item in conf.sets:
        words, path = conf.sets[item], (*path, item)
        listed = tuple(n for i in _items(words.get("nodes", "")) for n in _members(i, conf, partition, where, path))
        wanted = words.get("feature", "")
        with_feature = (n for n, row in conf.nodes.items() if wanted in row.get("AvailableFeatures", "").split(","))
        conf.members[item] = tuple(dict.fromkeys((*listed, *(with_feature if wanted else ()))))
        return conf.members[item]
    names = _names(item, where, conf.expand)
    if unknown := [n for n in names if n not in conf.nodes]:
        what = f"{where}: partition {partition} names {fold(unknown)}, which no NodeName= line has"
        raise InputError(what, hint="if an included file is missing, put it beside slurm.conf")
    return names
