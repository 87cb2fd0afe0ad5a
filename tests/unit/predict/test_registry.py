"""Tests methods by name, and a user's own methods by module and class."""

from __future__ import annotations

import pytest

from batchcast.errors import UsageError
from batchcast.predict.registry import load, make, parse_spec, split_specs

SOURCE = """
from batchcast import Prediction

class Fixed:
    uses = ("user_id",)
    def __init__(self, seconds: float = 60.0, names: tuple[str, ...] = ()):
        self.seconds, self.names = seconds, names
    def predict(self, job, at):
        return Prediction(self.seconds)
    def observe(self, event, at):
        pass

class Reads(Fixed):
    uses = ("run_time",)

def made():
    return Fixed(7.0)

class Silent:
    pass

number = 5
"""


@pytest.fixture
def methods(tmp_path, monkeypatch):
    (tmp_path / "own_methods_here.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return "own_methods_here"


def test_a_class_of_ones_own_is_made_with_parameters(methods):
    method = make("runtime", f"{methods}:Fixed:seconds=5,names=a+b")
    assert (method.seconds, method.names) == (5.0, ("a", "b"))
    assert make("runtime", f"{methods}:made").seconds == 7.0


def test_a_list_may_hold_ones_own_beside_registered_ones(methods):
    assert split_specs(f"last_2:need=2,{methods}:Fixed,seconds=5,names=a,requested") == [
        "last_2:need=2", f"{methods}:Fixed:seconds=5,names=a", "requested"
    ]  # fmt: skip
    assert parse_spec("scheduler_replay:runtime=mine:Own") == ("scheduler_replay", {"runtime": "mine:Own"})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Absent", "has no attribute 'Absent'"),
        ("number", "neither a class nor a function"),
        ("Silent", "has no predict and no observe"),
        ("Fixed:wide=3", "has no parameter 'wide'"),
        ("Fixed:seconds=long", "not a number"),
        ("Reads", "cannot use 'run_time'"),
    ],
)
def test_what_is_wrong_with_ones_own_is_said(methods, name, says):
    with pytest.raises(UsageError, match=says):
        make("runtime", f"{methods}:{name}")


def test_a_module_nobody_finds_is_named_with_the_next_step():
    with pytest.raises(UsageError, match=r"no predictor no_such_module_here:Mine") as caught:
        load("runtime", "no_such_module_here:Mine")
    assert "PYTHONPATH" in caught.value.hint


def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match=r"MODULE:CLASS") as caught:
        load("runtime", "recent_meen")
    assert "recent_mean" in caught.value.hint
