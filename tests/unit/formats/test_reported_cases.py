"""Files in the shape of public bug reports (`shared/cases`): what the reader of Slurm's accounting makes of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batchcast.errors import InputError
from batchcast.table import Nominal, Trace
from batchcast.trace import read_trace

pytestmark = pytest.mark.shared

OR = "intel|amd"
RACKS = "[rack1|rack2]"
CASES: list[tuple[str, dict[str, list[Any]]]] = [
    ("submitline-pipe-all.txt", {"req_time": [3600.0] * 8, "run_time": [600.0] * 8, "job_name": ["job"] * 8}),
    ("report-torn-all.txt", {"req_time": [3600.0] * 4, "job_name": ["job", "job", "a|b", "a|b|c"]}),
    ("constraint-or.txt", {"constraint": [None, RACKS, "gpu", None, RACKS, "gpu"], "job_name": ["j"] * 6}),
    ("constraint-or-submitline.txt", {"constraint": [None, OR, RACKS, "gpu"] * 2, "reservation": [None] * 8}),
    ("constraint-or-after-comment.txt", {"constraint": [None, RACKS, "gpu"] * 2, "reservation": [None] * 6}),
    ("sacct-quoted.csv", {"req_mem_kib": [8 * 1024.0**2] * 6, "job_name": ["j"] * 6}),
    ("sacct-quoted-names.csv", {"job_name": ["a", "b,1", "c", 'say "hi"', '"q"', "a,b,c"]}),
    ("reqmem-flag.txt", {"req_mem_kib": [24576000.0, 4096000.0]}),
    ("sacct-json.json", {"job_id": [42], "user_id": ["ada"], "req_time": [3600.0], "run_time": [600.0]}),
    ("warning-in-the-middle.txt", {"job_name": ["j"] * 3}),
    ("resized.txt", {"run_time": [3600.0, 3600.0], "status": ["resizing", "completed"]}),
    ("user-blank.txt", {"user_id": ["1005", "u2"]}),
    ("unixstart-minus1.swf", {"submit_time": [0.0]}),
    ("zero-start.csv", {"wait_time": [600.0, 1200.0, 1200.0, None, 1200.0, 1200.0], "run_time": [600.0] + [None] * 5}),
    ("report-cancelled-in-queue.txt", {"run_time": [None] * 6 + [82800.0]}),
    ("report-negative-wait.txt", {"wait_time": [None], "run_time": [600.0]}),
]


@pytest.mark.parametrize(("name", "expected"), CASES, ids=[name for name, _ in CASES])
def test_a_reported_file_is_read_right(shared: Path, name: str, expected: dict[str, list[Any]]) -> None:
    place = shared / "cases" / name
    if not place.is_file():
        pytest.skip(f"no {place.name} in the shared folder")
    trace = read_trace(place, map=str(place.with_suffix(".toml")) if name == "zero-start.csv" else None)
    assert {column: listed(trace, column) for column in expected} == expected


def test_a_dump_without_its_header_is_named(shared: Path) -> None:
    with pytest.raises(InputError, match=r"(?s)without its header line.*leave out -n"):
        read_trace(shared / "cases" / "no-header.txt")


def listed(trace: Trace, name: str) -> list[Any]:
    """A column as plain values, None where nothing is known."""
    if name not in trace.names:
        return [None] * len(trace)
    values = trace.column(name)
    plain = values.decode() if isinstance(values, Nominal) else values.tolist()
    return [None if value != value else value for value in plain]
