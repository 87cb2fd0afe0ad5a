"""Tests a real Snakemake on the lab's Slurm: tasks request less in the second run, and nothing fails without the
service."""

from __future__ import annotations

import pytest
import snakemake_lab
from conftest import absent
from slurm_lab import Lab
from snakemake_lab import CONF, WRITTEN_MIB, Helped, Workflow

from batchcast.client import Client

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
SAMPLES = 5  # a suggestion needs three jobs with measured memory; a short task may end unmeasured


def test_tasks_of_a_second_run_ask_for_what_the_first_held_and_a_dead_service_changes_nothing(
    fast_lab_here: None,
) -> None:
    if why := snakemake_lab.missing():
        absent(why)
    with Lab(nodes=2, cpus=4, speed=10.0, conf=CONF) as lab, Helped(lab) as helped:
        workflow = Workflow(lab, SAMPLES, seed=1, rules=2)
        written = workflow.run("written", False)
        helped.caught_up()
        client = Client(str(helped.socket), patience_s=5.0)
        lab.wait(lambda: client.memory_mib(WRITTEN_MIB, "align", procs=2) < WRITTEN_MIB, "advice for align", 120)
        advised = workflow.run("advised", True, helped.socket)
        helped.kill()
        alone = workflow.run("alone", True, helped.socket)
        jobs = {name: workflow.jobs(name) for name in ("written", "advised", "alone")}
        results = {(folder / "all.txt").read_text() for folder in (written, advised, alone)}
    assert len(results) == 1
    done = {name: [job for job in found if job.state == "COMPLETED"] for name, found in jobs.items()}
    assert {name: len(found) for name, found in done.items()} == dict.fromkeys(jobs, SAMPLES * 2)
    assert {job.mib for job in jobs["written"]} == {job.mib for job in jobs["alone"]} == {WRITTEN_MIB}
    assert min(job.mib for job in done["advised"]) < 0.5 * WRITTEN_MIB
    # a failed attempt is repeated with the written request
    assert max(job.mib for job in jobs["advised"]) <= WRITTEN_MIB
