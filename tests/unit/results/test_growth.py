"""Tests `whatif --demand` and `--vary add=`: more work by whole user-weeks, and new nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import UsageError
from batchcast.machines.machine import homogeneous, parse_changes, vary
from batchcast.results.whatif import Variants, grown, growth
from batchcast.table import Trace

WEEK = 7 * 86400.0


@pytest.fixture(scope="module")
def log() -> Trace:
    """Six weeks of eight users who submit ten jobs each on one day of the week."""
    rng = np.random.default_rng(3)
    submit = np.array([w * WEEK + u * 80_000 + k * 900.0 for w in range(6) for u in range(8) for k in range(10)])
    run = np.ceil(rng.lognormal(8.5, 0.7, len(submit)))
    user = ((submit % WEEK) // 80_000).astype(int)
    return Trace.from_arrays(
        {"submit_time": submit.round(), "wait_time": np.zeros(len(submit)), "run_time": run, "req_time": run * 2,
         "req_procs": rng.integers(1, 5, len(submit)), "user_id": user}
    )  # fmt: skip


@pytest.mark.parametrize("share", [0.5, -0.25])
def test_work_changes_by_the_share_on_average_and_in_whole_user_weeks(log: Trace, share: float) -> None:
    def work(trace: Trace) -> float:
        return float((trace.procs("req") * trace.run_time).sum())

    changes = []
    for seed in range(20):
        again = grown(log, share, np.random.default_rng(seed))
        changes.append(work(again) / work(log) - 1)
        day = again.submit_time % WEEK // 80_000
        assert (day == again.nominal("user_id").decode()).all(), "each user submits on the own day of the week still"
        assert len(again) % 10 == 0, "a user-week is whole"
        assert (np.diff(again.submit_time) >= 0).all()
    assert np.mean(changes) == pytest.approx(share, abs=0.02)


def test_more_nodes_shorten_waits_unless_users_fill_them(log: Trace) -> None:
    plan = Variants.of(homogeneous(1, 8), ["add=1xn1"])
    rows = {(r["variant"], r["reaction"]): r for r in growth(log, plan, 0.2, replicates=3).rows}
    assert [rows["add=1xn1", word]["work"] for word in ("none", "half", "full")] == pytest.approx([0.2, 0.8, 1.4])
    waits = [rows["add=1xn1", word]["mean_wait_s"] for word in ("none", "half", "full")]
    assert waits == sorted(waits)
    assert waits[0] < rows["now", "none"]["mean_wait_s"] / 2
    one = rows["now", "none"]
    assert one["wait_90_s_low"] <= one["wait_90_s"] <= one["wait_90_s_high"]
    assert growth(log, plan, 0.2, replicates=3, workers=2).rows == growth(log, plan, 0.2, replicates=3).rows


def test_several_kinds_of_nodes_are_added_at_once_to_the_partitions_of_their_kind() -> None:
    machine = vary(homogeneous(2, 4), parse_changes("add=3xn1,add=2x64cpu+512G+4gpu:h100@all"))
    assert (machine.cpus, len(machine.partitions[0].nodes)) == (8 + 12 + 128, 7)
    assert (machine.nodes[-1].memory_mib, machine.nodes[-1].gres) == (512 * 1024, {"gpu:h100": 4})


@pytest.mark.parametrize(
    ("value", "said"),
    [("8", "not a number of nodes"), ("8xg7", "neither a node nor a kind"), ("1x4cpu@gpu", "no partition 'gpu'")],
)
def test_nodes_that_cannot_be_read_say_what_is_accepted(value: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        vary(homogeneous(2, 4), {"add": value})
    assert "accepted: " in refused.value.message


def test_the_command_prints_a_row_for_each_reaction(log: Trace, tmp_path: Path) -> None:
    from batchcast.formats.slurm.resources import fold
    from batchcast.machines.toml import write_machine
    from batchcast.trace.write import write_by_ending

    machine, path = tmp_path / "machine.toml", tmp_path / "log.csv"
    machine.write_text(write_machine(homogeneous(1, 8), fold))
    write_by_ending(log, str(path))
    words = [
        "whatif",
        str(path),
        "--machine",
        str(machine),
        "--vary",
        "add=1xn1",
        "--demand",
        "+20%",
        "--replicates",
        "2",
    ]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["results"]
    assert [(r["variant"], r["reaction"]) for r in rows if r["partition"] == "all"] == [
        ("now", "none"), ("add=1xn1", "none"), ("add=1xn1", "half"), ("add=1xn1", "full"),
    ]  # fmt: skip
    every = max(r["wait_90_s_high"] for r in rows)
    words[-3] = f"+20%,target={every + 60:.0f}s"
    said = CliRunner().invoke(cli, words).stdout
    for word in ("none", "half", "full"):
        said_of = f"users react {word}: the present machine keeps 90 % of waits below"
        assert said_of in said, "no purchase is needed, so users have nothing to react to"
    words[-3] = "+20%,target=1s"
    assert "users react half: no variant keeps 90 % of waits below 1 s" in CliRunner().invoke(cli, words).stdout
    refused = CliRunner().invoke(cli, [*words[:-3], "20"])
    assert "accepted: +20%, -10%, 0%" in refused.output + str(refused.exception)
