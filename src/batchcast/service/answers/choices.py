# SPDX-License-Identifier: Apache-2.0
"""When a job would start with each choice of a form, before anything is sent: for portals, which wait milliseconds.

The answers are those of `start --test`. A process that is asked again keeps the collector's clock between questions
(`renew`); everything else is read anew.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from ...errors import BatchcastError, Refused, UsageError
from ...formats.slurm.sbatch import HEARD
from ...predict.conditional import given_waited
from ...store.rows import NOTHING
from ..settings import Settings
from .answer import Answer, staleness
from .disclosure import Site, Viewer, open_site, start_settings
from .forecaster import Forecaster, begin_condition, forecaster, request_of

MOST_CHOICES = 20
OLD_S = 1800.0
"""A clock that stands further back is not asked: it is loaded anew first."""
SHARE = 20.0
"""Loading again takes at most one in so many seconds, however long it takes on a large site."""


@dataclass
class _Held:
    """The last clock that was loaded, of which store and how far, when (monotonic), and the seconds that took."""

    of: tuple[str, str, float | None]
    ask: Forecaster
    at: float
    took: float


_held: _Held | None = None


def renew(settings: Settings) -> None:
    """Load the collector's clock where it has moved on, and ask it once, which loads what answers."""
    with open_site(settings, Viewer(None)) as site:
        now = time.time()
        _clock(settings, site, now, 0.0).wait(request_of({}, site, "", now))


def answer_choices(settings: Settings, choices: Sequence[str], user: str, viewer: Viewer, now: float) -> Answer:
    """When a job of this user would start with each of the choices, submitted now; in their order, one row each.

    A choice is sbatch's long options as a query (`ntasks=4&time=240`). One that cannot be answered has a row without
    times that says why. UsageError for more than `MOST_CHOICES`; Refused for other users' on a private site.

    >>> answer_choices(None, [], "ada", Viewer("ada"), 0.0)
    Traceback (most recent call last):
    batchcast.errors.UsageError: no choice (accepted: choice=ntasks%3D4%26time%3D240, up to 20 of them)
    """
    if not 0 < len(choices) <= MOST_CHOICES:
        many = f"{len(choices)} choices" if choices else "no choice"
        raise UsageError(f"{many} (accepted: choice=ntasks%3D4%26time%3D240, up to {MOST_CHOICES} of them)")
    with open_site(settings, viewer) as site:
        if site.private and user != viewer.name:
            raise Refused("jobs are private here", hint="choices for a job of your own")
        ask = _clock(settings, site, now, OLD_S)
        rows = [_row(place, text, ask, site, user, now) for place, text in enumerate(choices)]
        return Answer({"cluster": site.cluster}, start_settings(settings, now), staleness(site.memory, now), rows)


def _row(place: int, text: str, ask: Forecaster, site: Site, user: str, now: float) -> dict[str, Any]:
    row: dict[str, Any] = {"choice": place, "likely_start_s": math.nan, "by_90_start_s": math.nan, "why": ""}
    try:
        options = _options(text)
        begin = begin_condition(options, now)[1] or now
        job = request_of(options, site, user, now)
        wait = ask.wait(job)
    except BatchcastError as error:
        return {**row, "why": error.message}
    row |= {"partition": job.partition_id, "procs": job.procs, "limit_s": job.req_time, "why": wait.basis}
    if wait.grounds == NOTHING:
        return row
    given = given_waited(wait, 0.0, (0.5, 0.9))
    late = given.quantiles[1] if len(given.quantiles) > 1 else math.nan
    return {**row, "likely_start_s": begin + given.point, "by_90_start_s": begin + late}


def _options(text: str) -> Mapping[str, str]:
    """A choice's options; UsageError for one that no forecast goes by, so that nobody believes it was heard."""
    options = dict(parse_qsl(text))
    if strange := sorted(set(options) - set(HEARD)):
        raise UsageError(f"no option {strange[0][:40]!r} (accepted: {', '.join(HEARD)})")
    return options


def _clock(settings: Settings, site: Site, now: float, old_s: float) -> Forecaster:
    """The clock at `now`: the one that is held where nothing has changed since, where it was loaded at most so many
    seconds ago, or where loading took too long to do it again yet."""
    global _held
    begun = time.monotonic()
    of = (str(settings["store"]), site.cluster, site.memory.get("told_until"))
    still = max(old_s, SHARE * _held.took) if _held is not None else 0.0
    if _held is not None and (_held.of == of or (_held.of[:2] == of[:2] and begun - _held.at < still)):
        _held.ask.clock.state.now = now
        return _held.ask
    ask = forecaster(settings, site, now, ("wait",))
    _held = _Held(of, ask, begun, time.monotonic() - begun)
    return ask
