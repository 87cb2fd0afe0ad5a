"""Reads what `batchcast evaluate` left: the numbers of a report, told apart from everything that only looks like it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, input_error

VERB, VERSION = "evaluate", 1
AGAIN = "batchcast evaluate LOG -o FOLDER, then its FOLDER"


def read_result(path: str | Path) -> tuple[dict[str, Any], Path]:
    """The document of a report folder or of its result.json, and the folder it lies in.

    Raises InputError that says what the file is where it is not a result of `evaluate` of a version known here.
    """
    given = Path(path)
    place = given / "result.json" if given.is_dir() else given
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        what = "is a folder without result.json, so no report" if given.is_dir() else "does not exist"
        raise input_error(str(path), what, accepted="a report's folder or its result.json", hint=AGAIN) from None
    except UnicodeDecodeError:
        raise input_error(str(place), "is not text, so no result.json", hint=AGAIN) from None
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror or error})") from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise input_error(str(place), f"is not JSON ({error.msg})", line=error.lineno, hint=AGAIN) from None
    _check(document, str(place))
    return document, place.parent


def _check(document: Any, name: str) -> None:
    schema = document.get("schema") if isinstance(document, Mapping) else None
    parts = schema.split("/") if isinstance(schema, str) else []
    if len(parts) != 3 or parts[0] != "batchcast":
        raise input_error(name, "is JSON, but not a document of batchcast", value=schema, hint=AGAIN)
    if parts[1] != VERB:
        raise input_error(
            name,
            f"is what `batchcast {parts[1]}` printed",
            value=schema,
            accepted=f"batchcast/{VERB}/{VERSION}",
            hint=AGAIN,
        )
    if parts[2] != str(VERSION):
        raise input_error(
            name, "is of another version", value=schema, accepted=f"batchcast/{VERB}/{VERSION}",
            hint="evaluate both logs with one version of batchcast",
        )  # fmt: skip
    rows = document.get("results")
    whole = isinstance(rows, list) and all(isinstance(row, dict) and "part" in row for row in rows)
    if not whole or not all(isinstance(document.get(key), dict) for key in ("log", "settings")):
        raise input_error(name, "lacks log, settings or results: it was cut or edited", hint=AGAIN)
