"""Messages name what the reader typed: flags on the command line, arguments in Python."""

import pickle

import pytest
from click.testing import CliRunner

import batchcast
from batchcast.cli.main import cli
from batchcast.errors import UsageError, as_arguments


def test_python_is_told_of_arguments():
    log = batchcast.read_trace(batchcast.demo_path())
    with pytest.raises(UsageError, match=r"^wide: no 'no' \(accepted"):
        batchcast.simulate(log, wide="no")
    with pytest.raises(UsageError) as caught:
        batchcast.evaluate(log, predictors=["recent_mean:fields=speed"], policies=["easy"])
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
