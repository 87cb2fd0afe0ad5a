# SPDX-License-Identifier: Apache-2.0
"""Read the #SBATCH lines of a job script and submit commands, as far as predictions need the options."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile

from ...columns import COLUMNS
from ...units import parse_duration, parse_memory
from .resources import gpu_type, gres_gpus

_REQUIRED = (
    "account:A acctg-freq array:a batch bb bbf begin:b chdir:D cluster-constraint clusters:M comment constraint:C "
    "container container-id core-spec:S cores-per-socket cpu-freq cpus-per-gpu cpus-per-task:c deadline delay-boot "
    "dependency:d distribution:m error:e exclude:x export export-file extra extra-node-info:B gid gpu-bind gpu-freq "
    "gpus:G gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input:i job-name:J kill-on-invalid-dep "
    "licenses:L mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile:F "
    "nodelist:w nodes:N ntasks:n ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output:o "
    "partition:p power prefer priority profile qos:q reservation segment signal sockets-per-node switches thread-spec "
    "threads-per-core time:t time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap"
)
_OPTIONAL = "exclusive get-user-env nice propagate no-kill:k oom-kill-step"
_BARE = (
    "consolidate-segments contiguous help:h hold:H ignore-pbs no-requeue overcommit:O oversubscribe:s parsable quiet:Q "
    "reboot requeue spread-job spread-segments stepmgr test-only usage use-min-nodes verbose:v version:V wait:W"
)
_ALIASES = {"tasks-per-node": "ntasks-per-node", "cluster": "clusters", "share": "oversubscribe", "workdir": "chdir"}
_TAKES_VALUE = {  # By long name: True for a value, None for an optional value, which follows an equals sign
    item.partition(":")[0]: takes
    for items, takes in ((_REQUIRED, True), (_OPTIONAL, None), (_BARE, False))
    for item in items.split()
}
_LETTERS = {
    letter: name
    for items in (_REQUIRED, _OPTIONAL, _BARE)
    for name, _, letter in (item.partition(":") for item in items.split())
    if letter
}
HETEROGENEOUS = "hetjob"
"""The option of a request that has several parts with sizes of their own (`#SBATCH hetjob`, ` : `)."""
_NOT_HEARD = frozenset({
    "prefer", "batch", "oversubscribe", "nodelist", "nodefile", "exclude", "reservation",
    "licenses", "gpus-per-socket", "ntasks-per-socket", "ntasks-per-core", "sockets-per-node", "cores-per-socket",
    "threads-per-core", "extra-node-info", "mincpus", "core-spec", "thread-spec", "hint", "switches", "contiguous",
    "overcommit", "spread-job", "use-min-nodes", "time-min", "deadline", "nice", "priority", "tmp", "clusters", "bb",
})  # fmt: skip
"""Options that affect resources or start of a job and that predictions ignore; a note to the user names them."""
NAMED = {
    c.name: c.sbatch
    for c in COLUMNS.values()
    if c.kind == "nominal" and c.sbatch and c.sacct != "SubmitLine" and c.sbatch not in _NOT_HEARD
}
"""Columns that are the texts of options, and the options. Accounting has a field for each of these columns."""
HEARD = (
    "partition", "time", "nodes", "ntasks", "cpus-per-task", "mem", "array", "begin", "dependency", "hold",
    "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "cpus-per-gpu", "ntasks-per-gpu",
    "tres-per-task", "mem-per-cpu", "mem-per-gpu", "exclusive", *NAMED.values(),
)  # fmt: skip
"""Long names of the options that predictions use."""
INPUTS = "inputs"
"""The option of a request that has features of its input files, in JSON, beside sbatch's options."""
GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task", "gres", "tres-per-task")
FLAGS = ("partition", "qos", "nodes", "ntasks", "time", "mem", "constraint", "exclusive", *GPU_OPTIONS)
"""The options of sbatch in a command that a prediction recommends."""


@dataclass(frozen=True)
class Request:
    """What a job's command requests: sbatch's options as they are written, and the numbers that the options mean.

    Each number is read from the options when it is first needed, and once.

    >>> (one := Request({"nodes": "2", "ntasks-per-node": "8", "mem": "1G"})).procs, one.nodes, one.mem_kib
    (16.0, 2.0, 2097152.0)
    >>> Request({"gpus": "4", "cpus-per-gpu": "8"}).procs, Request({"ntasks": "2", "tres-per-task": "cpu:8"}).procs
    (32.0, 16.0)
    >>> Request({"gpus-per-node": "4", "nodes": "2"}).gpus, Request({"ntasks": "2", "tres-per-task": "gres/gpu=1"}).gpus
    (8.0, 2.0)
    """

    options: Mapping[str, str]  # By sbatch's long names without dashes; an option without a value is empty
    command: str = ""  # The script and its arguments in a submit command; empty if it has none (`--wrap`, stdin)

    def replaced(self, options: Mapping[str, str]) -> Request:
        """Return the request with these options in place of its own."""
        return Request({**self.options, **options}, self.command)

    @property
    def partition(self) -> str:
        """The partition; empty without `--partition`."""
        return self.options.get("partition", "")

    @cached_property
    def time_s(self) -> float:
        """The time limit in seconds; NaN without `--time`."""
        return parse_duration(self.options["time"]) if "time" in self.options else math.nan

    @cached_property
    def nodes(self) -> float:
        """The number of nodes, at least 1."""
        return count_of(self.options.get("nodes", "1"))

    @cached_property
    def tasks(self) -> float:
        """The number of tasks: --ntasks, else tasks per GPU times GPUs, else tasks per node times nodes."""
        options = self.options
        if "ntasks" in options:
            return count_of(options["ntasks"])
        if "ntasks-per-gpu" in options and self._gpus_of_job:
            return self._gpus_of_job * count_of(options["ntasks-per-gpu"])
        return self.nodes * count_of(options.get("ntasks-per-node") or "1")

    @cached_property
    def procs(self) -> float:
        """The processors of the whole job."""
        if "cpus-per-gpu" in self.options and self.gpus:
            return self.gpus * count_of(self.options["cpus-per-gpu"])
        return self.tasks * count_of(self.options.get("cpus-per-task") or self._per_task.get("cpu", "1"))

    @property
    def task_procs(self) -> float:
        """The processors of one task by --cpus-per-task."""
        return count_of(self.options.get("cpus-per-task", "1"))

    @cached_property
    def gpus(self) -> float:
        """The GPUs of the whole job, from --gpus, per node, per task or --gres; 0 if the job requests no GPUs."""
        options = self.options
        if self._gpus_of_job:
            return self._gpus_of_job
        if "gpus-per-task" in options:
            return self.tasks * gres_gpus(f"gpu:{options['gpus-per-task']}")
        if "gres/gpu" in self._per_task:
            return self.tasks * count_of(self._per_task["gres/gpu"])
        if "ntasks-per-gpu" in options and "ntasks" in options:
            return float(math.ceil(self.tasks / count_of(options["ntasks-per-gpu"])))
        return 0.0

    @cached_property
    def gpu_type(self) -> str:
        """The type of GPU; empty if the job accepts any type, or requests no GPU."""
        options, named = self.options, ("gpus", "gpus-per-node", "gpus-per-task")
        texts = [f"gpu:{options[name]}" for name in named if name in options]
        return gpu_type(",".join([*texts, options.get("gres", ""), options.get("tres-per-task", "")]))

    @cached_property
    def mem_kib(self) -> float:
        """The memory of the whole job in KiB, from --mem (per node), --mem-per-cpu or --mem-per-gpu; else NaN."""
        times = {"mem": "nodes", "mem-per-cpu": "procs", "mem-per-gpu": "gpus"}
        texts = ((self.options[name], of) for name, of in times.items() if name in self.options)
        return next((parse_memory(text) * float(getattr(self, of)) for text, of in texts), math.nan)

    @property
    def is_exclusive(self) -> bool:
        """Whether the job shares its nodes with no other job."""
        return self.options.get("exclusive", "user") not in ("user", "mcs", "topo")

    @property
    def heard(self) -> dict[str, str]:
        """The options that predictions use."""
        return {name: value for name, value in self.options.items() if name in HEARD or name == INPUTS}

    @property
    def not_heard(self) -> list[str]:
        """The options that would affect the job's start and that predictions ignore, and options that sbatch does not
        have, with dashes.

        >>> Request({"switches": "1", "gres": "gpu:1,shard:2", "bogus": "", "mail-type": "END"}).not_heard
        ['--switches', '--bogus', '--gres=shard:2']
        """
        ignored = [n for n in self.options if n in _NOT_HEARD or not (n in _TAKES_VALUE or n in (*HEARD, INPUTS))]
        gres = [item for item in self.options.get("gres", "").split(",") if item and not gres_gpus(item)]
        return [f"--{name}" for name in ignored] + [f"--gres={item}" for item in gres if item != "none"]

    @property
    def partitions(self) -> list[str]:
        """The partitions of a list such as `main,gpu`; Slurm starts the job in the first partition that has room."""
        return [name for name in self.partition.split(",") if name]

    @property
    def flags(self) -> str:
        """The options for partition, QOS, size, limit, memory and GPUs as a text for sbatch's command line."""
        given = ((name, self.options[name]) for name in FLAGS if name in self.options)
        return " ".join(f"--{name}={shlex.quote(value)}" if value else f"--{name}" for name, value in given)

    def with_gpu_type(self, name: str) -> Request:
        """Return the request with another type of GPU.

        >>> Request({"gpus": "a100:2", "gres": "gpu:1"}).with_gpu_type("v100").options
        {'gpus': 'v100:2', 'gres': 'gpu:v100:1'}
        """
        changed: dict[str, str] = {}
        for key in (key for key in GPU_OPTIONS if key in self.options):
            text = self.options[key]
            if key in ("gres", "tres-per-task"):
                changed[key] = re.sub(r"(gpu)(?::[A-Za-z_][\w.-]*)?(?=[:=,]|$)", rf"\1:{name}", text)
            else:
                changed[key] = f"{name}:{text.rpartition(':')[2]}"
        return self.replaced(changed)

    def with_size(self, share: float) -> Request | None:
        """Return the request with `share` times its nodes, tasks and GPUs, and the same total memory; None if it cannot
        have this size.

        >>> Request({"nodes": "2", "ntasks": "8", "gpus": "4", "mem": "4G"}).with_size(0.5).options
        {'nodes': '1', 'ntasks': '4', 'gpus': '2', 'mem': '8G'}
        >>> Request({"gres": "gpu:a100:2,tmp:9G"}).with_size(0.5).options, Request({"gpus": "3"}).with_size(0.5)
        ({'gres': 'gpu:a100:1,tmp:9G'}, None)
        """
        options, nodes = self.options, self.nodes
        if (nodes * share % 1 and nodes > 1) or "-" in options.get("nodes", ""):
            return None
        size = {"nodes": f"{nodes * share:g}"} if nodes > 1 or (share > 1 and "nodes" in options) else {}
        tasks = count_of(options["ntasks"]) if options.get("ntasks") else 0.0
        if tasks * share >= 1:
            size["ntasks"] = str(round(tasks * share))
        # GPUs per node follow the number of nodes, and GPUs per task the number of tasks
        size |= self._scaled_gpus(share, ("gpus",) if "nodes" in size else ("gpus", "gpus-per-node", "gres"))
        if not size:
            return None
        kib = parse_memory(options.get("mem", ""))
        memory = {"mem": as_request(kib * nodes / float(size.get("nodes", nodes)))} if kib > 0 else {}
        return self.replaced(size | memory)

    def _scaled_gpus(self, share: float, names: tuple[str, ...]) -> dict[str, str]:
        """Return the changed GPU options after multiplying by `share`; empty if a number would not be whole."""
        changed = {}
        for key in names:
            items = self.options[key].split(",") if key in self.options else []
            scaled = [_with_share(each, share) if key != "gres" or gres_gpus(each) else each for each in items]
            if None in scaled:
                return {}
            if scaled and scaled != items:
                changed[key] = ",".join(filter(None, scaled))
        return changed

    @cached_property
    def _per_task(self) -> dict[str, str]:
        """The amounts of --tres-per-task by resource (`cpu=8,gres/gpu:a100:1` or `cpu:8`), without GPU types."""
        texts = self.options.get("tres-per-task", "").split(",")
        items = (item.strip().replace("=", ":").partition(":") for item in texts)
        return {name.lower(): rest.rpartition(":")[2] for name, _, rest in items}

    @cached_property
    def _gpus_of_job(self) -> float:
        """The GPUs that are requested for the job or per node."""
        options = self.options
        if "gpus" in options:
            return gres_gpus(f"gpu:{options['gpus']}")
        each = f"gpu:{options['gpus-per-node']}" if "gpus-per-node" in options else options.get("gres", "")
        return self.nodes * gres_gpus(each)


def parse_script(text: str) -> Request:
    """Return the request in the #SBATCH lines of a script; the last occurrence of an option counts.

    >>> parse_script("  #SBATCH -n 99\\n#SBATCH -J run#1 -t 1:00:00 # -n 4\\n").options
    {'job-name': 'run#1', 'time': '1:00:00'}
    >>> parse_script("#!/bin/sh\\n#SBATCH -t 1:00:00 --nodes=2\\n#SBATCH -J my\\nsrun x\\n#SBATCH -n 9\\n").options
    {'time': '1:00:00', 'nodes': '2', 'job-name': 'my'}
    """
    # As in sbatch, `#SBATCH` must be at the beginning of a line (an indented line is a comment), `#` begins a comment
    # only at the start of a word, and reading ends at the first command.
    words: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if match := re.match(r"#SBATCH\s+(.*)", line):
            # A comment begins at the first word with `#` outside quotes.
            of_line = (word[0] for word in _WORD.finditer(match[1]))
            words += map(_bare, takewhile(lambda word: not word.startswith("#"), of_line))
        elif stripped and not stripped.startswith("#"):
            break
    options = dict(_options(iter(words)))
    parts = {HETEROGENEOUS: ""} if {"hetjob", "packjob"} & set(words) else {}
    return Request({name: value for name, value in options.items() if name} | parts)


_VARIABLES = {"SBATCH_TIMELIMIT": "time", "SBATCH_ARRAY_INX": "array", "SBATCH_MEM_PER_NODE": "mem"} | {
    f"SBATCH_{name.upper().replace('-', '_')}": name
    for name in (
        "account", "partition", "qos", "constraint", "exclusive", "gpus", "gpus-per-node", "gpus-per-task", "gres",
        "job-name", "mem-per-cpu", "mem-per-gpu", "cpus-per-gpu", "reservation", "hint", "core-spec", "thread-spec",
        "threads-per-core", "overcommit", "spread-job", "use-min-nodes", "clusters", "tres-per-task",
    )
}  # fmt: skip
"""Variables that sbatch reads, and the options that they set."""


def of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options that variables such as SBATCH_PARTITION set; in sbatch they replace the script's options.

    >>> of_environment({"SBATCH_TIMELIMIT": "10", "SBATCH_PARTITION": "gpu", "HOME": "/home/ada"})
    {'time': '10', 'partition': 'gpu'}
    """
    return {name: environment[variable] for variable, name in _VARIABLES.items() if variable in environment}


_WORD = re.compile(r"""(?:[^\s'"\\]+|\\.|'[^']*'|"(?:\\.|[^"\\])*"|\S)+""")
"""A word of a command line; a quote that is not closed is part of its word."""


def _bare(word: str) -> str:
    """Return a word without its quotes; if a quote is not closed, the word is returned unchanged."""
    try:
        return "".join(shlex.split(word)) if re.search(r"""['"\\]""", word) else word
    except ValueError:  # accounting truncates long commands, for example
        return word


@lru_cache(maxsize=4096)
def parse_submit_line(line: str) -> Request:
    """Return the request in a submit command, without the options after the script's name.

    Options inside the script are not part of the command.

    >>> one = parse_submit_line("sbatch -p a,b --exclusive --nice=5 -a 0-9%2 runs/job.sh -n 4")
    >>> one.options, one.command
    ({'partition': 'a,b', 'exclusive': '', 'nice': '5', 'array': '0-9%2'}, 'runs/job.sh -n 4')
    >>> parse_submit_line("sbatch -C amd --wrap=srun -C intel ./a.out")
    Request(options={'constraint': 'amd'}, command='')
    """
    # Accounting stores the command without its quotes, so everything after --wrap is the user's command.
    options: dict[str, str] = {}
    words = _Words(line)
    next(words, "")
    for name, value in _options(words):
        if name in ("", "wrap"):
            if value == ":":
                return Request({HETEROGENEOUS: ""})
            return Request(options, "" if name else line[words.begin :].strip())
        options[name] = value
    return Request(options)


class _Words:
    """Iterates over the words of a line without their quotes; `begin` is the position of the last word."""

    def __init__(self, line: str) -> None:
        self._matches, self.begin = _WORD.finditer(line), 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        match = next(self._matches)
        self.begin = match.start()
        return _bare(match[0])


def command_digest(command: str) -> str | None:
    """Return what distinguishes one command of a user from another: a digest of the script's name and its arguments.

    Arguments may hold secrets, so only the digest is kept. The digest ignores the script's folder and replaces digits
    in its name, because predictions treat names that differ only in digits as equal. None if the command is unknown.

    >>> command_digest("/home/ada/a/run_1.sh --steps 10") == command_digest("run_2.sh --steps 10")
    True
    >>> command_digest("run_1.sh --steps 10") == command_digest("run_1.sh --steps 1000"), command_digest("")
    (False, None)
    """
    script, *arguments = command.split() or [""]
    name = re.sub(r"\d+", "#", script.rpartition("/")[2])
    words = "\0".join([name, *arguments]).encode("utf-8", "surrogatepass")
    return hashlib.sha256(words).hexdigest()[:12] if script else None


def _options(words: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the long name and the value of each option among words, and words that belong to no option without a
    name."""
    for word in words:
        if word.startswith("--"):
            text, equals, value = word[2:].partition("=")
            name = _long_name(text)
            yield name, value if equals or not _TAKES_VALUE.get(name) else next(words, "")
        elif len(word) > 1 and word[0] == "-":
            for k, letter in enumerate(word[1:], start=2):  # letters without a value can share one dash
                name = _LETTERS.get(letter, letter)
                takes = _TAKES_VALUE.get(name, False)
                yield name, (word[k:] or (next(words, "") if takes else "")) if takes is not False else ""
                if takes is not False:
                    break
        else:
            yield "", word


@lru_cache(maxsize=1024)
def _long_name(text: str) -> str:
    """Return the option that a long name, an alias or an unambiguous beginning means; other names are unchanged.

    >>> [_long_name(text) for text in ("part", "tasks-per-node", "ntasks-per-n", "tim", "time", "bogus")]
    ['partition', 'ntasks-per-node', 'ntasks-per-node', 'tim', 'time', 'bogus']
    """
    if text in _TAKES_VALUE:
        return text
    matches = {_ALIASES.get(name, name) for name in (*_TAKES_VALUE, *_ALIASES) if name.startswith(text)}
    return _ALIASES.get(text) or (matches.pop() if text and len(matches) == 1 else text)


def _with_share(item: str, share: float) -> str | None:
    """Return `a100:4` or `4` with its number (1 if missing) times `share`; None if the product is not whole."""
    kind, _, number = item.rpartition(":")
    kind, number = (kind, number) if number.isdigit() else (item, "1")
    count = int(number) * share
    return None if count % 1 else f"{kind}:{count:g}" if kind else f"{count:g}"


def as_request(kib: float) -> str:
    """Return an amount for `sbatch --mem`: in whole GiB if possible, else in MiB, rounded up.

    >>> as_request(2097152.0), as_request(1500.0 * 1024 + 1)
    ('2G', '1501M')
    """
    mib = math.ceil(kib / 1024 - 1e-9)
    return f"{mib // 1024}G" if mib >= 1024 and mib % 1024 == 0 else f"{max(mib, 1)}M"


def count_of(text: str) -> float:
    """Return the first number in a count such as `2-4`, with at most nine digits; 1 if the text has no number.

    >>> count_of("4-8"), count_of("main"), count_of("0"), count_of("9" * 400)
    (4.0, 1.0, 1.0, 999999999.0)
    """
    match = re.match(r"\d{1,9}", text)
    return float(match[0]) if match and int(match[0]) else 1.0
