"""Follows the guides for operators and users line by line on a real Slurm in real time.

The installation itself is tested on a disposable system (docs/evidence/install.md), because it needs systemd.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from follow import Follower
from guide import Shell, commands_in, lines_of, settings_of
from slurm_lab import Lab

pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.usefixtures("lab_here")]
MINUTE, PATIENCE = 60.0, 400.0  # code is compiled once, which takes minutes on a busy machine
CONF = {"PriorityType": "priority/multifactor"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Lab, Follower, Shell]]:
    """A lab with a busy machine, a collector with a settings file, and a shell."""
    with Lab(nodes=2, cpus=2, conf=CONF) as lab:
        store = tmp_path / "store.db"
        config = tmp_path / "batchcast.toml"
        config.write_text(f'store = "{store}"\n')
        follower = Follower(
            lab, str(store), interval=2.0, HISTORY_DAYS="0.02", HISTORY_EVERY_S="5", WAIT="recent_wait:need=1"
        )
        follower.env["BATCHCAST_CONFIG"] = str(config)
        done = [lab.submit("-n1", "-t", "10", seconds=0.5, name="relax1", user="root") for _ in range(4)]
        lab.wait(lambda: len(lab.run("squeue", "-h", "-t", "CD", "-o", "%i").split()) >= len(done), "ended jobs")
        # this method makes no prediction for a job that is submitted before there is a job history
        lab.wait(lambda: lab.run("sacct", "-naPX", "-o", "State").count("COMPLETED") >= len(done), "accounting")
        lab.submit("-N2", "--exclusive", "-t", "600", seconds=60 * MINUTE, name="blocker", user="root")
        waiting = lab.submit("-n1", "-t", "120", seconds=1, name="relax1", user="root")
        (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 1 -t 60\nsleep 1\n")
        words = {
            "account=ACCOUNT": "account=physics", "/etc/batchcast": str(tmp_path),
            "/var/lib/batchcast": str(tmp_path), "/var/backups": str(tmp_path), "4242": waiting, "LOG": "log.parquet",
        }  # fmt: skip
        yield lab, follower, Shell(follower, tmp_path, words)
        follower.kill(signal.SIGTERM)


def test_planning_is_tried_switched_on_and_off_as_its_two_guides_say(site: tuple[Lab, Follower, Shell]) -> None:
    lab, follower, shell = site
    follower.start()
    lab.wait(follower.has_looked, "a cycle", PATIENCE)
    tried, on = lines_of("planning.md"), lines_of("planning-limits.md")
    simulated = [line for line in tried if " LOG " in line]
    tried = [line for line in tried if line not in simulated]
    for line in tried:
        said = shell.run(line, (0, 1) if line.endswith("doctor") else (0,))  # doctor fails because OverTimeLimit is 0
        if line.endswith("--dry-run"):
            assert "OverTimeLimit is 0 in partition main" in said
    conf = lab.slurm_conf.read_text()
    lab.slurm_conf.write_text(conf + "OverTimeLimit=60\n")
    lab.run("scontrol", "reconfigure")
    config = Path(shell.env["BATCHCAST_CONFIG"])
    config.write_text(config.read_text() + settings_of("planning-limits.md").replace("= 10 ", "= 100 "))
    for line in on:
        if line == "batchcast plan":  # the previous step restarts the collector
            follower.kill(signal.SIGTERM)
            follower.start()
            lab.wait(follower.has_looked, "a cycle", PATIENCE)
        said = shell.run(line)
        if line == "batchcast doctor":
            assert "OverTimeLimit is 1 h" in said
        if line == "batchcast plan --off":
            assert "no job has a planned limit or priority now" in said
    assert "planning is on again" in shell.run("batchcast plan --on")
    shell.run("batchcast site export -o log.parquet")
    for line in simulated:
        shell.run(line)
    assert {"batchcast plan --off", "batchcast plan --dry-run", "batchcast plan --audit"} <= set(shell.done)


def test_one_user_tries_it_watches_it_and_backs_it_up_as_the_pages_for_operators_say(
    site: tuple[Lab, Follower, Shell],
) -> None:
    lab, _, shell = site
    for line in commands_in("../start/operator.md", "Beside a live Slurm"):
        said = shell.run(line, (0, 1) if line.endswith("doctor") else (0, 3))  # 3: no prediction or outcome yet
        assert said.strip(), line
        if line == "batchcast collect --once":
            assert "collecting from slurm" in said
            lab.wait(lambda: shell.run("batchcast collect --once") and _answers(shell), "an answer", PATIENCE)
    for line in commands_in("live.md", "Watch it"):
        assert shell.run(line, (0, 1, 3)).strip(), line
    for line in lines_of("live.md"):
        shell.run(line)
    assert (shell.place / "batchcast.db").read_bytes()[:15] == b"SQLite format 3"
    assert {"batchcast doctor", "batchcast collect --once", "batchcast start", "batchcast accuracy"} <= set(shell.done)


def _answers(shell: Shell) -> bool:
    return "WHY IT WAITS" in shell.run("batchcast start", (0, 3))


def test_each_line_of_the_guide_of_users_answers(site: tuple[Lab, Follower, Shell]) -> None:
    lab, follower, shell = site
    follower.start()
    lab.wait(lambda: follower.has_looked() and _answers(shell), "an answer", PATIENCE)
    for line in lines_of("users.md"):
        said = shell.run(line, (0, 1) if "--chance" in line else (0,))
        assert said.strip(), line
