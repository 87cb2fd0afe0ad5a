# SPDX-License-Identifier: Apache-2.0
"""`batchcast site token`: bearer tokens, by which scripts ask over HTTP in a user's name."""

from __future__ import annotations

import re
import time
from typing import Any

import click

from ..grammar import Verbs
from ..output import document, emit, print_columns, print_parsable, say
from ..site_options import clock, site_options

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


@click.group(
    cls=Verbs, short_help="Bearer tokens, by which scripts ask over HTTP in a user's name: create, list, revoke."
)
def command() -> None:
    """Tokens for scripts that ask `batchcast serve` where nothing else says who asks: on loopback, through a proxy.

    A token stands for one user and shows what that user sees, never more, whoever presents it. The store keeps a
    digest. Who may write the store may do this: root, or the collector's user.
    """


@command.command()
@click.argument("user")
@site_options
@click.option("--days", type=click.FloatRange(0, 3660, min_open=True), default=90.0, show_default=True,
              help="How long it counts.")  # fmt: skip
@click.option("--label", default="", metavar="TEXT", help="What it is for, to tell it from others.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def create(user: str, days: float, label: str, as_json: bool, **flags: Any) -> None:
    """Issue a token of USER and print it, this once.

    \b
    TOKEN=$(batchcast site token create ada --label nightly)
    curl -H "Authorization: Bearer $TOKEN" http://localhost:8642/v1/start
    """
    import secrets

    from ...errors import UsageError
    from ...service.settings import load
    from ...store import tokens
    from ...store.database import Store
    from ...store.tokens import ID_BYTES, SECRET_BYTES, id_of

    if not _NAME.fullmatch(user):
        raise UsageError(f"not a user's name: {user[:70]!r} (accepted: letters, digits, _ . @ -)")
    settings = load(flags)
    now = time.time()
    until = now + days * 86400
    store = Store(settings["store"])
    with store.begin() as connection:
        token = tokens.issue(connection, secrets.token_bytes(ID_BYTES + SECRET_BYTES), user, label, now, until)
    store.close()
    if as_json:
        shown = {"store": settings.shown("store"), "days": days}
        emit(document("token create", {}, shown, [], [{"id": id_of(token), "user": user, "label": label,
                                                       "expires_s": until, "token": token}]))  # fmt: skip
        return
    say(f"token {id_of(token)} of {user}, until {clock(until, now)}; it is not shown again")
    if not _is_known(user):
        say(f"note: this machine knows no user {user}")
    click.echo(token)


@command.command("list")
@site_options
@click.option("-P", "--parsable2", is_flag=True, help="Columns parted by |.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show(parsable2: bool, as_json: bool, **flags: Any) -> None:
    """Every token: its id, whose it is, what for, until when, and whether it counts."""
    from ...service.settings import load
    from ...store.reader import Reader
    from ...store.tokens import state_of

    settings = load(flags)
    reader = Reader(settings["store"])
    now = time.time()
    results = [
        {"id": row["id"], "user": row["user_id"], "state": state_of(row, now), "created_s": row["created"],
         "expires_s": row["expires"], "label": row["label"]}
        for row in reader.ask("tokens")
    ]  # fmt: skip
    reader.close()
    if as_json:
        emit(document("token list", {}, {"store": settings.shown("store")}, [], results))
    elif not results:
        say("no tokens: batchcast site token create USER")
    elif parsable2:
        print_parsable(results)
    else:
        lines = [["ID", "USER", "STATE", "CREATED", "EXPIRES", "LABEL"]]
        for one in results:
            when = [clock(one[name], now) for name in ("created_s", "expires_s")]
            lines.append([one["id"], one["user"], one["state"], *when, one["label"]])
        print_columns(lines, left=6)


@command.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@site_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def revoke(ids: tuple[str, ...], as_json: bool, **flags: Any) -> None:
    """Let tokens count no longer, by their ids; the service knows within two seconds."""
    from ...service.settings import load
    from ...store import tokens
    from ...store.database import Store

    settings = load(flags)
    store = Store(settings["store"])
    with store.begin() as connection:
        gone = tokens.revoke(connection, ids, time.time())
    store.close()
    if as_json:
        emit(document("token revoke", {}, {"store": settings.shown("store")}, [],
                      [{"id": one, "was_valid": one in gone} for one in ids]))  # fmt: skip
        return
    for one in ids:
        say(f"token {one} {'counts no longer' if one in gone else 'was revoked before'}")


def _is_known(user: str) -> bool:
    import pwd

    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
