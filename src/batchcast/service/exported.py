"""A cluster's history as a log, as far as the viewer may see it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Refused
from .access import Asker, open_site
from .settings import Settings

if TYPE_CHECKING:
    from ..table import Trace


class Exported(NamedTuple):
    """The log, the cluster, and whose jobs it holds alone (None: everybody's)."""

    trace: Trace
    cluster: str
    of: str | None


def exported(
    settings: Settings, viewer: Asker, since: float = -math.inf, until: float = math.inf, *, as_told: bool = False
) -> Exported:
    """Jobs submitted in [since, until), epoch seconds; where jobs are hidden, the viewer's own, and everybody's to the
    user who collects. Refused to somebody unknown."""
    from ..store.database import Store
    from ..store.export import to_trace

    with open_site(settings, viewer) as site:
        collects = viewer.name is not None and viewer.name == site.memory.get("collected_by")
        hidden = site.private and not collects
        of = viewer.name if hidden else None
        if hidden and of is None:
            raise Refused("jobs are private here, and nobody knows who asks", hint="as the user whose jobs they are")
        store = Store(settings["store"], read_only=True)
        with store.begin() as connection:
            trace = to_trace(connection, site.cluster, since, until, as_told=as_told, user=of)
        store.close()
    return Exported(trace, site.cluster, of)
