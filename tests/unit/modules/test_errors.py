"""Tests that messages name what the reader typed: flags on the command line, arguments in Python."""

import importlib.metadata
import importlib.util
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import batchcast
from batchcast.cli.main import cli
from batchcast.errors import InputError, UsageError, as_arguments, how_to_install
from batchcast.table import LogInfo


def test_python_is_told_of_arguments():
    log = batchcast.read_trace(batchcast.demo_path())
    with pytest.raises(UsageError, match=r"^wide: 'no' is not a known word \(accepted"):
        batchcast.simulate(log, wide="no")
    with pytest.raises(UsageError) as caught:
        batchcast.evaluate(log, predictor=["recent_mean:fields=speed"], policy=["easy"])
    assert "known_at_submit=" not in caught.value.message
    assert caught.value.hint.startswith("known_at_submit speed")


def test_the_command_line_is_told_of_flags():
    options = ["runtime", str(batchcast.demo_path()), "--first", "50", "--predictor", "recent_mean:fields=speed"]
    caught = CliRunner().invoke(cli, options).exception
    assert isinstance(caught, UsageError)
    assert caught.hint.startswith("--known-at-submit speed")


def test_an_error_comes_back_from_another_process_as_it_was():
    error = UsageError("--wide: no 'no'", hint="--wide drop")
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.hint) == (error.message, error.hint) == ("wide: no 'no'", "wide drop")


@pytest.mark.parametrize("text", ["a job-list -- and more", "x--y", "squeue -h", "---"])
def test_other_dashes_stay(text):
    assert as_arguments(text) == text


LOG = batchcast.Trace.from_arrays(
    {"submit_time": [0, 1], "run_time": [5, 5], "wait_time": [0, 0], "req_time": [9, 9], "req_procs": [1, 1]},
    LogInfo(max_procs=2.0),
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: batchcast.evaluate(LOG, partitions="alone"),
            r"^partitions: 'alone' is not a known word \(accepted: together, split",
        ),
        (
            lambda: batchcast.evaluate(LOG, protocol="fair"),
            r"^protocol: 'fair' is not a known word \(accepted: honest, paper",
        ),
        (lambda: batchcast.evaluate(LOG, mask=np.ones(3, bool)), r"^mask: bool of shape \(3,\) .* the 2 jobs"),
        (lambda: batchcast.evaluate([1, 2]), r"^trace: a list \(accepted: a Trace"),
        (lambda: batchcast.evaluate(LOG[:0]), "no job is left"),
        (lambda: batchcast.simulate(LOG, "easy", protocol="fair"), r"^protocol: 'fair' is not"),
        (lambda: batchcast.simulate(LOG, "easy", total=-1), r"^total: -1 \(accepted"),
        (lambda: batchcast.simulate(LOG, "easy", default_request=-5), r"^default_request: -5 \(accepted"),
        (lambda: batchcast.replay(LOG, "last_2", ask=[True]), r"^ask: bool of shape \(1,\)"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_named(call, message):
    with pytest.raises((UsageError, InputError), match=message):
        call()


def test_one_name_is_one_predictor():
    assert list(batchcast.replay(LOG, "last_2")) == ["last_2"]


def test_results_are_short_at_the_prompt():
    assert repr(batchcast.simulate(LOG, "easy")) == "<Schedule of 2 jobs on 2 processors>"
    found = batchcast.evaluate(LOG, predictor="last_2", policy="easy")
    assert repr(found) == "<Evaluation of 2 jobs: requested, last_2; easy>"


def test_a_part_is_installed_by_uv_where_there_is_no_pip(monkeypatch):
    """A venv created by uv has no pip, so the advice `python -m pip` would fail there."""
    assert " -m pip install " in how_to_install("store")
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else real(name))
    assert how_to_install("store").startswith(f"uv pip install --python {sys.executable} ")


def test_who_keeps_a_store_in_a_file_is_not_sent_for_a_databases_driver(monkeypatch):
    """In a wheel, the packages of an extra are named individually."""
    wheel = SimpleNamespace(
        read_text=lambda _: None,
        requires=["sqlalchemy>=2.0; extra == 'store'", "psycopg[binary]>=3.2; extra == 'store'", "numba"],
    )
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: wheel)
    assert how_to_install("store", "sqlalchemy").endswith("install 'sqlalchemy>=2.0'")
    assert how_to_install("store").endswith("install 'sqlalchemy>=2.0' 'psycopg[binary]>=3.2'")
