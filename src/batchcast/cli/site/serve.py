# SPDX-License-Identifier: Apache-2.0
"""`batchcast serve`: the users' answers as JSON over HTTP, on this machine."""

from __future__ import annotations

from typing import Any

import click

from ..grammar import Renamed, verb
from ..interrupt import stop_on_signals
from ..output import document, emit, say
from ..site_options import log_option, site_options


@verb()
@site_options
@click.option("--listen", metavar="PATH|HOST:PORT", help="A unix socket, or a port on loopback.  [default: as set]")
@click.option("--quiet", cls=Renamed, formerly=("-q",), is_flag=True, help="No line for each request.")
@log_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document once it answers: where, from what.")
def command(listen: str | None, quiet: bool, as_json: bool, **flags: Any) -> None:
    """Answer start, walltime, report, accuracy and health over HTTP, from the store, until stopped.

    GET /v1/start?job=42, /v1/walltime?name=relax*&risk=5%25, /v1/report, /v1/accuracy, /v1/health: the documents that
    --json prints. On a unix socket the kernel says who asks, and the site's PrivateData holds as on the command line;
    on loopback nobody knows, and private sites answer only with figures over several users. Read-only.
    """
    import sys
    import threading

    from ...service.http.server import Server
    from ...service.settings import load

    settings = load({**flags, "listen": listen})
    stop = stop_on_signals()
    server = Server(settings, settings["listen"], say, quiet)
    words = f"answering from {settings.shown('store')} on {server.shown}"
    server.log("listening", words, store=settings.shown("store"), listening_on=server.shown)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    if as_json:
        settings_shown = {"store": settings.shown("store"), "quiet": quiet}
        emit(document("serve", {}, settings_shown, [], [{"listening_on": server.shown}]))
        sys.stdout.flush()
    try:
        while thread.is_alive() and not stop(3600.0):
            pass
    finally:
        server.stop()
        thread.join()
