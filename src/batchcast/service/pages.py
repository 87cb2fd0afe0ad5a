from __future__ import annotations

from typing import Any


def routes() -> list[Any]:
    return []
