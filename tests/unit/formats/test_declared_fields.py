"""Tests that each column that is known at submission is read from sacct, from Slurm's JSON and from sbatch's options.

A column that one of them lacks is an exception with its reason.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from batchcast.columns import COLUMNS, KNOWN_AT_SUBMISSION, Column
from batchcast.formats.slurm.job_json import NAMES
from batchcast.formats.slurm.sacct import read_sacct, read_sacct_json
from batchcast.formats.slurm.sbatch import HEARD, Request, command_digest
from batchcast.job import JobRequest
from batchcast.service.answers.disclosure import Site
from batchcast.service.answers.forecaster import job_of
from batchcast.table import Trace

REQUESTED = [column for column in COLUMNS.values() if column.name in KNOWN_AT_SUBMISSION]
LIFE = "the batch system sets it"
ASKED = "read from several options by a function of its own in `sbatch`"
NOT_IN_SACCT = {"queue_id": "Slurm has partitions"}
NOT_IN_JSON = {"queue_id": "Slurm has partitions", "req_nodes": "the JSON has nodes only as `node=` of ReqTRES"}
NOT_OF_SBATCH = {
    "job_id": LIFE,
    "submit_time": LIFE,
    "user_id": LIFE,
    "group_id": LIFE,
    "cluster": "a store has the jobs of one cluster, and `submit` chooses among clusters",
    "app_id": "the script of a test is not the command that will be submitted",
    "queue_id": ASKED,
    "partition_id": ASKED,
    "req_time": ASKED,
    "req_procs": ASKED,
    "req_nodes": ASKED,
    "req_mem_kib": ASKED,
    "req_gpus": ASKED,
    "gpu_type": ASKED,
    "exclusive": ASKED,
    "reservation": "predictions ignore the option, and a note says so",
    "licenses": "predictions ignore the option, and a note says so",
    "nice": "predictions ignore the option, and a note says so",
    "partition_list": "a prediction is for one partition",
    "dependency": "the answer names the condition (`begin_condition`) instead of a start",
    "array_throttle": "a prediction is for the first task of an array",
    "cpus_per_task": "counts as a part of req_procs",
}
OPTIONS = {"array_throttle": "1-9%4", "exclusive": "", "partition_list": "a,b", "nice": "4", "cpus_per_task": "4"}
TEXTS = {"JobID": "7", "ReqTRES": "cpu=4,gres/gpu:a100=4", "Submit": "1970-01-01T00:00:04", "ReqMem": "4K"}
MEANT: dict[str, float | str] = {
    "req_time": 240.0, "exclusive": 1.0, "gpu_type": "a100", "partition_list": "a,b",
    "job_id": "7", "app_id": command_digest("job.sh") or "",
}  # fmt: skip


def shown(column: Column) -> str:
    """Return the text of the column's field in sacct."""
    if column.sacct == "SubmitLine":
        option = f"--{column.sbatch}={OPTIONS.get(column.name, 'some')}".rstrip("=") if column.sbatch else "-n4"
        return f"sbatch {option} job.sh"
    return TEXTS.get(column.sacct or "", "4" if column.kind == "number" else "some")


def meant(column: Column) -> float | str:
    return MEANT.get(column.name, 4.0 if column.kind == "number" else "some")


def value(log: Trace, column: Column) -> Any:
    if column.kind == "nominal":
        return log.nominal(column.name).decode()[0]
    return log.number(column.name)[0] if column.name != "job_id" else str(log.job_id[0])


def ids(column: Column) -> str:
    return column.name


@pytest.mark.parametrize("column", [c for c in REQUESTED if c.name not in NOT_IN_SACCT], ids=ids)
def test_sacct_has_each_field(column: Column) -> None:
    fields = {"JobID": "7", "Submit": "1970-01-01T00:00:04", column.sacct or "": shown(column)}
    log = read_sacct([("|".join(fields) + "\n" + "|".join(fields.values()) + "\n").encode()])
    assert value(log, column) == meant(column)


@pytest.mark.parametrize("column", [c for c in REQUESTED if c.name not in NOT_IN_JSON], ids=ids)
def test_the_json_has_each_field(column: Column) -> None:
    assert column.sacct in NAMES
    for place in column.json:
        job: dict[str, Any] = {"job_id": 7, "time": {"submission": 4}}
        inner = job
        *path, last = place.split("/")
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = 4 if column.kind == "number" else "some"
        assert value(read_sacct_json([json.dumps({"jobs": [job]}).encode()]), column) == meant(column)


@pytest.mark.parametrize("column", [c for c in REQUESTED if c.name not in NOT_OF_SBATCH], ids=ids)
def test_the_request_of_a_script_has_each_field(column: Column) -> None:
    assert column.sbatch in HEARD
    nothing = SimpleNamespace(ask=lambda *_, **__: [])
    site = SimpleNamespace(memory={}, partitions={}, reader=nothing, cluster="c", now=0.0)
    job = job_of(Request({column.sbatch or "": "some"}), cast(Site, site), "ada")
    own = column.name in JobRequest._fields
    assert (getattr(job, column.name) if own else job.extra[column.name]) == "some"


def test_exceptions_are_columns_that_a_list_lacks() -> None:
    requested = {column.name: column for column in REQUESTED}
    assert {*NOT_IN_SACCT, *NOT_IN_JSON, *NOT_OF_SBATCH} <= requested.keys()
    assert not [name for name in NOT_IN_SACCT if requested[name].sacct]
    assert not [name for name in NOT_IN_JSON if requested[name].sacct in NAMES]
