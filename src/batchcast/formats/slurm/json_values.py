# SPDX-License-Identifier: Apache-2.0
"""Convert values in Slurm's JSON (data_parser v0.0.37 to v0.0.44) to the text that the same commands print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at(item: Any, path: str) -> Any:
    """Return the value at a path of keys; None if a key is missing.

    Examples
    --------
    >>> at({"time": {"limit": 60}}, "time/limit"), at({"time": None}, "time/limit")
    (60, None)
    """
    for key in path.split("/"):
        item = item.get(key) if isinstance(item, Mapping) else None
    return item


def number(value: Any) -> str:
    """Return a number as text, also from the form with `set` and `infinite`; empty if it is not set or infinite.

    Examples
    --------
    >>> number(60), number({"set": True, "infinite": False, "number": 60}), number({"set": False, "number": 0})
    ('60', '60', '')
    """
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if value is None or isinstance(value, bool | Mapping | list):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def tres(items: Any) -> str:
    """Return a list of TRES as `cpu=4,mem=2048M,gres/gpu=1`. Memory in TRES is in MiB.

    Examples
    --------
    >>> tres([{"type": "mem", "name": "", "count": 2048}, {"type": "gres", "name": "gpu:a100", "count": 2}])
    'mem=2048M,gres/gpu:a100=2'
    """
    return ",".join(
        f"{t['type']}{'/' + t['name'] if t.get('name') else ''}={t['count']}{'M' if t['type'] == 'mem' else ''}"
        for t in items or ()
    )


def as_list(value: Any) -> list[str]:
    """Return words as a list, from a JSON list, a single word or null.

    Examples
    --------
    >>> as_list("RUNNING"), as_list(["RUNNING", "COMPLETING"]), as_list(None)
    (['RUNNING'], ['RUNNING', 'COMPLETING'], [])
    """
    return [value] if isinstance(value, str) else [str(word) for word in value or ()]
