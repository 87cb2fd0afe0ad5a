# SPDX-License-Identifier: Apache-2.0
"""Parts of an answer: its document, translatable sentences, warnings about stale data, and instants."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...units import parse_when as time_of
from ...units import span

RISK = 0.05
"""The share of jobs that a suggestion may cut off, unless a user requests another share."""


class Answer(NamedTuple):
    """The parts of an answer's document (log, settings, warnings, results), before it is printed or sent."""

    log: Mapping[str, Any]
    settings: Mapping[str, Any]
    warnings: Sequence[str]
    results: Sequence[Mapping[str, Any]]


class Sentence(str):
    """English text that also has its `template` (a text of the catalogue) and the `values` put into it.

    A value that begins with `-` is a command-line option.

    >>> said = Sentence("raise %(flag)s by 5 %%", flag="--time")
    >>> said, said.template
    ('raise --time by 5 %', 'raise %(flag)s by 5 %%')
    """

    template: str
    values: Mapping[str, str]

    def __new__(cls, template: str, **values: str) -> Sentence:
        """Fill in the template; without values, the text is unchanged."""
        made = super().__new__(cls, template % values if values else template)
        made.template, made.values = template, values
        return made


def of_partition(memory: Mapping[str, Any], name: Any) -> Mapping[str, Any]:
    """Return the stored facts about a partition; empty for an unknown partition."""
    return partitions_of(memory).get(name or "") or {}


def partitions_of(memory: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the stored facts about each partition, by name."""
    return (memory.get("site") or {}).get("partitions") or {}


def default_partition(memory: Mapping[str, Any]) -> str:
    """Return the default partition of the site; empty if it is unknown."""
    return next((name for name, fields in partitions_of(memory).items() if fields.get("is_default")), "")


def usages(memory: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return the usage of each (account, user) in processor-seconds, from the stored values of a cluster.

    >>> usages({"shares": {"physics|ada": 60.0}})
    {('physics', 'ada'): 60.0}
    """
    known = ((who.partition("|"), seconds) for who, seconds in (memory.get("shares") or {}).items())
    return {(account, user): seconds for (account, _, user), seconds in known}


def nodes_away(memory: Mapping[str, Any]) -> frozenset[str]:
    """Return the nodes that were down or drained at the last query, from the stored values of a cluster."""
    return frozenset(name for name, node in (memory.get("nodes") or {}).items() if node["away"])


CLOCKS_APART_S = 2.0
"""If two clocks differ by more than this, a warning says so."""
NO_CYCLE = "the collector has not finished a cycle yet"
LATE = "the collector last read the queue %(ago)s ago: is batchcast collect running?"
AWAY = "%(daemon)s has not answered for %(ago)s (%(error)s)"
AHEAD = "the collector's clock is %(seconds)s s ahead of the batch system's: run NTP on both"
BEHIND = "the collector's clock is %(seconds)s s behind the batch system's: run NTP on both"
READING = "history is still being read; there is no prediction yet"
STANDS_BACK = "predictions are %(ago)s behind, until accounting reports how jobs of that time ended"
OLD = "answers about waiting jobs are %(ago)s old"
BLIND = "the collector has not seen other users' jobs for %(ago)s: answers about waiting jobs are that old"
STALE = (NO_CYCLE, BLIND, LATE, AWAY, AHEAD, BEHIND, READING, STANDS_BACK, OLD)
OLD_S = 600.0
"""If a renewed answer is older than this, a warning says so."""


def staleness(memory: Mapping[str, Any], now: float) -> list[str]:
    """Return warnings if the collector does not run, a daemon does not answer, or a clock is wrong.

    The collector is late if its last cycle is older than four of its intervals, and older than two minutes.
    """
    notes: list[str] = []
    patience = max(120.0, 4 * float(memory.get("interval_s") or 30.0))
    at = memory.get("cycle_at")
    if at is None:
        return [Sentence(NO_CYCLE)]
    if now - at > patience:
        notes.append(Sentence(LATE, ago=_ago(now - at)))
    if blind := memory.get("blind"):
        notes.append(Sentence(BLIND, ago=_ago(now - blind["since"])))
    for daemon, counter in memory.get("health", {}).items():
        if counter.get("away_since"):
            ago = _ago(now - counter["away_since"])
            notes.append(Sentence(AWAY, daemon=str(daemon), ago=ago, error=str(counter["last_error"])))
    ahead = memory.get("site", {}).get("clock_ahead_s") or 0.0
    if abs(ahead) > CLOCKS_APART_S:
        notes.append(Sentence(AHEAD if ahead > 0 else BEHIND, seconds=f"{abs(ahead):.0f}"))
    told_until = memory.get("told_until")
    if told_until is None:
        notes.append(Sentence(READING))
    elif at - told_until > max(300.0, 2 * patience):
        notes.append(Sentence(STANDS_BACK, ago=_ago(now - told_until)))
    return notes


def age_of(answers: Iterable[Mapping[str, Any]], now: float) -> list[str]:
    """Return a warning if the newest renewed answer is old, for example because the queue is very long.

    >>> told = {"submit_time_s": 0.0, "forecast_as_of_s": 3600.0}
    >>> age_of([told], 9000.0), age_of([told], 3700.0), age_of([{**told, "forecast_as_of_s": 0.0}], 9000.0)
    (['answers about waiting jobs are 1 h 30 min old'], [], [])
    """
    renewed = [one["forecast_as_of_s"] for one in answers if (one["forecast_as_of_s"] or 0.0) > one["submit_time_s"]]
    old = now - max(renewed, default=now)
    return [Sentence(OLD, ago=_ago(old))] if old > OLD_S else []


def _ago(seconds: float) -> str:
    """Return a time span in words; a negative span is shown as 0."""
    return span(max(seconds, 0.0))


def local_time(epoch: float | None) -> str:
    """Return an instant (epoch seconds) as local date and time; `never` without an instant."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(epoch)) if epoch else "never"


def parse_when(text: str, now: float | None = None) -> float:
    """Read an instant as `units.parse_when` does, in local time. `now` is in epoch seconds; the default is the present.

    >>> parse_when("uts100"), parse_when("now+2hours", 50.0)
    (100.0, 7250.0)
    """
    return time_of(text, time.time() if now is None else now)
