"""Tests the gate: on every clock, predictors see only what is known at submission, and no parameter can change that."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchcast
from batchcast.columns import COLUMNS
from batchcast.errors import UsageError
from batchcast.job import as_submitted
from batchcast.predict.gate import accepted, class_codes, class_key
from batchcast.predict.registry import available, load, make, takes
from batchcast.predict.runtime.baselines import RecentMean
from batchcast.simulation import Policy, simulate
from batchcast.table import Trace
from batchcast.testing.logs import small_log
from batchcast.testing.predictor import poison

LATER = sorted(name for name, column in COLUMNS.items() if column.known_at != "submission")
FIELDS = {"recent_mean": "fields", "parzen": "keys", "user_clusters": "keys", "forest": "features"}
CONFIGURABLE = {name: parameter for name, parameter in FIELDS.items() if name in available("runtime")}


@pytest.mark.parametrize("name", [*LATER, "end_time", "start_time", "job_id", "elapsed", "no_such_column"])
@pytest.mark.parametrize(("method", "parameter"), CONFIGURABLE.items())
def test_a_predictor_is_pointed_only_at_columns_known_at_submission(method, parameter, name):
    """Fails if `recent_mean:fields=run_time` groups jobs by their true run time."""
    with pytest.raises(UsageError, match=r"accepted: .*req_gpus.*user_id") as caught:
        make("runtime", f"{method}:{parameter}=user_id+{name}")
    assert name in str(caught.value)


@pytest.mark.parametrize("native", [True, False])
def test_the_kernel_refuses_the_outcome_as_python_does(native):
    log = small_log()
    for runtime in ("recent_mean:fields=run_time", RecentMean(fields=("run_time",)), RecentMean(fields=("elapsed",))):
        with pytest.raises(UsageError, match="cannot use"):
            simulate(log, Policy(), runtime, total=64, native=native)
    with pytest.raises(UsageError, match="cannot use"):
        batchcast.replay(log, {"mine": RecentMean(fields=("run_time",))})
    with pytest.raises(UsageError, match="cannot use"):
        batchcast.evaluate(log, predictor={"mine": lambda trace: RecentMean(fields=("elapsed",))}, policy=["easy"])


def test_a_wait_method_names_no_future_through_the_run_times_it_plans_with():
    with pytest.raises(UsageError, match="cannot use 'run_time'"):
        make("wait", "scheduler_replay:runtime=recent_mean:fields=run_time")


def test_every_registered_method_reads_only_what_is_declared():
    for kind in ("runtime", "wait"):
        for name in available(kind):
            given = {"answers": [1.0]} if takes(kind, name, "answers") else {}
            method = make(kind, name, **given)
            assert set(getattr(method, "uses", ())) <= set(accepted()), name
    assert load("runtime", "recent_mean") is RecentMean


def test_what_became_of_a_job_never_reaches_its_request():
    log = small_log(40)
    for request in log.requests():
        assert set(request.extra) == set()
    vouched = log.knowing(("elapsed",))
    assert {tuple(request.extra) for request in vouched.requests()} == {("elapsed",)}


@pytest.mark.parametrize("name", ["run_time", "status", "end_time", "alloc_procs", "wait_time"])
def test_nobody_can_vouch_for_the_outcome_under_its_own_name(name):
    log = small_log(40).with_columns({"end_time": np.zeros(40)})
    with pytest.raises(UsageError, match="only when the job"):
        log.knowing((name,))


def test_a_column_that_is_not_there_cannot_be_vouched_for():
    with pytest.raises(UsageError, match=r"no column 'speed'.*elapsed"):
        small_log(40).knowing(("speed",))


def test_gpus_nodes_and_directory_reach_predictors():
    columns = {"submit_time": [0.0], "req_gpus": [2.0], "req_nodes": [3.0], "work_dir": ["/a"], "req_procs": [8.0]}
    (request,) = Trace.from_arrays({**columns, "ispin": [2.0]}).requests()
    assert (request.req_gpus, request.req_nodes, request.work_dir, request.req_procs) == (2.0, 3.0, "/a", 8.0)
    assert request.extra == {"ispin": 2.0}
    assert class_key(request, ("req_gpus", "work_dir", "ispin")) == (2.0, "/a", 2.0)


def test_a_live_record_is_cut_to_what_a_recorded_one_shows():
    """The store's record, with columns added later, gives the same request as the log's row."""
    log = small_log(30)
    records = zip(*(log.column(n).decode() if hasattr(log.column(n), "decode") else log.column(n).tolist()
                    for n in log.names))  # fmt: skip
    for row, (record, request) in enumerate(zip(records, log.requests())):
        live = as_submitted(row, dict(zip(log.names, record)), procs=request.procs)
        assert repr(live) == repr(request)


def test_a_column_that_no_job_knows_is_named():
    log = small_log(60)
    schedule = simulate(log, Policy(), "recent_mean:fields=req_nodes", total=64)
    assert any("no job of this log knows req_nodes" in note for note in schedule.notes)
    assert not any("knows" in note for note in simulate(log, Policy(), "recent_mean", total=64).notes)


names = st.lists(st.sampled_from([*accepted(), "speed", "colour"]), max_size=4, unique=True)
value = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, 2.0, np.inf, -1.0, 1e300]))
word = st.one_of(st.none(), st.sampled_from(["", "a", "b", "1", 1, 2]))


def with_odd_columns(data, log):
    """A log with extra columns of the user, and project columns that it usually lacks, with random values."""
    n = len(log)
    numbers, words = (data.draw(st.lists(v, min_size=n, max_size=n)) for v in (value, word))
    odd = Trace.from_arrays({"submit_time": np.zeros(n), "speed": [0.0] * n, "colour": words,
                             "req_gpus": numbers, "queue_id": words})  # fmt: skip
    speed = np.array([np.nan if v is None else v for v in numbers[::-1]])
    columns = {name: odd.column(name) for name in ("colour", "req_gpus", "queue_id")}
    return log.with_columns({**columns, "speed": speed}).knowing(("speed", "colour"))


@given(st.data(), names, st.integers(1, 3), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_the_kernel_groups_by_any_field_as_python_does(data, fields, k, seed):
    log = with_odd_columns(data, small_log(40, seed))
    method = RecentMean(k, tuple(fields))
    native = simulate(log, Policy(), method, total=40)
    python = simulate(log, Policy(), RecentMean(k, tuple(fields)), total=40, native=False)
    np.testing.assert_array_equal(native.planned_run_time, python.planned_run_time)
    np.testing.assert_array_equal(native.start_time, python.start_time)


@given(st.data(), names)
@settings(max_examples=100, deadline=None)
def test_codes_of_classes_are_equal_where_keys_are(data, fields):
    log = with_odd_columns(data, small_log(15))
    codes, _ = class_codes(log.at_submission(), fields, len(log))
    keys = [class_key(request, fields) for request in log.requests()]
    for code, key in zip(codes.tolist(), keys):
        assert (code < 0) == (None in key)
    known = [(code, key) for code, key in zip(codes.tolist(), keys) if code >= 0]
    assert all((a == c) == (b == d) for a, b in known for c, d in known)


@given(st.data(), names, st.sampled_from(sorted(CONFIGURABLE.keys() - {"forest"})), st.floats(0.2, 0.9))
@settings(max_examples=40, deadline=None)
def test_no_field_lets_the_future_in(data, fields, name, share):
    """With any fields and extra columns, data that are unknown at an instant change no prediction up to it."""
    log = with_odd_columns(data, small_log(40))
    fields = tuple(fields) or ("user_id",)
    method = partial(load("runtime", name), **{CONFIGURABLE[name]: fields})
    instant = float(log.submit_time[int(share * (len(log) - 1))])
    until = log.submit_time <= instant
    told = batchcast.replay(log, {"it": method()})["it"].points
    poisoned = batchcast.replay(poison(log, instant), {"it": method()})["it"].points
    np.testing.assert_array_equal(told[until], poisoned[until])
