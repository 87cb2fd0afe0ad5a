# SPDX-License-Identifier: Apache-2.0
"""Read the #SBATCH lines of a job script and submit commands, as far as predictions need the options."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile

from ...columns import COLUMNS
from ...units import parse_memory
from .resources import gpu_type, gres_gpus

_LONG = {
    "p": "partition",
    "A": "account",
    "t": "time",
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "q": "qos",
    "J": "job-name",
    "a": "array",
    "d": "dependency",
    "b": "begin",
    "G": "gpus",
    "H": "hold",
    "C": "constraint",
    "L": "licenses",
    "w": "nodelist",
    "x": "exclude",
}
_FLAGS = frozenset({
    "H", "Q", "v", "vv", "W", "O", "s", "k", "K", "hold", "quiet", "verbose", "wait", "overcommit", "oversubscribe",
    "contiguous", "parsable", "requeue", "no-requeue", "test-only", "no-kill", "spread-job", "use-min-nodes", "reboot",
    "ignore-pbs", "exclusive", "nice", "get-user-env", "kill-on-invalid-dep",
})  # fmt: skip
"""Options without a separate argument; an optional value follows after an equals sign."""

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
GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task", "gres", "tres-per-task")


def not_heard(options: Mapping[str, str]) -> list[str]:
    """Return the options that would affect a job's start and that predictions ignore.

    >>> not_heard({"time": "1:00:00", "nodelist": "n7", "output": "log"})
    ['--nodelist']
    """
    return [f"--{name}" for name in options if name in _NOT_HEARD]


def parse_script(text: str) -> dict[str, str]:
    """Return the options in the #SBATCH lines of a script by their long names; the last occurrence of an option counts.

    >>> parse_script("  #SBATCH -n 99\\n#SBATCH -J run#1 -t 1:00:00 # -n 4\\n")
    {'job-name': 'run#1', 'time': '1:00:00'}
    >>> parse_script("#!/bin/sh\\n#SBATCH -t 1:00:00 --nodes=2\\n#SBATCH --job-name my\\nsrun x\\n#SBATCH -n 9\\n")
    {'time': '1:00:00', 'nodes': '2', 'job-name': 'my'}
    """
    # As in sbatch, `#SBATCH` must be at the beginning of a line (an indented line is a comment), `#` begins a comment
    # only at the start of a word, and reading ends at the first command.
    words: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if match := re.match(r"#SBATCH\s+(.*)", line):
            # A comment begins at the first word with `#` outside quotes.
            words += _words("".join(takewhile(lambda word: not word.startswith("#"), _QUOTED_WORD.findall(match[1]))))
        elif stripped and not stripped.startswith("#"):
            break
    return _options(words)


_QUOTED_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|\S)+|\s+""")


def _words(line: str) -> list[str]:
    """Return the words of a line without their quotes; if a quote is not closed, the line is split at blanks."""
    try:
        return shlex.split(line)
    except ValueError:  # accounting truncates long commands, for example
        return line.split()


@lru_cache(maxsize=4096)
def parse_submit_line(line: str) -> Mapping[str, str]:
    """Return the options of a submit command by long name, without the options after the script's name.

    Options inside the script are not part of the command.

    >>> dict(parse_submit_line("sbatch -p a,b --exclusive --nice=5 -a 0-9%2 job.sh -n 4"))
    {'partition': 'a,b', 'exclusive': '', 'nice': '5', 'array': '0-9%2'}
    """
    return _split(line)[0]


def submitted_command(line: str) -> str:
    """Return the script and its arguments in a submit command; empty if it has none (`--wrap`, a script on stdin).

    >>> submitted_command("sbatch -p a --exclusive runs/job.sh -n 4"), submitted_command("sbatch --wrap 'sleep 1'")
    ('runs/job.sh -n 4', '')
    """
    return " ".join(_split(line)[1])


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


def _split(line: str) -> tuple[dict[str, str], list[str]]:
    """Return the options of a submit command, and the job script with its arguments."""
    rest: list[str] = []
    return _options(_words(line)[1:], rest), rest


def _options(words: list[str], rest: list[str] | None = None) -> dict[str, str]:
    """Return the sbatch options among words of a line. With `rest`, the words are a command line: parsing ends at the
    script, and `rest` receives the script and its arguments."""
    options: dict[str, str] = {}
    whole, k = rest is not None, 0
    while k < len(words):
        word = words[k]
        k += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif re.match(r"-[A-Za-z]", word):
            name, value, equals = _LONG.get(word[1], word[1]), word[2:], word[2:]
        elif rest is not None:
            rest += words[k - 1 :]
            break
        else:
            continue
        bare = whole and (name in _FLAGS or word.lstrip("-") in _FLAGS)
        if not equals and not bare and k < len(words) and not words[k].startswith("-"):
            value, k = words[k], k + 1
        options[name] = value
    return options


def processors(options: Mapping[str, str]) -> tuple[float, float]:
    """Return the processors and nodes that a script requests; without --nodes, there is 1 node.

    >>> processors({"nodes": "2", "ntasks-per-node": "8"}), processors({"ntasks": "4", "cpus-per-task": "2"})
    ((16.0, 2.0), (8.0, 1.0))
    >>> processors({"gpus": "4", "cpus-per-gpu": "8"}), processors({"ntasks": "2", "tres-per-task": "cpu:8"})
    ((32.0, 1.0), (16.0, 1.0))
    """
    # Processors are tasks times processors per task, or GPUs times processors per GPU.
    nodes = count_of(options.get("nodes", "1"))
    if "cpus-per-gpu" in options and (gpu_count := gpus(options)):
        return gpu_count * count_of(options["cpus-per-gpu"]), nodes
    each = options.get("cpus-per-task") or _per_task(options).get("cpu", "1")
    return _tasks(options) * count_of(each), nodes


def _tasks(options: Mapping[str, str]) -> float:
    """Return the number of tasks: --ntasks, else tasks per GPU times GPUs, else tasks per node times nodes."""
    nodes = count_of(options.get("nodes", "1"))
    if "ntasks" in options:
        return count_of(options["ntasks"])
    if "ntasks-per-gpu" in options and (gpu_count := _gpus_of_job(options)):
        return gpu_count * count_of(options["ntasks-per-gpu"])
    return nodes * count_of(options.get("ntasks-per-node") or "1")


def _per_task(options: Mapping[str, str]) -> dict[str, str]:
    """Return the amounts of --tres-per-task by resource (`cpu=8,gres/gpu:a100:1` or `cpu:8`), without GPU types."""
    items = (item.strip().replace("=", ":").partition(":") for item in options.get("tres-per-task", "").split(","))
    return {name.lower(): rest.rpartition(":")[2] for name, _, rest in items}


def gpus(options: Mapping[str, str]) -> float:
    """Return the number of GPUs that a script requests, from --gpus, per node, per task or --gres; 0 if the script
    requests no GPUs.

    >>> gpus({"gpus": "a100:2"}), gpus({"gpus-per-node": "4", "nodes": "2"}), gpus({"gres": "gpu:a100:2"}), gpus({})
    (2.0, 8.0, 2.0, 0.0)
    >>> gpus({"ntasks": "8", "ntasks-per-gpu": "4"}), gpus({"ntasks": "2", "tres-per-task": "gres/gpu=1"})
    (2.0, 2.0)
    """
    if gpu_count := _gpus_of_job(options):
        return gpu_count
    if "gpus-per-task" in options:
        return _tasks(options) * gres_gpus(f"gpu:{options['gpus-per-task']}")
    if "gres/gpu" in (each := _per_task(options)):
        return _tasks(options) * count_of(each["gres/gpu"])
    if "ntasks-per-gpu" in options and "ntasks" in options:
        return float(math.ceil(count_of(options["ntasks"]) / count_of(options["ntasks-per-gpu"])))
    return 0.0


def gpu_type_of(options: Mapping[str, str]) -> str:
    """Return the type of GPU that a script requests; empty if the script accepts any type, or requests no GPU.

    >>> gpu_type_of({"gpus": "a100:2"}), gpu_type_of({"gres": "gpu:v100:1,tmp:9G"}), gpu_type_of({"gpus": "2"})
    ('a100', 'v100', '')
    """
    named = [f"gpu:{options[name]}" for name in ("gpus", "gpus-per-node", "gpus-per-task") if name in options]
    return gpu_type(",".join([*named, options.get("gres", ""), options.get("tres-per-task", "")]))


def with_gpu_type(options: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the options of a script with another type of GPU; `GPU_OPTIONS` can name one.

    >>> with_gpu_type({"gpus": "a100:2"}, "v100"), with_gpu_type({"gres": "gpu:1", "time": "1"}, "v100")
    ({'gpus': 'v100:2'}, {'gres': 'gpu:v100:1', 'time': '1'})
    """
    changed = dict(options)
    for key in ("gpus", "gpus-per-node", "gpus-per-task"):
        if key in options:
            changed[key] = f"{name}:{options[key].rpartition(':')[2]}"
    for key in ("gres", "tres-per-task"):
        if key in options:
            changed[key] = re.sub(r"(gpu)(?::[A-Za-z_][\w.-]*)?(?=[:=,]|$)", rf"\1:{name}", options[key])
    return changed


def with_gpu_share(options: Mapping[str, str], share: float, *, per_node: bool) -> dict[str, str]:
    """Return the changed GPU options of a script after multiplying its GPUs by `share`; empty if a number would not be
    whole.

    GPUs per node change only with `per_node`, and GPUs per task never: they follow the number of nodes or tasks.

    >>> with_gpu_share({"gpus": "a100:4", "gres": "gpu:2,tmp:9G"}, 0.5, per_node=True)
    {'gpus': 'a100:2', 'gres': 'gpu:1,tmp:9G'}
    >>> with_gpu_share({"gpus": "4", "gres": "gpu:2"}, 2.0, per_node=False)
    {'gpus': '8'}
    >>> with_gpu_share({"gpus": "3"}, 0.5, per_node=True)
    {}
    """
    changed = {}
    for key in ("gpus", "gpus-per-node", "gres") if per_node else ("gpus",):
        items = options[key].split(",") if key in options else []
        scaled = [_with_share(each, share) if key != "gres" or gres_gpus(each) else each for each in items]
        if None in scaled:
            return {}
        if scaled and scaled != items:
            changed[key] = ",".join(filter(None, scaled))
    return changed


def _with_share(item: str, share: float) -> str | None:
    """Return `a100:4` or `4` with the number multiplied by `share` (a missing number is 1); None if the product is not
    whole."""
    kind, _, number = item.rpartition(":")
    kind, number = (kind, number) if number.isdigit() else (item, "1")
    count = int(number) * share
    return None if count % 1 else f"{kind}:{count:g}" if kind else f"{count:g}"


def _gpus_of_job(options: Mapping[str, str]) -> float:
    """Return the GPUs that are requested for the job or per node."""
    nodes = count_of(options.get("nodes", "1"))
    if "gpus" in options:
        return gres_gpus(f"gpu:{options['gpus']}")
    if "gpus-per-node" in options:
        return nodes * gres_gpus(f"gpu:{options['gpus-per-node']}")
    return nodes * gres_gpus(options.get("gres", ""))


def memory_kib(options: Mapping[str, str]) -> float:
    """Return the requested memory of the whole job in KiB, from --mem (per node), --mem-per-cpu or --mem-per-gpu; else
    NaN.

    >>> memory_kib({"mem": "1G", "nodes": "2"}), memory_kib({"ntasks": "4", "mem-per-cpu": "1G"})
    (2097152.0, 4194304.0)
    """
    procs, nodes = processors(options)
    times = {"mem": nodes, "mem-per-cpu": procs, "mem-per-gpu": gpus(options)}
    return next((parse_memory(options[name]) * times[name] for name in times if name in options), math.nan)


def count_of(text: str) -> float:
    """Return the first number in a count such as `2-4`, with at most nine digits; 1 if the text has no number.

    >>> count_of("4-8"), count_of("main"), count_of("0"), count_of("9" * 400)
    (4.0, 1.0, 1.0, 999999999.0)
    """
    match = re.match(r"\d{1,9}", text)
    return float(match[0]) if match and int(match[0]) else 1.0
