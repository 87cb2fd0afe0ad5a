"""`batchcast doctor`: settings with their sources, and a check of every part."""

from __future__ import annotations

from typing import Any

import click

from .output import document, emit
from .site import site_options


@click.command()
@site_options
@click.option("--no-ask", is_flag=True, help="Call no daemon: settings, clients and store only.")
@click.option("--settings", "show_settings", is_flag=True, help="Every setting, its value and where it came from.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(no_ask: bool, show_settings: bool, as_json: bool, **flags: Any) -> None:
    """Is everything there and does it answer? What is wrong comes with what to do. Exit code 1 if anything failed."""
    from ..errors import BatchcastError
    from ..service.checkup import check, settings_in_force
    from ..service.settings import load

    settings = load(flags)
    force = settings_in_force(settings)
    if show_settings and not as_json:
        width = max(len(s["setting"]) for s in force)
        for s in force:
            click.echo(f"{s['setting'].ljust(width)} = {s['value']}  [{s['from']}]  {s['meaning']}")
        return
    findings = list(check(settings, not no_ask))
    if as_json:
        emit(document("doctor", {}, {s["setting"]: s["value"] for s in force}, [], findings))
    else:
        for s in force:
            if s["from"] != "built in":
                click.echo(f"setting  {s['setting']} = {s['value']} ({s['from']})")
        width = max(len(f["check"]) for f in findings)
        for f in findings:
            click.echo(f"{f['state']:8} {f['check'].ljust(width)}  {f['found']}")
            if f["do"] and f["state"] != "ok":
                click.echo(f"{'':8} {''.ljust(width)}  -> {f['do']}")
    failed = [f["check"] for f in findings if f["state"] == "failed"]
    if failed:
        raise BatchcastError(f"failed: {', '.join(failed)}")
