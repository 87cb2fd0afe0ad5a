"""Tests unused core-hours by group against plain loops, and the rows that an operator sees."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.waste import sums

from batchcast.evaluation.evaluation import evaluate
from batchcast.evaluation.waste import GROUPINGS, SUMS, waste_rows
from batchcast.table import LogInfo, Nominal, Trace

NAMES = {"jobs": "jobs", "jobs_without_limit": "jobs_without_limit", "used": "used_core_h", "asked": "asked_core_h",
         "unused": "unused_core_h", "failed": "failed_core_h", "at_limit": "at_limit_core_h"}  # fmt: skip
SECONDS = st.one_of(st.none(), st.integers(0, 9).map(lambda k: 600.0 * k))
WORDS = st.sampled_from([None, "completed", "failed", "cancelled", "timeout", "partial", "out_of_memory"])
JOBS = st.lists(
    st.tuples(SECONDS, SECONDS, st.one_of(st.none(), st.integers(1, 8)), WORDS, st.sampled_from([None, *"abcdefg"]),
              st.sampled_from([None, "x", "y"]), st.booleans()),
    min_size=1, max_size=40,
)  # fmt: skip


def log(jobs: list[tuple]) -> Trace:
    columns = ("run_time", "req_time", "req_procs", "status", "user_id", "queue_id")
    values = dict(zip(columns, map(list, zip(*(job[:6] for job in jobs)))))
    return Trace.from_arrays({"submit_time": np.arange(len(jobs), dtype=float), **values})


@given(JOBS, st.integers(1, 4))
def test_the_sums_are_those_of_plain_loops(jobs: list[tuple], most: int) -> None:
    trace, inside = log(jobs), [job[6] for job in jobs]
    rows = waste_rows(trace, np.array(inside), most=most)
    whole = sums(trace, inside, None).get(None, dict.fromkeys(NAMES, 0.0))
    told = any(job[3] is not None for job in jobs)
    _same(rows[0], whole, told)
    for by in ("user", "queue"):
        plain = sums(trace, inside, GROUPINGS[by])
        unknown = plain.pop(None, None)
        here = [row for row in rows if row["by"] == by]
        if not 2 <= len(plain) <= sum(group["jobs"] for group in plain.values()) / 2:
            assert here == []
            continue
        named = [row for row in here if row["group"] is not None]
        assert len(named) == min(most, len(plain))
        for row in named:
            _same(row, plain[row["group"]], told)
        unused = [row["unused_core_h"] for row in named]
        assert all(more >= less - 1e-9 for more, less in pairwise(unused))
        left = [group for name, group in plain.items() if name not in {row["group"] for row in named}]
        assert max((group["unused"] for group in left), default=0.0) <= unused[-1] + 1e-9
        others = [row for row in here if row["group"] is None and row["groups"]]
        assert len(others) == bool(left)
        if others:
            assert others[0]["groups"] == len(left)
            _same(others[0], {key: sum(group[key] for group in left) for key in NAMES}, told)
        nameless = [row for row in here if row["groups"] == 0]
        assert len(nameless) == bool(unknown)
        if unknown:
            _same(nameless[0], unknown, told)


def _same(row: dict, plain: dict[str, float], told: bool) -> None:
    for name, key in NAMES.items():
        expected = None if name == "failed" and not told else pytest.approx(plain[name])
        assert row[key] == expected, key


def hour(run: float, limit: float | None, user: str, status: str | None = None) -> tuple:
    return (3600.0 * run, None if limit is None else 3600.0 * limit, 1, status, user, None, True)


def test_no_run_is_counted_as_failed_and_cut_at_once() -> None:
    whole = waste_rows(log([
        hour(1, 2, "a", "failed"), hour(2, 2, "a", "failed"), hour(4, 4, "a", "timeout"), hour(8, 8, "b", "completed"),
        hour(16, None, "b", "cancelled"), hour(32, 8, "b", "completed"),
    ]))[0]  # fmt: skip
    assert whole["failed_core_h"] == pytest.approx(1 + 16)
    assert whole["at_limit_core_h"] == pytest.approx(2 + 4)
    assert whole["used_core_h"] == pytest.approx(63)
    assert whole["asked_core_h"] == pytest.approx(24)
    assert whole["unused_core_h"] == pytest.approx(1)
    assert whole["jobs_without_limit"] == 1


def test_a_grouping_that_says_nothing_is_left_out() -> None:
    jobs = 40
    trace = Trace.from_arrays({
        "submit_time": np.arange(jobs, dtype=float), "run_time": np.ones(jobs), "req_time": np.full(jobs, 9.0),
        "user_id": [f"u{k % 4}" for k in range(jobs)], "app_id": [f"job {k}" for k in range(jobs)],
        "partition_id": ["all"] * jobs, "account": [f"a{k % 2}" for k in range(jobs)],
        "group_id": [f"g{k % 2}" for k in range(jobs)],
    })  # fmt: skip
    assert list(dict.fromkeys(row["by"] for row in waste_rows(trace))) == ["whole", "user", "account"]


def test_a_site_that_is_private_has_no_names_in_its_rows() -> None:
    names = ["ada", "ada", "bo", "bo"]
    trace = log([hour(1, 2, name) for name in names])
    trace = trace.with_columns({"group_id": Nominal.encode(names)})
    assert {(row["by"], row["group"]) for row in waste_rows(trace)[1:]} == {
        (by, name) for by in ("user", "group") for name in ("ada", "bo")
    }
    private = trace.with_info(replace(trace.info, private=True))
    assert {row["group"] for row in waste_rows(private)[1:]} == {"a user (1)", "a user (2)"}


def test_unused_hours_are_those_that_advice_saves_on() -> None:
    rng = np.random.default_rng(3)
    jobs = 600
    run = np.ceil(rng.lognormal(6, 1, jobs))
    columns = {"submit_time": np.sort(rng.uniform(0, 86400, jobs)).round(), "run_time": run, "req_time": 3 * run,
               "req_procs": rng.integers(1, 9, jobs), "user_id": rng.integers(0, 9, jobs)}  # fmt: skip
    found = evaluate(Trace.from_arrays(columns, LogInfo(max_procs=16)), predictor=["last_2"], policy=["easy"])
    own = next(row for row in found.limit_rows() if row["limits"] == "own")
    whole = found.waste_rows()[0]
    assert whole["unused_core_h"] == pytest.approx(own["over_request_core_h"])
    rows = [row for row in found.results() if row["part"] == "waste"]
    assert rows[0]["by"] == "whole"
    assert sum(row["unused_share"] for row in rows if row["by"] == "user") == pytest.approx(1.0)
    assert set(SUMS) <= set(rows[0])
