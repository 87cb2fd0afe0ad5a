"""A real Snakemake on the lab's Slurm: its tasks ask for less the second time, and lose nothing with the service."""

from __future__ import annotations

import json

import pytest
import snakemake_lab
from slurm_lab import Lab
from snakemake_lab import CONF, WRITTEN_MIB, Helped, Workflow, sums

from conftest import absent

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
SAMPLES = 3


def test_tasks_of_a_second_run_ask_for_what_the_first_held_and_a_dead_service_changes_nothing(
    fast_lab_here: None,
) -> None:
    if why := snakemake_lab.missing():
        absent(why)
    with Lab(nodes=2, cpus=4, speed=10.0, conf=CONF) as lab, Helped(lab) as helped:
        workflow = Workflow(lab, SAMPLES, seed=1, rules=2)
        written = workflow.run("written", False)
        helped.caught_up()
        advised = workflow.run("advised", True, helped.socket)
        helped.kill()
        alone = workflow.run("alone", True, helped.socket)
        jobs = {name: workflow.jobs(name) for name in ("written", "advised", "alone")}
        results = {(folder / "all.txt").read_text() for folder in (written, advised, alone)}
        slowest = max(json.loads(line)[-1] for line in (alone / "questions.jsonl").read_text().splitlines())
    assert len(results) == 1
    assert {name: len(found) for name, found in jobs.items()} == dict.fromkeys(jobs, SAMPLES * 2)
    assert {job.mib for job in jobs["written"]} == {job.mib for job in jobs["alone"]} == {WRITTEN_MIB}
    assert sums(jobs["advised"])["gib_h_asked"] < 0.7 * sums(jobs["written"])["gib_h_asked"]
    assert slowest < 0.25
