"""Tests logs resampled from the weeks of a log: whole weeks at new positions, a few jobs omitted; and policies on
them."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
from click.testing import CliRunner

import batchcast
from batchcast.cli.main import cli
from batchcast.evaluation.differences import replicate, replicated
from batchcast.metrics.bursts import WEEK_S
from batchcast.metrics.measure import OverReplicates
from batchcast.simulation import Policy, simulate
from batchcast.table import LogInfo, Trace


def weekly_log() -> Trace:
    submit = np.sort(np.random.default_rng(0).random(400)) * 6 * WEEK_S
    submit[0] = 0.0
    return Trace.from_arrays(
        {
            "submit_time": submit,
            "run_time": np.arange(400.0),
            "req_time": np.full(400, 900.0),
            "req_procs": np.ones(400),
            "user_id": ["ada", "bob"] * 200,
        },
        LogInfo(max_procs=4.0),
    )


def test_weeks_stay_whole_and_in_their_place_of_the_week() -> None:
    log = weekly_log()
    again = replicate(log, np.random.default_rng(1), dropped=0.0)
    weeks = [log.run_time[(log.submit_time // WEEK_S) == week] for week in range(6)]
    for place in range(6):
        inside = again.run_time[(again.submit_time // WEEK_S) == place].tolist()
        assert inside in [week.tolist() for week in weeks]
    rows = again.run_time.astype(int)  # every run time occurs in the log
    assert np.allclose(again.submit_time % WEEK_S, log.submit_time[rows] % WEEK_S)
    assert again["user_id"].tolist() == log["user_id"][rows].tolist()
    assert (np.diff(again.submit_time) >= 0).all()


def test_one_in_a_hundred_jobs_is_left_out_and_the_seed_decides() -> None:
    log = weekly_log()
    seeds = [np.random.default_rng(k) for k in range(20)], [np.random.default_rng(k) for k in range(20)]
    sizes = [len(replicate(log, a)) / len(replicate(log, b, 0.0)) for a, b in zip(*seeds)]
    assert 0.98 < np.mean(sizes) < 1.0
    one, two = (replicate(log, np.random.default_rng(5)) for _ in range(2))
    assert one.submit_time.tolist() == two.submit_time.tolist()


def test_a_policy_that_is_the_reference_twice_is_never_ahead() -> None:
    log = weekly_log()
    over = replicated(log, dict.fromkeys("ab", partial(simulate, policy=Policy())), "a", 3)
    assert (over.logs, list(over.changes)) == (3, ["b"])
    assert over.changes["b"]["mean_wait_s"] == OverReplicates(0.0, 0.0, 0.0, 0.0)


def test_the_command_line_prints_replicates() -> None:
    words = ["simulate", str(batchcast.demo_path()), "--first", "800", "--policy", "fcfs,easy", "--replicates", "4"]
    rows = json.loads(CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False).stdout)["results"]
    change = rows[1]["replicated"]["mean_wait_s"]
    assert change["low"] <= change["value"] <= change["high"]
    assert "% of 4" in CliRunner().invoke(cli, words, catch_exceptions=False).stdout
