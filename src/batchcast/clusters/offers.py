# SPDX-License-Identifier: Apache-2.0
"""Asks every configured cluster when a job would end there, and ranks the answers.

If a cluster does not answer, one sentence reports this, and the other clusters are compared without it.
"""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ..errors import BatchcastError, NoAnswer, UsageError
from ..formats.slurm.sbatch import FLAGS, Request
from ..service.answers.disclosure import Viewer
from ..service.answers.script import ASSUMED, OF_NEW_JOBS, answer_where
from ..service.settings import Settings
from ..store.ledger import Offer
from ..units import span
from .configured import Cluster, Configured, Input, translated
from .finish import COMONOTONE, INDEPENDENT, LEVELS, SAME, Ratio, combined, correction, or_inf, ratio
from .prediction import Predicted, Prediction, ask_service, checked

CLOCKS_APART_S = 30.0
ENOUGH_RUNS = 3
"""If the user has completed at least this many jobs of a name on a cluster, the cluster's own run-time prediction is
used.
"""
TIES_WITHIN = 0.02
"""Probabilities to meet the deadline that differ by at most this count as equal. Then the earlier end decides."""
NO_ANSWER = "no answer"
"""This text appears in the sentence about a cluster that may answer later, but not about a cluster that cannot run the
job.
"""


class Question(NamedTuple):
    """A job for which every cluster predicts the end: its request and input files, and its deadline."""

    request: Request
    inputs: Sequence[Input] = ()  # Files that must be transferred before the job can start
    by: float | None = None  # The deadline in epoch seconds; None without a deadline
    any_size: bool = False  # Whether other sizes of the job are compared too
    # For each cluster, the jobs that the user sent there shortly before: submit time (epoch seconds) and request of
    # each. A store may not have seen these jobs yet.
    sent: Mapping[str, Sequence[tuple[float, Request]]] = {}
    # For each name in `LEVELS`, the actual times until the end of the user's past submissions, divided by the predicted
    # times.
    lateness: Mapping[str, Sequence[float]] = {}


class Reply(NamedTuple):
    """The prediction of one cluster, and the request that was translated for this cluster."""

    cluster: Cluster
    request: Request
    prediction: Prediction
    notes: Sequence[str]

    def ways(self) -> list[tuple[Predicted, Request, str]]:
        """Return the ways to submit the job: the predicted times, the changed request, and the change in words."""
        changed = [(each, each.change.applied_to(self.request)) for each in self.prediction.results]
        return [(each, new, each.change.words(self.request, new)) for each, new in changed if new is not None]


def offers(
    configuration: Configured, settings: Settings, question: Question, viewer: Viewer, now: float
) -> tuple[list[Offer], list[str]]:
    """Return the predicted ends of a job on all clusters, the best first, and one sentence for each problem."""
    replies, problems = ask_all(configuration, settings, question, viewer, now)
    found, notes = compared(replies, question, now)
    notes = [*configuration.problems, *problems, *notes]
    if not found:
        raise NoAnswer("no cluster can predict when this job would end", hint="; ".join(notes) or "batchcast doctor")
    return found, notes


def compared(replies: Sequence[Reply], question: Question, now: float) -> tuple[list[Offer], list[str]]:
    """Return the offers of all replies, the best first, and one sentence for each problem."""
    notes = _shared([(reply.cluster.name, reply.prediction.warnings) for reply in replies])
    found: list[Offer] = []
    for reply in replies:
        notes += reply.notes
        try:
            found += _offers_of(reply, replies, question, now)
        except UsageError as error:
            notes.append(f"{reply.cluster.name}: left out: {error.message}")
    return ranked(found, question.by is not None), notes


def ask_all(
    configuration: Configured, settings: Settings, question: Question, viewer: Viewer, now: float, only: str = ""
) -> tuple[list[Reply], list[str]]:
    """Return the replies of all clusters (or of the cluster `only`), and one sentence for each cluster without an
    answer.

    Services are queried in parallel, stores one after the other. Only answers from stores take `question.sent` into
    account, because a request to a service cannot contain other jobs.
    """
    replies: list[Reply] = []
    problems: list[str] = []
    with ThreadPoolExecutor(max(len(configuration.clusters), 1)) as pool:
        waiting: list[tuple[Cluster, Request, list[str], Any]] = []
        for cluster in (one for one in configuration.clusters if only in ("", one.name)):
            try:
                request, notes = translated(question.request, configuration.home, cluster)
            except UsageError as error:
                problems.append(f"{cluster.name}: left out: {error.message}")
                continue
            task = pool.submit(ask_service, cluster, request, question.any_size) if cluster.service else None
            waiting.append((cluster, request, notes, task))
        for cluster, request, notes, task in waiting:
            try:
                if task:
                    prediction = task.result()
                else:
                    its_own = settings.replaced(store=cluster.store, cluster=cluster.name)
                    sent, any_size = question.sent.get(cluster.name, ()), question.any_size
                    prediction = checked(
                        answer_where(its_own, request, viewer, now, None, any_size, spread=True, sent=sent)
                    )
                about = prediction.log.cluster
                if about.lower() != cluster.name.lower():  # for example because a wrong socket is configured
                    what = f"its store or service answers for {about}: correct [[cluster]] {cluster.name}"
                    raise UsageError(what)
                replies.append(Reply(cluster, request, prediction, [*notes, *_clock(cluster, prediction, now)]))
            except BatchcastError as error:
                problems.append(f"{cluster.name}: {NO_ANSWER}: {error.message}")
    return replies, problems


def _clock(cluster: Cluster, prediction: Prediction, now: float) -> list[str]:
    """Return a warning if the cluster's clock differs. Predictions do not depend on the clock, because waits are
    durations.
    """
    if abs(apart := (prediction.settings.now_s or now) - now) <= CLOCKS_APART_S + cluster.patience_s:
        return []
    ahead = "ahead of" if apart > 0 else "behind"
    return [f"{cluster.name}: its clock is {span(abs(apart))} {ahead} this computer's; times are given by this one"]


def _shared(warnings: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return each warning once, with the names of the clusters that gave it."""
    by = defaultdict(list)
    for name, text in ((name, text) for name, texts in warnings for text in texts):
        if not text.startswith((ASSUMED, OF_NEW_JOBS)):
            by[str(text)].append(name)
    return [f"{', '.join(names)}: {text}" for text, names in by.items()]


def _offers_of(reply: Reply, everyone: Sequence[Reply], question: Question, now: float) -> list[Offer]:
    """Return one offer for each partition, QOS and size at which the job can be submitted to this cluster."""
    cluster, name = reply.cluster, question.request.options.get("job-name", "")
    transfer_s = cluster.transfer_s(question.inputs)
    completed = {each.cluster.name: each.prediction.log.own_runs.get(name, (0.0,))[0] for each in everyone}
    best = max(everyone, key=lambda each: completed[each.cluster.name])
    found = []
    for predicted, changed, what in reply.ways():
        if not (predicted.change.is_as_requested or question.any_size):
            continue
        runs, factor = predicted.runs_s, SAME
        if completed[cluster.name] < ENOUGH_RUNS <= completed[best.cluster.name]:
            same = next((each for each, _, words in best.ways() if words == what), None)
            if same is not None:
                speeds = best.cluster.speed, cluster.speed
                factor = ratio(best.prediction.log.own_runs, reply.prediction.log.own_runs, *speeds)
                runs = same.runs_s
        command = command_of(reply, changed, question.request)
        found.append(_offer(reply, predicted, what, command, [*map(or_inf, runs)], factor, transfer_s, question, now))
    return found


def _offer(
    reply: Reply, predicted: Predicted, what: str, command: str, runs: Sequence[float], factor: Ratio,
    transfer_s: float, question: Question, now: float,
) -> Offer:  # fmt: skip
    """Return one offer; times are epoch seconds of this computer's clock."""
    limit = or_inf(predicted.limit_s)
    scaled = [min(run * draw, limit) for run in runs for draw in factor.draws()]
    waits = [or_inf(wait) for wait in predicted.waits_s]
    # The service's clock may differ from this computer's clock, so `begin` is used relative to the service's time.
    later = max(predicted.begin_s - (reply.prediction.settings.now_s or now), 0.0)
    ready = now + max(transfer_s, later)
    done, worst = (combined(waits, scaled, dependence=how) for how in (INDEPENDENT, COMONOTONE))
    factors = {name: correction(question.lateness.get(name, ()), level) for name, level in LEVELS.items()}
    ends = {name: now + factors[name] * (ready - now + done.quantile(level)) for name, level in LEVELS.items()}
    slow = factors["by_90_end_s"]
    left = math.nan if question.by is None else (question.by - now) / slow - (ready - now)
    typical = sorted(scaled)[len(scaled) // 2] if scaled else math.nan
    begun, (low, high) = combined(waits, [0.0]), factor.interval
    return Offer(
        cluster=reply.cluster.name,
        partition=predicted.change.partition,
        qos=predicted.qos,
        what=what,
        command=command,
        procs=predicted.procs,
        limit_s=math.nan if predicted.limit_s is None else predicted.limit_s,
        transfer_s=transfer_s,
        likely_start_s=ready + begun.quantile(0.5),
        by_90_start_s=ready + begun.quantile(0.9),
        likely_run_s=typical,
        **ends,
        **{f"{name}_factor": factor for name, factor in factors.items()},
        by_90_end_comonotone_s=now + slow * (ready - now + worst.quantile(0.9)),
        expected_end_s=ready + done.expected,
        chance_done_by=math.nan if question.by is None else done.chance(left),
        core_hours=predicted.procs * typical / 3600.0,
        run_ratio=factor.value,
        run_ratio_low=low,
        run_ratio_high=high,
        run_ratio_basis=factor.basis,
        dependence=INDEPENDENT,
        basis=predicted.basis,
        snapshot_s=reply.prediction.log.snapshot_s,
    )


def command_of(reply: Reply, changed: Request, requested: Request) -> str:
    """Return the submit command without the script: sbatch, the options of the way, and the translated options."""
    shown = changed.options.keys() & set(FLAGS)
    new = {name: value for name, value in reply.request.options.items()
           if name not in shown and requested.options.get(name) != value}  # fmt: skip
    more = [f"--{name}={shlex.quote(value)}" for name, value in new.items()]
    return " ".join([shlex.join(reply.cluster.words("sbatch")), changed.flags, *more]).strip()


def ranked(offers: Sequence[Offer], deadline: bool) -> list[Offer]:
    """Sort offers by expected end; with a deadline, by the probability to meet it, then by expected end.

    Core-hours decide only between offers with equal ends. If core-hours came first, a job that meets its deadline
    everywhere could end hours later to save a minute of run time.
    """
    chances = [offer.chance_done_by for offer in offers if offer.chance_done_by == offer.chance_done_by]

    def sort_key(offer: Offer) -> tuple[float, ...]:
        end = or_inf(offer.expected_end_s)
        if not deadline or not chances:
            return (end, offer.by_90_end_s, offer.core_hours)
        chance = offer.chance_done_by if offer.chance_done_by == offer.chance_done_by else -1.0
        is_best = chance >= max(chances) - TIES_WITHIN
        return (not is_best, 0.0 if is_best else -chance, end, offer.core_hours)

    return sorted(offers, key=sort_key)
