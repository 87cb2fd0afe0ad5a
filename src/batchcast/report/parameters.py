"""What trained methods found, refit by refit, as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import BatchcastError
from ..trace.whole_file import whole_file


def write_parameters(target: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one line per refit under the union of all columns, in order of appearance; whole or not at all.

    `now` is seconds on the log's clock. Raises BatchcastError where the file cannot be written.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row)) or ["predictor", "protocol", "now"]
    try:
        with whole_file(target) as beside, beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise BatchcastError(f"{target}: cannot be written: {error.strerror}", hint="another place") from error
