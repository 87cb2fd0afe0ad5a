"""An answer before it is printed or sent, and the one JSON document it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Said(NamedTuple):
    """An answer before it is printed or sent: the parts of the document, without its schema."""

    log: Mapping[str, Any]
    settings: Mapping[str, Any]
    warnings: Sequence[str]
    results: Sequence[Mapping[str, Any]]
