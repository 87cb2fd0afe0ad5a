# SPDX-License-Identifier: Apache-2.0
"""`batchcast collect` stores a cluster's history and predictions (read-only); `batchcast serve` answers over HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from ...errors import BatchcastError, Unreachable
from ...units import counted
from ..completion import specs
from ..grammar import option, verb
from ..interrupt import stop_on_signals
from ..output import document, emit, say
from ..site_options import log_option, site_options


def _predictor_option(kind: str, what: str, default: str) -> Callable[..., Any]:
    """Return the option of the predictors of this kind."""
    methods = "wait" if kind == "wait" else "runtime"
    text = f"{what}, NAME:key=value,...  [default: {default}]"
    return option(f"--{kind}-predictor SPEC", text, kind, shell_complete=specs(methods))


@verb(json="Print one JSON document per cycle.")
@site_options
@option("--once", "Run one cycle, read missing history, and stop.")
@option("--interval TIME", "Time between cycles.  [default: 30 s]", "interval_s")
@option("--history-days DAYS", "Days of history to read at the first start.  [default: 30]")
@_predictor_option("runtime", "Run-time predictor", "kernel,recent_mean,last_2,calibrated")
@_predictor_option("wait", "Wait predictor", "forecast,recent_wait")
@_predictor_option("memory", "Predictor of peak memory", "kernel")
@option(
    "--record FILE",
    "Also write every query to the batch system and its answer to this file.",
    type=click.Path(dir_okay=False),
)
@option("--quiet", "Print only problems.")
@log_option
def command(once: bool, record: str | None, quiet: bool, as_json: bool, **options: Any) -> None:
    """Collect a cluster's history and store predictions, until stopped.

    Reads sacct in overlapping windows, then squeue in every cycle. It changes no job unless the setting `plan` switches
    planning on. Stop it with SIGTERM or Ctrl-C; after a kill, run it again and it continues.
    """
    from ...service.answers.model_store import make_predictors
    from ...service.batch_system import open_scheduler
    from ...service.collector.cycle import Collector, Cycle, run
    from ...service.log import Log
    from ...service.planning.agent import planner_of
    from ...service.settings import keep_since, load, machine_at
    from ...store.database import Store, single_writer

    settings = load(options)
    predictors = {name: settings[name] for name in ("runtime", "wait", "memory", "limits")}
    shown = {"store": settings.shown("store"), "once": once, "interval_s": settings["interval_s"], **predictors}
    # wrong settings are reported before the first cycle
    make_predictors(**predictors, machine=machine_at(settings["machine"]))
    keep_since(settings, 0.0)
    stop = stop_on_signals()
    store = Store(settings["store"], create=True)
    scheduler, health = open_scheduler(settings, record)

    log = Log(say, settings["log_format"], dated="JOURNAL_STREAM" not in os.environ)

    def report(cycle: Cycle) -> None:
        rebuilt = [cycle.step.rebuilt] if cycle.step.rebuilt else []
        for kind, texts in (("rebuilt", rebuilt), ("notice", cycle.notices), ("problem", cycle.problems)):
            for text in texts:
                log(kind, f"batchcast collect: {text}", level="warning")
        if as_json:
            emit(document("collect", {"cluster": settings["cluster"]}, shown, cycle.problems, [_row(cycle)]))
            sys.stdout.flush()
        elif not quiet:
            log("cycle", "", **_row(cycle)) if log.is_json else log("cycle", _line(cycle))

    with single_writer(store):
        every = f"every {settings['interval_s']:g} s"
        log("collecting", f"collecting from {settings['scheduler']} {every} into {store.safe_url}")
        collector = Collector(scheduler, store, settings, health)
        collector.planner = planner_of(scheduler, store, settings)
        last = run(collector, stop, report, once)
    store.close()
    if once and last.problems:
        kind = Unreachable if last.unreachable else BatchcastError
        raise kind("some data could not be collected", hint="batchcast doctor checks every part")


def _row(cycle: Any) -> dict[str, Any]:
    """Return the results of one collector cycle as one flat object."""
    return {
        "jobs_shown": cycle.jobs,
        "jobs_unreadable": cycle.broken,
        "jobs_new": cycle.seen.new + cycle.ended.new,
        "ends": cycle.ended.changed,
        "forecasts_issued": cycle.step.issued,
        "jobs_gone": cycle.gone,
        "limits_planned": cycle.planned.planned,
        "limits_restored": cycle.planned.restored,
        "comments_written": cycle.planned.commented,
        "limits_standing": cycle.planned.standing,
        "factors_set": cycle.planned.ordered,
        "factors_returned": cycle.planned.returned,
        "factors_standing": cycle.planned.placed,
        "behind_s": cycle.behind_s,
    }


def _line(cycle: Any) -> str:
    """Return what one cycle of the collector read and did, as a line of the log."""
    p = cycle.planned
    behind = "reading history" if cycle.behind_s != cycle.behind_s else f"{cycle.behind_s:.0f} s behind"
    return (
        f"{counted(cycle.jobs)} in the queue, "
        + (f"{cycle.broken:,} that could not be read, " if cycle.broken else "")
        + f"{cycle.seen.new + cycle.ended.new:,} new, "
        f"{counted(cycle.ended.changed, 'end')} from accounting, {counted(cycle.step.issued, 'prediction')} made"
        f", clock {behind}"
        + (f", {counted(cycle.gone, 'old job')} deleted" if cycle.gone else "")
        + (f", priorities: {p.ordered} set, {p.returned} restored, {p.placed} active" if p.ordered or p.placed else "")
        + (f", limits: {p.planned} planned, {p.restored} restored, {p.standing} active" if any(p.counts) else "")
    )


@verb(json="Print one JSON document when the service answers: address and store.")
@site_options
@option("--listen PATH|HOST:PORT", "Path of a unix socket, or a port on loopback.  [default: the setting `listen`]")
@option("--quiet", "Do not log requests.")
@log_option
def serve(listen: str | None, quiet: bool, as_json: bool, **options: Any) -> None:
    """Answer start, walltime, report, accuracy and health over HTTP from the store, until stopped.

    GET /v1/start?job=42, /v1/walltime?name=relax*&risk=5%25, /v1/report, /v1/accuracy and /v1/health return the
    documents of --json. On a unix socket the kernel identifies the user, and PrivateData applies. On loopback the user
    is unknown, and private sites return only statistics over several users. Read-only.
    """
    from ...service.answers.disclosure import refuse_open_store
    from ...service.http.server import Server
    from ...service.settings import load

    settings = load({**options, "listen": listen})
    refuse_open_store(settings)
    stop = stop_on_signals()
    with Server(settings, settings["listen"], say, quiet) as server:
        words = f"answering from {settings.shown('store')} on {server.shown}"
        server.log("listening", words, store=settings.shown("store"), listening_on=server.shown)
        if as_json:
            shown = {"store": settings.shown("store"), "quiet": quiet}
            emit(document("serve", {}, shown, [], [{"listening_on": server.shown}]))
            sys.stdout.flush()
        while server.is_answering and not stop(3600.0):
            pass
