"""A scripted batch system of a small site, whose job history a collector can read."""

from __future__ import annotations

from collections.abc import Sequence

from batchcast.formats.sighting import Sighting, Site, Snapshot

USERS = [f"user{k}" for k in range(6)]


class Past:
    """A batch system with sixty finished jobs of six users, and one waiting job of each user."""

    def __init__(self, private: bool) -> None:
        self.time, self.private = 1000.0, private

    def now(self) -> float:
        return self.time

    def nodes_away(self) -> tuple[()]:
        return ()

    def reservations(self) -> list[dict]:
        return []

    def hides_jobs(self) -> bool:
        return self.private

    def ticks(self) -> float:
        return self.time

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        return Snapshot(self.time, ())

    def snapshot(self) -> Snapshot:
        jobs = [(str(100 + k), 1010.0 + 10 * k, 50.0, USERS[k % 6]) for k in range(60)]
        jobs += [(str(200 + k), 2600.0, 9e9, USERS[k]) for k in range(6)]
        return Snapshot(self.time, tuple(self._seen(*j) for j in jobs if j[1] <= self.time))

    def _seen(self, job_id: str, submit: float, wait: float, user: str) -> Sighting:
        start, end, nan = submit + wait, submit + wait + 100, float("nan")
        state = "PENDING" if self.time < start else "RUNNING" if self.time < end else "COMPLETED"
        asked = {"user_id": user, "partition_id": "main", "req_time": 7200.0, "req_procs": 4.0, "job_name": "relax"}
        return Sighting(job_id, job_id, submit, state, start_time=nan if state == "PENDING" else start,
                        end_time=end if state == "COMPLETED" else nan, reason="Resources", requested=asked,
                        allocated={"alloc_procs": 4.0})  # fmt: skip

    def history(self, since: float, until: float) -> Snapshot:
        return Snapshot(self.time, ())

    def site(self) -> Site:
        partitions = {"main": {"default_time_s": 3600.0, "max_time_s": 86400.0, "procs": 64.0, "is_default": 1.0}}
        return Site("c", "22.05", 1e6, self.private, 64.0, False, partitions)
