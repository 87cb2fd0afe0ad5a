# SPDX-License-Identifier: Apache-2.0
"""Predictions for jobs that are not submitted, from the collector's saved clock or a clock replayed from history.

The module also reads the request of a script, and predicts the start for each choice in a web portal's form. A portal
waits only milliseconds, so a long-running process keeps the loaded clock between questions (`renew`).
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from ...errors import BatchcastError, InputError, NoAnswer, Refused, UsageError
from ...events.live import LiveClock, LiveJob
from ...formats.slurm.sbatch import (
    HEARD,
    HETEROGENEOUS,
    INPUTS,
    NAMED,
    Request,
    as_request,
    of_environment,
    parse_script,
)
from ...job import JobRequest, as_submitted
from ...machines.machine import Machine, NodeGroup
from ...predict.protocol import Prediction
from ...store.place import clock_path, machine_path
from ...store.rows import NOTHING, live_job
from ...units import format_duration
from ..settings import Settings, machine_at
from . import track_record
from .answer import Answer, default_partition, nodes_away, of_partition, parse_when, usages
from .disclosure import Site, Viewer, open_site
from .start import basis_of, capped, latest_start, spread_of, start_settings

NO_PRIORITIES = (
    "no machine is known here: priorities, fair-share, QOS, reservations, --constraint and --exclusive are not "
    "simulated, so this prediction may be far off"
)
MOST_REPLAYED = 5000
"""If no saved clock can be read, this many of the latest jobs are replayed, which takes some milliseconds per job."""


class Forecaster(NamedTuple):
    """The predictors that answer users, with the state of a clock at one instant. `methods` names the method of each
    kind of prediction: wait, runtime, memory or limit.

    Queue simulations run once for this state, and all answers share their results. The latest starts that Slurm's
    limits imply are stored in `memory`; no answer is later than the job's latest start plus a margin (`start`).
    """

    clock: LiveClock
    methods: Mapping[str, str]
    notes: tuple[str, ...] = ()
    memory: Mapping[str, Any] = MappingProxyType({})

    def wait(self, job: JobRequest) -> Prediction:
        """Predict how long the job would wait if it were submitted now."""
        now, answer = self.clock.state.now, self._predictor("wait").predict(job, self.clock.state)
        asked = {"row": job.row, "partition_id": job.partition_id, "req_procs": job.procs, "expected_start": None}
        return capped(answer, latest_start(asked, self.memory, now) - now)

    def run(self, job: JobRequest) -> Prediction | None:
        """Predict how long the job would run; None if run times are not predicted."""
        return self._predictor("runtime").predict(job, self.clock.state) if "runtime" in self.methods else None

    def peak(self, job: JobRequest, risk: float | None = None) -> Prediction | None:
        """Predict the job's peak memory per node, KiB; None if accounting measures no memory.

        If a risk is given and enough jobs of the same name have ended, return the upper bound of the need at this risk.
        """
        if "memory" not in self.methods:
            return None
        forecast: Prediction = self._predictor("memory").predict(job, self.clock.state)
        known = None if risk is None else self._predictor("memory").bound(job, risk, forecast)
        return forecast if known is None else known

    def limit(self, job: JobRequest, risk: float) -> Prediction | None:
        """Suggest a time limit at a risk (see `predict.recommend`); None if no method suggests limits."""
        return self._predictor("limit").advise(job, self.clock.state, risk) if "limit" in self.methods else None

    @property
    def machine(self) -> Machine | None:
        """The captured machine on which queue waits are simulated; None if there is none."""
        return getattr(self._predictor("wait"), "machine", None) if "wait" in self.methods else None

    def _predictor(self, kind: str) -> Any:
        """Return the predictor of a kind."""
        return self.clock.predictors[kind, self.methods[kind]]


KINDS = ("wait", "runtime", "memory", "limit")


def forecaster(site: Site, kinds: Sequence[str] = KINDS) -> Forecaster:
    """Return predictors of these kinds with the collector's clock advanced to now. Raises NoAnswer if no job has
    started yet.
    """
    if not site.reader.ask("has_started", cluster=site.cluster):
        why = f"no job has started in {site.cluster} since the collector began"
        raise NoAnswer(why, hint="ask again after some jobs have started")
    if site.memory.get("told_until") is None:  # without a known queue, every job would seem to start at once
        why = f"history of {site.cluster} is still being read"
        raise NoAnswer(why, hint="ask again in a few minutes; batchcast doctor")
    first = {kind: next(iter(site.memory.get(f"{kind}_methods") or ()), None) for kind in kinds}
    if "wait" in first:
        first["wait"] = track_record.answering_method(site.memory)
    methods = {kind: name for kind, name in first.items() if name}
    clock, notes = _loaded(site, methods)
    clock.state.now = site.now
    clock.state.usage, clock.state.nodes_away = usages(site.memory), nodes_away(site.memory)
    ask = Forecaster(clock, methods, memory=site.memory)
    return ask._replace(notes=(*notes, NO_PRIORITIES) if "wait" in methods and ask.machine is None else notes)


def _loaded(site: Site, methods: Mapping[str, str]) -> tuple[LiveClock, tuple[str, ...]]:
    """Return the saved clock, advanced to now without fitting a model. If it cannot be used, return a clock that has
    replayed the latest jobs of the store, and a note.
    """
    from . import model_store

    store, memory = site.settings["store"], site.memory
    machine = machine_at(site.settings["machine"], machine_path(store, site.cluster))

    def fresh() -> dict[model_store.Key, Any]:
        return {key: model_store.make_predictor(*key, machine) for key in methods.items()}

    def jobs(since: float) -> Iterator[LiveJob]:
        """Return the stored jobs that had not left the system before `since` (epoch seconds)."""
        return map(live_job, site.reader.each("clock_jobs", cluster=site.cluster, until=site.now, since=since))

    with suppress(model_store.Unusable):
        saved = model_store.load(clock_path(store, site.cluster), fresh(), memory.get("store_id", ""))
        if saved.told_until <= memory["told_until"] and saved.late == memory.get("late", 0):
            saved.clock.only(methods.items())
            return model_store.resume(saved, jobs(saved.told_until), site.now), ()
    heard = memory.get("heard_since")
    bound = site.reader.ask("nth_last_end", cluster=site.cluster, most=MOST_REPLAYED)
    since = max([-1e300 if heard is None else float(heard), *(row["end_time"] for row in bound)])
    note = f"learned from at most {MOST_REPLAYED} jobs, because the collector's models cannot be read here"
    return model_store.replay(jobs(since), fresh(), memory, site.now), (note,)


def begin_condition(request: Request, now: float) -> tuple[str, float | None]:
    """Return Slurm's reason why a script's job would not be eligible at submission ("" if it is), and its begin time.

    >>> asked = {"hold": ""}, {"begin": "now+1hour"}, {"dependency": "afterok:7"}
    >>> [begin_condition(Request(each), 0.0) for each in asked]
    [('JobHeldUser', None), ('BeginTime', 3600.0), ('Dependency', None)]
    """
    options = request.options
    if "hold" in options:
        return "JobHeldUser", None
    if "begin" in options and (begin := parse_when(options["begin"], now)) > now:
        return "BeginTime", begin
    return ("Dependency", None) if "dependency" in options else ("", None)


def read_request(script: str, overrides: Mapping[str, Any] = {}, inputs: bool = True) -> Request:
    """Return the request of a script, with the variables of sbatch (SBATCH_PARTITION and others) and options of
    sbatch (`overrides`, with underscores) that replace its own.

    Without `--job-name` the job's name is the script's file name. If `script` is a directory, its only batch script is
    read, as if submitted in that directory. The features of the input files in the job's working directory are added as
    the option `inputs`, in JSON, unless `inputs` is False.
    """
    here = os.getcwd()
    if Path(script).is_dir():
        here, script = os.path.abspath(script), script_in(Path(script))
    of_script = {**parse_script(read_script(script)).options, **of_environment(os.environ)}
    _check_parts(of_script)
    options = {"job-name": Path(script).name, "chdir": here, **of_script}
    options |= {"time" if k == "limit" else k.replace("_", "-"): str(v) for k, v in overrides.items() if v is not None}
    options["chdir"] = os.path.join(here, options["chdir"])
    return Request(options | (_inputs_in(options["chdir"]) if inputs else {}))


MOST_SCRIPT = 1 << 20
"""The largest size of a file that counts as a batch script."""


def script_in(directory: Path) -> str:
    """Return the only batch script of a directory; UsageError if there is no script or more than one."""
    files = (path for path in sorted(directory.iterdir()) if path.is_file() and os.access(path, os.R_OK))
    texts = ((str(path), path.read_bytes()) for path in files if path.stat().st_size < MOST_SCRIPT)
    found = [path for path, text in texts if text.startswith(b"#!") and b"\n#SBATCH" in text]
    if len(found) == 1:
        return found[0]
    names = ", ".join(found[:3]) or "none"
    raise UsageError(f"{directory}: expected one script with #SBATCH lines, found {names}", hint="name the script")


def _inputs_in(directory: str) -> dict[str, str]:
    """Return the option `inputs` with features of the input files in a directory; empty if no reader
    recognizes a file.
    """
    from ...trace.input_files import NO_INPUTS, STATUS, Folder, features_at_submission

    try:
        features = features_at_submission(Folder(directory))
    except OSError:
        return {}
    return {} if features[STATUS] == NO_INPUTS else {INPUTS: json.dumps(features, separators=(",", ":"))}


def features_in(request: Request) -> dict[str, float | str]:
    """Return the features in the option `inputs`; UsageError if its value is not a JSON object of features."""
    from ...trace.input_files import checked_features

    try:
        return checked_features(json.loads(request.options.get(INPUTS) or "{}"))
    except (ValueError, RecursionError, InputError):
        accepted = "a JSON object of numbers and texts"
        raise UsageError(f"{INPUTS}: not features of input files (accepted: {accepted})") from None


def read_script(path: str) -> str:
    """Return the text of a script; the path `-` stands for standard input."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        hint = "name the script that you would submit with sbatch"
        raise InputError(f"{path}: cannot be read: {error.strerror}", hint=hint) from None


def _check_parts(options: Mapping[str, str]) -> None:
    """Raise UsageError for a heterogeneous job, because each of its parts has a size of its own."""
    if HETEROGENEOUS in options:
        accepted = "each part in a script of its own"
        raise UsageError(f"a job of several parts (#SBATCH hetjob) cannot be predicted (accepted: {accepted})")


def job_of(request: Request, site: Site, user: str | None = None) -> JobRequest:
    """Return the job of a request, by default the viewer's, with the site's defaults and the user's most frequent
    account, QOS and group.

    The store does not know a user's default account and QOS. The most frequent values among the user's last hundred
    jobs are used instead, because a single job may have requested another account or QOS.
    """
    options, user = request.options, site.viewer.name or "" if user is None else user
    _check_parts(options)
    names: list[str | None] = [*request.partitions] or [default_partition(site.memory) or None]
    for name in names:
        if site.partitions and name is None:
            raise UsageError(f"the cluster has no default partition (accepted: -p with {', '.join(site.partitions)})")
        if site.partitions and name not in site.partitions:
            raise UsageError(f"no partition {name!r} (accepted: {', '.join(site.partitions)})")
    name = names[0]
    usual_limit = of_partition(site.memory, name).get("default_time_s") or math.nan
    last = next(iter(site.reader.ask("usual_of", cluster=site.cluster, user=user)), {})
    values = {
        **last,
        **{name: options[option] for name, option in NAMED.items() if option in options},
        "job_id": "(test)",
        "submit_time": site.now,
        "req_time": request.time_s if "time" in options else usual_limit,
        "req_procs": request.procs,
        "req_nodes": request.nodes,
        "req_mem_kib": request.mem_kib,
        "req_gpus": request.gpus,
        "gpu_type": request.gpu_type or None,
        "user_id": user,
        "queue_id": name,
        "partition_id": name,
        **({"exclusive": 1.0} if request.is_exclusive else {}),
    }
    job = as_submitted(-1, values, procs=request.procs)
    return job._replace(extra={**job.extra, **features_in(request)})


MOST_PROCS = 1e8
"""If the size of the machine is unknown, a job with more processors than this counts as impossible."""


def too_large(site: Site, request: Request, job: JobRequest) -> str:
    """Return why this job would never start, judged by the stored facts about the partition; empty if it can start.

    Nodes that are down count as usable, because they may return to service.
    """
    limits, nodes = of_partition(site.memory, job.partition_id), max(job.req_nodes, 1.0)
    most = min(limits.get("procs") or math.inf, site.memory.get("total_procs") or math.inf)
    if job.procs > MOST_PROCS and most == math.inf:
        return f"no machine has {job.procs:,.0f} processors"
    node_procs, node_kib = limits.get("node_procs") or math.inf, limits.get("node_mem_kib") or math.inf
    if job.req_nodes > (most_nodes := min(limits.get("max_nodes") or math.inf, limits.get("nodes") or math.inf)):
        return f"more nodes than {job.partition_id} gives a job (the most: {most_nodes:g})"
    if job.procs > most:
        return f"larger than {job.partition_id}: it has {most:g} processors"
    if request.task_procs > node_procs:
        one = f"{request.task_procs:g} processors for one task"
        return f"no node of {job.partition_id} has {one} (the most: {node_procs:g})"
    if job.req_mem_kib / nodes > node_kib:
        return f"no node of {job.partition_id} has so much memory (the most: {as_request(node_kib)})"
    if limits.get("max_time_s") and job.req_time > limits["max_time_s"]:
        return f"longer than {job.partition_id} allows ({format_duration(limits['max_time_s'])})"
    return ""


def never_starts(site: Site, request: Request, job: JobRequest, machine: Machine | None) -> str:
    """Return why this job would never start: too large, or no node has a requested feature or GPU; empty if it can.

    An unknown QOS raises UsageError, because sbatch rejects the job.
    """
    if machine is None:
        return too_large(site, request, job)
    options, known = request.options, sorted(qos.name for qos in machine.qos)
    if known and "qos" in options and options["qos"] not in known:
        raise UsageError(f"no QOS {options['qos']!r} (accepted: {', '.join(known)})")
    lacks = _lacks_feature(machine, options.get("constraint", ""), job) or _lacks_gpu(machine, request, job)
    return too_large(site, request, job) or lacks


def _lacks_feature(machine: Machine, constraint: str, job: JobRequest) -> str:
    """Return why no node has the features of `--constraint`; empty if some node has them. As in sbatch, each
    alternative of `a|b` must exist on some node.
    """
    wanted = [word.partition("*")[0].strip() for word in re.split(r"[&|,\[\](){}]", constraint)]
    every = {feature for group in machine.nodes for feature in group.features}
    there = {feature for group, _ in nodes_of(machine, job.partition_id) for feature in group.features}
    for feature in filter(None, wanted):
        if feature not in every:
            return f"no node has the feature {feature!r} (there are: {', '.join(sorted(every)) or 'none'})"
        if feature not in there and "|" not in constraint:
            known = ", ".join(sorted(there)) or "none"
            return f"no node of {job.partition_id} has the feature {feature!r} (there are: {known})"
    return ""


def nodes_of(machine: Machine, partition: Any) -> list[tuple[NodeGroup, int]]:
    """Return the groups of equal nodes in a partition (all nodes if it is unknown), each with its number of nodes."""
    part = machine.partition(str(partition or ""))
    names = set(machine.node_names() if part is None else part.nodes)
    counts = [(group, len(names.intersection(group.names))) for group in machine.nodes]
    return [(group, count) for group, count in counts if count]


def gpus_of(machine: Machine, partition: Any) -> list[tuple[str, int, int]]:
    """Return the GPUs of a partition's nodes: GPU type, GPUs per node, and number of nodes with these GPUs."""
    return [
        (kind.partition(":")[2], each, count)
        for group, count in nodes_of(machine, partition)
        for kind, each in group.gres.items()
        if kind.partition(":")[0] == "gpu"
    ]


def _lacks_gpu(machine: Machine, request: Request, job: JobRequest) -> str:
    """Return why the job's partition never has the requested GPUs; empty if it has them, or if none are requested."""
    wanted, number = request.gpu_type, request.gpus
    if not wanted and not number:
        return ""
    found = gpus_of(machine, job.partition_id)
    there = ", ".join(sorted({kind or "gpu" for kind, _, _ in found})) or "none"
    found = [one for one in found if wanted in ("", one[0].lower())]
    if not found:
        of_type = f" of the type {wanted!r} (there are: {there})" if wanted else ""
        return f"no node of {job.partition_id} has GPUs{of_type}"
    if number > (most := sum(each * nodes for _, each, nodes in found)):
        return f"more GPUs than {job.partition_id} has (the most: {most})"
    per_node = number / max(job.req_nodes, 1.0) if {"gpus-per-node", "gres"} & request.options.keys() else 0.0
    if per_node > (most := max(each for _, each, _ in found)):
        return f"no node of {job.partition_id} has {per_node:g} GPUs (the most: {most})"
    return ""


NEVER = "change the request; sinfo -o '%P %l %s %c %m %f' shows what each partition has"

MOST_CHOICES = 20
OLD_S = 1800.0
"""A loaded clock that is older than this many seconds is loaded again before it answers."""
SHARE = 20.0
"""Loading takes at most 1/20 of the process's time, even on a large site where each load is slow."""


class _LoadedClock(NamedTuple):
    """The loaded clock (`ask`), the store, cluster and instant that it belongs to (`key`), the monotonic time of the
    load (`loaded_at`), and the seconds that the load took (`took`).

    `took` is 0 for the first load: most of its time is spent on compiling, which is not repeated.
    """

    key: tuple[str, str, float | None]
    ask: Forecaster
    loaded_at: float
    took: float


_loaded_clock: _LoadedClock | None = None


def renew(settings: Settings) -> None:
    """Load the collector's clock if it has advanced, and predict once, so that all code is loaded before a question."""
    with open_site(settings, Viewer(None), time.time()) as site:
        _clock(site, 0.0).wait(job_of(Request({}), site, ""))


def answer_choices(settings: Settings, choices: Sequence[str], user: str, viewer: Viewer, now: float) -> Answer:
    """Predict when a job of this user would start with each of the choices, if submitted now; one row each, in order.

    A choice has sbatch's long options in the form of a URL query (`ntasks=4&time=240`). If a choice cannot be answered,
    its row has the reason (`why`) and no times. Raises UsageError for more than `MOST_CHOICES` choices, and Refused for
    another user's job on a private site.

    >>> answer_choices(None, [], "ada", Viewer("ada"), 0.0)
    Traceback (most recent call last):
    batchcast.errors.UsageError: no choice (accepted: choice=ntasks%3D4%26time%3D240, up to 20 of them)
    """
    if not 0 < len(choices) <= MOST_CHOICES:
        many = f"{len(choices)} choices" if choices else "no choice"
        raise UsageError(f"{many} (accepted: choice=ntasks%3D4%26time%3D240, up to {MOST_CHOICES} of them)")
    with open_site(settings, viewer, now) as site:
        if site.private and user != viewer.name:
            raise Refused("jobs are private here", hint="ask for choices for your own job")
        ask = _clock(site, OLD_S)
        rows = [_row(place, text, ask, site, user) for place, text in enumerate(choices)]
        return site.answer(start_settings(settings, now), rows)


def _row(place: int, text: str, ask: Forecaster, site: Site, user: str) -> dict[str, Any]:
    """Return the answer about one choice (`answer_choices`). An option that predictions ignore is an error, so that the
    user notices it.
    """
    row: dict[str, Any] = {"choice": place, "likely_start_s": math.nan, "by_90_start_s": math.nan, "why": ""}
    options = dict(parse_qsl(text))
    try:
        if strange := sorted(set(options) - set(HEARD)):
            raise UsageError(f"no option {strange[0][:40]!r} (accepted: {', '.join(HEARD)})")
        request = Request(options)
        begin = begin_condition(request, site.now)[1] or site.now
        job = job_of(request, site, user)
        if never := never_starts(site, request, job, ask.machine):
            raise NoAnswer(never)
        wait = ask.wait(job)
    except BatchcastError as error:
        return {**row, "why": error.message}
    row |= {"partition": job.partition_id, "procs": job.procs, "limit_s": job.req_time, "why": basis_of(wait)}
    likely, _, late = (math.nan,) * 3 if wait.grounds == NOTHING else spread_of(wait)
    return {**row, "likely_start_s": begin + likely, "by_90_start_s": begin + late}


def _clock(site: Site, old_s: float) -> Forecaster:
    """Return the clock at this instant. The loaded clock is reused if the collector's clock has not advanced, if it was
    loaded at most `old_s` seconds ago, or if loading is so slow that it is too early to repeat it.
    """
    global _loaded_clock
    began = time.monotonic()
    key = (str(site.settings["store"]), site.cluster, site.memory.get("told_until"))
    if _loaded_clock is not None:
        is_young = began - _loaded_clock.loaded_at < max(old_s, SHARE * _loaded_clock.took)
        if _loaded_clock.key == key or (_loaded_clock.key[:2] == key[:2] and is_young):
            _loaded_clock.ask.clock.state.now = site.now
            return _loaded_clock.ask._replace(memory=site.memory)
    ask = forecaster(site, ("wait",))
    _loaded_clock = _LoadedClock(key, ask, began, 0.0 if _loaded_clock is None else time.monotonic() - began)
    return ask
