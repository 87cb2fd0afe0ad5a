# SPDX-License-Identifier: Apache-2.0
"""Options and helpers shared by the verbs that use a collector's store."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ..errors import NoStore
from ..service.answers.answer import parse_when as parse_when
from .grammar import adds, option

if TYPE_CHECKING:
    from ..service.answers.answer import Answer
    from ..service.settings import Settings


site_options = adds(
    option("--store PATH|URL", "Path or URL of the store.  [default: the setting `store`]", type=click.Path()),
    option("--batch-system slurm|pbs", "Batch system.  [default: slurm]", "scheduler"),
    option("-M, --cluster NAME", "Cluster.  [default: the only cluster in the store]"),
)
"""Options of every verb for a running cluster."""
log_option = option("--log-format text|json", "Format of log lines.  [default: text]")
"""Option of the daemons."""


def site_settings(options: Mapping[str, Any], passed_over: list[Any] | None = None, **more: Any) -> Settings:
    """Return the settings of the site, replaced by the values of `site_options` and by the settings in `more`.

    If `passed_over` is a list, errors of wrong settings are appended to the list instead of being raised.
    """
    from ..service.settings import load

    return load(
        {**{name: options[name] for name in ("store", "scheduler", "cluster")}, **more}, passed_over=passed_over
    )


def cluster_of(settings: Settings) -> str:
    """Return the cluster of the settings, else the only cluster in the store."""
    from ..service.answers.disclosure import choose_cluster
    from ..store.reader import Reader

    with Reader(settings["store"]) as reader:
        return choose_cluster(reader, settings["cluster"] or None)


def ask(
    settings: Settings,
    question: str,
    parameters: Mapping[str, object],
    answer_here: Callable[[], Answer],
    without_store: Callable[[str], Answer],
) -> Answer:
    """Return the answer to a question of the HTTP service, from the service or from this process (`answer_here`).

    If there is no store, `without_store` answers; its argument says why there is none.
    """
    from ..service.answers.fallback import answer_or_ask_service

    try:
        return answer_or_ask_service(settings, question, parameters, answer_here)
    except NoStore as error:
        return without_store(error.message)


def time_span(options: Mapping[str, Any], usual: str | None = None) -> tuple[float, float]:
    """Return the times of `--starttime`, by default `usual`, and `--endtime` in epoch seconds; infinite if absent."""
    start, end = options["starttime"] or usual, options["endtime"]
    return parse_when(start) if start else -math.inf, parse_when(end) if end else math.inf


def deadline_of(by: str | None, now: float) -> float | None:
    """Return `--done-by` in epoch seconds; a time of day that has passed means tomorrow, as in sbatch."""
    if by is None:
        return None
    until = parse_when(by, now)
    return until + 86400.0 if until <= now and re.fullmatch(r"[\d:]+", by) else until


def span_parameters(since: float, until: float) -> dict[str, str]:
    """Return a time span in epoch seconds as parameters of the HTTP service."""
    ends = {"starttime": since, "endtime": until}
    return {name: f"uts{at:.0f}" for name, at in ends.items() if math.isfinite(at)}


def myself() -> Any:
    """Return the user of this process for the privacy rules."""
    from ..service.answers.disclosure import Viewer
    from ..service.settings import own_name

    return Viewer(own_name(), sees_all=os.getuid() == 0)
