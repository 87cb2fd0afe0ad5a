"""A slow reference version of the SWF reader: split() and float(), one line at a time."""

from __future__ import annotations

import math

WHOLE = (1, 11, 12, 13, 14, 15, 16)


def read(text: bytes) -> list[list[float | None]]:
    """Return the valid records in log order as eighteen values each; None for unknown."""
    records = []
    for line in text.split(b"\n"):
        words = line.decode("utf-8", "replace").split()
        if not words or words[0].startswith(";") or len(words) < 18:
            continue
        values: list[float | None] = []
        try:
            for field, word in enumerate(words[:18], start=1):
                value = float(word)
                if "_" in word:
                    raise ValueError("Python's own digit groups")
                good = 0 <= value < math.inf and (field not in WHOLE or (value == int(value) and value < 2**53))
                values.append(value if good else None)
        except ValueError:
            continue
        if values[0] is not None and values[1] is not None:
            records.append(values)
    return [r for _, r in sorted(enumerate(records), key=lambda pair: (pair[1][1], pair[1][0], pair[0]))]
