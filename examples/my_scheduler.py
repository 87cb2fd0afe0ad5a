# SPDX-License-Identifier: Apache-2.0
"""Schedulers of your own: EASY, SJBF and conservative backfilling, in the words of their papers.

batchcast simulate LOG --policy my_scheduler:Easy     in the folder of this file
"""

import batchcast
from batchcast import testing
from batchcast.events.event import End, Overdue


class Easy:
    """One reservation, for the head: a job that passes the head must not delay it (Lifka 1995)."""

    def candidates(self, queue):
        return queue

    def start(self, queue, machine, now):
        waiting = list(queue)
        while waiting and machine.fits(waiting[0]):
            yield waiting.pop(0)
        if not waiting:
            return
        shadow_time, extra_procs = machine.shadow(waiting[0])
        for job in self.candidates(waiting[1:]):
            in_time = now + job.planned <= shadow_time
            if machine.fits(job) and (in_time or job.procs <= extra_procs):
                extra_procs -= 0 if in_time else job.procs
                yield job


class Sjbf(Easy):
    """EASY with the shortest candidate first (Tsafrir, Etsion, Feitelson 2007)."""

    def candidates(self, queue):
        return sorted(queue, key=lambda job: (job.planned, job.submit_time, job.row))


class Conservative:
    """A reservation for every job; if a job ends early, reservations move to earlier times (Mu'alem, Feitelson
    2001)."""

    def start(self, queue, machine, now):
        happened = {type(event) for event in machine.events}
        if Overdue in happened:  # a job runs longer than planned, so all reservations are made again
            for job in queue:
                machine.release(job)
        profile = machine.profile()
        for job in queue:
            if job.row in machine.reservations:
                profile.hold(machine.reservations[job.row], job.planned, job.procs)
        for job in queue:
            reserved = machine.reservations.get(job.row)
            if reserved is not None and not (End in happened and reserved > now):
                continue
            if reserved is not None:
                profile.hold(reserved, job.planned, -job.procs)
            earliest = profile.earliest(job.procs, job.planned)
            profile.hold(earliest, job.planned, job.procs)
            machine.reserve(job, earliest)
        for job in queue:
            if machine.reservations[job.row] <= now:
                yield job


if __name__ == "__main__":
    log = batchcast.read_trace(batchcast.demo_path())
    for policy in (Easy, Sjbf, Conservative):
        checks = testing.check_policy(policy)
        measures = batchcast.simulate(log, policy, "last_2").measures()
        print(policy.__name__, f"mean wait {measures['mean_wait_s']:.0f} s, {len(checks)} checks passed")
