"""What a reproduction that keeps its parts prints at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .output import console, emit, say

if TYPE_CHECKING:
    from ..papers.kept import Kept


def print_reproduced(kept: Kept, output: str, doc: Mapping[str, Any], blocks: Sequence[Any], as_json: bool) -> None:
    """What was computed and where it lies, on stderr; then the document, or its tables and sentences."""
    from ..report.terminal import show

    say(
        f"{kept.computed} parts computed, {kept.reused} found in {output}/parts; "
        f"all of them cost {kept.cpu_s:,.0f} s of CPU"
    )
    say(f"page: {output}/index.html, numbers: {output}/result.json")
    if as_json:
        emit(doc)
    else:
        show(console(), blocks)
