# SPDX-License-Identifier: Apache-2.0
"""`batchcast site purge` deletes old history, `site export` writes it as a log, `site token` manages bearer tokens.

A token lets a script use the HTTP service with the rights of one user.
"""

from __future__ import annotations

import math
import os
import re
import time
from operator import itemgetter
from typing import Any

import click

from ...errors import BatchcastError, UsageError
from ...predict.protocol import method_name
from ...units import counted, format_memory, span
from ..grammar import JSON, Verbs, formulas_option, option, output_option
from ..output import clock, document, emit, note, print_parsable, print_rows, refuse_two_on_stdout, say
from ..site_options import cluster_of, myself, site_options, site_settings, time_span


class _InOrder(Verbs):
    """A group that lists its verbs in the order of their declaration."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return list(self.commands)


@click.group(cls=_InOrder)
def site() -> None:
    """Manage the store: delete old history, issue tokens, export the history as a log."""


@site.command(
    json=JSON, short_help="Delete old jobs and their predictions; by default only show what would be deleted."
)
@site_options
@option("--keep-days DAYS", "Keep jobs that ended within this many days.  [default: `retention_days`]", "keep")
@option("--delete", "Delete. Without this option the command only shows what would be deleted.", "really")
@option("-P, --parsable2", "Print the sums with columns separated by |.")
def purge(keep: str | None, really: bool, parsable2: bool, as_json: bool, **options: Any) -> None:
    """Delete old finished jobs and their predictions; by default only show what would be deleted.

    Predictions are summed by month and method before they are deleted; the sums stay in the store and are printed.
    History within `memory_days` is never deleted.
    """
    from ...service.settings import keep_since
    from ...store.clock_jobs import read_meta
    from ...store.database import Store
    from ...store.history import due, remove_some

    settings = site_settings(options, retention_days=keep)
    days, limit = settings["retention_days"], keep_since(settings, time.time())
    before = -1e300 if limit is None else limit
    cluster, store = cluster_of(settings), Store(settings["store"])
    with store.begin() as connection:
        old_rows = due(connection, cluster, before)
    gone, went = 0, int(really and old_rows.jobs > 0)
    while went:
        with store.begin() as connection:
            gone += (went := remove_some(connection, cluster, before))
    with store.begin() as connection:
        memory = read_meta(connection, cluster)
    room = ""
    if gone:
        try:
            room = f"{store.give_back() / 1e6:.1f} MB of disk space were freed"
        except BatchcastError as error:
            room = f"the store has not shrunk; the freed space is reused: {error.message}"
    store.close()
    results = sums(memory.get("purged", {}))
    if as_json:
        shown = {"store": settings.shown("store"), "retention_days": days, "deleted": really}
        shown |= {"jobs": old_rows.jobs, "forecasts": old_rows.forecasts, "jobs_gone": gone}
        return emit(document("purge", {"cluster": cluster}, shown, [room] if room else [], results))
    say(*_words(old_rows, days, really, gone), *filter(None, [room]))
    if parsable2 and results:
        print_parsable(results)
    elif results:
        _print(results)


def _words(found: Any, days: float, really: bool, gone: int) -> list[str]:
    """Return what was deleted or would be deleted, and the next step."""
    if not days:
        return ["nothing would be deleted (retention_days = 0): --keep-days DAYS shows what would be"]
    if not found.jobs:
        return [f"nothing is older than {days:g} days"]
    span = " to ".join(time.strftime("%Y-%m-%d", time.gmtime(at)) for at in (found.first, found.last))
    what = f"{counted(found.jobs)} that ended {span}, with {counted(found.forecasts, 'prediction')}"
    if really:
        return [f"deleted: {gone} of {what}"]
    return [f"would be deleted: {what}", "next: --delete (batchcast site export -o FILE keeps the jobs as a log)"]


def sums(purged: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """Return one flat object for each month, kind, moment and method of deleted predictions."""
    results = []
    for name, one in sorted(purged.items()):
        month, kind, moment, method = name.split(" ", 3)
        came = one.get("came_out", 0.0)
        result: dict[str, Any] = {"month": month, "kind": kind, "moment": moment, "predictor": method}
        result |= {"forecasts": int(one["forecasts"]), "came_out": int(came)}
        for unit, of in (("s", kind in ("runtime", "wait", "limit")), ("kib", kind in ("memory", "request"))):
            result[f"mae_{unit}"] = one["sum_absolute_error_s"] / came if came and of else math.nan
            result[f"bias_{unit}"] = one["sum_error_s"] / came if came and of else math.nan
        for level in ("50", "90"):
            judged = one.get(f"judged_{level}", 0.0)
            result[f"coverage_{level}"] = one[f"held_{level}"] / judged if judged else math.nan
        results.append(result)
    return results


def _print(results: list[dict[str, Any]]) -> None:
    """Print the sums of deleted predictions as a table."""
    cells = {
        "predictor": lambda r: method_name(r["predictor"]),
        "mae_s": lambda r: format_memory(r["mae_kib"]) if r["mae_s"] != r["mae_s"] else span(r["mae_s"]),
    }
    columns = (
        "month, kind|FORECAST OF, moment|WHEN, predictor|BY, forecasts, came_out, "
        "mae_s|MEAN ERROR, coverage_50|WITHIN 50%, coverage_90|WITHIN 90%"
    )
    print_rows(columns, results, left=4, cells=cells)


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


@site.group(cls=Verbs, short_help="Create, list and revoke bearer tokens for scripts that use the HTTP service.")
def token() -> None:
    """Manage bearer tokens for scripts that use the HTTP service on loopback or through a proxy.

    A token gives the rights of one user. The store keeps only a digest. Only root and the collector's user can manage
    tokens.
    """


@token.command(json=JSON)
@click.argument("user")
@site_options
@option("--days", "Days until the token expires.", type=click.FloatRange(0, 3660, min_open=True), default=90.0)
@option("--label TEXT", "Label of the token.", default="", show_default=False)
def create(user: str, days: float, label: str, as_json: bool, **options: Any) -> None:
    """Create a token for USER and print it once.

    \b
    TOKEN=$(batchcast site token create ada --label nightly)
    curl -H "Authorization: Bearer $TOKEN" http://localhost:8642/v1/start
    """
    import secrets

    from ...store import tokens
    from ...store.database import Store

    if not _NAME.fullmatch(user):
        raise UsageError(f"not a user's name: {user[:70]!r} (accepted: letters, digits, _ . @ -)")
    settings = site_settings(options)
    now = time.time()
    until = now + days * 86400
    with Store(settings["store"]) as store, store.begin() as connection:
        drawn = secrets.token_bytes(tokens.ID_BYTES + tokens.SECRET_BYTES)
        token = tokens.issue(connection, drawn, user, label, now, until)
    row = {"id": tokens.id_of(token), "user": user, "label": label, "expires_s": until, "token": token}
    if as_json:
        return emit(document("token create", {}, {"store": settings.shown("store"), "days": days}, [], [row]))
    say(f"token {row['id']} of {user}, until {clock(until, now)}; the token is not shown again")
    if not _is_known(user):
        say(f"note: there is no user {user} on this machine")
    click.echo(token)


@token.command("list", json=JSON)
@site_options
@option("-P, --parsable2", "Print columns separated by |.")
def show(parsable2: bool, as_json: bool, **options: Any) -> None:
    """List every token: id, user, label, expiry, and whether it is valid."""
    from ...store.reader import Reader
    from ...store.tokens import state_of

    settings = site_settings(options)
    now = time.time()
    with Reader(settings["store"]) as reader:
        tokens = reader.ask("tokens")
    results = [
        {"id": row["id"], "user": row["user_id"], "state": state_of(row, now), "created_s": row["created"],
         "expires_s": row["expires"], "label": row["label"]}
        for row in tokens
    ]  # fmt: skip
    if as_json:
        emit(document("token list", {}, {"store": settings.shown("store")}, [], results))
    elif not results:
        say("no tokens: batchcast site token create USER")
    elif parsable2:
        print_parsable(results)
    else:
        print_rows(", ".join(results[0]), results, left=6, cells={"label": itemgetter("label")}, now=now)


@token.command(json=JSON)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@site_options
def revoke(ids: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Revoke tokens by id; the service rejects them within two seconds."""
    from ...store import tokens
    from ...store.database import Store

    settings = site_settings(options)
    with Store(settings["store"]) as store, store.begin() as connection:
        gone = tokens.revoke(connection, ids, time.time())
    if as_json:
        rows = [{"id": one, "was_valid": one in gone} for one in ids]
        return emit(document("token revoke", {}, {"store": settings.shown("store")}, [], rows))
    for one in ids:
        say(f"token {one} {'is revoked' if one in gone else 'was revoked before'}")


def _is_known(user: str) -> bool:
    """Return whether this machine has a user of this name."""
    import pwd

    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


@site.command(json=JSON, short_help="Write the stored job history as a log.")
@site_options
@output_option("Output; the ending sets the format: .swf (.gz, .xz), .csv, .parquet, - (CSV on stdout).", required=True)
@formulas_option
@option("-S, --starttime TIME", "Jobs submitted at or after this time, for example 2026-11-01 or now-7days.")
@option("-E, --endtime TIME", "Jobs submitted before this time.")
@option("--as-told", "Write the times that predictors received, without later corrections.")
def export(output: str, mark_formulas: bool, as_told: bool, as_json: bool, **options: Any) -> None:
    """Write the stored job history as a log: finished and waiting jobs.

    A waiting job has the status pending, its wait so far and no run time. Running jobs are omitted.

    If jobs are private, the log has only your own jobs (for root and the collector's user: all jobs), and the file is
    never more readable than the store. Times are accounting's latest. With --as-told they are the times that predictors
    received, so `runtime` and `wait` repeat the collector's predictions.
    """
    from ...service.answers.disclosure import exported
    from ...store.place import mode_of
    from ...trace.write import check_formulas, not_carried, write_by_ending

    refuse_two_on_stdout(output, as_json)
    kind = _format_of(output)
    check_formulas(output, kind, mark_formulas)
    settings = site_settings(options)
    since, until = time_span(options)
    trace, cluster, of = exported(settings, myself(), since, until, as_told=as_told)
    os.umask(os.umask(0o077) | (0o777 & ~mode_of(settings["store"])))  # not more readable than the store
    write_by_ending(trace, output, kind, mark_formulas=mark_formulas)
    notes = [*trace.info.notes, *not_carried(trace, kind)]
    left = trace.info.dropped["still open at export"]
    waiting = sum(status == "pending" for status in trace.nominal("status").decode())
    if as_json:
        shown = {"store": settings.shown("store"), "output": output, "starttime_s": since, "endtime_s": until}
        shown |= {"as_told": as_told, "user": of}
        counts = {"jobs": len(trace), "still_waiting": waiting, "still_open": left}
        emit(document("export", {"cluster": cluster}, shown, notes, [counts]))
    else:
        whose = f" of {of} (jobs are private here)" if of else ""
        say(
            f"{len(trace) - waiting} finished and {waiting} waiting jobs{whose} of {cluster} to {output}; "
            f"{left} still running were left out"
        )
        note(*notes)
        if output != "-":
            say(f"next: batchcast evaluate {output} -o report/")


def _format_of(output: str) -> str:
    """Return the format of the output file; a name without an ending means Parquet."""
    from ...trace.write import ENDINGS, FOLDER, kind_of

    if output.endswith("/"):
        raise UsageError(f"-o {output}: export writes one file (accepted: {ENDINGS}, - for CSV on stdout)")
    return "parquet" if (kind := kind_of(output)) == FOLDER else kind
