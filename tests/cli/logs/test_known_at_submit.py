"""Tests that columns of a user's table reach predictors only if the user declares them known at submission."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import UsageError

ROWS = "\n".join(f"{k},{50 * k},0,{60 + 40 * (k % 2)},600,1,u,{k % 2},{60 + 40 * (k % 2)}" for k in range(1, 40))


@pytest.fixture
def log(tmp_path):
    header = "job_id,submit_time,wait_time,run_time,req_time,req_procs,user_id,kind_of_run,elapsed"
    path = tmp_path / "own.csv"
    path.write_text(f"{header}\n{ROWS}\n")
    return str(path)


def run(*arguments):
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def refused(*arguments):
    with pytest.raises(UsageError) as caught:
        run(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("verb", ["runtime", "evaluate", "simulate", "wait"])
def test_a_column_nobody_vouched_for_is_refused_and_the_way_out_named(verb, log, tmp_path):
    spec = "recent_mean:fields=kind_of_run"
    method = {"wait": ["--predictor", f"scheduler_replay:runtime={spec}"]}
    options = [*method.get(verb, ["--predictor", spec]), "--procs-total", "8"]
    options += ["-o", str(tmp_path / "report")] if verb == "evaluate" else []
    assert "--known-at-submit kind_of_run" in refused(verb, log, *options)
    assert run(verb, log, *options, "--known-at-submit", "kind_of_run").exit_code == 0


def test_vouching_is_echoed_and_helps(log):
    plain = run("runtime", log, "--predictor", "recent_mean", "--json")
    vouched = run("runtime", log, "--predictor", "recent_mean:fields=kind_of_run", "--known-at-submit", "kind_of_run",
                  "--json")  # fmt: skip
    told = json.loads(vouched.stdout)
    assert told["settings"]["known_at_submit"] == ["kind_of_run"]
    assert told["results"][0]["mae_s"] < json.loads(plain.stdout)["results"][0]["mae_s"]


def test_nobody_vouches_for_the_run_time(log):
    assert "only when the job has ended" in refused("runtime", log, "--known-at-submit", "run_time")


def test_a_column_the_log_lacks_is_named_with_those_it_has(log):
    assert "kind_of_run" in refused("runtime", log, "--known-at-submit", "kind")
