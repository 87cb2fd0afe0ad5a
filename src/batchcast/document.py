# SPDX-License-Identifier: Apache-2.0
"""The JSON document that all commands, all reports and the HTTP API return."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec


def document(
    verb: str,
    log: Mapping[str, Any],
    settings: Mapping[str, Any],
    warnings: Sequence[str],
    results: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the JSON document: schema, log, settings with defaults, warnings, and results with one object per row."""
    return {
        "schema": f"batchcast/{verb}/1",
        "log": dict(log),
        "settings": dict(settings),
        "warnings": [in_number(warning) for warning in warnings],
        "results": [dict(r) for r in results],
    }


_SINGULAR = {"are": "is", "were": "was", "have": "has", "do": "does"} | {
    verb: f"{verb}s" for verb in ("keep", "repeat", "describe")
}
_SINGULAR_NOUN = re.compile(
    r"(?<![\d,.])\b1 (job|line|record|column|value|row|task|refit|file|step)s\b"
    rf"(?: ({'|'.join(_SINGULAR)})\b)?"
)


def in_number(text: str) -> str:
    """Return a number with its noun, in the singular after the number 1.

    >>> in_number("1 jobs have no limit: 1 lines torn, 21 jobs are kept")
    '1 job has no limit: 1 line torn, 21 jobs are kept'
    """
    return _SINGULAR_NOUN.sub(lambda one: f"1 {one[1]}" + (f" {_SINGULAR[one[2]]}" if one[2] else ""), text)


def dumps(value: Any, indent: int | None = 2) -> str:
    """Return JSON text; NaN and infinities become null, and NumPy scalars become plain numbers.

    >>> dumps({"a": float("nan"), "b": (1, 2.5)}, indent=None)
    '{"a": null, "b": [1, 2.5]}'
    """
    return json.dumps(plain(value), indent=indent, ensure_ascii=False)


def compact(value: Any) -> bytes:
    """Return the same JSON as `dumps`, but without spaces, and in less time because msgspec is compiled.

    >>> compact({"a": float("nan"), "b": (1, 2.5)})
    b'{"a":null,"b":[1,2.5]}'
    """
    return msgspec.json.encode(value, enc_hook=plain)


def plain(value: Any) -> Any:
    """Return a value converted to JSON's types; a dataclass becomes a JSON object."""
    if value is None or isinstance(value, bool):
        return value
    # A subclass such as `answer.Sentence` becomes its plain type, because msgspec passes a subclass to this hook again.
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(v) for v in value]
    return str(value)
