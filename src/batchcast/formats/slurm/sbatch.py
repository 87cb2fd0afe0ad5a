# SPDX-License-Identifier: Apache-2.0
"""The #SBATCH lines of a script: what would be asked for, as far as a forecast needs it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import lru_cache

from .resources import gres_gpus

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
}
_FLAGS = frozenset({
    "H", "Q", "v", "vv", "W", "O", "s", "k", "K", "hold", "quiet", "verbose", "wait", "overcommit", "oversubscribe",
    "contiguous", "parsable", "requeue", "no-requeue", "test-only", "no-kill", "spread-job", "use-min-nodes", "reboot",
    "ignore-pbs", "exclusive", "nice", "get-user-env", "kill-on-invalid-dep",
})  # fmt: skip
"""Options that take no word after them: what they may be given stands behind an equals sign."""

HEARD = (
    "partition", "account", "time", "nodes", "ntasks", "cpus-per-task", "mem", "job-name", "qos", "array", "begin",
    "dependency", "hold", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "chdir",
)  # fmt: skip
"""The options of a script that a forecast goes by, by their long names."""


def parse_script(text: str) -> dict[str, str]:
    """Options of the #SBATCH lines by long name, the last of each winning; reading ends at the first command.

    >>> parse_script("#!/bin/sh\\n#SBATCH -t 1:00:00 --nodes=2\\n#SBATCH --job-name my\\nsrun x\\n#SBATCH -n 9\\n")
    {'time': '1:00:00', 'nodes': '2', 'job-name': 'my'}
    """
    words: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        match = re.match(r"#SBATCH\s+(.*)", stripped)
        if match:
            try:
                words += shlex.split(match[1], comments=True)
            except ValueError:  # an open quote: the line as it is
                words += match[1].split()
        elif stripped and not stripped.startswith("#"):
            break
    return _options(words)


@lru_cache(maxsize=4096)
def parse_submit_line(line: str) -> Mapping[str, str]:
    """Options by long name of a command as accounting keeps it, up to the script; those inside the script it lacks.

    >>> dict(parse_submit_line("sbatch -p a,b --exclusive --nice=5 -a 0-9%2 job.sh -n 4"))
    {'partition': 'a,b', 'exclusive': '', 'nice': '5', 'array': '0-9%2'}
    """
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote, or cut off
        words = line.split()
    return _options(words[1:], whole=True)


def _options(words: list[str], whole: bool = False) -> dict[str, str]:
    """Options among words; of a `whole` command line those before its script."""
    options: dict[str, str] = {}
    k = 0
    while k < len(words):
        word = words[k]
        k += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif re.match(r"-[A-Za-z]", word):
            name, value, equals = _LONG.get(word[1], word[1]), word[2:], word[2:]
        elif whole:
            break
        else:
            continue
        bare = whole and (name in _FLAGS or word.lstrip("-") in _FLAGS)
        if not equals and not bare and k < len(words) and not words[k].startswith("-"):
            value, k = words[k], k + 1
        options[name] = value
    return options


def processors(options: Mapping[str, str]) -> tuple[float, float]:
    """Processors and nodes of a script: tasks times processors a task; nodes 1 where not given.

    >>> processors({"nodes": "2", "ntasks-per-node": "8"}), processors({"ntasks": "4", "cpus-per-task": "2"})
    ((16.0, 2.0), (8.0, 1.0))
    """
    nodes = count_of(options.get("nodes", "1"))
    per_node = options.get("ntasks-per-node")
    tasks = count_of(options["ntasks"]) if "ntasks" in options else nodes * count_of(per_node or "1")
    return tasks * count_of(options.get("cpus-per-task", "1")), nodes


def gpus(options: Mapping[str, str]) -> float:
    """GPUs of a script: --gpus, or per node or per task times these, or of --gres; 0 where none are asked for.

    >>> gpus({"gpus": "a100:2"}), gpus({"gpus-per-node": "4", "nodes": "2"}), gpus({"gres": "gpu:a100:2"}), gpus({})
    (2.0, 8.0, 2.0, 0.0)
    """
    nodes = count_of(options.get("nodes", "1"))
    if "gpus" in options:
        return gres_gpus(f"gpu:{options['gpus']}")
    if "gpus-per-node" in options:
        return nodes * gres_gpus(f"gpu:{options['gpus-per-node']}")
    if "gpus-per-task" in options:
        per_node = count_of(options.get("ntasks-per-node", "1"))
        tasks = count_of(options["ntasks"]) if "ntasks" in options else nodes * per_node
        return tasks * gres_gpus(f"gpu:{options['gpus-per-task']}")
    return nodes * gres_gpus(options.get("gres", ""))


def count_of(text: str) -> float:
    """A count as an option gives it: its first number, of nine digits at most; 1 where there is none.

    >>> count_of("4-8"), count_of("main"), count_of("0"), count_of("9" * 400)
    (4.0, 1.0, 1.0, 999999999.0)
    """
    match = re.match(r"\d{1,9}", text)
    return float(match[0]) if match and int(match[0]) else 1.0
