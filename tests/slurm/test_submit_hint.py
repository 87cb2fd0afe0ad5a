"""Tests `batchcast.lua` in a real slurmctld: no submission fails or waits twice, whatever the service does."""

from __future__ import annotations

import importlib.resources
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import absent
from slurm_lab import Lab

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
SCRIPT = """
package.path = "{folder}/?.lua;" .. package.path
local there, batchcast = pcall(require, "batchcast")
if there then batchcast.path = "{socket}" else slurm.log_error("%s", batchcast) end
function slurm_job_submit(job, partitions, uid)
   local hint = there and batchcast.ask(job)
   slurm.log_info("hint calls=%d limit=%s waited=%.4f why=%s", batchcast.calls, tostring(hint and hint.limit),
                  batchcast.waited, batchcast.last_failure)
   return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
"""
ANSWER = b'HTTP/1.0 200 OK\r\n\r\n{"results":[{"limit_s":1800.0,"likely_start_s":1.0e9,"by_90_start_s":null}]}'


def said(lab: Lab) -> list[tuple[int, str, float, str]]:
    """What each submission recorded: questions so far, the suggested limit, seconds waited so far, the last failure."""
    found = re.findall(r"hint calls=(\d+) limit=(\S+) waited=(\S+) why=(.*)", lab.tail("slurmctld", 10_000))
    return [(int(calls), limit, float(waited), why) for calls, limit, waited, why in found]


def submit(lab: Lab, jobs: int) -> None:
    for _ in range(jobs):
        lab.submit("-H", "-t", "60", seconds=1, name="a b&c")


def test_a_submission_is_told_a_limit_or_nothing_and_never_waits_for_a_service_that_hangs(lab_here: None) -> None:
    if not list(Path("/usr/lib").glob("*/lua/5.1/socket/unix.so")):
        absent("no LuaSocket (tests/slurm/install.sh installs lua-socket)")
    with Lab(nodes=1) as lab:
        place = lab.root / "run" / "api.sock"
        module = importlib.resources.files("batchcast.service") / "units" / "batchcast.lua"
        (lab.root / "etc" / "batchcast.lua").write_text(module.read_text(encoding="utf-8"))
        script = lab.root / "etc" / "job_submit.lua"
        script.write_text(SCRIPT.format(folder=lab.root / "etc", socket=place))
        lab.stop("slurmctld")
        lab.conf["JobSubmitPlugins"] = "lua"
        lab._write_configuration()
        lab.start_slurmctld()
        submit(lab, 20)  # refused, because no process listens on this socket
        *_, last = said(lab)
        assert (len(said(lab)), last[0], last[1]) == (20, 1, "nil")
        assert "No such file" in last[3]
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))
            listening.listen(100)
            anew(lab)
            submit(lab, 20)  # a hung service: the kernel accepts the connection, and no program answers
            *_, last = said(lab)
            assert (last[0], last[1]) == (1, "nil")
            assert last[2] < 1.0
            assert "timeout" in last[3]
        place.unlink()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))
            listening.listen(100)
            with script.open("a") as file:
                file.write("if there then batchcast.wait = 20 end\n")  # this test checks the answer, not its speed
            anew(lab)
            asked = answered(listening, lab)
        assert asked.startswith("GET /v1/hint?")
        assert "user=daemon" in asked
        assert "name=a%20b%26c" in asked
        assert "time=60" in asked
        assert said(lab)[-1][1] == "30"


def test_sbatch_says_in_one_line_what_would_be_enough_and_goes_on_without_a_service(lab_here: None) -> None:
    if not list(Path("/usr/lib").glob("*/lua/5.1/socket/unix.so")):
        absent("no LuaSocket (tests/slurm/install.sh installs lua-socket)")
    with Lab(nodes=1) as lab:
        units, etc, place = importlib.resources.files("batchcast.service") / "units", lab.root / "etc", lab.root / "s"
        module = (units / "batchcast.lua").read_text(encoding="utf-8")
        (etc / "batchcast.lua").write_text(module.replace("/run/batchcast/api.sock", str(place)))
        (etc / "cli_filter.lua").write_text((units / "cli_filter.lua").read_text(encoding="utf-8"))
        lab.conf["CliFilterPlugins"] = "lua"
        lab._write_configuration()
        words = [
            "sbatch",
            "--parsable",
            "-H",
            "-t",
            "1:00:00",
            "-n",
            "2",
            "-J",
            "a b",
            "--uid=daemon",
            "--wrap",
            "true",
        ]
        alone = subprocess.run(words, env=lab.env, capture_output=True, text=True, check=True, cwd="/tmp")
        assert alone.stdout.strip().isdigit()
        assert "batchcast" not in alone.stderr
        got: list[str] = []
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))
            listening.listen(5)
            listening.settimeout(30)
            (etc / "batchcast.lua").write_text(
                module.replace("/run/batchcast/api.sock", str(place)).replace("wait = 0.05", "wait = 20")
            )
            thread = threading.Thread(target=answer_once, args=(listening, got))
            thread.start()
            told = subprocess.run(words, env=lab.env, capture_output=True, text=True, check=True, cwd="/tmp")
            thread.join(30)
        assert told.stdout.strip().isdigit()
        assert "batchcast: similar jobs end within 30 min (--time=30)" in told.stderr
        assert "time=60" in got[0]
        assert "ntasks=2" in got[0]
        assert "name=a%20b" in got[0]


def answer_once(listening: socket.socket, got: list[str]) -> None:
    connection, _ = listening.accept()
    with connection:
        got.append(connection.recv(4096).decode())
        connection.sendall(ANSWER)


def anew(lab: Lab) -> None:
    """Start slurmctld with a module that has no recorded failure."""
    lab.stop("slurmctld")
    lab.start_slurmctld()


def answered(listening: socket.socket, lab: Lab) -> str:
    """Answer the question of one submission at once; return the question."""
    got: list[str] = []

    listening.settimeout(30)
    thread = threading.Thread(target=answer_once, args=(listening, got))
    thread.start()
    submit(lab, 1)
    thread.join(30)
    return got[0]
