# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus: the state of collector and service, and the outcomes of predictions."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ...errors import BatchcastError
from ...metrics.wait import SIZES, class_of
from ...store.place import sqlite_path
from ..answers import track_record
from ..answers.accuracy import ADVICE_LEVELS, LEVELS, LIMIT, MEMORY, accuracy, advice_record
from ..answers.disclosure import Site, Viewer, may_show, of_complete_days, open_site, rounded
from ..child_process import in_child
from ..log import Log
from ..settings import Settings

WITHIN_S = 30 * 86400.0
OUTCOMES_EVERY_S, OUTCOMES_S = 300.0, 600.0
_PREFIX = "batchcast_"


class Reading(NamedTuple):
    """The value of one Prometheus gauge with its labels."""

    name: str
    meaning: str
    value: float
    labels: Mapping[str, str] = {}


class ServiceMetrics:
    """The metrics of this server: counters of its requests, and gauges whose values are read from the store."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            _PREFIX + "request_seconds", "time to answer a request", ["place", "status"], registry=self.registry,
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0),
        )  # fmt: skip
        self._gauges: dict[str, Gauge] = {}
        self._outcomes_at = -1e300
        self._renewal: asyncio.Task[None] | None = None
        self._refused = Counter(_PREFIX + "refused", "connections and requests refused", ["why"],
                                registry=self.registry)  # fmt: skip
        self._counted: dict[str, int] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._requests.labels(route, str(status)).observe(seconds)

    def renew(self, settings: Settings, log: Log) -> None:
        """Start to compute the outcomes of predictions again, at most once in five minutes. The caller does not wait
        for the result.
        """
        if time.monotonic() - self._outcomes_at > OUTCOMES_EVERY_S and (self._renewal is None or self._renewal.done()):
            self._outcomes_at = time.monotonic()
            self._renewal = asyncio.create_task(self._renew(settings, log))

    async def _renew(self, settings: Settings, log: Log) -> None:
        """Compute the outcomes of predictions in a child process, and set their gauges."""
        try:
            read = await in_child(partial(outcomes, settings), OUTCOMES_S)
            for name in {one.name for one in read} & set(self._gauges):
                self._gauges[name].clear()  # removes the values of groups that have no jobs any more
            self._set(*read)
        except (BatchcastError, OSError, RuntimeError) as error:
            log("metrics", f"metrics: {str(error).splitlines()[0]}", level="error")

    def text(self, connections: int, refused: Mapping[str, int], gauges: Sequence[Reading] | None) -> bytes:
        """Return the text for Prometheus. `gauges` are the values from the store; None if the store could not
        be read.
        """
        self._set(Reading("connections", "connections open", connections))
        for why, count in refused.items():
            self._refused.labels(why).inc(count - self._counted.get(why, 0))
            self._counted[why] = count
        self._set(Reading("store_up", "1 if the store can be read, else 0", gauges is not None), *(gauges or ()))
        return generate_latest(self.registry)

    def _set(self, *readings: Reading) -> None:
        """Set gauges, which are made at their first reading."""
        for name, meaning, value, labels in readings:
            if name not in self._gauges:
                self._gauges[name] = Gauge(_PREFIX + name, meaning, list(labels), registry=self.registry)
            gauge = self._gauges[name]
            (gauge.labels(**labels) if labels else gauge).set(value)


def outcomes(settings: Settings) -> list[Reading]:
    """Return gauges about the outcomes of a store's predictions in the last 30 days."""
    with open_site(settings, Viewer(None), time.time()) as site:
        return list(_outcomes(site))


def store_readings(settings: Settings) -> list[Reading] | None:
    """Return the gauges of a store that are quick to compute; None if the store cannot be read."""
    try:
        with open_site(settings, Viewer(None), time.time()) as site:
            gauges = list(_collector(site.memory, site.cluster, site.now))
            path = sqlite_path(settings["store"])
            if path is not None:
                gauges.append(Reading("store_bytes", "size of the store's file", path.stat().st_size))
            jobs = site.reader.ask("counts", cluster=site.cluster)[0]
            gauges.append(Reading("jobs", "jobs in the store", jobs["jobs"], {"cluster": site.cluster}))
            return gauges
    except BatchcastError:
        return None


def _collector(memory: dict[str, Any], cluster: str, now: float) -> Iterator[Reading]:
    """Yield gauges about the collector and its queries to daemons."""
    here = {"cluster": cluster}
    for name, key, meaning in (
        ("collector_last_look_seconds", "cycle_at", "seconds since the collector's last cycle"),
        ("collector_behind_seconds", "told_until", "seconds by which the live clock is behind"),
    ):
        if memory.get(key) is not None:
            yield Reading(name, meaning, now - memory[key], here)
    yield Reading("events_late", "events that arrived late", memory.get("late", 0) or 0, here)
    for daemon, counter in (memory.get("health") or {}).items():
        its = {"daemon": daemon, **here}
        for key in ("calls", "failures", "seconds"):
            if isinstance(counter.get(key), int | float):
                yield Reading(f"daemon_{key}", f"{key} of queries to a daemon", counter[key], its)
        yield Reading("daemon_up", "1 if the daemon answers, else 0", 0 if counter.get("away_since") else 1, its)


def _outcomes(site: Site) -> Iterator[Reading]:
    """Yield gauges about the outcomes of predictions. If jobs are private, each gauge covers several users."""
    yield from _waits(site)
    since = site.now - WITHIN_S
    for partition in (None, *site.partitions):
        here = {"cluster": site.cluster, "partition": partition or "all"}
        for one in accuracy(site, since, math.inf, partition):
            if one["moment"] == "submit":
                yield from _method(one, here, "s", LEVELS)
        for quantity in (LIMIT, MEMORY):
            for one in advice_record(site, quantity, since, math.inf, partition):
                yield from _method(one, here, "kib", ADVICE_LEVELS)


QUANTILES = (0.5, 0.9)
SIZE_WORDS = ("1", "2-4", "5-16", "17-64", "65+")  # metrics.wait.SIZES in words


def _waits(site: Site) -> Iterator[Reading]:
    """Yield gauges of the waits that ended in the last day, recorded and predicted at submission, by partition and
    size.

    If jobs are private, the gauges cover the complete days of a week, and only groups of at least `least` users.
    """
    least, now, method = site.least, site.now, track_record.answering_method(site.memory)
    days, span = 1.0 if least <= 1 else 7.0, {"since": now - 14 * 86400.0, "until": now, "partition": None}
    rows: list[Mapping[str, Any]] = [
        row for row in site.reader.each("issued", cluster=site.cluster, **span)
        if row["kind"] == "wait" and row["moment"] == "submit" and row["method"] == method
        and row["outcome_s"] is not None and row["start_time"] is not None and row["start_time"] >= now - days * 86400.0
    ]  # fmt: skip
    cells = defaultdict(list)
    for row in of_complete_days(lambda: rows, "start_time", least, now):
        size = class_of(row["req_procs"], SIZES)
        words = "all", SIZE_WORDS[size] if size >= 0 else "-"
        for cell in product(("all", row["partition_id"] or "-"), words):
            cells[cell].append(row)
    for (partition, word), of in cells.items():
        if not may_show(of, least):
            continue
        labels = {"cluster": site.cluster, "partition": partition, "size": word}
        figures = {"jobs": float(len(of))}
        for name, key in (("wait", "outcome_s"), ("forecast", "point_s")):
            values = sorted(row[key] for row in of)
            figures |= {f"{name} {q:g}": values[max(math.ceil(q * len(values)) - 1, 0)] for q in QUANTILES}
        figures = rounded(figures, least)
        yield Reading("waits", "jobs that started in a day", figures["jobs"], labels)
        for q in QUANTILES:
            at = {**labels, "quantile": f"{q:g}"}
            yield Reading("wait_seconds", "waits that ended in a day", figures[f"wait {q:g}"], at)
            meaning = "waits predicted at submission for the jobs that started in a day"
            yield Reading("wait_forecast_seconds", meaning, figures[f"forecast {q:g}"], at)


_ADVICE = (
    ("exceeded_rate", "advice_exceeded_ratio", "share of jobs that would have exceeded the request"),
    ("asked_over_used", "advice_asked_over_used", "sum of requests divided by sum of needs"),
)


def _method(one: Mapping[str, Any], here: Mapping[str, str], unit: str, levels: Sequence[float]) -> Iterator[Reading]:
    """Yield gauges with the number, the coverage and, if it is known, the median error of one method's predictions. For
    a method that suggests limits or memory, also yield the outcomes of its suggestions (`by` = advice) and of the
    users' own requests (`by` = users).
    """
    labels = {**here, "kind": one["kind"], "predictor": one["predictor"]}
    yield Reading("forecasts_30d", "predictions of 30 days", one["forecasts"], labels)
    if f"median_ae_{unit}" in one:
        name = f"forecast_median_error_{'seconds' if unit == 's' else unit}"
        yield Reading(name, "median absolute error", one[f"median_ae_{unit}"], labels)
    for level in levels:
        share, at = one[f"coverage_{level * 100:g}"], {**labels, "level": f"{level:g}"}
        yield Reading("forecast_coverage", "share of outcomes at or below the predicted quantile of a level", share, at)

    if "requests" in one:
        yield Reading("advice_30d", "jobs of 30 days whose suggestion has a known outcome", one["requests"], labels)
        for (key, name, meaning), by in product(_ADVICE, ("advice", "users")):
            value = one[f"users_{key}" if by == "users" else key]
            yield Reading(name, meaning, value, {**labels, "by": by})
