"""Tests `start --test --where` over several clusters: the best cluster is found, and a failing cluster spoils no other
answer."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from batchcast.broker.on_clusters import OfClusters
from batchcast.cli.main import cli
from batchcast.clusters.configured import Cluster, Configured
from batchcast.formats.sighting import Site
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.collector.cycle import Collector
from batchcast.service.settings import load
from batchcast.store.database import Store
from batchcast.store.ledger import SUBMITTED, Entry, Ledger, Offer, ledger_path
from batchcast.store.reader import Reader

from .test_live import Past

SCRIPT = "#!/bin/sh\n#SBATCH -n 4 -t 2:00:00\n#SBATCH -J relax\nsleep 1\n"


class Elsewhere(Past):
    """The same sixty jobs on a cluster of another name, with waits and run times multiplied by these factors."""

    def __init__(self, now: float, name: str, waits: float, runs: float, partition: str = "main") -> None:
        super().__init__(now)
        self.name, self.partition = name, partition
        self.jobs = [
            (
                i,
                submit,
                submit + waits * (start - submit),
                submit + waits * (start - submit) + runs * (end - start),
                *who,
            )
            for i, submit, start, end, *who in self.jobs
        ]

    def site(self) -> Site:
        known = super().site()
        return known._replace(cluster=self.name, partitions={self.partition: known.partitions["main"]})


def filled(path: Path, past: Past, now: float, wait: str = "recent_wait") -> str:
    """A store that a collector has filled from these jobs."""
    settings = load({"store": str(path), "history_days": 0.01, "wait": wait}, {})
    collector = Collector(past, Store(str(path), create=True), settings)
    for ago in (7000, 5000, 3000, 2000, 1000, 40, 10):
        past.time = now - ago
        assert not collector.cycle().problems
    return str(path)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Three clusters: on alpha jobs wait one minute, on beta ten minutes, and on gamma jobs run four times as long."""
    folder, now = tmp_path_factory.mktemp("clusters"), time.time()
    shapes = {"alpha": (1.0, 1.0), "beta": (10.0, 1.0), "gamma": (1.0, 4.0)}
    return {n: filled(folder / f"{n}.db", Elsewhere(now, n, *shape), now) for n, shape in shapes.items()}


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return str(path)


def table(name: str, **values: object) -> str:
    """Return one `[[cluster]]` table of the settings."""
    lines = [f"{key} = {toml(value)}" for key, value in {"name": name, **values}.items()]
    return "\n".join(["[[cluster]]", *lines, ""]) + "\n"


def toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def run(folder: Path, tables: str, *words: str, code: int = 0) -> Result:
    """Run a verb with these tables in its settings."""
    (folder / "batchcast.toml").write_text(tables)
    done = CliRunner().invoke(
        cli, words, env={"BATCHCAST_CONFIG": str(folder / "batchcast.toml"), "XDG_STATE_HOME": str(folder)}
    )
    error = getattr(done.exception, "exit_code", done.exit_code)
    assert error == code, done.output + repr(done.exception)
    return done


def where(folder: Path, tables: str, *words: str) -> dict:
    return json.loads(run(folder, tables, "start", "--test", *words, "--where", "--json").stdout)


def test_the_cluster_that_ends_the_job_first_comes_first_with_a_command_to_paste(
    stores: dict[str, str], script: str, tmp_path: Path
) -> None:
    tables = "".join(table(n, store=path, submit=f"sbatch -M {n}") for n, path in stores.items())
    rows = where(tmp_path, tables, script)["results"]
    assert [row["cluster"] for row in rows] == ["alpha", "beta", "gamma"]
    assert rows[0]["command"].startswith("sbatch -M alpha --partition=main --ntasks=4")
    ends = [row["expected_end_s"] for row in rows]
    assert ends == sorted(ends)
    assert all(row["likely_end_s"] <= row["by_90_end_s"] <= row["by_90_end_comonotone_s"] + 1 for row in rows)
    text = run(tmp_path, tables, "start", "--test", script, "--where").stdout
    assert text.splitlines()[0].split()[:4] == ["CLUSTER", "PARTITION", "STARTS", "RUNS"]
    assert f"best: sbatch -M alpha --partition=main --ntasks=4 --time=2:00:00 {script}" in text


def test_jobs_that_the_user_just_sent_there_wait_in_front_of_the_next(script: str, tmp_path: Path) -> None:
    now = time.time()
    for name in ("alpha", "beta"):
        filled(tmp_path / f"{name}.db", Elsewhere(now, name, 1.0, 1.0), now, wait="forecast")
    tables = "".join(table(name, store=str(tmp_path / f"{name}.db")) for name in ("alpha", "beta"))
    before = where(tmp_path, tables, script)["results"]
    with Ledger(ledger_path({"XDG_STATE_HOME": str(tmp_path)})) as ledger:
        for number in range(30):
            offer = Offer(cluster="alpha", procs=8, limit_s=7200.0, partition="main")
            ledger.add(Entry(f"t{number}", None, now, "d", script, "alpha", ["sbatch"], [offer]))
            ledger.note(f"t{number}", SUBMITTED, job_id=str(number))
    after = where(tmp_path, tables, script)
    starts = {row["cluster"]: row["likely_start_s"] - now for row in after["results"]}
    assert [row["likely_start_s"] - now for row in before] == pytest.approx([starts["beta"]] * 2, abs=120)
    assert starts["alpha"] > starts["beta"]
    basis = {row["cluster"]: row["basis"] for row in after["results"]}
    assert ("behind 35 jobs" in basis["alpha"], "behind 5 jobs" in basis["beta"]) == (True, True)
    assert (
        "alpha: counted as waiting ahead: 30 jobs that you submitted since the collector last read the queue"
        in after["warnings"]
    )


def test_who_was_told_too_early_is_told_later_and_why(stores: dict[str, str], script: str, tmp_path: Path) -> None:
    tables, now = "".join(table(n, store=path) for n, path in stores.items()), time.time()
    before = where(tmp_path, tables, script)["results"][0]
    with Ledger(ledger_path({"XDG_STATE_HOME": str(tmp_path)})) as ledger:
        # each job took three times its predicted time, except a job that was cancelled in the queue
        for k in range(10):
            at = now - 86400.0 + k
            offer = Offer(cluster="alpha", likely_end_s=at + 100.0, by_90_end_s=at + 200.0)
            ledger.add(Entry(f"t{k}", None, at, "d", script, "gone", ["sbatch"], [offer]))
            ledger.note(f"t{k}", SUBMITTED, job_id=str(k))
            ledger.note_outcome(f"t{k}", at if k else None, at + (600.0 if k else 60.0))
    after = where(tmp_path, tables, script)["results"][0]
    assert (before["by_90_end_s_factor"], after["by_90_end_s_factor"], after["likely_end_s_factor"]) == (1.0, 3.0, 6.0)
    # each call may take a few seconds, so the times of the second call may be a few seconds later
    spans = [row["by_90_end_s"] - now for row in (before, after)]
    assert 2.5 * spans[0] < spans[1] < 3 * spans[0] + 60.0
    text = run(tmp_path, tables, "start", "--test", script, "--where").stdout
    assert "DONE 90% is 3.0 times the forecast's time, because your past jobs ended later than predicted" in text


def test_the_broker_reads_when_earlier_jobs_ended(stores: dict[str, str], script: str, tmp_path: Path) -> None:
    """Each job took three times its predicted time. Unread, a job counts as if it still ran."""
    known = Configured([Cluster(name="alpha", store=stores["alpha"])], [])
    with Reader(stores["alpha"]) as reader:
        ended = reader.rows("SELECT job_id, submit_time, end_time FROM jobs WHERE end_time IS NOT NULL")[:10]
    with Ledger(tmp_path / "ledger.db") as ledger:
        for row in ended:
            at, taken = row["submit_time"], row["end_time"] - row["submit_time"]
            offer = Offer(cluster="alpha", likely_end_s=at + taken / 3, by_90_end_s=at + taken / 3)
            ledger.add(Entry(row["job_id"], None, at, "d", script, "alpha", ["sbatch"], [offer]))
            ledger.note(row["job_id"], SUBMITTED, job_id=row["job_id"])
        broker = OfClusters(known, load(), Viewer("ada"), ledger, print)
        job, now = broker.read({"id": "1", "script": script}, time.time()), time.time()
        (offer,) = broker.compare(job, broker.ask(job, {}, now)[0], {}, now)
    assert len(ended) == 10
    assert offer.by_90_end_s_factor == pytest.approx(3.0)


def test_accuracy_tells_of_the_submissions_of_somebody_who_has_no_store(script: str, tmp_path: Path) -> None:
    """A reader of the guide has stores or services of the clusters, and no local store of this computer."""
    tables = f'store = "{tmp_path / "none.db"}"\n' + table("alpha", store=str(tmp_path / "gone.db"))
    run(tmp_path, tables, "accuracy", code=3)
    with Ledger(ledger_path({"XDG_STATE_HOME": str(tmp_path)})) as ledger:
        at = time.time() - 3600.0
        ends = {"likely_end_s": at + 900.0, "by_90_end_s": at + 1800.0, "expected_end_s": at + 950.0}
        ledger.add(Entry("t", None, at, "d", script, "alpha", ["sbatch"], [Offer(cluster="alpha", **ends)]))
        ledger.note("t", SUBMITTED, job_id="7")
    assert "no job of batchcast submit has ended" in run(tmp_path, tables, "accuracy").stdout
    with Ledger(ledger_path({"XDG_STATE_HOME": str(tmp_path)})) as ledger:
        ledger.note_outcome("t", at + 60.0, at + 600.0)
    said = run(tmp_path, tables, "accuracy")
    assert "your 1 job of batchcast submit" in said.stdout
    assert "there is no store at" in said.stderr


def test_files_that_are_far_away_make_another_cluster_the_best(
    stores: dict[str, str], script: str, tmp_path: Path
) -> None:
    tables = table("alpha", store=stores["alpha"], bandwidth={"archive": "1M"})
    tables += table("beta", store=stores["beta"], place="archive")
    rows = where(tmp_path, tables, script, "--input", "4G@archive")["results"]
    assert [(row["cluster"], row["transfer_s"]) for row in rows] == [("beta", 0.0), ("alpha", 4096.0)]


def test_the_chance_to_be_done_in_time_decides_where_a_time_is_given(
    stores: dict[str, str], script: str, tmp_path: Path
) -> None:
    tables = table("beta", store=stores["beta"]) + table("alpha", store=stores["alpha"])
    rows = where(tmp_path, tables, script, "--done-by", "now+12minutes")["results"]
    assert [row["cluster"] for row in rows] == ["alpha", "beta"]
    assert rows[0]["chance_done_by"] > 0.9 > 0.6 > rows[1]["chance_done_by"]
    late = where(tmp_path, tables, script, "--done-by", "now+1minutes")
    assert any("not likely to be met anywhere" in note for note in late["warnings"])


@pytest.fixture
def late_service(tmp_path: Path) -> Iterator[str]:
    """A service that accepts connections and never answers."""
    path = str(tmp_path / "late.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        yield path


@pytest.fixture
def refusing_service(tmp_path: Path) -> Iterator[str]:
    """A service that accepts no token."""
    path = str(tmp_path / "refusing.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 401 Unauthorized\r\n\r\n{}")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield path
        thread.join(5.0)


def test_each_bad_day_is_one_sentence_and_the_others_still_answer(
    stores: dict[str, str], script: str, tmp_path: Path, late_service: str, refusing_service: str
) -> None:
    (tmp_path / "token").write_text("old\n")
    tables = table("alpha", store=stores["alpha"])
    tables += table("away", service=str(tmp_path / "nobody.sock"))
    tables += table("late", service=late_service, patience_s=0.2)
    tables += table("expired", service=refusing_service, token_file=str(tmp_path / "token"))
    tables += table("twin", store=stores["beta"]) + table("Twin", store=stores["beta"])
    tables += table("wrong", store=stores["beta"], bandwith={"x": 1})
    tables += table("other", store=stores["beta"])
    answer = where(tmp_path, tables, script, "--input", str(tmp_path / "gone.dat"))
    assert {row["cluster"] for row in answer["results"]} == {"alpha"}
    for start, words in {
        "away: no answer": "does not answer",
        "late: no answer": "did not answer within 0.2 s",
        "expired: no answer": "wrong or expired",
        "twin: left out": "two [[cluster]] of this name",
        "wrong: left out": "bandwith",
        "other: no answer": "no cluster 'other'",
        "--input": f"there is no {tmp_path / 'gone.dat'} here",
    }.items():
        (said,) = [note for note in answer["warnings"] if note.startswith(start)]
        assert words in said


def test_a_script_that_no_cluster_can_run_is_told_why_by_each(stores: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "huge.sh"
    path.write_text("#!/bin/sh\n#SBATCH -n 9999 -t 60\n")
    tables = table("alpha", store=stores["alpha"]) + table("beta", store=stores["beta"])
    done = run(tmp_path, tables, "start", "--test", str(path), "--where", code=3)
    hint = done.exception.hint
    assert hint.count("it would never start: larger than main") == 2


def test_words_of_the_home_cluster_are_translated_or_it_is_said_that_nobody_could(
    stores: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\n#SBATCH -p main -n 4 -t 60 -q long -J relax\n")
    tables = table("alpha", store=stores["alpha"])
    tables += table("beta", store=stores["beta"], submit="sbatch -M beta", translate={"qos": {"long": "week"}})
    tables += table("gamma", store=stores["gamma"])
    answer = where(tmp_path, tables, str(path))
    (beta,) = [row for row in answer["results"] if row["cluster"] == "beta"]
    assert "--qos=week" in beta["command"]
    assert "gamma" not in {row["cluster"] for row in answer["results"]}
    assert any("gamma: left out: no translation of qos 'long'" in note for note in answer["warnings"])
    assert any("beta: no translation of partition 'main'" in note for note in answer["warnings"])


def test_the_tables_of_clusters_are_no_setting_and_no_other_verb_minds_them(tmp_path: Path) -> None:
    path = tmp_path / "batchcast.toml"
    path.write_text(f'store = "{tmp_path}/x.db"\n' + table("alpha", store="x"))
    assert load(environment={"BATCHCAST_CONFIG": str(path)})["store"] == f"{tmp_path}/x.db"


def test_doctor_says_of_each_cluster_whether_it_answers_and_where_its_submit_command_leads(
    stores: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alpha's `sbatch` as beta's submit command would send every job of beta to alpha, so the check must fail."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "scontrol").write_text("#!/bin/sh\necho 'ClusterName             = alpha'\n")
    (tmp_path / "bin" / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    tables = table("alpha", store=stores["alpha"], bandwidth={"beta": "100M"})
    tables += table("beta", store=stores["beta"]) + table("away", service=str(tmp_path / "x.sock"))
    done = run(tmp_path, tables, "doctor", "--json", code=1)
    found = {each["check"]: each for each in json.loads(done.stdout)["results"]}
    assert found["cluster alpha"]["state"] == found["cluster alpha: submit"]["state"] == "ok"
    assert found["cluster beta: submit"]["found"] == "sbatch reaches alpha, so jobs for beta would go there"
    assert (found["cluster away"]["state"], found["cluster beta: files"]["state"]) == ("failed", "warning")
