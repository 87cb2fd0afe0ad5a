# SPDX-License-Identifier: Apache-2.0
"""Projects when a waiting job's priority exceeds the priorities of the jobs before it, on sites with fair share.

The collector projects the priorities of all waiting jobs each time it reads the usage that Slurm counts (`sshare`).
Three things change a projected priority: the job's age, the decay of usage, and the usage that running jobs add until
their predicted ends. No job starts or arrives in this projection, so it shows only how fair share reorders the jobs
that wait now. The projected changes are added to the priorities that Slurm reports, which already contain all other
factors.

References
----------
.. [1] Slurm's Fair Tree algorithm, https://slurm.schedmd.com/fair_tree.html.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, count, islice, takewhile
from typing import Any, NamedTuple

from ...formats.slurm.reasons import Rule, rule
from ...machines.machine import Association, Machine, Partition
from ...units import parse_duration, span
from .answer import Sentence
from .disclosure import OfOthers
from .start import time_limit

AccountUser = tuple[str, str]
"""An account and a user."""
HORIZON_S = 14 * 86400.0
GROWTH = 1.1
EVEN_STEPS = 48
QUARTER_S = 900.0
OLD_S = 3600.0
"""A projection that is older than this is not shown, because fair share may have been turned off since then."""
NOT_KNOWN = "not known"
FIRST = "no waiting job of the partition has a higher priority"
PASSES = "its priority passes that of the %(jobs)s waiting jobs before it at about %(time)s"
PASSES_ONE = "its priority passes that of the waiting job before it at about %(time)s"
PASSES_SOME = "its priority passes that of the jobs before it at about %(time)s"
NEVER = "its priority does not pass that of the jobs before it within %(span)s"
SENTENCES = (FIRST, PASSES, PASSES_ONE, PASSES_SOME, NEVER)


class Weights(NamedTuple):
    """Slurm's weights and times (seconds) for the parts of a priority that change with time; `half_life` 0: no
    decay.
    """

    age: float
    fair_share: float
    max_age: float
    half_life: float
    period: float


def weights_of(machine: Machine | None) -> Weights | None:
    """Return the weights if this machine ranks jobs by Fair Tree; None if it does not, or if its settings are unknown.

    The result is also None if usage is reset on fixed dates (PriorityUsageResetPeriod), because resets are not
    projected.
    """
    if machine is None or not machine.associations:
        return None
    said = machine.settings
    flags = said.get("PriorityFlags", "").upper()
    resets = said.get("PriorityUsageResetPeriod", "NONE").upper() not in ("NONE", "")
    share = _number(said.get("PriorityWeightFairShare", "0"))
    if "multifactor" not in said.get("PriorityType", "") or not share or "NO_FAIR_TREE" in flags or resets:
        return None

    def seconds(name: str, otherwise: str) -> float:
        return parse_duration(said.get(name) or otherwise)

    return Weights(
        _number(said.get("PriorityWeightAge", "0")), share, seconds("PriorityMaxAge", "7-00:00:00"),
        seconds("PriorityDecayHalfLife", "7-00:00:00"), max(seconds("PriorityCalcPeriod", "00:05:00"), 60.0),
    )  # fmt: skip


def _number(text: str) -> float:
    """Return a whole number from slurm.conf; 0 for any other text."""
    return float(text) if text.isdigit() else 0.0


def fair_tree(associations: Sequence[Association], usage: Mapping[AccountUser, float]) -> dict[AccountUser, float]:
    """Return the fair-share factor of each user: the rank in Fair Tree over the number of users.

    Fair Tree visits the children of an account in order of their level, the largest first. The level is (share /
    siblings' shares) / (usage / siblings' usage). Accounts of equal level are visited as one account; users of equal
    level get the same rank.

    >>> tree = [Association("a"), *(Association("a", user) for user in "xyz")]
    >>> fair_tree(tree, {("a", "x"): 9.0, ("a", "y"): 3.0})
    {('a', 'z'): 1.0, ('a', 'y'): 0.6666666666666666, ('a', 'x'): 0.3333333333333333}
    """
    children: defaultdict[str, list[Association]] = defaultdict(list)
    for one in associations:
        if one.user or one.account not in ("", "root"):
            children[one.parent or (one.account if one.user else "root")].append(one)
    users = sum(bool(one.user) for one in associations)
    factors: dict[AccountUser, float] = {}

    def usage_of(child: Association) -> float:
        return usage.get((child.account, child.user), 0.0) if child.user else totals(child.account)[1]

    @cache
    def totals(account: str) -> tuple[float, float]:
        """Return the sums of the shares and of the usage directly below an account."""
        return math.fsum(one.shares for one in children[account]), math.fsum(map(usage_of, children[account]))

    def level(child: Association, account: str) -> float:
        (shares, everyone), mine = totals(account), usage_of(child)
        return (child.shares / shares if shares else 0.0) / (mine / everyone) if mine else math.inf

    def visit(accounts: Sequence[str]) -> None:
        """Rank the users below these accounts, depth first. Several accounts of equal level are treated as one
        account.
        """
        by_level: defaultdict[float, list[Association]] = defaultdict(list)
        for account in accounts:
            for one in children[account]:
                by_level[level(one, account)].append(one)
        for _, tied in sorted(by_level.items(), reverse=True):
            rank = users - len(factors)
            factors.update({(one.account, one.user): rank / users for one in tied if one.user})
            visit([one.account for one in tied if not one.user])

    visit(["root"])
    return factors


class Running(NamedTuple):
    """The usage that a running job adds: its account and user, billed processors, and predicted end (epoch seconds)."""

    owner: AccountUser
    billed: float
    end: float


class Waiting(NamedTuple):
    """A waiting job: Slurm's present priority, seconds since the job became eligible, and its position among equal
    priorities.
    """

    job_id: str
    owner: AccountUser
    partition: str
    priority: float
    eligible_s: float
    position: int


class Pass(NamedTuple):
    """The number of jobs with a higher priority now, and when this job's priority exceeds theirs (NaN: not
    foreseen).
    """

    before: int
    at: float


def usage_at(
    t: float, usage: Mapping[AccountUser, float], running: Sequence[Running], now: float, half_life: float
) -> dict[AccountUser, float]:
    """Return the usage at `t`: the present usage after its decay, and the usage that running jobs add until then.

    >>> usage_at(20.0, {}, [Running(("a", "x"), 4.0, 10.0)], 0.0, 0.0)
    {('a', 'x'): 40.0}
    """
    rate = 0.693 / half_life if half_life > 0 else 0.0  # Slurm uses this constant for log 2
    total = {owner: amount * math.exp(-rate * (t - now)) for owner, amount in usage.items()}
    for job in running:
        end = min(max(job.end, now), t)
        span_s = math.exp(-rate * (t - end)) - math.exp(-rate * (t - now))
        total[job.owner] = total.get(job.owner, 0.0) + job.billed * (span_s / rate if rate else end - now)
    return total


def instants(now: float, period: float) -> Iterator[float]:
    """Return the times of the projection: at first whenever Slurm recalculates priorities, later at growing
    intervals.
    """
    steps = (period * GROWTH ** max(k - EVEN_STEPS, 0) for k in count())
    times = islice(accumulate(steps, initial=now), 1, None)
    return takewhile(lambda t: t <= now + HORIZON_S, times)


def project(
    waiting: Sequence[Waiting], running: Sequence[Running], usage: Mapping[AccountUser, float],
    associations: Sequence[Association], weights: Weights, now: float,
) -> dict[str, Pass]:  # fmt: skip
    """Return for each waiting job when its priority exceeds the priorities of all jobs before it in its partition.

    >>> tree = [Association("a"), Association("a", "x"), Association("a", "y")]
    >>> jobs = [Waiting("1", ("a", "x"), "main", 1000.0, 0.0, 1), Waiting("2", ("a", "y"), "main", 500.0, 0.0, 2)]
    >>> running = [Running(("a", "x"), 8.0, 900.0)]
    >>> usage = {("a", "x"): 10.0, ("a", "y"): 500.0}
    >>> project(jobs, running, usage, tree, Weights(0.0, 1000.0, 1.0, 0.0, 60.0), 0.0)
    {'1': Pass(before=0, at=0.0), '2': Pass(before=1, at=120.0)}
    """

    def age(seconds: float) -> float:
        return min(seconds / weights.max_age, 1.0)

    start = fair_tree(associations, usage_at(now, usage, running, now, weights.half_life))
    queues: defaultdict[str, list[Waiting]] = defaultdict(list)
    for job in waiting:
        if job.owner in start:
            queues[job.partition].append(job)
    passes: dict[str, Pass] = {}
    for queue in queues.values():
        queue.sort(key=lambda job: (-job.priority, job.position))
        passes |= {job.job_id: Pass(k, now if k == 0 else math.nan) for k, job in enumerate(queue)}
    for t in instants(now, weights.period):
        if all(one.at == one.at for one in passes.values()):
            break
        then = fair_tree(associations, usage_at(t, usage, running, now, weights.half_life))
        for queue in queues.values():
            highest = -math.inf
            for job in queue:
                older = age(job.eligible_s + t - now) - age(job.eligible_s)
                gain = weights.fair_share * (then[job.owner] - start[job.owner]) + weights.age * older
                priority = job.priority + gain
                if priority > highest and passes[job.job_id].at != passes[job.job_id].at:
                    passes[job.job_id] = passes[job.job_id]._replace(at=t)
                highest = max(highest, priority)
    return passes


def passes_of(
    jobs: Sequence[Mapping[str, Any]], machine: Machine | None, usage: Mapping[AccountUser, float], now: float
) -> dict[str, list[float | None]] | None:
    """Return [number of jobs with a higher priority, time when its priority exceeds theirs] by waiting job's id, for
    the store; None without fair share.

    `jobs` are all open jobs, as the store's query `open_with` returns them. Waiting jobs are left out if their priority
    is unknown, or if something other than the machine or a reservation holds them back.
    """
    weights = weights_of(machine)
    if weights is None or machine is None:
        return None
    partitions = {each.name: each for each in machine.partitions}
    running = [
        Running(_owner(job), billed(job, partitions.get(job["partition_id"])), _end(job, now))
        for job in jobs if job["start_time"] is not None
    ]  # fmt: skip
    waiting = [
        Waiting(str(job["job_id"]), _owner(job), job["partition_id"] or "", float(job["priority"]),
                max(now - (job["eligible_time"] or job["submit_time"]), 0.0), position)
        for position, job in enumerate(jobs)
        if job["start_time"] is None and job["priority"]
        and rule(job["reason"] or "") in (Rule.MACHINE, Rule.RESERVATION)
    ]  # fmt: skip
    passes = project(waiting, running, usage, machine.associations, weights, now)
    return {job_id: [each.before, each.at if each.at == each.at else None] for job_id, each in passes.items()}


def _owner(job: Mapping[str, Any]) -> AccountUser:
    """Return the account and the user of a job."""
    return job["account"] or "", job["user_id"] or ""


def billed(job: Mapping[str, Any], partition: Partition | None) -> float:
    """Return the usage that a job adds per second: its processors, or its TRES by the partition's
    TRESBillingWeights.
    """
    amounts = {
        "cpu": float(job["alloc_procs"] or job["req_procs"] or 1.0),
        "node": float(job["req_nodes"] or 1.0),
        "mem": float(job["req_mem_kib"] or 0.0) / 1024,
        "gres/gpu": float(job["req_gpus"] or 0.0),
    }
    weights = (partition.billing_weights if partition else None) or {"cpu": 1.0}
    return sum(weight * amounts.get(name, 0.0) for name, weight in weights.items())


def _end(job: Mapping[str, Any], now: float) -> float:
    """Return the predicted end of a running job, or its time limit if it has run longer than predicted."""
    start = float(job["start_time"])
    longest = start + time_limit(job)
    likely = math.inf if job["run_point_s"] is None else start + float(job["run_point_s"])
    return min(likely if likely > now else longest, longest)


def pass_fields(memory: Mapping[str, Any], job_id: str, now: float) -> dict[str, Any]:
    """Return two fields of an answer: when a job's priority exceeds the priorities of the jobs before it, in words and
    in epoch seconds (or NaN).

    If jobs are hidden, the answer does not state the number of other users' jobs, and the time is rounded up to a
    quarter of an hour.

    >>> from batchcast.service.answers.disclosure import disclosed
    >>> known = {"passes": {"at": 0.0, "jobs": {"7": [3, 5000.0]}}}
    >>> disclosed(pass_fields(known, "7", 0.0), hidden=True)["priority_passes_s"]
    5400.0
    >>> disclosed(pass_fields({}, "7", 0.0), hidden=False)["priority_passes"]
    'not known'
    """
    stored = memory.get("passes") or {"at": -math.inf, "jobs": {}}
    known = stored["jobs"].get(job_id)
    said: Any = NOT_KNOWN
    when: Any = math.nan
    if known is not None and now - stored["at"] <= OLD_S:
        before, at = known
        said = Sentence(NEVER, span=span(HORIZON_S)) if before else Sentence(FIRST)
        if before and at is not None:
            rounded = math.ceil(at / QUARTER_S) * QUARTER_S
            exact = Sentence(PASSES_ONE if before == 1 else PASSES, jobs=f"{before:,}", time=_clock(at))
            said, when = OfOthers(exact, Sentence(PASSES_SOME, time=_clock(rounded))), OfOthers(at, rounded)
    return {"priority_passes": said, "priority_passes_s": when}


def _clock(at: float) -> str:
    """Return an instant (epoch seconds) as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
