"""Tests that a job field is declared once: its value from squeue and sacct reaches SQL, the exported log and
predictors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from sqlalchemy.sql.elements import quoted_name

from batchcast.columns import ALLOCATED, REQUESTED, Column
from batchcast.formats.sighting import Sighting
from batchcast.formats.slurm import squeue
from batchcast.job import JobRequest, as_submitted
from batchcast.store import history
from batchcast.store.database import Store
from batchcast.store.history import to_trace
from batchcast.store.reader import Reader
from batchcast.store.rows import live_job
from batchcast.store.schema import metadata
from batchcast.store.sighted import TABLES
from batchcast.store.statements import TEXTS

TRES = "mem=5K,gres/gpu=6,gres/gpu:a100=6"
SHOWN = {"s": "1:00", "processors": "3", "nodes": "2", "KiB": TRES, "GPUs": TRES, "": "9"}
MEANT = {"s": 60.0, "processors": 3.0, "nodes": 2.0, "KiB": 5.0, "GPUs": 6.0, "": 9.0}


OWN: dict[str, tuple[str, float | str]] = {
    "app_id": ("/home/a/run_1.sh -n 4", "f8a7e34477af"),
    "gpu_type": (TRES, "a100"),
    "exclusive": ("NO", 1.0), "partition_id": ("main,big", "main"), "partition_list": ("main,big", "main,big"),
}  # fmt: skip
"""Columns that squeue prints in a form of its own, with their meaning."""


def shown(column: Column) -> str:
    """Return the batch system's text for a column."""
    plain = SHOWN[column.unit] if column.kind == "number" else f"its {column.name}"
    return OWN[column.name][0] if column.name in OWN else plain


def meant(column: Column) -> float | str:
    plain = MEANT[column.unit] if column.kind == "number" else f"its {column.name}"
    return OWN[column.name][1] if column.name in OWN else plain


LIFE = {"JobID": "7", "SubmitTime": "100", "StartTime": "110", "EndTime": "150", "State": "COMPLETED", "NodeList": "n1"}
ENDED = {
    "JobID": "7", "JobIDRaw": "7", "Submit": "100", "Eligible": "100", "Start": "110", "End": "150",
    "State": "COMPLETED", "Priority": "1", "AdminComment": "",
}  # fmt: skip


def from_squeue() -> Sighting:
    return squeue.sighting(LIFE | {c.squeue: shown(c) for c in (*REQUESTED, *ALLOCATED) if c.squeue})


def from_sacct() -> Sighting:
    amounts = {"TimelimitRaw": "1", "ReqMem": "5K", "ReqTRES": "gres/gpu=6,gres/gpu:a100=6"}
    (job,) = squeue.ended(ENDED | {c.sacct: shown(c) for c in (*REQUESTED, *ALLOCATED) if c.sacct} | amounts)
    return job


FLOWS = [
    *((column, from_squeue) for column in (*REQUESTED, *ALLOCATED)),
    *((column, from_sacct) for column in (*REQUESTED, *ALLOCATED) if column.sacct != "SubmitLine"),
]


@pytest.mark.parametrize(("column", "source"), FLOWS, ids=lambda c: c.name if isinstance(c, Column) else c.__name__)
def test_a_declared_field_flows_from_the_batch_system_to_predictors(
    column: Column, source: Callable[[], Sighting], url: str
) -> None:
    store = Store(url, create=True)
    with store.begin() as connection:
        history.take_in(connection, "c", [source()], 200.0)
        trace = to_trace(connection, "c")
    values = trace.number(column.name) if column.kind == "number" else trace.nominal(column.name).decode()
    assert list(values) == [meant(column)]
    (row,) = Reader(url).ask("latest", cluster="c", job_id="7")
    request = live_job(row).request
    if column in REQUESTED:
        own = column.name in JobRequest._fields
        assert (getattr(request, column.name) if own else request.extra[column.name]) == meant(column)


def test_a_new_field_is_one_line() -> None:
    """Run in a new interpreter, where the table of columns gets one more line before anything else is imported."""
    code = """
import batchcast.columns as columns
new = columns.Column("comment", "nominal", "", "submission", "what users note", sacct="Comment", squeue="Comment")
columns.COLUMNS["comment"] = new
columns.REQUESTED = (*columns.REQUESTED, new)
for name in ("DECLARED", "KNOWN_AT_SUBMISSION"):
    kept = getattr(columns, name, {})
    setattr(columns, name, {**kept, "comment": new} if isinstance(kept, dict) else kept | {"comment"})
from batchcast.formats.slurm import squeue
from batchcast.slurm.client import SNAPSHOT
from batchcast.store import history
from batchcast.store.database import Store
from batchcast.store.history import to_trace
from batchcast.store.clock_jobs import told_jobs, untold_jobs
assert any("Comment:" in word for word in SNAPSHOT) and "Comment" in squeue.FIELDS
seen = squeue.sighting({"JobID": "7", "SubmitTime": "100", "StartTime": "110", "EndTime": "150", "State": "COMPLETED",
                        "NodeList": "n1", "Comment": "mine"})
store = Store("sqlite://" + "/" + PLACE, create=True)
with store.begin() as connection:
    history.take_in(connection, "c", [seen], 200.0)
    assert to_trace(connection, "c").nominal("comment").decode() == ["mine"]
    (job,) = untold_jobs(connection, "c", 1e9)
    assert job.request.extra["comment"] == "mine"
"""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        text = f"PLACE = {place + '/s.db'!r}\n{code}"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_store_of_one_sacct_call_has_the_tables_and_columns_of_any_other() -> None:
    once = {name: {column.partition(" ")[0].strip('"') for column in columns} for name, columns in TABLES.items()}
    assert once == {table.name: {column.name for column in table.columns} for table in metadata.sorted_tables}


@pytest.mark.parametrize("question", sorted(TEXTS))
def test_every_question_is_understood_by_both_databases(question: str, url: str) -> None:
    Store(url, create=True)
    assert isinstance(Reader(url).ask(question, **({"most": 1} if ":most" in TEXTS[question] else {})), list)


def test_a_request_of_a_row_has_names_of_ours_which_a_kept_clock_may_hold() -> None:
    row = {quoted_name(name, None): value for name, value in (("job_id", "7"), ("constraint", "gpu"), ("status", "ok"))}
    request = as_submitted(0, row, procs=1.0)
    assert request.extra == {"constraint": "gpu"}
    assert [type(name) for name in request.extra] == [str]
