"""What Prometheus reads: the collector's and the service's own state, and how forecasts came out."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ..errors import BatchcastError
from ..store.place import sqlite_path
from ..store.reader import Reader
from . import answers
from .accuracy import LEVELS, accuracy
from .door import Door
from .settings import Settings

WITHIN_S = 30 * 86400.0
OUTCOMES_EVERY_S = 300.0
_PREFIX = "batchcast_"


class Measures:
    """Counters of this server, and gauges read from the store when somebody looks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            _PREFIX + "request_seconds", "time to answer a request", ["place", "status"], registry=self.registry,
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0),
        )  # fmt: skip
        self._gauges: dict[str, Gauge] = {}
        self._outcomes_at = -1e300
        self._refused = Counter(_PREFIX + "refused", "connections and requests refused", ["why"],
                                registry=self.registry)  # fmt: skip
        self._counted: dict[str, int] = {}

    def request(self, place: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._requests.labels(place, str(status)).observe(seconds)

    def text(self, settings: Settings, door: Door) -> bytes:
        """The page that Prometheus reads."""
        self._set("connections", "connections open", door.open)
        for why, count in door.refused.items():
            self._refused.labels(why).inc(count - self._counted.get(why, 0))
            self._counted[why] = count
        try:
            self._store(settings)
            self._set("store_up", "1 where the store can be read", 1)
        except BatchcastError:
            self._set("store_up", "1 where the store can be read", 0)
        return generate_latest(self.registry)

    def _set(self, name: str, meaning: str, value: float, **labels: str) -> None:
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = self._gauges[name] = Gauge(_PREFIX + name, meaning, list(labels), registry=self.registry)
        (gauge.labels(**labels) if labels else gauge).set(value)

    def _store(self, settings: Settings) -> None:
        reader = Reader(settings["store"])
        try:
            cluster = answers.choose_cluster(reader, settings["cluster"] or None)
            memory, now = reader.memory(cluster), time.time()
            self._collector(memory, cluster, now)
            path = sqlite_path(settings["store"])
            if path is not None:
                self._set("store_bytes", "size of the store's file", path.stat().st_size)
            jobs = reader.ask("counts", cluster=cluster)[0]
            self._set("jobs", "jobs in the store", jobs["jobs"], cluster=cluster)
            if time.monotonic() - self._outcomes_at > OUTCOMES_EVERY_S:
                self._outcomes_at = time.monotonic()
                self._outcomes(reader, cluster, memory, settings, now)
        finally:
            reader.close()

    def _collector(self, memory: dict[str, Any], cluster: str, now: float) -> None:
        for name, key, meaning in (
            ("collector_last_look_seconds", "cycle_at", "since the collector's last cycle"),
            ("collector_behind_seconds", "told_until", "how far behind the forecasts' clock is"),
        ):
            if memory.get(key) is not None:
                self._set(name, meaning, now - memory[key], cluster=cluster)
        self._set("events_late", "events told late", memory.get("late", 0) or 0, cluster=cluster)
        for daemon, counter in (memory.get("health") or {}).items():
            for key in ("calls", "failures", "seconds"):
                if isinstance(counter.get(key), int | float):
                    self._set(f"daemon_{key}", f"{key} of questions to a daemon", counter[key], daemon=daemon,
                              cluster=cluster)  # fmt: skip
            away = counter.get("away_since")
            self._set("daemon_up", "1 where the daemon answers", 0 if away else 1, daemon=daemon, cluster=cluster)

    def _outcomes(self, reader: Reader, cluster: str, memory: dict[str, Any], settings: Settings, now: float) -> None:
        """Over several users where jobs are private, as everywhere."""
        from .settings import is_private

        least = int(settings["least_users"]) if is_private(settings, memory) else 1
        partitions = [None, *memory.get("site", {}).get("partitions", {})]
        for partition in partitions:
            for one in accuracy(reader, cluster, now - WITHIN_S, float("inf"), partition, least, now):
                if one["moment"] != "submit":
                    continue
                labels = {"cluster": cluster, "partition": partition or "all", "kind": one["kind"],
                          "predictor": one["predictor"]}  # fmt: skip
                self._set("forecasts_30d", "forecasts of 30 days", one["forecasts"], **labels)
                self._set("forecast_median_error_seconds", "median absolute error", one["median_ae_s"], **labels)
                for level in LEVELS:
                    share = one[f"coverage_{level * 100:g}"]
                    self._set("forecast_coverage", "share at or below what was said for a level", share,
                              level=f"{level:g}", **labels)  # fmt: skip
