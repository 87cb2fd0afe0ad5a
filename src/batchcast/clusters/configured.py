# SPDX-License-Identifier: Apache-2.0
"""Read the `[[cluster]]` tables of `batchcast.toml`: where predictions come from, how to submit, where files are."""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ..errors import InputError, Unreachable, UsageError
from ..formats.slurm.sbatch import GPU_OPTIONS, Request, count_of
from ..service.settings import cluster_tables
from ..units import parse_memory

UNTRANSLATED = {"partition": "every partition is compared", "constraint": "requested without a change"}
TRANSLATED = ("partition", "qos", "account", "constraint", "gpu")
EXAMPLE = """[[cluster]]
name = "beta"
store = "/var/lib/batchcast/beta.db"
submit = "sbatch -M beta"
"""


class Cluster(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[cluster]]` table of the settings file."""

    name: str  # The cluster's name in its batch system (Slurm's ClusterName)
    # The source of predictions for this cluster: the path or URL of a store, or the address of a service (a unix socket
    # or https://HOST). Exactly one of `store` and `service` is set.
    store: str = ""
    service: str = ""
    token_file: str = ""  # A file with the bearer token for `service`
    # The submit command. The command contains the word `sbatch`, for example `sbatch -M beta` or `ssh beta sbatch`.
    submit: str = "sbatch"
    place: str = ""  # Name of the file system that the cluster uses. Default: the cluster's name.
    # For each other file system, the rate at which files can be copied from it (`"100M"` is 100 MiB/s).
    bandwidth: dict[str, str | int | float] = {}
    # For each kind of option (partition, qos, account, constraint, gpu), a table from the word in a script to the word
    # on this cluster.
    translate: dict[str, dict[str, str]] = {}
    # Cores per node, to translate the number of nodes of scripts that fill whole nodes. 0: unknown.
    cores_per_node: int = 0
    # Speed of this cluster relative to the `speed` of the other clusters. 0: unknown; the ratio of run times is then
    # learned from the user's jobs.
    speed: float = 0.0
    patience_s: float = 10.0  # Longest time to wait for an answer of the service, in seconds
    # Whether jobs run on this cluster if batchcast does not choose a cluster. Default: the first cluster.
    home: bool = False

    @property
    def files_at(self) -> str:
        """Return the name of the file system that the cluster uses."""
        return self.place or self.name

    def words(self, program: str) -> list[str]:
        """Return the submit command as words, with another Slurm program in place of `sbatch`.

        >>> Cluster(name="b", submit="ssh login sbatch -M b").words("squeue")
        ['ssh', 'login', 'squeue', '-M', 'b']
        """
        return [program if word == "sbatch" else word for word in shlex.split(self.submit)]

    def ask(self, program: str, *arguments: str, timeout_s: float = 30.0) -> str:
        """Return what one of Slurm's clients prints for this cluster; Unreachable, with the reason, if it fails."""
        command = [*self.words(program), *arguments]
        try:
            done = run_client(command, timeout_s, {"SLURM_TIME_FORMAT": "%s"}, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unreachable(f"{shlex.join(command[:4])} cannot be run: {error}") from None
        if done.returncode:
            raise Unreachable((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
        return done.stdout

    def transfer_s(self, inputs: Sequence[Input]) -> float:
        """Return the seconds to transfer these files one after the other; UsageError if no bandwidth is set.

        >>> Cluster(name="b", bandwidth={"a": "10M"}).transfer_s([Input(1024.0 * 100, "a")])
        10.0
        """
        remote = [each for each in inputs if each.file_system != self.files_at and each.kib]
        if unset := [each.file_system for each in remote if each.file_system not in self.bandwidth]:
            known = ", ".join(self.bandwidth) or "none"
            raise UsageError(f"no bandwidth from {unset[0]} is set in [[cluster]] {self.name} (set: {known})")
        return sum((each.kib / rate_kib(self.bandwidth[each.file_system]) for each in remote), 0.0)


def run_client(
    command: Sequence[str], timeout_s: float, more: Mapping[str, str] = {}, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's clients without SLURM_CLUSTERS and SBATCH_CLUSTERS, which would direct it to other clusters.
    `more` has further environment variables."""
    environment = {k: v for k, v in os.environ.items() if k not in ("SLURM_CLUSTERS", "SBATCH_CLUSTERS")} | dict(more)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environment, **how)


class Input(NamedTuple):
    """An input of a job: its size in KiB, and the name of the file system that has the data."""

    kib: float
    file_system: str


class Configured(NamedTuple):
    """The usable clusters, the home cluster first, and one sentence for each table that cannot be used."""

    clusters: list[Cluster]
    problems: list[str]

    @property
    def home(self) -> Cluster:
        """Return the home cluster, on which jobs run if batchcast does not choose a cluster."""
        return self.clusters[0]

    def require(self) -> None:
        """Raise UsageError, with an example, if no cluster is usable."""
        if not self.clusters:
            example = EXAMPLE.replace("\n", "; ")
            raise UsageError("the settings have no [[cluster]]", hint=f"add to batchcast.toml: {example}")


def configured(environment: Mapping[str, str] | None = None) -> Configured:
    """Read the clusters of the settings file.

    A wrong table is reported and does not affect the other clusters. Without a `[[cluster]]` table, the result has no
    clusters.
    """
    place, tables = cluster_tables(environment)
    clusters: list[Cluster] = []
    problems: list[str] = []
    for number, table in enumerate(tables, 1):
        try:
            clusters.append(_read(table))
        except (msgspec.ValidationError, UsageError) as error:
            name = table.get("name") if isinstance(table, dict) else None
            said = error.message if isinstance(error, UsageError) else str(error)
            problems.append(f"{name or f'[[cluster]] number {number}'}: left out: {place}: {said}")
    names = Counter(one.name.lower() for one in clusters)
    twice = f"left out: {place} has two [[cluster]] of this name: give each its own name"
    problems += [f"{name}: {twice}" for name, count in sorted(names.items()) if count > 1]
    good = [one for one in clusters if names[one.name.lower()] == 1]
    home = next((one for one in good if one.home), None)
    return Configured(sorted(good, key=lambda one: one is not home), problems)


def _read(table: Any) -> Cluster:
    """Convert one `[[cluster]]` table to a cluster, and check conditions that field types cannot express."""
    one = msgspec.convert(table, Cluster)
    if bool(one.store) == bool(one.service):
        raise UsageError("the source of predictions is missing or set twice: give store = PATH or service = ADDRESS")
    if not one.name:
        raise UsageError("name = the cluster's name is missing")
    if "sbatch" not in shlex.split(one.submit):
        raise UsageError(f"submit = {one.submit!r} has no word sbatch (accepted: sbatch -M NAME, ssh HOST sbatch)")
    if strange := sorted(set(one.translate) - set(TRANSLATED)):
        raise UsageError(f"translate has {strange[0]!r} (accepted: {', '.join(TRANSLATED)})")
    for place, rate in one.bandwidth.items():
        if not rate_kib(rate) > 0:
            raise UsageError(f"bandwidth from {place}: {rate!r} (accepted: an amount per second, as 100M or 10G)")
    return one


def rate_kib(text: str | float) -> float:
    """Return a bandwidth in KiB per second; a number without a unit is in MiB per second.

    >>> rate_kib("100M/s"), rate_kib(2)
    (102400.0, 2048.0)
    """
    amount = str(text).strip().removesuffix("/s").removesuffix("iB")
    try:
        return parse_memory(amount)
    except UsageError:
        return math.nan


def inputs_of(texts: Sequence[str], home_files_at: str) -> tuple[list[Input], list[str]]:
    """Parse the texts of `--input` options, PATH|SIZE[@PLACE]; also return one sentence for each missing file.

    >>> inputs_of(["10G@archive"], "home")
    ([Input(kib=10485760.0, file_system='archive')], [])
    """
    from pathlib import Path

    inputs: list[Input] = []
    problems: list[str] = []
    for text in texts:
        what, _, place = text.rpartition("@") if "@" in text else (text, "", "")
        if re.fullmatch(r"\d+(\.\d+)?[KMGTPEkmgtpe]?", what):
            inputs.append(Input(parse_memory(what), place or home_files_at))
            continue
        path = Path(what)
        if not path.exists():
            accepted = f"a file or folder that this computer sees, or its size{f' at {place}' if place else ''}"
            problem = f"--input {text}: there is no {what} here, so its transfer is not counted (accepted: {accepted}:"
            problems.append(f"{problem} 20G@{place or 'PLACE'})")
            continue
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        inputs.append(Input(sum(each.stat().st_size for each in files) / 1024.0, place or home_files_at))
    return inputs, problems


def chosen(names: str | None, configuration: Configured) -> Configured:
    """Return the clusters that `names` lists, for example `alpha,beta`; all clusters if `names` is None or empty.

    Raises InputError if no `[[cluster]]` has one of the names.
    """
    if not names:
        return configuration
    wanted = [name.strip().lower() for name in names.split(",")]
    there = {one.name.lower() for one in configuration.clusters}
    if strange := [name for name in wanted if name not in there]:
        listed = ", ".join(one.name for one in configuration.clusters)
        raise InputError(f"no [[cluster]] {strange[0]!r} in the settings (there are: {listed})")
    return configuration._replace(clusters=[one for one in configuration.clusters if one.name.lower() in wanted])


def translated(request: Request, home: Cluster, target: Cluster) -> tuple[Request, list[str]]:
    """Return a script's request for the cluster `target`, and one sentence for each option that no table translates.

    If the partition has no translation, every partition of the cluster is compared. An account or a QOS without a
    translation raises UsageError, because sbatch would read the name from the script and reject the job. Node features
    and GPU types without a translation are passed on unchanged: clusters often use the same names, and Slurm rejects
    unknown ones.

    >>> home, beta = Cluster(name="a"), Cluster(name="b", translate={"qos": {"long": "week"}})
    >>> there, notes = translated(Request({"partition": "main", "qos": "long"}), home, beta)
    >>> there.options, notes
    ({'qos': 'week'}, ["b: no translation of partition 'main': every partition is compared"])
    """
    if target.name == home.name:
        return request, []
    options, new, notes = request.options, dict(request.options), list[str]()
    for kind in ("partition", "qos", "account", "constraint"):
        if kind not in options:
            continue
        if word := target.translate.get(kind, {}).get(options[kind]):
            new[kind] = word
        elif kind in UNTRANSLATED:
            notes.append(f"{target.name}: no translation of {kind} {options[kind]!r}: {UNTRANSLATED[kind]}")
            if kind == "partition":
                del new[kind]
        else:
            raise UsageError(
                f"no translation of {kind} {options[kind]!r}: add {options[kind]} = ... to [cluster.translate.{kind}]"
            )
    notes += _gpus(new, target)
    _nodes(new, home.cores_per_node, target.cores_per_node)
    return Request(new), notes


def _gpus(options: dict[str, str], target: Cluster) -> list[str]:
    """Translate GPU types in place; return one sentence for each type that is not in the table."""
    table, notes = target.translate.get("gpu", {}), []
    for name in filter(options.get, GPU_OPTIONS):
        parts = re.split(r"([:,/=])", options[name])
        for k, word in enumerate(parts):
            if word in table:
                parts[k] = table[word]
            elif word and re.fullmatch(r"[A-Za-z]\w*", word) and word not in ("gpu", "gres"):
                notes.append(f"{target.name}: no translation of GPU type {word!r}: requested without a change")
        # if a type is removed, its colon is removed too
        options[name] = re.sub(r":+", ":", "".join(parts)).strip(":")
    return notes


def _nodes(options: dict[str, str], home: int, target: int) -> None:
    """Change nodes and tasks per node in place, if the script fills whole nodes of the home cluster or its tasks do not
    fit on a node of the other cluster.

    `home` and `target` are the cores per node of the home and of the other cluster; 0 means unknown.

    >>> asked = {"nodes": "2", "ntasks-per-node": "64"}
    >>> _nodes(asked, 64, 128)
    >>> asked
    {'nodes': '1', 'ntasks-per-node': '128'}
    """
    if not target or not options.get("nodes", "").isdigit() or not options.get("ntasks-per-node", "").isdigit():
        return
    nodes, tasks = int(options["nodes"]), int(options["ntasks-per-node"])
    each = int(count_of(options.get("cpus-per-task") or "1"))
    if tasks * each != home and tasks * each <= target:
        return
    fit = max(target // each, 1)
    fewest = math.ceil(nodes * tasks / fit)
    options["nodes"], options["ntasks-per-node"] = str(fewest), str(math.ceil(nodes * tasks / fewest))
