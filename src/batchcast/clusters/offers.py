# SPDX-License-Identifier: Apache-2.0
"""Asks every configured cluster when a job would end there, and ranks the answers.

If a cluster does not answer, one sentence reports this, and the other clusters are compared without it.
"""

from __future__ import annotations

import json
import math
import shlex
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ..client import Client, UnsafeAddressError
from ..errors import BatchcastError, NoAnswer, Refused, Unreachable, UsageError
from ..service.answers.answer import Answer
from ..service.answers.disclosure import Viewer
from ..service.answers.fallback import answer_of
from ..service.answers.script import AS_REQUESTED, ASSUMED, OF_NEW_JOBS, answer_where
from ..service.settings import Settings
from ..units import span
from .configured import Cluster, Configured, Input, translated
from .finish import COMONOTONE, INDEPENDENT, LEVELS, SAME, Ratio, Runs, combined, correction, or_inf, ratio

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
    """A job for which every cluster predicts the end: its options and input files, and its deadline."""

    options: Mapping[str, str]  # The script's sbatch options by name
    inputs: Sequence[Input] = ()  # Files that must be transferred before the job can start
    by: float | None = None  # The deadline in epoch seconds; None without a deadline
    any_size: bool = False  # Whether other sizes of the job are compared too
    # For each cluster, the jobs that the user sent there shortly before: submit time (epoch seconds) and options of
    # each. A store may not have seen these jobs yet.
    sent: Mapping[str, Sequence[tuple[float, Mapping[str, str]]]] = {}
    # For each name in `LEVELS`, the actual times until the end of the user's past submissions, divided by the predicted
    # times.
    lateness: Mapping[str, Sequence[float]] = {}


class Reply(NamedTuple):
    """The answer of one cluster, and the options that were translated for this cluster."""

    cluster: Cluster
    options: Mapping[str, str]
    answer: Answer
    notes: Sequence[str]

    @property
    def own_runs(self) -> Runs:
        """Return the statistics of the user's run times on this cluster, by job name."""
        runs: Runs = self.answer.log.get("own_runs") or {}
        return runs


def offers(
    configuration: Configured, settings: Settings, question: Question, viewer: Viewer, now: float
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the predicted ends of a job on all clusters, the best first, and one sentence for each problem; NoAnswer
    if no cluster offers anything.
    """
    replies, problems = ask_all(configuration, settings, question, viewer, now)
    rows, notes = compared(replies, question, now)
    notes = [*configuration.problems, *problems, *notes]
    if not rows:
        raise NoAnswer("no cluster can predict when this job would end", hint="; ".join(notes) or "batchcast doctor")
    return rows, notes


def compared(replies: Sequence[Reply], question: Question, now: float) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the offers of all replies, the best first, and one sentence for each problem."""
    notes = _shared([(reply.cluster.name, reply.answer.warnings) for reply in replies])
    rows: list[dict[str, Any]] = []
    for reply in replies:
        notes += reply.notes
        try:
            rows += _offers_of(reply, replies, question, now)
        except UsageError as error:
            notes.append(f"{reply.cluster.name}: left out: {error.message}")
    return ranked(rows, question.by is not None), notes


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
        waiting: list[tuple[Cluster, dict[str, str], list[str], Any]] = []
        for cluster in (one for one in configuration.clusters if only in ("", one.name)):
            try:
                options, notes = translated(question.options, configuration.home, cluster)
            except UsageError as error:
                problems.append(f"{cluster.name}: left out: {error.message}")
                continue
            task = pool.submit(_ask_service, cluster, options, question.any_size) if cluster.service else None
            waiting.append((cluster, options, notes, task))
        for cluster, options, notes, task in waiting:
            try:
                if task:
                    answer = task.result()
                else:
                    its_own = settings.replaced(store=cluster.store, cluster=cluster.name)
                    sent, any_size = question.sent.get(cluster.name, ()), question.any_size
                    answer = answer_where(its_own, options, viewer, now, None, any_size, spread=True, sent=sent)
                about = str(answer.log.get("cluster", ""))
                if about.lower() != cluster.name.lower():  # for example because a wrong socket is configured
                    what = f"its store or service answers for {about}: correct [[cluster]] {cluster.name}"
                    raise UsageError(what)
                replies.append(Reply(cluster, options, answer, [*notes, *_clock(cluster, answer, now)]))
            except BatchcastError as error:
                problems.append(f"{cluster.name}: {NO_ANSWER}: {error.message}")
    return replies, problems


def _ask_service(cluster: Cluster, options: Mapping[str, str], any_size: bool) -> Answer:
    """Return the answer of a cluster's service; Unreachable if it does not answer, Refused if the token is wrong."""
    token = ""
    if cluster.token_file:
        try:
            token = Path(cluster.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Unreachable(f"its token file {cluster.token_file} cannot be read: {error.strerror}") from None
    given = {**options, "spread": "yes", **({"any-size": "yes"} if any_size else {})}
    client = Client(cluster.service)
    client.token = token  # never $BATCHCAST_TOKEN, which is for another service
    try:
        status, body = client.get(f"/v1/where?{urlencode(given)}", "", time.monotonic() + cluster.patience_s)
        document = json.loads(body)
    except TimeoutError:
        late = f"did not answer within {cluster.patience_s:g} s (setting patience_s)"
        raise Unreachable(f"its service {cluster.service} {late}") from None
    except UnsafeAddressError as error:
        raise UsageError(f"its service {cluster.service}: {error}") from None
    except (OSError, ValueError, IndexError) as error:
        raise Unreachable(f"its service {cluster.service} does not answer: {error}") from None
    if status == 401:
        where = cluster.token_file or "[[cluster]] has no token_file"
        raise Refused(f"its service rejects the token ({where}): it is wrong or expired; ask its operator for one")
    return answer_of(document)


def _clock(cluster: Cluster, answer: Answer, now: float) -> list[str]:
    """Return a warning if the cluster's clock differs. Predictions do not depend on the clock, because waits are
    durations.
    """
    there = float(answer.settings.get("now_s") or now)
    if abs(apart := there - now) <= CLOCKS_APART_S + cluster.patience_s:
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


def _offers_of(reply: Reply, everyone: Sequence[Reply], question: Question, now: float) -> list[dict[str, Any]]:
    """Return one row for each partition, QOS and size at which the job can be submitted to this cluster."""
    cluster, name = reply.cluster, str(question.options.get("job-name", ""))
    transfer_s = cluster.transfer_s(question.inputs)
    completed = {each.cluster.name: each.own_runs.get(name, (0.0,))[0] for each in everyone}
    best = max(everyone, key=lambda each: completed[each.cluster.name])
    ways = [way for way in reply.answer.results if way["what"] == AS_REQUESTED or question.any_size]
    rows = []
    for way in ways:
        runs, factor = [or_inf(run) for run in way["runs_s"]], SAME
        if completed[cluster.name] < ENOUGH_RUNS <= completed[best.cluster.name]:
            same = next((w for w in best.answer.results if w["what"] == way["what"]), None)
            if same is not None:
                factor = ratio(best.own_runs, reply.own_runs, best.cluster.speed, cluster.speed)
                runs = [or_inf(run) for run in same["runs_s"]]
        rows.append(_row(reply, way, runs, factor, transfer_s, question, now))
    return rows


def _row(
    reply: Reply, offer: Mapping[str, Any], runs: Sequence[float], factor: Ratio, transfer_s: float, question: Question,
    now: float,
) -> dict[str, Any]:  # fmt: skip
    """Return one offer as a flat dictionary; times are epoch seconds of this computer's clock."""
    limit = or_inf(offer["limit_s"])
    scaled = [min(run * draw, limit) for run in runs for draw in factor.draws()]
    waits = [or_inf(wait) for wait in offer["waits_s"]]
    # The service's clock may differ from this computer's clock, so `begin` is used relative to the service's time.
    later = max(float(offer["begin_s"]) - float(reply.answer.settings.get("now_s") or now), 0.0)
    ready = now + max(transfer_s, later)
    done, worst = (combined(waits, scaled, dependence=how) for how in (INDEPENDENT, COMONOTONE))
    factors = {name: correction(question.lateness.get(name, ()), level) for name, level in LEVELS.items()}
    ends = {name: now + factors[name] * (ready - now + done.quantile(level)) for name, level in LEVELS.items()}
    slow = factors["by_90_end_s"]
    left = math.nan if question.by is None else (question.by - now) / slow - (ready - now)
    typical = sorted(scaled)[len(scaled) // 2] if scaled else math.nan
    begun, (low, high) = combined(waits, [0.0]), factor.interval
    return {
        "cluster": reply.cluster.name,
        **{name: offer[name] for name in ("partition", "qos", "what")},
        "command": command_of(reply, offer, question.options),
        **{name: offer[name] for name in ("procs", "limit_s")},
        "transfer_s": transfer_s,
        "likely_start_s": ready + begun.quantile(0.5),
        "by_90_start_s": ready + begun.quantile(0.9),
        "likely_run_s": typical,
        **ends,
        **{f"{name}_factor": factor for name, factor in factors.items()},
        "by_90_end_comonotone_s": now + slow * (ready - now + worst.quantile(0.9)),
        "expected_end_s": ready + done.expected,
        "chance_done_by": math.nan if question.by is None else done.chance(left),
        "core_hours": offer["procs"] * typical / 3600.0,
        "run_ratio": factor.value,
        "run_ratio_low": low,
        "run_ratio_high": high,
        "run_ratio_basis": factor.basis,
        "dependence": INDEPENDENT,
        "basis": offer["basis"],
        "snapshot_s": reply.answer.log.get("snapshot_s"),
    }


def command_of(reply: Reply, offer: Mapping[str, Any], requested: Mapping[str, str]) -> str:
    """Return the submit command without the script: sbatch, the offer's options, and the translated options."""
    shown = {word.partition("=")[0].removeprefix("--") for word in shlex.split(str(offer["flags"]))}
    new = {name: value for name, value in reply.options.items() if name not in shown and requested.get(name) != value}
    more = [f"--{name}={shlex.quote(value)}" for name, value in new.items()]
    return " ".join([shlex.join(reply.cluster.words("sbatch")), str(offer["flags"]), *more]).strip()


def ranked(rows: Sequence[dict[str, Any]], deadline: bool) -> list[dict[str, Any]]:
    """Sort offers by expected end; with a deadline, by the probability to meet it, then by expected end.

    Core-hours decide only between offers with equal ends. If core-hours came first, a job that meets its deadline
    everywhere could end hours later to save a minute of run time.
    """
    chances = [row["chance_done_by"] for row in rows if row["chance_done_by"] == row["chance_done_by"]]

    def sort_key(row: Mapping[str, Any]) -> tuple[float, ...]:
        end = or_inf(row["expected_end_s"])
        if not deadline or not chances:
            return (end, row["by_90_end_s"], row["core_hours"])
        chance = row["chance_done_by"] if row["chance_done_by"] == row["chance_done_by"] else -1.0
        is_best = chance >= max(chances) - TIES_WITHIN
        return (not is_best, 0.0 if is_best else -chance, end, row["core_hours"])

    return sorted(rows, key=sort_key)
