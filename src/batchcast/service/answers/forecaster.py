# SPDX-License-Identifier: Apache-2.0
"""Forecasts for jobs that were not submitted: from the collector's saved clock, or one replayed from history.

Also what a script asks for, as such a job.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError, NoAnswer, UsageError
from ...events.live import LiveClock, LiveJob
from ...formats.slurm.sbatch import gpus, processors
from ...job import JobRequest, as_submitted
from ...predict.protocol import Prediction
from ...units import parse_duration, parse_memory
from ..settings import Settings
from . import track_record
from .answer import parse_when
from .disclosure import Site

MOST_REPLAYED = 5000
"""Where no saved clock may be read, so many of the last jobs are replayed, some milliseconds each."""


class Forecaster(NamedTuple):
    """The answering methods of one clock, brought up to one instant.

    The future simulated for an answer is drawn from the one state of that instant: all that are asked for share it.
    """

    clock: LiveClock
    keys: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def wait(self, job: JobRequest) -> Prediction:
        """How long the job would wait if it were submitted now."""
        answer: Prediction = self.clock.predictors[self.keys["wait"]].predict(job, self.clock.state)
        return answer

    def run(self, job: JobRequest) -> Prediction | None:
        """How long it would run; None where no run times are forecast."""
        return self._of("runtime", job)

    def peak(self, job: JobRequest, risk: float | None = None) -> Prediction | None:
        """How much memory the job would hold on a node, KiB; None where accounting measures none.

        With a risk what it needs at most, where enough of its namesakes have ended.
        """
        forecast = self._of("memory", job)
        if forecast is None or risk is None:
            return forecast
        known = self.clock.predictors[self.keys["memory"]].bound(job, risk, forecast)
        return forecast if known is None else known

    def limit(self, job: JobRequest, risk: float) -> Prediction | None:
        """What limit to ask for at a risk, as `predict.recommend` says it; None where no method advises limits."""
        if "limit" not in self.keys:
            return None
        answer: Prediction = self.clock.predictors[self.keys["limit"]].advise(job, self.clock.state, risk)
        return answer

    def method(self, kind: str) -> str:
        """The name of the method that answers for a kind."""
        return str(json.loads(self.keys[kind])[1])

    def _of(self, kind: str, job: JobRequest) -> Prediction | None:
        if kind not in self.keys:
            return None
        answer: Prediction = self.clock.predictors[self.keys[kind]].predict(job, self.clock.state)
        return answer


KINDS = ("wait", "runtime", "memory", "limit")


def forecaster(settings: Settings, site: Site, now: float, kinds: Sequence[str] = KINDS) -> Forecaster:
    """What the collector's clock would answer now, of these kinds. NoAnswer where no job has started yet."""
    if not site.reader.ask("has_started", cluster=site.cluster):
        raise NoAnswer(
            f"no job has started in {site.cluster} since the collector began", hint="ask again when some have"
        )
    first = {kind: next(iter(site.memory.get(f"{kind}_methods") or ()), None) for kind in kinds}
    if "wait" in first:
        first["wait"] = track_record.answering_method(site.memory)
    methods = {json.dumps((kind, name)): (kind, name) for kind, name in first.items() if name}
    keys = {kind: key for key, (kind, _) in methods.items()}
    notes: tuple[str, ...] = ()
    clock = _from_model_store(settings, site, list(methods), now)
    if clock is None:
        clock = _from_history(site, methods, now, settings["machine"])
        notes = (f"learned anew from at most {MOST_REPLAYED} jobs: what the collector keeps cannot be read here",)
    clock.state.now = now
    return Forecaster(clock, keys, notes)


def _from_model_store(settings: Settings, site: Site, keys: list[str], now: float) -> LiveClock | None:
    """The saved clock brought up to now; no model is fitted on the way."""
    from .model_store import clock_path, load, resume

    saved = load(clock_path(settings["store"], site.cluster), keys)
    reached = site.memory.get("told_until") or -math.inf
    if saved is None or saved.told_until > reached or saved.late != site.memory.get("late", 0):
        return None
    saved.clock.only(keys)
    return resume(saved, _known(site, saved.told_until, now), now)


def _from_history(site: Site, methods: Mapping[str, tuple[str, str]], now: float, machine: str) -> LiveClock:
    from .model_store import machine_at, make_predictor, replay

    heard = site.memory.get("heard_since")
    bound = site.reader.ask("nth_last_end", cluster=site.cluster, most=MOST_REPLAYED)
    since = max([-1e300 if heard is None else float(heard), *(row["end_time"] for row in bound)])
    on = machine_at(machine)
    fresh = {key: make_predictor(kind, spec, on if kind == "wait" else None) for key, (kind, spec) in methods.items()}
    return replay(_known(site, since, now), fresh, site.memory, now)


def _known(site: Site, since: float, now: float) -> Iterator[LiveJob]:
    from ...store.rows import live_job

    chosen: dict[str, Any] = {"cluster": site.cluster, "until": now, "since": since}
    return map(live_job, site.reader.each("clock_jobs", **chosen))


def begin_condition(options: Mapping[str, str], now: float) -> tuple[str, float | None]:
    """Why a script's job would not wait for the machine at first, as Slurm would call it, and its begin time.

    >>> [begin_condition(asked, 0.0) for asked in ({"hold": ""}, {"begin": "now+1hour"}, {"dependency": "afterok:7"})]
    [('JobHeldUser', None), ('BeginTime', 3600.0), ('Dependency', None)]
    """
    if "hold" in options:
        return "JobHeldUser", None
    if "begin" in options and (begin := parse_when(options["begin"], now)) > now:
        return "BeginTime", begin
    return ("Dependency", None) if "dependency" in options else ("", None)


def read_script(path: str) -> str:
    """A script's text; - is stdin."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}", hint="give the script you would give sbatch"
        ) from None


def request_of(options: Mapping[str, str], site: Site, user: str, now: float) -> JobRequest:
    """What the script would ask for, with the site's defaults; account, QOS and group as the user's last job had them.

    Slurm knows a user's default account and QOS, a store only what came of them.
    """
    partitions = site.memory.get("site", {}).get("partitions", {})
    name = options.get("partition") or next((p for p, v in partitions.items() if v.get("is_default")), None)
    if partitions and name not in partitions:
        raise UsageError(f"no partition {name!r} (accepted: {', '.join(partitions)})")
    limits = partitions.get(name, {})
    limit = parse_duration(options["time"]) if "time" in options else (limits.get("default_time_s") or math.nan)
    procs, nodes = processors(options)
    last = next(iter(site.reader.ask("latest_of", cluster=site.cluster, user=user)), {})
    values = {
        **{key: last.get(key) for key in ("group_id", "account", "qos")},
        "job_id": "(test)",
        "submit_time": now,
        "req_time": limit,
        "req_procs": procs,
        "req_nodes": nodes,
        "req_mem_kib": parse_memory(options.get("mem", "")) * nodes,
        "req_gpus": gpus(options),
        "user_id": user,
        "queue_id": name,
        "partition_id": name,
        "job_name": options.get("job-name"),
        "work_dir": options.get("chdir"),
        **{key: options[key] for key in ("account", "qos") if key in options},
    }
    return as_submitted(-1, values, procs=procs)
