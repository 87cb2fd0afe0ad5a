"""Tests the verbs that answer from a store: content, output form, exit code, and which user sees which answer."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.forked import batchcast

from batchcast.cli.main import cli
from batchcast.formats.sighting import Sighting, Site, Snapshot
from batchcast.service.answers import questions
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.answers.forecaster import read_request
from batchcast.service.answers.script import answer_options
from batchcast.service.collector.cycle import Collector
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
ME = __import__("pwd").getpwuid(os.getuid()).pw_name
FRESH = 30.0  # seconds; answers about an older view of the queue mention its age


class Past:
    """A store with sixty jobs of six users that ran in the last two hours, and some waiting jobs."""

    private = False

    def __init__(self, now: float) -> None:
        self.time = now - 7000
        self.jobs = []
        for k in range(60):
            submit = now - 6900 + 100 * k
            self.jobs.append(
                (
                    f"{100 + k}",
                    submit,
                    submit + 60 + 5 * (k % 7),
                    submit + 400 + 10 * (k % 9),
                    ME if k % 2 else f"user{k % 5}",
                    "relax",
                )
            )
        for task in (2, 3, 4):
            self.jobs.append((f"500_{task}", now - 120, 9e9, 9e9, ME, "array"))
        self.jobs.append(("600", now - 20, 9e9, 9e9, "bob", "other"))
        self.jobs.append(("601", now - 60, 9e9, 9e9, ME, "held"))

    def now(self) -> float:
        return self.time

    def nodes_away(self) -> tuple[()]:
        return ()

    def reservations(self) -> list[dict]:
        return []

    def hides_jobs(self) -> bool:
        return self.private

    def ticks(self) -> float:
        return self.time

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        return Snapshot(self.time, ())

    def snapshot(self) -> Snapshot:
        return Snapshot(self.time, tuple(self._seen(*j) for j in self.jobs if j[1] <= self.time))

    def history(self, since: float, until: float) -> Snapshot:
        return Snapshot(self.time, ())

    def site(self) -> Site:
        partitions = {"main": {"default_time_s": 3600.0, "max_time_s": 86400.0, "procs": 64.0, "is_default": 1.0}}
        return Site("c", "22.05", 1e6, self.private, 64.0, True, partitions)

    def _seen(self, job_id: str, submit: float, start: float, end: float, user: str, name: str) -> Sighting:
        state = "PENDING" if self.time < start else "RUNNING" if self.time < end else "COMPLETED"
        reason = {"held": "JobHeldUser", "array": "Priority"}.get(name, "Resources") if state == "PENDING" else ""
        nan = float("nan")
        asked = {
            "user_id": user,
            "partition_id": "main",
            "account": "physics",
            "req_time": 7200.0,
            "req_procs": 4.0,
            "job_name": name,
        }
        return Sighting(job_id, job_id, submit, state, start_time=nan if state == "PENDING" else start,
                        end_time=end if state == "COMPLETED" else nan, reason=reason, requested=asked,
                        allocated={"alloc_procs": 4.0})  # fmt: skip


made_at: dict[str, float] = {}
made: dict[bool, str] = {}


@pytest.fixture
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, str]:
    """The same store at an open and at a private site, just collected; a store that has become too old is built
    again."""
    if not made or time.time() - made_at["it"] > FRESH:
        now = time.time()
        for private in (False, True):
            made[private] = _store(str(tmp_path_factory.mktemp("store") / "s.db"), private, now)
        made_at["it"] = now
    return made


def _store(path: str, private: bool, now: float) -> str:
    past = Past(now)
    past.private = private
    settings = load({"store": path, "history_days": 0.01, "wait": "recent_wait"}, {})
    collector = Collector(past, Store(path, create=True), settings)
    for ago in (7000, 6000, 5000, 4000, 3000, 2000, 1000, 40, 10):
        past.time = now - ago
        assert not collector.cycle().problems
    return path


def run(*words: str, store: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BATCHCAST")}
    done = batchcast(*words, env={**clean, "BATCHCAST_STORE": store, "BATCHCAST_CONFIG": os.devnull, **env})
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def results(*words: str, store: str) -> list[dict]:
    document = json.loads(run(*words, "--json", store=store).stdout)
    assert set(document) == {"schema", "log", "settings", "warnings", "results"}
    return document["results"]


def test_start_says_when_on_what_basis_and_how_right_it_was(stores: dict[bool, str]) -> None:
    text = run("start", "600", store=stores[False]).stdout
    assert text.splitlines()[0].split() == ["JOBID", "PARTITION", "LIKELY", "BY", "90%", "WAITED", "WHY", "IT", "WAITS"]
    assert "next in the queue" in text
    assert "basis: median of the last" in text
    assert "track record on main, last 30 days:" in text
    (answer,) = results("start", "600", store=stores[False])
    assert answer["submit_time_s"] < answer["likely_start_s"] <= answer["by_90_start_s"]
    assert answer["track_record_coverage_90"] > 0.7


def test_an_array_is_asked_by_its_id_and_shown_on_one_line(stores: dict[bool, str]) -> None:
    assert "500_[2-4]" in run("start", "500", store=stores[False]).stdout
    assert [r["job_id"] for r in results("start", "500", store=stores[False])] == ["500_2", "500_3", "500_4"]


def test_tasks_of_an_irregular_array_leave_room_for_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    from batchcast.cli.users.start import print_waiting

    one = {"partition": "main", "likely_wait_s": 60.0, "likely_start_s": 160.0, "by_90_wait_s": 90.0,
           "by_90_start_s": 190.0, "waited_s": 10.0, "slurm_start_s": float("nan"), "reason_in_words": "why",
           "method": "recent_wait", "basis": "b", "track_record_forecasts": 0, "track_record_overdue": 0,
           "track_record_coverage_90": None, "counts_from": "submission"}  # fmt: skip
    print_waiting([{**one, "job_id": f"108_{k}"} for k in range(1, 400) if k % 3 and k % 7], 100.0, False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:2])) < 90
    assert lines[1].startswith("108_[1-2,")
    assert "...,397-398] " in lines[1]
    assert "the outcome of recent_wait is not known yet" in lines[-1]


def test_my_jobs_are_the_default_and_a_held_one_counts_from_its_release(stores: dict[bool, str]) -> None:
    mine = {r["job_id"]: r for r in results("start", store=stores[False])}
    assert set(mine) == {"500_2", "500_3", "500_4", "601"}
    assert mine["601"]["counts_from"] == "its release"
    assert mine["601"]["likely_start_s"] is None
    assert mine["601"]["likely_wait_s"] > 0


def test_a_script_can_ask_whether_a_start_is_likely_enough(stores: dict[bool, str]) -> None:
    (answer,) = results("start", "600", store=stores[False])
    chances = [answer[f"chance_within_{span}"] for span in ("10_min", "1_hour", "4_hours", "1_day")]
    assert chances == sorted(chances)
    assert 0.5 < chances[0] < 1.0
    assert (
        "probability to start within"
        in run("start", "600", "--within", "1h", "--chance", "50%", store=stores[False]).stderr
    )
    run("start", "600", "--within", "1h", "--chance", "100%", store=stores[False], code=1)
    assert "80%" in run("start", "600", "--within", "1h", "--chance", "most", store=stores[False], code=2).stderr
    assert "up to a day" in run("start", "600", "--within", "3 days", store=stores[False], code=2).stderr


def test_columns_for_programs(stores: dict[bool, str]) -> None:
    head, *lines = run("start", "--me", "-P", store=stores[False]).stdout.splitlines()
    assert all(line.count("|") == head.count("|") for line in lines)
    assert len(lines) == 4


def test_an_unknown_job_is_no_answer_with_a_next_step(stores: dict[bool, str]) -> None:
    assert "squeue shows" in run("start", "424242", store=stores[False], code=3).stderr


def test_a_job_id_is_no_pattern(stores: dict[bool, str]) -> None:
    run("start", "5%", store=stores[False], code=3)
    run("start", "50_", store=stores[False], code=3)


def test_a_script_that_was_not_submitted(stores: dict[bool, str], tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 4\n#SBATCH --time=1:00:00\nsrun true\n")
    (answer,) = results("start", "--test", str(tmp_path / "job.sh"), store=stores[False])
    assert answer["partition"] == "main"
    assert 30 < answer["likely_wait_s"] < 600
    message = run("start", "--test", str(tmp_path / "job.sh"), "-p", "gone", store=stores[False], code=2).stderr
    assert "accepted: main" in message


@pytest.mark.parametrize(
    ("words", "counts_from", "at"),
    [
        (("-H",), "its release", None),
        (("-d", "afterok:600"), "the end of the jobs that it depends on", None),
        (("-b", "now+1hour"), "its begin time", 3600),
        (("-b", "yesterday"), "submission", 0),
    ],
)
def test_a_script_that_would_not_wait_for_the_machine_at_first(
    words: tuple[str, ...], counts_from: str, at: float | None, stores: dict[bool, str], tmp_path: Path
) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 4 -t 1:00:00\n")
    now = time.time()
    (answer,) = results("start", "--test", str(tmp_path / "job.sh"), *words, store=stores[False])
    assert answer["counts_from"] == counts_from
    assert answer["likely_wait_s"] > 0
    if at is None:
        assert answer["likely_start_s"] is None
    else:
        assert answer["likely_start_s"] >= now + at


def test_what_became_of_a_job_that_does_not_wait_is_said(stores: dict[bool, str]) -> None:
    assert "it ended (completed)" in run("start", "101", store=stores[False], code=3).stderr


def test_walltime_is_one_line_and_one_sentence(stores: dict[bool, str]) -> None:
    line, why = run("walltime", "--name", "rel*", "--risk", "5%", store=stores[False]).stdout.splitlines()
    assert line == "#SBATCH --time=00:10:00"
    assert why.startswith("# calibrated: 95% of similar jobs end within ")
    assert "Similar jobs alone suggest --time=00:10:00; the rule of thumb" in why
    (answer,) = results("walltime", "101", store=stores[False])
    assert answer["similar_by"] == "the same name and 4 processors"
    assert run("walltime", "--name", "none*", store=stores[False], code=3).stderr
    assert run("walltime", "--name", "x", "--risk", "7", store=stores[False], code=2).stderr


class Measured(Past):
    """The same history at a site whose accounting measures memory: each job used 300 to 340 MiB of the 2 GiB
    requested."""

    def site(self) -> Site:
        whole = super().site()
        main = {**whole.partitions["main"], "node_mem_kib": 16.0 * 1024**2}
        gathers = {"Type": "jobacct_gather/linux", "Frequency": "30", "Params": ""}
        return whole._replace(partitions={"main": main}, gathers=gathers)

    def _seen(self, job_id: str, *of: object) -> Sighting:
        seen = super()._seen(job_id, *of)
        held = {**seen.allocated, "alloc_nodes": 1.0}
        if seen.state == "COMPLETED":
            held["used_mem_kib"] = (300.0 + int(job_id) % 5 * 10) * 1024
        return seen._replace(
            requested={**seen.requested, "req_mem_kib": 2.0 * 1024**2, "req_nodes": 1.0}, allocated=held
        )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> str:
    store, now = str(tmp_path_factory.mktemp("measured") / "s.db"), time.time()
    given = {"store": store, "history_days": 0.01, "wait": "recent_wait", "runtime": "recent_mean"}
    past = Measured(now)
    collector = Collector(past, Store(store, create=True), load(given, {}))
    for ago in range(7000, 0, -400):
        past.time = now - ago
        assert not collector.cycle().problems
    return store


def test_both_numbers_come_from_one_command(measured: str, tmp_path: Path) -> None:
    limit, why, memory, why_memory = run("walltime", "--name", "rel*", store=measured).stdout.splitlines()
    assert run("walltime", "--name", "rel*", "--memory", store=measured).stdout.splitlines() == [memory, why_memory]
    assert (limit, memory) == ("#SBATCH --time=00:10:00", "#SBATCH --mem=400M")
    assert "95% of similar jobs end within" in why
    assert "; a tenth is added, because memory use is sampled. Similar jobs alone suggest 400M." in why_memory
    (answer,) = results("walltime", "101", store=measured)
    assert (answer["limit_by"], answer["memory_by"]) == ("calibrated", "kernel")
    assert (answer["memory_kib"], answer["asked_memory_kib"]) == (400 * 1024.0, 2.0 * 1024**2)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 4 -t 2:00:00 --mem=2G -J relax\nsrun true\n")
    text = run("start", "--test", str(tmp_path / "job.sh"), store=measured).stdout
    assert "advised: --time=00:10:00 --mem=400M" in text
    (tried,) = results("start", "--test", str(tmp_path / "job.sh"), store=measured)
    assert (tried["advised_limit_s"], tried["advised_memory_kib"]) == (600.0, 400 * 1024.0)


def test_memory_has_a_track_record_and_doctor_says_how_it_is_measured(measured: str) -> None:
    text = run("accuracy", store=measured).stdout
    assert "memory per node, suggested at submission:" in text
    assert "time limits, suggested at submission:" in text
    document = json.loads(run("accuracy", "--json", store=measured).stdout)
    for of, first in (("memory", "kernel"), ("limits", "calibrated")):
        advice, rule = document["settings"][of]
        assert (advice["predictor"], rule["predictor"]) == (first, "largest_recent")
        assert advice["requests"] > 0
        assert advice["asked_over_used"] < advice["users_asked_over_used"]
    assert {r["kind"] for r in document["results"]} <= {"runtime", "wait"}
    doctor = batchcast("doctor", env={**os.environ, "BATCHCAST_STORE": measured, "BATCHCAST_CONFIG": os.devnull})
    assert "jobacct_gather/linux: every 30 s the memory of a task's processes" in doctor.stdout


def test_without_measurements_the_limit_is_advised_alone_and_it_is_said(stores: dict[bool, str]) -> None:
    assert "no --mem" in run("walltime", "--name", "rel*", "--memory", store=stores[False], code=3).stderr
    done = run("walltime", "--name", "rel*", store=stores[False])
    assert "--mem" not in done.stdout + done.stderr
    (answer,) = results("walltime", "--name", "rel*", store=stores[False])
    assert answer["memory"] is None
    assert "accounting measures no memory here" in answer["memory_why"]


def test_report_names_the_flag_to_change(stores: dict[bool, str]) -> None:
    text = run("report", store=stores[False]).stdout
    assert "--time=00:10:00 would have been enough" in text
    assert "LIMIT USED" in text
    assert "no finished job" in run("report", "-u", "nobody", store=stores[False], code=3).stderr


def test_accuracy_prints_coverage_and_error(stores: dict[bool, str]) -> None:
    wait = next(r for r in results("accuracy", store=stores[False]) if r["kind"] == "wait")
    assert wait["came_out"] + wait["still_open"] + wait["no_history"] == wait["forecasts"]
    assert 0.7 < wait["coverage_90"] <= 1
    assert "WITHIN 90%" in run("accuracy", store=stores[False]).stdout
    assert run("accuracy", "-S", "tomorrow", store=stores[False], code=3).stderr
    assert "accepted:" in run("accuracy", "-S", "yesteryear", store=stores[False], code=2).stderr


def test_export_is_a_log_that_the_other_verbs_read(stores: dict[bool, str], tmp_path: Path) -> None:
    run("site", "export", "-o", str(tmp_path / "log.parquet"), store=stores[False])
    from batchcast.trace.parquet import read_parquet

    trace = read_parquet(tmp_path / "log.parquet")
    assert trace.nominal("status").decode().count("pending") == 5
    assert len(trace) == 60 + 5
    assert trace.info.max_procs == 64


def test_doctor_names_where_each_value_came_from(stores: dict[bool, str], tmp_path: Path) -> None:
    config = tmp_path / "b.toml"
    config.write_text('interval_s = 45\nstore = "/nowhere"\n')
    text = run("doctor", "--settings", store=stores[False], BATCHCAST_CONFIG=str(config)).stdout
    assert re.search(rf"^interval_s +=  *45.0  \[{re.escape(str(config))}\]", text, re.MULTILINE)
    assert "[$BATCHCAST_STORE]" in text
    config.write_text("intervall = 1\n")
    assert "accepted: store" in run("doctor", store=stores[False], code=1, BATCHCAST_CONFIG=str(config)).stderr


def test_doctor_without_a_batch_system_says_what_to_do(stores: dict[bool, str], tmp_path: Path) -> None:
    done = run("doctor", store=stores[False], code=1, PATH=str(tmp_path))
    assert "not on PATH" in done.stdout
    assert "scontrol is not installed on this machine" in done.stdout
    assert "ok       store's pages" in done.stdout


def test_without_a_store_and_without_a_scheduler(tmp_path: Path) -> None:
    done = run("start", "1", store=str(tmp_path / "none.db"), code=4, PATH=str(tmp_path))
    assert "squeue is not installed" in done.stderr


def test_at_a_private_site_a_user_sees_own_jobs_and_figures_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = time.time() // 86400 * 86400 - 43200  # all jobs on one day, because figures are given by day
    monkeypatch.setattr(os, "getuid", lambda: 65534)  # user nobody has no job here
    monkeypatch.setenv("BATCHCAST_STORE", _store(str(tmp_path / "s.db"), True, noon))
    monkeypatch.setenv("BATCHCAST_CONFIG", os.devnull)
    monkeypatch.setattr(time, "time", lambda: noon + 86400)  # figures cover complete days only

    def asked(*words: str) -> Result:
        return CliRunner().invoke(cli, words)

    assert "not waiting" in str(asked("start", "600").exception)
    assert "private" in str(asked("report", "-u", "bob").exception)
    assert "private" in str(asked("walltime", "--name", "r*", "-u", ME).exception)
    assert "private" in str(asked("walltime", "101").exception)  # another user's job, named by its id
    shown = asked("report", "-p", "main", "-P").output
    assert "main|60" in shown
    assert ME not in shown
    assert "user1" not in shown
    assert "WITHIN 90%" in asked("accuracy").output


OPEN_STORE = 0o644
ASK_EACH = """
import contextlib, io, json, sys
from batchcast.cli.main import entry

def answer(words):
    sys.argv, out, err, code = ["batchcast", *words], io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            entry()
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()

print(json.dumps([answer(words) for words in json.loads(sys.argv[1])]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("word", ["true", '"Yes"', '"on"', "1", '"yes"', '"maybe"'])
def test_another_unix_user_sees_nobodys_jobs_however_private_is_written(
    stores: dict[bool, str], tmp_path: Path, word: str
) -> None:
    """The store is readable and Slurm hides nothing, so only the setting `private` protects it from this second
    user."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        config, store = Path(place) / "b.toml", Path(place) / "s.db"
        config.write_text(f"private = {word}\n")
        with contextlib.closing(sqlite3.connect(stores[False])) as kept:
            kept.execute("VACUUM INTO ?", (str(store),))
        for path in (config, store):
            path.chmod(OPEN_STORE)
        asked = (("start", "-u", ME), ("start", "601"), ("report", "-u", ME), ("walltime", "101"))
        done = subprocess.run(
            [*AS_NOBODY, sys.executable, "-c", ASK_EACH, json.dumps(asked)],
            env={"PATH": os.environ["PATH"], "BATCHCAST_STORE": str(store), "BATCHCAST_CONFIG": str(config)},
            capture_output=True, text=True, check=True, cwd="/")  # fmt: skip
        answers = json.loads(done.stdout)
        assert len(answers) == len(asked)
        for code, printed, said in answers:
            assert code in (1, 3), printed
            assert printed == ""
            assert ("private" if word != '"maybe"' else "accepted: yes") in said or "not waiting" in said


def status_for(uid: int, where: Path, target: str) -> int:
    """Return the HTTP status that a process of this user gets on the socket."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if uid != os.getuid():
                os.setuid(uid)
            connection = http.client.HTTPConnection("localhost", timeout=10)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(where))
            connection.request("GET", target)
            status = connection.getresponse().status // 10  # an exit code has eight bits
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) * 10


def test_the_service_knows_by_the_socket_who_asks_and_ends_on_a_signal(stores: dict[bool, str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        where = Path(place) / "api.sock"
        Path(place).chmod(0o755)
        command = [sys.executable, "-c", "from batchcast.cli.main import entry; entry()", "serve"]
        env = {**os.environ, "BATCHCAST_STORE": stores[True], "BATCHCAST_CONFIG": os.devnull}
        with subprocess.Popen([*command, "--listen", str(where)], env=env, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr is not None
                assert f"on {where}" in server.stderr.readline()
                # root and the collector's user see everything
                assert status_for(os.getuid(), where, "/v1/start?user=bob") == 200
                if os.geteuid() == 0:
                    assert status_for(65534, where, "/v1/start?user=bob") == 400  # 403, in tens
                    assert status_for(65534, where, "/v1/health") == 200
            finally:
                server.terminate()
            assert server.wait(10) == 0
        assert not where.exists()


def test_a_script_gets_the_answer_its_job_would_get(tmp_path: Path) -> None:
    """A waiting job that is named by its id and an equal job that is described with --test get the same answer."""
    now = time.time() - 60
    answers = []
    for submitted in (True, False):
        past = Past(now)
        past.jobs = [job for job in past.jobs if job[1] <= now - 30]
        if submitted:
            past.jobs.append(("700", now - 2, 9e9, 9e9, "bob", "other"))
        path = str(tmp_path / f"{submitted}.db")
        settings = load({"store": path, "history_days": 0.01, "wait": "recent_wait", "settle_s": 0}, {})
        collector = Collector(past, Store(path, create=True), settings)
        for ago in (7000, 6000, 5000, 4000, 3000, 2000, 1000, 40, -2):
            past.time = now - ago
            assert not collector.cycle().problems
        script = tmp_path / "job.sh"
        script.write_text("#!/bin/sh\n#SBATCH -n 4 -t 2:00:00 -A physics -J other\n")
        bob = Viewer("bob")
        if submitted:
            (answer,) = questions.start_from_store(settings, ["700"], None, bob, now - 2).results
        else:
            (answer,) = answer_options(settings, read_request(str(script)), bob, now - 2).results
        answers.append(answer)
    only_submitted = ("job_id", "reason", "reason_in_words", "priority_passes", "priority_passes_s")
    same = [name for name in answers[0] if name not in only_submitted]
    assert {name: answers[0][name] for name in same} == {name: answers[1][name] for name in same}
    assert answers[0]["likely_wait_s"] > 0


# `report` computes its advice with the trained models
@pytest.mark.parametrize("words", [("start", "600"), ("accuracy",)])
def test_an_answer_loads_neither_numpy_nor_an_orm(words: tuple[str, ...], stores: dict[bool, str]) -> None:
    code = (
        f"import sys; sys.argv = ['batchcast', *{words!r}]\n"
        "from batchcast.cli.main import entry\n"
        "try:\n    entry()\nexcept SystemExit:\n    pass\n"
        "sys.exit(','.join(m for m in ('numpy', 'numba', 'sqlalchemy', 'rich') if m in sys.modules) or 0)"
    )
    env = {**os.environ, "BATCHCAST_STORE": stores[False], "BATCHCAST_CONFIG": os.devnull}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_the_home_of_another_user_is_no_obstacle(tmp_path: Path) -> None:
    """`sudo -u` keeps HOME, so the settings file there may belong to another user and be unreadable."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o700)
        env = {"PATH": "/nowhere", "HOME": place}
        command = [*AS_NOBODY[1:], sys.executable, "-c", "from batchcast.cli.main import entry; entry()", "start", "1"]
        done = subprocess.run(["/usr/bin/setpriv", *command], env=env, capture_output=True, text=True, check=False,
                              cwd="/")  # fmt: skip
    assert "batchcast.toml" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_suspended_job_is_not_said_to_have_run(tmp_path: Path) -> None:
    now = time.time()
    path = str(tmp_path / "s.db")
    with Store(path, create=True).begin() as connection:
        seen = Sighting("5", "5", now - 500, "SUSPENDED", start_time=now - 400, requested={"user_id": ME})
        history.take_in(connection, "c", [seen], now)
        clock_jobs.write_meta(connection, "c", cycle_at=now, told_until=now)
    said = run("start", "5", store=path, code=3).stderr
    assert "is suspended now" in said
    assert "it has run for" not in said


@pytest.mark.parametrize(
    "words",
    [
        ("start",),
        ("walltime", "--name", "x"),
        ("report",),
        ("accuracy",),
        ("doctor", "--no-ask"),
        ("site", "export", "-o", "x.parquet"),
        ("collect", "--once"),
    ],
)
def test_a_store_of_a_newer_version_is_refused_by_every_verb(words: tuple[str, ...], tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    Store(path, create=True).close()
    with contextlib.closing(sqlite3.connect(path)) as kept:
        kept.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
        kept.commit()
    done = run(*words, store=path, code=1)
    assert "has schema version 99, but this batchcast supports only versions up to" in done.stdout + done.stderr
