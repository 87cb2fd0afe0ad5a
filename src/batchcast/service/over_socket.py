"""Asks the service on this machine where the store itself is closed to this user: the same answers, the same rule."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from urllib.parse import urlencode

from ..errors import BatchcastError, NoAnswer, Refused, Unreachable, UsageError
from ..store.place import sqlite_path
from .document import Said
from .settings import Settings

PATIENCE_S = 60.0
_KINDS: dict[int, type[BatchcastError]] = {1: Refused, 2: UsageError, 3: NoAnswer, 4: Unreachable}


def answered(settings: Settings, verb: str, parameters: Mapping[str, object], here: Callable[[], Said]) -> Said:
    """The answer from the store, or, where that is closed to this user, from the service's socket.

    What was not submitted is asked of the service too where only that may read what the collector has learned; if it
    does not answer, it is learned anew here.
    """
    if "/" not in settings["listen"]:
        return here()
    if is_closed(settings):
        return ask_service(settings["listen"], verb, parameters)
    if verb in ("test", "where") and _is_learned_by_another(settings):
        with suppress(Unreachable):
            return ask_service(settings["listen"], verb, parameters)
    return here()


def _is_learned_by_another(settings: Settings) -> bool:
    """Whether a clock is kept beside the store that this user may not read."""
    path = sqlite_path(settings["store"])
    kept = [] if path is None else list(path.parent.glob(f"{path.name}.*.clock"))
    return bool(kept) and not any(os.access(one, os.R_OK) and one.stat().st_uid in (0, os.geteuid()) for one in kept)


def is_closed(settings: Settings) -> bool:
    """Whether there is a store of which this user may not read anything."""
    path = sqlite_path(settings["store"])
    if path is None:
        return False
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return not os.access(path, os.R_OK)


def ask_service(listen: str, verb: str, parameters: Mapping[str, object]) -> Said:
    """The document of `/v1/VERB` on a unix socket. Its errors are raised as what they are; Unreachable without one."""
    given = {name: str(value) for name, value in parameters.items() if value is not None}
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    try:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(listen.removeprefix("unix:"))
        connection.request("GET", f"/v1/{verb}?{urlencode(given)}")
        document = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(
            f"the store is closed to you, and the service on {listen} does not answer ({error})",
            hint="ask its operator: batchcast serve gives users their answers where the store is private",
        ) from None
    finally:
        connection.close()
    if "results" not in document:
        kind = _KINDS.get(document.get("exit_code", 1), BatchcastError)
        raise kind(document.get("error", "no answer"), hint=document.get("try", ""))
    return Said(document["log"], document["settings"], document["warnings"], [_numbers(r) for r in document["results"]])


def _numbers(result: Mapping[str, object]) -> dict[str, object]:
    """JSON's null for an unknown number as the verbs print it."""
    return {
        name: float("nan") if value is None and name.endswith(("_s", "_rate", "_50", "_90", "_share")) else value
        for name, value in result.items()
    }
