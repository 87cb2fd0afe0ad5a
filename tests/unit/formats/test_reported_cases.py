"""Tests files like those in public bug reports (`shared/cases`): how batchcast reads each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batchcast.errors import InputError
from batchcast.formats.slurm.sbatch import parse_script
from batchcast.service.answers.efficiency import of_logs
from batchcast.table import Nominal, Trace
from batchcast.trace import read_trace
from batchcast.trace.machine_files import open_machine

pytestmark = pytest.mark.shared

OR = "intel|amd"
RACKS = "[rack1|rack2]"
CASES: list[tuple[str, dict[str, list[Any]]]] = [
    ("submitline-pipe-all.txt", {"req_time": [3600.0] * 8, "run_time": [600.0] * 8, "job_name": ["job"] * 8}),
    ("report-torn-all.txt", {"req_time": [3600.0] * 4, "job_name": ["job", "job", "a|b", "a|b|c"]}),
    ("constraint-or.txt", {"constraint": [None, RACKS, "gpu", None, RACKS, "gpu"], "job_name": ["j"] * 6}),
    ("constraint-or-submitline.txt", {"constraint": [None, OR, RACKS, "gpu"] * 2, "reservation": [None] * 8}),
    ("constraint-or-after-comment.txt", {"constraint": [None, OR, RACKS, "gpu"] * 2, "reservation": [None] * 8}),
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
    ("nextflow-quote.txt", {"job_name": ["ALIGN"] * 6, "run_time": [600.0] * 6}),
    ("pbs-vnodes.txt", {"alloc_nodes": [1.0], "alloc_procs": [4.0]}),
    ("report-negative-wait.txt", {"wait_time": [None], "run_time": [600.0]}),
]


@pytest.mark.parametrize(("name", "expected"), CASES, ids=[name for name, _ in CASES])
def test_a_reported_file_is_read_right(shared: Path, name: str, expected: dict[str, list[Any]]) -> None:
    place = case(shared, name)
    trace = read_trace(place, map=str(place.with_suffix(".toml")) if name == "zero-start.csv" else None)
    assert {column: listed(trace, column) for column in expected} == expected


def test_a_dump_without_its_header_is_named(shared: Path) -> None:
    with pytest.raises(InputError, match=r"(?s)without its header line.*leave out -n"):
        read_trace(case(shared, "no-header.txt"))


@pytest.mark.parametrize("name", ["cloud", "cloud-half", "cloud.slurm.conf"])
def test_a_node_that_sleeps_is_part_of_the_machine(shared: Path, name: str) -> None:
    machine = open_machine(case(shared, name))
    assert machine.cpus == 32
    assert not [group.down for group in machine.nodes if group.down]


def test_a_captured_partition_without_nodes_is_read(shared: Path) -> None:
    machine = open_machine(case(shared, "partition-null"))
    assert [(one.name, one.nodes) for one in machine.partitions] == [("main", ("n1",)), ("empty", ())]


@pytest.mark.parametrize(("name", "size"), [("cpus-per-gpu.sh", (32.0, 4.0)), ("hash-in-name.sh", (16.0, 0.0))])
def test_a_script_is_as_large_as_sbatch_makes_it(shared: Path, name: str, size: tuple[float, float]) -> None:
    request = parse_script(case(shared, name).read_text(encoding="utf-8"))
    assert (request.procs, request.gpus) == size
    assert request.options["time"] == ("01:00:00" if name == "cpus-per-gpu.sh" else "1:00:00")


REPORTED: dict[str, list[tuple[Any, ...]]] = {  # job, its name, state, seconds, GPUs and their share
    "report-requeued.txt": [
        ("235", "j", "REQUEUED", 600.0, None, None), ("235", "j", "COMPLETED", 600.0, None, None),
    ],
    "report-typed-gpu.txt": [
        ("1", "typed", "COMPLETED", 600.0, 2.0, 0.8), ("2", "both", "COMPLETED", 600.0, 2.0, 0.8),
    ],
    "report-cancelled-in-queue.txt": [("7", "relax", "COMPLETED", 82800.0, None, None)],
    "report-cancelled-advice.txt": [("7", "relax", "COMPLETED", 82800.0, None, None)],
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTED)
def test_report_shows_each_run_as_it_was(shared: Path, name: str) -> None:
    jobs, _ = of_logs([str(case(shared, name))], "UTC")
    shown = [
        (
            one.job_id,
            one.job_name,
            one.state,
            one.elapsed_s,
            *(None if v != v or not v else v for v in (one.gpus, one.gpu_share)),
        )
        for one in jobs
    ]
    assert shown == REPORTED[name]


@pytest.mark.parametrize("name", ["submitline-pipe-all.txt", "report-torn-all.txt"])
def test_report_reads_a_dump_of_all_columns_as_info_does(shared: Path, name: str) -> None:
    place = case(shared, name)
    jobs, _ = of_logs([str(place)], "UTC")
    assert len(jobs) == len(read_trace(place))
    assert {(one.limit_s, round(one.time_share, 2), round(one.processor_share, 2)) for one in jobs} == {
        (3600.0, 0.17, 0.75)
    }


def case(shared: Path, name: str) -> Path:
    """Return the path of one case."""
    place = shared / "cases" / name
    if not place.exists():
        pytest.skip(f"no {name} in the shared folder")
    return place


def listed(trace: Trace, name: str) -> list[Any]:
    """Return a column as plain values, with None for unknown."""
    if name not in trace.names:
        return [None] * len(trace)
    values = trace.column(name)
    plain = values.decode() if isinstance(values, Nominal) else values.tolist()
    return [None if value != value else value for value in plain]
