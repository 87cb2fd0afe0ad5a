"""Asks the service on this machine where the store itself is closed to this user: the same answers, the same rule."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from ..errors import BatchcastError, NoAnswer, Refused, Unreachable, UsageError
from ..store.place import sqlite_path
from .document import Said
from .settings import Settings

PATIENCE_S = 60.0
_KINDS: dict[int, type[BatchcastError]] = {1: Refused, 2: UsageError, 3: NoAnswer, 4: Unreachable}


def answered(settings: Settings, verb: str, parameters: Mapping[str, object], here: Callable[[], Said]) -> Said:
    """The answer from the store, or, where that is closed to this user, from the service's socket."""
    if not is_closed(settings) or "/" not in settings["listen"]:
        return here()
    return ask_service(settings["listen"], verb, parameters)


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
