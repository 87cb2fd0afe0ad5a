"""The words of an sbatch command line as a NodeRequest. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from ..cluster.request import NodeRequest
from ..errors import UsageError
from ..units import parse_duration, parse_memory
from .sbatch import parse_script
from .scontrol_machine import gres

IGNORED = (
    "chdir",
    "output",
    "o",
    "comment",
    "wrap",
    "uid",
    "gid",
    "parsable",
    "requeue",
    "no-requeue",
    "mail-type",
    "error",
    "e",
)


def parse_request(words: str, key: str, submit: float, run: float, **known: str) -> tuple[list[NodeRequest], list[str]]:
    """The job, or the tasks of the array, that these words ask for; and the options that the model leaves out.

    `known` fills user and account. UsageError where a value cannot be read.

    >>> (job,), left = parse_request("-p gpu -t10 -n1 -c4 --gres=gpu:a100:2 --mem=16G", "k1", 0, 60)
    >>> job.cpus, job.gres, job.mem_per_node, job.limit, left
    (4, {'gpu:a100': 2}, 16384.0, 600.0, [])
    """
    options = parse_script(f"#SBATCH {words}")
    take = options.pop
    low, _, high = take("nodes", "").partition("-")
    asked_tasks, per_node = int(take("ntasks", "0")), int(take("ntasks-per-node", "0"))
    memory, per_cpu = take("mem", ""), take("mem-per-cpu", "")
    kinds, singleton = _depends(take("dependency", ""))
    job = NodeRequest(
        key,
        submit,
        run,
        parse_duration(take("time")) if "time" in options else math.nan,
        known.get("user", ""),
        take("account", known.get("account", "")),
        tuple(p for p in take("partition", "").split(",") if p),
        take("qos", ""),
        take("job-name", ""),
        int(low or 1),
        int(high or low or 0),
        asked_tasks,
        per_node,
        int(take("cpus-per-task", "1")),
        _mebibytes(memory) if memory else math.nan,
        _mebibytes(per_cpu) if per_cpu else math.nan,
        gres(take("gres", take("gpus-per-node", ""))),
        tuple(f for f in re.split(r"[&,]", take("constraint", take("C", ""))) if f),
        take("exclusive", None) is not None,
        int(take("nice", "0") or 100),
        float(take("begin", "-inf")),
        math.inf if take("hold", None) is not None else -math.inf,
        depends=kinds,
        singleton=singleton,
        reservation=take("reservation", ""),
        licenses=gres(take("licenses", take("L", ""))),
    )
    array = take("array", "")
    left = [f"--{name}" for name in options if name not in IGNORED]
    return ([job] if not array else [replace(job, array=key, task=t, throttle=n) for t, n in _tasks(array)]), left


def _mebibytes(text: str) -> float:
    value = parse_memory(text if text[-1:].isalpha() else text + "M") / 1024
    return 0.0 if math.isnan(value) else value


def _tasks(text: str) -> list[tuple[int, int]]:
    spans, _, most = text.partition("%")
    tasks: list[int] = []
    for item in spans.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", item)
        if match is None:
            raise UsageError(f"not a list of array tasks: {text!r} (accepted: 0-9, 0-9%2, 1,3,7, 0-9:2)")
        tasks += range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))
    return [(task, int(most or 0)) for task in tasks]


def _depends(text: str) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Pairs of kind and job; whether `singleton` is among the words."""
    pairs: list[tuple[str, str]] = []
    for item in text.split(","):
        kind, *jobs = item.split(":")
        pairs += [(kind, job) for job in jobs]
    return tuple(pairs), "singleton" in text.split(",")
