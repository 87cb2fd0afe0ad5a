# SPDX-License-Identifier: Apache-2.0
"""A recorded schedule of a real Slurm: reads submissions, accounting and samples of the queue as requests and
outcomes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from batchcast.errors import InputError, UsageError
from batchcast.formats.slurm.resources import expand
from batchcast.formats.slurm.sbatch import parse_script
from batchcast.formats.slurm.scontrol import gres, read_machine, table
from batchcast.machines.machine import Machine
from batchcast.machines.request import NodeRequest
from batchcast.trace.machine_files import read_texts
from batchcast.units import parse_duration, parse_memory

NEEDED = ("run.json", "node.txt", "partition.txt", "submissions.tsv", "sacct.psv")


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded run: the machine, the jobs as requested, and their schedule by Slurm.

    Times are epoch seconds; `start` is when the record begins. `truth` gives start and end (NaN if it never ran),
    submission, eligibility and processors by (key, task), `nodes` its partition and nodes; `nodes_down` are (node,
    from, to); `samples` are (time, {(key, task): (state, priority)}). `cycles` are the backfill cycles and `polls` the
    passes of the main loop in the logs, `cycle_length` the duration of one test in a cycle, `decay` the first priority
    update, None if the log has none.
    """

    name: str
    config: str
    version: str
    start: float
    machine: Machine
    requests: tuple[NodeRequest, ...]
    truth: Mapping[tuple[str, int], Mapping[str, float]]
    nodes: Mapping[tuple[str, int], tuple[str, tuple[str, ...]]]
    nodes_down: tuple[tuple[str, float, float], ...]
    samples: tuple[tuple[float, Mapping[tuple[str, int], tuple[str, float]]], ...]
    cycles: tuple[float, ...]
    cycle_length: float
    decay: float | None
    polls: tuple[float, ...]

    @property
    def cycle(self) -> float | None:
        """Return the first backfill cycle in the logs."""
        return self.cycles[0] if self.cycles else None

    @property
    def poll(self) -> float | None:
        """Return the first pass of the main loop in the log."""
        return self.polls[0] if self.polls else None


def open_record(folder: str | Path) -> Record:
    """One recorded run. Raises InputError that names a missing file."""
    place = Path(folder)
    texts = read_texts(place) if place.is_dir() else {}
    missing = [name for name in NEEDED if name not in texts]
    if missing:
        raise InputError(
            f"{place}: no recorded run here: {', '.join(missing)} not found", hint="a folder as drive.py writes it"
        )
    return read_record(place.name, texts)


def read_record(name: str, texts: Mapping[str, str]) -> Record:
    """Return the record of one run from its files' texts by file name (without `.xz`)."""
    run = json.loads(texts["run.json"])
    start = float(run["start"])
    node, partition, config, reservation, qos, assoc = (texts.get(f"{name}.txt", "") for name in _DUMPS)
    machine = read_machine(node, partition, config, reservation, qos, assoc)
    rows = [dict(zip(_TITLES, line.split("\t"))) for line in texts["submissions.tsv"].splitlines()[1:]]
    key_of = {row["jobid"]: row["key"] for row in rows if row["action"] == "submit"}
    truth = _truth(table(texts["sacct.psv"]), key_of)
    nodes = _nodes(table(texts["sacct.psv"]), key_of)
    requests = _requests(rows, truth, start)
    cycles, length, decay, polls = _cycles(texts)
    down, samples = _nodes_down(rows, start), _samples(texts.get("squeue.psv", ""), key_of, start)
    return Record(
        name, run["config"], run["version"], start, machine, tuple(requests), truth, nodes, tuple(down), tuple(samples),
        cycles, length, decay, polls,
    )  # fmt: skip


_DUMPS = ("node", "partition", "config", "reservation", "qos", "assoc")
_ANSWER = 0.05  # seconds from the start of sbatch until slurmctld has the job, if a log shows them
_TITLES = ["key", "offset", "action", "user", "account", "run", "step", "args", "jobid", "sent", "answered", "rc"]


def _truth(rows: list[dict[str, str]], key_of: Mapping[str, str]) -> dict[tuple[str, int], dict[str, float]]:
    truth = {}
    for row in rows:
        job, _, task = row["JobID"].partition("_")
        number = {
            k: float(row[k]) if row[k].isdigit() else float("nan") for k in ("Submit", "Eligible", "Start", "End")
        }
        ran = number["Start"] == number["Start"] and bool(row["AllocTRES"])
        tres = dict(item.partition("=")[::2] for item in row["AllocTRES"].split(","))
        eligible = number["Eligible"]
        truth[key_of.get(job, job), int(task) if task.isdigit() else -1] = {
            "submit": number["Submit"],
            "eligible": eligible,
            "start": number["Start"] if ran else float("nan"),
            "end": number["End"],
            "cpus": float(tres.get("cpu", "0")),
            "ok": float(row["State"] == "COMPLETED"),
            "backfilled": float("SchedBackfill" in row["Flags"]),
        }
    return truth


def _nodes(rows: list[dict[str, str]], key_of: Mapping[str, str]) -> dict[tuple[str, int], tuple[str, tuple[str, ...]]]:
    """Return partition and nodes of every job that ran."""
    held = {}
    for row in rows:
        job, _, task = row["JobID"].partition("_")
        key = key_of.get(job, job), int(task) if task.isdigit() else -1
        held[key] = row["Partition"], expand(row["NodeList"])
    return held


def _requests(
    rows: list[dict[str, str]], truth: Mapping[tuple[str, int], Mapping[str, float]], start: float
) -> list[NodeRequest]:
    """Return requests with the recorded run times; a job that never ran has the time it would have slept."""
    jobs: dict[str, list[NodeRequest]] = {}
    for row in rows:
        target = row["args"].lstrip("@")
        if row["action"] == "submit":
            args = re.sub(r"@\+(\d+)", lambda m: str(int(start) + int(m[1])), row["args"]).replace("@", "")
            run, step = float(row["run"]), float(row["step"] or 0)
            request, _ = parse_request(
                args, row["key"], float(row["sent"]) + start, run, user=row["user"], account=row["account"]
            )
            jobs[row["key"]] = [_with_truth(r, run + step * max(r.task, 0), truth) for r in request]
        elif row["action"] == "release":
            jobs[target] = [replace(r, release=float(row["answered"]) + start) for r in jobs[target]]
        elif row["action"] == "cancel":
            jobs[target] = [replace(r, cancel=float(row["answered"]) + start) for r in jobs[target]]
    return [r for request in jobs.values() for r in request]


def _with_truth(r: NodeRequest, run: float, truth: Mapping[tuple[str, int], Mapping[str, float]]) -> NodeRequest:
    true = truth.get((r.key, r.task)) or truth.get((r.key, -1))
    if true is None:
        return replace(r, run=run)
    length = true["end"] - true["start"]
    ran = length == length and r.cancel == float("inf")
    # slurmctld's submit time has whole seconds
    submit = min(max(r.submit + _ANSWER, true["submit"]), true["submit"] + 0.99)
    return replace(r, submit=submit, run=length if ran else run, fails=bool(ran and not true["ok"]))


def _nodes_down(rows: list[dict[str, str]], start: float) -> list[tuple[str, float, float]]:
    spans = []
    for row in rows:
        if row["action"] == "drain":
            back = [float(r["answered"]) + start for r in rows if r["action"] == "resume" and r["args"] == row["args"]]
            spans.append((row["args"], float(row["answered"]) + start, back[0] if back else float("inf")))
    return spans


def _samples(
    text: str, key_of: Mapping[str, str], start: float
) -> list[tuple[float, dict[tuple[str, int], tuple[str, float]]]]:
    """Return the queue at each sample; tasks of an array that was not yet split are listed one by one."""
    samples: dict[float, dict[tuple[str, int], tuple[str, float]]] = {}
    for row in table(text):
        at = samples.setdefault(float(row["offset"]) + start, {})
        job, _, task = row["job"].partition("_")
        match = re.match(r"\[(.*?)(?:%\d+)?\]", task)
        for t in _task_list(match[1]) if match else [int(task) if task else -1]:
            at[key_of.get(job, job), t] = (row["state"], float(row["priority"]))
    return sorted(samples.items())


def _task_list(text: str) -> list[int]:
    spans = [item.partition("-") for item in text.split(",")]
    return [k for low, _, high in spans for k in range(int(low), int(high or low) + 1)]


def _cycles(texts: Mapping[str, str]) -> tuple[tuple[float, ...], float, float | None, tuple[float, ...]]:
    """Return backfill cycles, seconds per test in a cycle, first priority update and passes, from the logs and
    sdiag."""
    log = texts.get("slurmctld.log", "")
    begun = re.findall(r"^\[(\S+)\] sched/backfill: _attempt_backfill: beginning", texts.get("cycles.log", ""), re.M)
    started = re.findall(r"^\[(\S+)\] sched/backfill: _start_job: Started", log, re.M)
    decay = re.findall(r"^\[(\S+)\] priority/multifactor: _read_last_decay_ran", log, re.M)
    sdiag = texts.get("sdiag.txt", "").split("===")[-1]
    mean, depth = (
        re.search(rf"Backfilling stats.*?{word}:\s*(\d+)", sdiag, re.S) for word in ("Mean cycle", "Depth Mean")
    )
    passes = re.findall(r"^\[(\S+)\] sched: Allocate", log, re.M)
    offsets = [[_epoch(text) for text in stamps] for stamps in (begun[1:], started, decay, passes)]
    each = int(mean[1]) / 1e6 / max(int(depth[1]), 1) if mean and depth else 0.0
    return tuple(offsets[0] or offsets[1]), each, offsets[2][0] if offsets[2] else None, tuple(offsets[3])


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


IGNORED = {"chdir", "output", "o", "comment", "wrap", "uid", "gid", "parsable", "requeue", "no-requeue", "mail-type"}
IGNORED |= {"error", "e"}


def parse_request(words: str, key: str, submit: float, run: float, **known: str) -> tuple[list[NodeRequest], list[str]]:
    """Return the job, or the tasks of the array, that these words request; and the options that the model omits.

    `known` provides user and account. Raises UsageError if a value cannot be read.

    >>> (job,), left = parse_request("-p gpu -t10 -n1 -c4 --gres=gpu:a100:2 --mem=16G", "k1", 0, 60)
    >>> job.cpus, job.gres, job.mem_per_node, job.limit, left
    (4, {'gpu:a100': 2}, 16384.0, 600.0, [])
    """
    options = dict(parse_script(f"#SBATCH {words}").options)
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
    """Return pairs of kind and job, and whether `singleton` is among the words."""
    pairs: list[tuple[str, str]] = []
    for item in text.split(","):
        kind, *jobs = item.split(":")
        pairs += [(kind, job) for job in jobs]
    return tuple(pairs), "singleton" in text.split(",")
