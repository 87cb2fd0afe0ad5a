"""Tests a real JupyterHub on the lab's Slurm: its form shows when each choice would start, and submits the choice."""

from __future__ import annotations

import jupyterhub_lab
import pytest
from conftest import absent
from jupyterhub_lab import Hub
from slurm_lab import Lab
from snakemake_lab import Helped

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
CHOICES = {
    "2 cores, 20 minutes": {"nprocs": "2", "runtime": "20:00", "partition": "main"},
    "4 cores, 1 hour": {"nprocs": "4", "runtime": "1:00:00", "partition": "main"},
}


def test_the_form_says_when_and_a_notebook_starts_as_it_was_chosen(lab_here: None) -> None:
    if why := jupyterhub_lab.missing():
        absent(why)
    with Lab(nodes=1, cpus=4) as lab, Helped(lab, 2.0, WAIT="forecast") as helped:
        lab.submit("-n", "1", "-t", "5", seconds=0)
        lab.wait(lambda: "COMPLETED" in lab.run("sacct", "-nXa", "-o", "State"), "a job that ended")
        helped.caught_up()
        lab.submit("-n", "2", "-t", "30", seconds=600, name="before")
        lab.wait(lambda: "before" in lab.run("squeue", "-h", "-t", "R", "-o", "%j"), "a job that runs")
        with Hub(lab, helped.socket, CHOICES) as hub:
            hub.sign_in("daemon")
            lab.wait(lambda: all(hub.choices().values()), "a start of each choice", 240)
            full = "4 cores, 1 hour"  # behind the running job, after the service has read the queue
            lab.wait(lambda: hub.choices()[full].startswith("likely "), "a time for what is not free", 240)
            # a form waits half a second for its times, and leaves out those that come later
            free = "2 cores, 20 minutes"
            lab.wait(lambda: hub.choices()[free] == "starts at once", "a start at once for what is free", 240)
            assert list(hub.choices()) == list(CHOICES)

            hub.send("/spawn", choice="0", nprocs="64")
            wanted = "daemon 2 20:00 RUNNING"
            lab.wait(lambda: wanted in lab.run("squeue", "-h", "-o", "%u %C %l %T"), "the notebook's job", 60)
            lab.wait(lambda: '"ready": true' in hub.page("/api/users/daemon"), "a notebook that answers", 60)

            helped.kill()
            hub.sign_in("games")
            assert hub.choices() == dict.fromkeys(CHOICES, ""), "no service, no times: the form is there"
