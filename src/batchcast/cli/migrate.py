"""`batchcast migrate`: the store brought up to this version, or taken back to what an older batchcast reads."""

from __future__ import annotations

from typing import Any

import click

from .output import document, emit, say
from .site import site_options


@click.command()
@site_options
@click.option("--to", type=int, metavar="VERSION", help="Take it back to this schema version.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(to: int | None, as_json: bool, **flags: Any) -> None:
    """Bring the store's tables up to this version, or take them back before an older batchcast is installed.

    A collector brings an older store up to date by itself. To go back: stop collector and service, `migrate --to` the
    version that the older batchcast knows (it names it when it refuses a store), then install that one. Jobs and
    forecasts stay as they are; what the older tables have no room for is said.
    """
    from ..service.settings import load
    from ..store.database import Store
    from ..store.place import VERSION
    from ..store.reader import Reader
    from ..store.writer import single_writer

    settings = load(flags)
    reader = Reader(settings["store"])
    before = reader.schema_version()
    reader.close()
    store = Store(settings["store"])
    lost: list[str] = []
    if to is not None:
        with single_writer(store):
            lost = store.take_back(to)
    store.close()
    after = VERSION if to is None else to
    if as_json:
        emit(document("migrate", {}, {"store": settings.shown("store")}, lost, [{"before": before, "after": after}]))
        return
    for one in lost:
        say(f"gone: {one}")
    same = "is of schema version" if before == after else f"was of schema version {before}, is now of"
    say(f"{settings.shown('store')} {same} {after}")
