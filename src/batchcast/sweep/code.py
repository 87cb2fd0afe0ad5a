"""Which code computes a result: a digest of the sources that decide it, alike on every machine that has the same."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from .. import __version__

DECIDING = (
    *("cluster", "compiled", "events", "formats", "metrics", "predict", "schedule", "simulation", "table", "trace"),
    *("columns.py", "job.py", "units.py", "evaluation/differences.py", "evaluation/replicates.py", "sweep/work.py"),
)
"""What a task's result hangs on; an edit elsewhere (a page, the store, a verb) leaves finished results valid."""


@cache
def own_code(rooms: tuple[str, ...] = DECIDING) -> str:
    """The version and a digest of the deciding sources' bytes, in order of their names. About 20 ms, once a process.

    `rooms` are folders and files of the package.
    """
    root = Path(__file__).parent.parent
    content = hashlib.sha256()
    for room in rooms:
        place = root / room
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            content.update(f"{path.relative_to(root).as_posix()}\0".encode())
            content.update(path.read_bytes())
    return f"{__version__}+{content.hexdigest()[:16]}"


@cache
def code_of(predictor: str) -> str:
    """The same, with the source of a predictor of one's own (MODULE:CLASS) added.

    >>> code_of("requested") == own_code()
    True
    """
    module, colon, rest = predictor.partition(":")
    if not colon or not rest.partition(":")[0].isidentifier():
        return own_code()
    spec = importlib.util.find_spec(module)
    source = Path(spec.origin).read_bytes() if spec and spec.origin and spec.has_location else b""
    return f"{own_code()}+{hashlib.sha256(source).hexdigest()[:8]}"
