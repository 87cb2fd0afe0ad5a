"""A slow reference version of the clock's state: two dictionaries, every sum computed again, every rule written out."""

from __future__ import annotations

import math

from batchcast.events.event import Capacity, Change, End, Overdue, Requeue, Start, Submit, Withdraw

DAY = 86400.0


class NaiveState:
    """Waiting jobs in order of arrival, running jobs in order of start, and the waits from which predictors learn; all
    by row."""

    def __init__(self, total):
        self.total, self.now = total, -math.inf
        self.queued, self.running, self.spoiled = {}, {}, set()
        self.taught = None

    def procs(self, jobs):
        return sum(job.procs for job in jobs if job.procs == job.procs)

    @property
    def free(self):
        return max(self.total - self.procs(job for job, _ in self.running.values()), 0.0)

    def work(self):
        return sum(job.procs * job.req_time for job in self.queued.values() if job.req_time < 1e12)

    def apply(self, event):
        had_room = not self.running or any(job.procs <= self.free for job in self.queued.values())
        if event.time - self.now >= DAY and self.queued and had_room:
            self.spoiled |= set(self.queued)
        self.now, self.taught = event.time, None
        if isinstance(event, Capacity):
            self.total = event.procs
            return
        row = event.job.row
        if isinstance(event, Submit):
            self.queued[row] = event.job
        elif isinstance(event, Change):
            if row in self.queued:
                self.queued[row] = event.job
            else:
                self.running[row] = (event.job, self.running[row][1])
        elif isinstance(event, (Start, Withdraw)):
            job = self.queued.pop(row)
            if row not in self.spoiled and event.wait_time >= 0 and not job.procs > self.total:
                self.taught = event.wait_time
            self.spoiled.add(row)
            if isinstance(event, Start):
                self.running[row] = (event.job, event.time)
        elif isinstance(event, (End, Requeue)):
            self.running.pop(row)
            if isinstance(event, Requeue):
                self.queued[row] = event.job
        else:
            assert isinstance(event, Overdue)
