"""UARP and two other policies of the HPCOpt leaderboard (2026): python examples/uarp.py LOG [PROCESSORS], or
batchcast simulate LOG --policy easy,uarp:Uarp     in the folder of this file
"""

import sys

import numpy as np

import batchcast
from batchcast import testing


def guard(job):
    return job.req_time if job.req_time > 0 else job.planned


class Easy:
    """Start the head if it fits, then other jobs that fit. If the head does not fit, start jobs that end before its
    reservation."""

    def head(self, job):
        return job.submit_time, job.row

    candidate = head
    kill = False

    def start(self, queue, machine, now):
        head = min(queue, key=self.head)
        until = np.inf if machine.fits(head) else machine.shadow(head)[0]
        if until == np.inf:
            yield head
        for job in sorted((job for job in queue if job is not head), key=self.candidate):
            if machine.fits(job) and now + guard(job) <= until:
                yield job


class Uarp(Easy):
    def candidate(self, job):
        return guard(job), job.submit_time, job.row


class Sjf(Uarp):
    head = Uarp.candidate


def table(log, policies, planned, size=None):
    """Print the mean wait and HPCOpt's 95th percentile of (wait + run) / max(run, 60 s) over the jobs that ran."""
    for name, policy in policies.items():
        made = batchcast.simulate(log.take(~np.isnan(log.run_time)), policy, planned, total=size)
        slowdown = np.percentile((made.wait_time + made.run_time) / np.maximum(made.run_time, 60.0), 95)
        print(f"{name:5} {planned:9} {slowdown:10.2f} {made.wait_time.mean():11,.0f} s")


if __name__ == "__main__":
    print(len(testing.check_policy(Uarp)), "checks passed")
    log = batchcast.read_trace(sys.argv[1] if sys.argv[1:] else batchcast.demo_path())
    size = int(sys.argv[2]) if sys.argv[2:] else None
    table(log, {"fcfs": "fcfs:kill=no", "easy": "easy:kill=no"}, "requested", size)
    for planned in ("actual", "requested"):  # HPCOpt computes the reservation from the true ends of running jobs
        table(log, {"EASY": Easy, "SJF": Sjf, "UARP": Uarp}, planned, size)
