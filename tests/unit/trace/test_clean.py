"""Tests cleaning rules: named, counted, and the reference rules on the real logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from batchcast.errors import NoAnswer, UsageError
from batchcast.table import LogInfo, Trace
from batchcast.trace import clean, read_trace
from batchcast.trace.clean import RULES, cleaning

LOG = Trace.from_arrays(
    {
        "job_id": [1, 2, 2, 4, 5, 6],
        "submit_time": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        "run_time": [10.0, 0.0, 50.0, None, 10.0, 10.0],
        "alloc_procs": [4, 4, 99, 4, None, 2],
        "req_procs": [4, 4, 99, 4, None, 8],
        "req_time": [5.0, 60.0, 60.0, 60.0, 60.0, None],
        "status": ["completed", "completed", "partial", "cancelled", None, "failed"],
    },
    LogInfo(max_procs=64.0),
)


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("reference", [1, 2]),
        ("no_run", [1, 2, 2, 5, 6]),
        ("zero_run", [1, 2, 4, 5, 6]),
        ("no_procs", [1, 2, 2, 4, 6]),
        ("no_request", [1, 2, 2, 4, 5]),
        ("wide", [1, 2, 4, 5, 6]),
        ("partial", [1, 2, 4, 5, 6]),
        ("duplicates", [1, 2, 4, 5, 6]),
    ],
)
def test_each_rule_drops_what_it_says_and_counts_it(rule: str, left: list[int]) -> None:
    kept = clean(LOG, [rule])
    assert kept.job_id.tolist() == left
    assert sum(kept.info.dropped.values()) == len(LOG) - len(left)
    assert {row["rule"]: row["drops"] for row in cleaning(LOG)}[rule] == len(LOG) - len(left)


def test_reference_cuts_run_times_and_processors_and_says_so() -> None:
    kept = clean(LOG, ["reference"])
    assert kept.run_time.tolist() == [5.0, 50.0]
    assert kept.number("alloc_procs").tolist() == [4.0, 64.0]
    assert len(kept.info.notes) == 2


def test_of_repeated_job_numbers_the_last_stays() -> None:
    assert clean(LOG, ["duplicates"]).submit_time.tolist() == [0.0, 2.0, 3.0, 4.0, 5.0]


def test_without_a_known_size_no_job_is_wide() -> None:
    assert len(clean(LOG.with_info(replace(LOG.info, max_procs=float("nan"))), ["wide"])) == len(LOG)


def test_rules_apply_in_the_given_order_and_all_have_a_meaning() -> None:
    assert clean(LOG, ["partial", "duplicates"]).job_id.tolist() == [1, 2, 4, 5, 6]
    assert all(RULES[name].__doc__ for name in RULES)


def test_an_unknown_rule_and_an_empty_result_are_refused() -> None:
    with pytest.raises(UsageError, match="accepted: reference"):
        clean(LOG, ["referense"])
    with pytest.raises(NoAnswer, match="leaves no job"):
        clean(Trace.from_arrays({"submit_time": [1.0]}), ["no_run"])


@pytest.mark.shared
@pytest.mark.parametrize(("log", "jobs"), [("KTH-SP2-1996-2.1-cln", 28467), ("SDSC-SP2-1998-4.2-cln", 53999)])
def test_reference_leaves_the_reference_schedules_jobs(shared: Path, log: str, jobs: int) -> None:
    trace = clean(read_trace(shared / "traces" / f"{log}.swf.gz"), ["reference"])
    assert len(trace) == jobs
    assert np.all(trace.run_time <= trace.req_time)
    assert trace.number("alloc_procs").max() <= trace.info.max_procs
