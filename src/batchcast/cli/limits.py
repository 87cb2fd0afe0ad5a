"""`batchcast limits`: which limits to ask for, and what they would have cost this log."""

from __future__ import annotations

from typing import Any

import click

from .options import describe_log, log_options, take_log
from .output import console, document, emit, progress
from .plan import span


def _risk(_: click.Context, __: click.Parameter, text: str) -> float:
    from ..units import parse_share

    return parse_share(text)


@click.command("limits")
@log_options
@click.option(
    "--by", type=click.Choice(["user", "account", "queue", "application"]), help="The largest groups as well."
)
@click.option("--risk", default="5%", show_default=True, callback=_risk, help="Share of jobs that may be cut off.")
@click.option("--floor", default="5:00", show_default=True, callback=span, metavar="TIME", help="The shortest limit.")
@click.option("--step", default="5:00", show_default=True, callback=span, metavar="TIME", help="Limits are multiples.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(by: str | None, risk: float, floor: float, step: float, as_json: bool, **given: Any) -> None:
    """Advise the shortest limit whose risk of a kill is the one given, at every submission of LOG, and count the cost.

    Beside it the usual rule (1.25 x the longest of the last ten) and the users' own limits. Advice knows only what had
    ended at the submission and never exceeds the user's own limit.
    """
    from ..evaluation.limits import advice_words, find_limits, limit_rows
    from ..report.limits import limit_differences, limits_table
    from ..report.terminal import show

    log = take_log(given)
    with progress("advising limits", len(log.trace)) as tick:
        advice = find_limits(log.trace, risk=risk, floor=floor, step=step, procs=log.procs, tick=tick)
    rows, groups = limit_rows(advice), limit_rows(advice, by) if by else []
    settings = {**log.settings, "by": by, "risk": risk, "floor_s": floor, "step_s": step}
    if as_json:
        emit(document("limits", describe_log(log.trace), settings, log.warnings, [*rows, *groups]))
        return
    tables = [limits_table(rows, risk), *limit_differences(rows), *([limits_table(groups, risk, by)] if groups else [])]
    show(console(), [*tables, advice_words(rows, risk)])
