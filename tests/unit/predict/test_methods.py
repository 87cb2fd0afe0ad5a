# SPDX-License-Identifier: Apache-2.0
"""Tests that each method argument accepts a name, a class, an object, or a function that makes one, and that errors
name the fault."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import batchcast
from batchcast.errors import BatchcastError, UsageError
from batchcast.evaluation.wait import compare, run_wait
from batchcast.predict.adapters import RiverRuntime
from batchcast.predict.registry import named_methods
from batchcast.simulation import simulate_split
from batchcast.simulation.on_nodes import simulate_on
from batchcast.testing import check_predictor, check_wait_predictor, small_log


class Hours:
    """Predicts this many hours for every job."""

    def __init__(self, hours: float = 1.0) -> None:
        self.hours = hours

    def predict(self, job: Any, at: Any) -> float:
        return 3600.0 * self.hours

    def observe(self, event: Any, at: Any) -> None:
        pass


class Counts(Hours):
    """Predicts one second more for each event that it has received."""

    events = 0

    def predict(self, job: Any, at: Any) -> int:
        return 1 + self.events

    def observe(self, event: Any, at: Any) -> None:
        self.events += 1


class OnLine:
    """A regressor with river's methods: it predicts the mean of the values learned for the user."""

    def __init__(self) -> None:
        self.taught: dict[str, list[float]] = {}

    def predict_one(self, x: dict[str, Any]) -> float | None:
        taught = self.taught.get(x.get("user_id", ""))
        return sum(taught) / len(taught) if taught else None

    def learn_one(self, x: dict[str, Any], y: float) -> None:
        self.taught.setdefault(x.get("user_id", ""), []).append(y)


def log() -> batchcast.Trace:
    return small_log(120)


FORMS = {
    "a class": Hours,
    "an object": Hours(),
    "a maker": lambda trace: Hours(),
    "a maker without the log": lambda: Hours(),
    "a partial": partial(Hours, 1.0),
    "a maker of the machine": lambda max_procs: Hours(),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_is_taken_everywhere(form: Any) -> None:
    trace = log()
    (said,) = batchcast.replay(trace, form).values()
    assert set(said.points.tolist()) == {3600.0}
    waits = batchcast.replay(trace, {"mine": form}, target="wait_time")["mine"]
    assert set(waits.points.tolist()) == {3600.0}
    expected = batchcast.simulate(trace, "easy-sjbf", Hours(), total=64).start_time.tolist()
    assert batchcast.simulate(trace, "easy-sjbf", form, total=64).start_time.tolist() == expected
    found = batchcast.evaluate(trace, predictor=form, policy="easy-sjbf")
    assert len(found.accuracy_rows()) == 2
    assert run_wait(trace, form, np.ones(len(trace), bool)).answer.tolist() == [3600.0] * len(trace)
    assert check_predictor(form)


def test_partitions_and_nodes_take_the_same() -> None:
    from batchcast.machines.machine import homogeneous

    columns = {"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3], "req_procs": [2, 2, 2]}
    whole = batchcast.Trace.from_arrays(columns)
    parts = batchcast.Trace.from_arrays({**columns, "partition_id": ["a", "b", "a"]})
    sizes = {"a": (2.0, "header"), "b": (2.0, "header")}
    for form in (Hours, Hours(), lambda trace: Hours(), lambda jobs, size: Hours(size)):
        assert simulate_split(parts, sizes, None, form).start_time.tolist() == [0.0, 0.0, 9.0]
        one = simulate_on(homogeneous(4, 1, 1000.0), whole, form)
        assert not np.isnan(one.start_time).any()


def test_names_are_those_of_the_classes_and_two_of_one_name_are_refused() -> None:
    assert list(named_methods(["last_2", Hours, "requested"])) == ["last_2", "Hours", "requested"]
    assert list(named_methods({"two": Hours(2.0), "last_2": None})) == ["two", "last_2"]
    with pytest.raises(UsageError, match="two methods are called Hours"):
        named_methods([Hours(1.0), Hours(2.0)])
    with pytest.raises(UsageError, match="no method"):
        batchcast.replay(log(), [])


def test_each_run_of_an_evaluation_has_a_copy_of_an_object() -> None:
    counts = Counts()
    found = batchcast.evaluate(log(), predictor=counts, policy="easy")
    again = batchcast.evaluate(log(), predictor=Counts, policy="easy")
    assert counts.events == 0
    waits = [[row["mean_wait_s"] for row in each.schedule_rows()] for each in (found, again)]
    assert waits[0] == waits[1]


def test_waits_are_compared_under_the_names_given() -> None:
    trace = log()
    runs = compare(trace, {"mine": Hours, "recent_wait": None}, np.ones(len(trace), bool), [60.0, 3600.0])
    assert [(run.predictor, bool(run.marked.all())) for _, run in runs[:2]] == [("mine", False), ("mine", True)]
    assert runs[2][1].predictor == "recent_wait"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (batchcast.Prediction(-1.0), "job .*: the predictor Wrong answered -1 s .*accepted: a finite time"),
        (-1, "answered -1 s"),
        (math.nan, "answered NaN"),
        (math.inf, "answered inf s"),
        (None, "answered nothing .*accepted: seconds as a number, or a Prediction"),
        ("60", "answered a str"),
        (batchcast.Prediction(5.0, (0.1, 0.9), (9.0, 2.0)), "quantiles .*not descending"),
        (batchcast.Prediction(5.0, (0.1,), ()), "0 quantiles for 1 levels"),
        (batchcast.Prediction(5.0, (0.9, 0.1), (2.0, 9.0)), "levels .*ascending"),
    ],
)
def test_a_wrong_answer_is_refused_by_name_on_every_clock(answer: Any, says: str) -> None:
    class Wrong(Hours):
        def predict(self, job: Any, at: Any) -> Any:
            return answer

    trace = log()
    for run in (
        lambda: batchcast.replay(trace, Wrong),
        lambda: batchcast.simulate(trace, predictor=Wrong(), total=64),
        lambda: batchcast.simulate(trace, predictor=Wrong, total=64, loop="open"),
        lambda: batchcast.evaluate(trace, predictor=Wrong),
        lambda: run_wait(trace, Wrong, np.ones(len(trace), bool)),
    ):
        with pytest.raises(BatchcastError, match=says):
            run()


class Silent:
    def predict(self, job: Any, at: Any) -> float:
        return 1.0


class NeedsK(Hours):
    def __init__(self, k: int) -> None:
        super().__init__(k)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Silent, "Silent has no observe .*accepted: a name, a class, an object"),
        (Silent(), "Silent has no observe"),
        (lambda trace: 7, "no predict and no observe"),
        (NeedsK, r"NeedsK needs k .*accepted: an object, NeedsK\(...\)"),
        (7, "predictor: 7 .*accepted: a name"),
        (None, "predictor: None"),
        ("lost_2", "no runtime method 'lost_2'"),
    ],
)
def test_what_is_no_method_is_refused_with_what_is_accepted(given: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        batchcast.replay(log(), given)


def test_a_method_is_not_asked_for_what_it_does_not_forecast() -> None:
    class Waits(Hours):
        target = "wait_time"

    assert batchcast.replay(log(), Waits, target="wait_time")
    with pytest.raises(UsageError, match="Waits forecasts wait_time"):
        batchcast.replay(log(), Waits)
    with pytest.raises(UsageError, match=r"river's estimators predict only run times"):
        batchcast.replay(log(), OnLine, target="wait_time")


def test_a_name_of_ours_is_not_taken_for_ones_own() -> None:
    with pytest.raises(UsageError, match="actual is the name of a method of batchcast"):
        batchcast.evaluate(log(), predictor={"actual": Hours})


def test_rivers_shape_passes_the_suite_and_learns() -> None:
    assert len(check_predictor(lambda trace: RiverRuntime(OnLine(), min_jobs=5))) >= 7
    trace = log()
    said = batchcast.replay(trace, lambda trace: RiverRuntime(OnLine(), min_jobs=5))
    (forecasts,) = said.values()
    assert {"model", "limit"} <= set(forecasts.grounds)
    assert batchcast.replay(trace, OnLine)["OnLine"].points.min() >= 1.0
    with pytest.raises(UsageError, match="no predict_one and learn_one"):
        RiverRuntime(Hours())


class NumbersAlone(OnLine):
    """Like most of river's models, this one accepts no text."""

    def learn_one(self, x: dict[str, Any], y: float) -> None:
        assert all(isinstance(value, (int, float)) for value in x.values()), x
        self.taught.setdefault(next((name for name in x if name.startswith("user_id=")), ""), []).append(y)


def test_rivers_models_are_given_numbers_and_text_where_it_is_asked_for() -> None:
    trace = log()
    assert (
        "model" in batchcast.replay(trace, lambda trace: RiverRuntime(NumbersAlone(), min_jobs=5))["<lambda>"].grounds
    )
    seen: list[Any] = []

    class Texts(OnLine):
        def learn_one(self, x: dict[str, Any], y: float) -> None:
            seen.append(x.get("user_id"))

    batchcast.replay(trace, RiverRuntime(Texts(), text=True))
    assert seen
    assert all(user is None or isinstance(user, str) for user in seen)


def test_scikit_learns_shape_passes_the_suite() -> None:
    tree = pytest.importorskip("sklearn.tree")
    assert len(check_predictor(tree.DecisionTreeRegressor(random_state=0))) >= 8
    said = batchcast.replay(log(), tree.DecisionTreeRegressor)["DecisionTreeRegressor"]
    assert said.points.min() >= 1.0


def test_a_wait_predictor_of_ones_own_is_held_to_the_suite() -> None:
    with pytest.raises(AssertionError, match="less than"):
        check_wait_predictor(Hours(-1.0))
    assert "batch_path_on_every_clock" in check_wait_predictor("recent_wait")


class _Twelve:
    def predict(self, job: Any, at: Any) -> Any:
        return 12.0

    def observe(self, event: Any, at: Any) -> None:
        pass


class _Short(_Twelve):
    def predict(self, job: Any) -> Any:
        return 12.0


class _Divides(_Twelve):
    def predict(self, job: Any, at: Any) -> Any:
        return 1 / 0


class _Deaf(_Twelve):
    def observe(self, event: Any, at: Any) -> None:
        raise KeyError("user")


class _Unmade(_Twelve):
    def __init__(self) -> None:
        raise RuntimeError("no model file")


class _Start:
    def start(self, queue: Any, machine: Any) -> Any:
        return []


class _Starts:
    def start(self, queue: Any, machine: Any, now: float) -> Any:
        yield queue[0].nothing


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (_Short, r"_Short.predict \(test_methods.py, line \d+\) takes \(job.*accepted: predict\(job, at\)"),
        (_Divides, r"_Divides raised ZeroDivisionError: .*\(test_methods.py, line \d+\)"),
        (_Deaf, r"_Deaf, observing Submit, raised KeyError: 'user' \(test_methods.py"),
        (_Unmade, r"_Unmade raised RuntimeError: no model file \(test_methods.py"),
    ],
)
def test_what_code_of_ones_own_raises_is_said_by_name_and_line(method: Any, said: str) -> None:
    log = small_log(20)
    for run in (lambda: batchcast.replay(log, method), lambda: batchcast.simulate(log, "easy", method, total=64)):
        with pytest.raises(BatchcastError, match=said):
            run()


def test_a_scheduler_that_fails_is_named_with_its_line() -> None:
    with pytest.raises(
        BatchcastError, match=r"_Start.start \(test_methods.py, .* takes .*start\(queue, machine, now\)"
    ):
        batchcast.simulate(small_log(20), _Start, total=64)
    with pytest.raises(BatchcastError, match=r"_Starts, at .* raised AttributeError: .*test_methods"):
        batchcast.simulate(small_log(20), _Starts, total=64)
