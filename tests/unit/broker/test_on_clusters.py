"""Tests the broker on clusters: earlier jobs count, missed deadlines are reported at once, and no kill loses or repeats
a job."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.quick import QUICK

from batchcast.broker.clock import MappingRule
from batchcast.broker.live import Journal
from batchcast.broker.on_clusters import ClusterBroker, Counted, Job
from batchcast.broker.preference import ByPreference
from batchcast.errors import NoAnswer, Unreachable, UsageError
from batchcast.formats.slurm.sbatch import Request
from batchcast.predict.registry import make
from batchcast.store.ledger import Offer

EVENTS = MappingRule(None)


class Killed(Exception):
    """Stands for a kill of the broker's process; raised at the instant of the kill."""


class Queues:
    """Clusters that run one job at a time: a job of the option `run` (seconds) ends after the jobs that were sent
    before it.

    `jobs` are the submitted jobs by key, as a user's ledger records them; `jobs` survives the broker.
    """

    def __init__(self, busy: Mapping[str, float], silent: Sequence[str] = ()) -> None:
        self.busy, self.silent = dict(busy), list(silent)
        self.names: Sequence[str] = list(busy)
        self.jobs: dict[str, tuple[str, str]] = {}
        self.before_send: Any = None
        self.lost = False

    def read(self, fields: Mapping[str, Any], at: float) -> Job:
        if "run" not in fields:
            raise UsageError("no run")
        request, deadline = Request({"run": str(fields["run"])}), float(fields.get("deadline", math.inf))
        return Job(str(fields["id"]), "job.sh", request, (), deadline)

    def ask(self, job: Job, counted: Counted, now: float, only: str = "") -> tuple[dict[str, Any], list[str]]:
        names = [name for name in self.names if only in ("", name)]
        ahead = {
            name: sum(60.0 * float(sent.options["time"][3:5]) for _, sent in counted.get(name, ())) for name in names
        }
        answers = {name: now + self.busy[name] + ahead[name] for name in names if name not in self.silent}
        return answers, [f"{name}: no answer: it is away" for name in names if name in self.silent]

    def compare(self, job: Job, answers: Mapping[str, Any], counted: Counted, now: float) -> list[Offer]:
        run = float(job.request.options["run"])
        rows = [
            Offer(cluster=name, partition="main", command="sbatch", limit_s=run, likely_start_s=start,
                  likely_end_s=start + run, by_90_end_s=start + run, chance_done_by=float(start + run <= job.deadline))
            for name, start in answers.items()
        ]  # fmt: skip
        return sorted(rows, key=lambda row: row.likely_end_s)

    def send(self, job: Job, offers: Sequence[Offer], now: float, key: str) -> tuple[str, str]:
        if self.before_send is not None:
            self.before_send()
        if key not in self.jobs:
            self.jobs[key] = (offers[0].cluster, str(len(self.jobs) + 1))
        if self.lost:
            raise Unreachable("the answer was lost")
        return self.jobs[key]


def where(broker: ClusterBroker) -> list[str]:
    return [row.get("resource", row.get("refused", row["state"])) for row in broker.table()]


def test_jobs_of_one_instant_do_not_all_go_to_the_cluster_that_is_free_first() -> None:
    """Each placed job counts on its cluster, so six equal jobs fill both clusters to the same instant."""
    broker = ClusterBroker(Queues({"alpha": 0.0, "beta": 120.0}), ByPreference(0.0), MappingRule(10.0))
    for k in range(6):
        broker.offer({"id": f"j{k}", "run": 60}, 1.0)
    assert broker.advance(5.0) == []
    assert len(broker.advance(10.0)) == 6
    assert (where(broker).count("alpha"), where(broker).count("beta")) == (4, 2)


@pytest.mark.parametrize("spec", QUICK)
def test_every_heuristic_places_every_job_that_can_be_in_time(spec: str) -> None:
    broker = ClusterBroker(Queues({"alpha": 0.0, "beta": 30.0}), make("heuristic", spec), MappingRule(10.0))
    for k in range(4):
        broker.offer({"id": f"j{k}", "run": 60, "deadline": 400}, 1.0)
    lines = broker.advance(10.0)
    assert sorted(line["id"] for line in lines) == ["j0", "j1", "j2", "j3"]
    assert all(line["slack"] >= 0 for line in lines)


def test_a_deadline_that_cannot_be_met_is_told_at_once_with_the_best_offer() -> None:
    queues = Queues({"alpha": 600.0, "beta": 900.0})
    for late, outcome in (("run", "alpha"), ("drop", "no cluster is expected to end it in time")):
        broker = ClusterBroker(queues, ByPreference(0.0), MappingRule(None, late=late))
        reply = broker.offer({"id": "a", "run": 60, "deadline": 100}, 1.0)
        assert reply["warning"] == "the deadline will probably be missed: the best chance is 0%, on alpha"
        assert (reply["best_offer"]["cluster"], reply["best_offer"]["likely_end_s"]) == ("alpha", 661.0)
        broker.advance(1.0)
        assert where(broker) == [outcome]
        assert broker.counts == {"jobs": 1, "in_time": 0, "not_in_time": 1, "waiting": 0}


def test_a_silent_cluster_is_no_reason_to_wait_and_when_all_are_silent_the_job_waits() -> None:
    queues = Queues({"alpha": 0.0, "beta": 0.0}, silent=["alpha"])
    broker = ClusterBroker(queues, ByPreference(0.0), EVENTS)
    broker.offer({"id": "a", "run": 60}, 1.0)
    broker.advance(1.0)
    queues.silent = ["alpha", "beta"]
    assert "it is away" in broker.offer({"id": "b", "run": 60}, 5.0)["warning"]
    broker.advance(5.0)
    assert where(broker) == ["beta", "waiting"]
    queues.silent = []
    broker.advance(200.0)
    assert where(broker) == ["beta", "alpha"]


class TooSmall(Queues):
    """Clusters on which no job named `wide` fits."""

    def ask(self, job: Job, counted: Counted, now: float, only: str = "") -> tuple[dict[str, Any], list[str]]:
        return ({}, ["alpha: 4 cores"]) if job.id == "wide" else super().ask(job, counted, now, only)


def test_a_job_that_no_cluster_can_run_is_refused_and_the_other_jobs_are_placed() -> None:
    broker = ClusterBroker(TooSmall({"alpha": 0.0}), ByPreference(0.0), EVENTS)
    for name in ("wide", "a"):
        broker.offer({"id": name, "run": 60}, 1.0)
    broker.advance(1.0)
    assert where(broker) == ["no cluster can run it: alpha: 4 cores", "alpha"]


def test_an_answer_that_is_lost_is_looked_for_and_a_rejected_job_is_told(tmp_path: Path) -> None:
    queues = Queues({"alpha": 0.0})
    broker = ClusterBroker(queues, ByPreference(0.0), EVENTS, None, True)
    queues.lost = True
    broker.offer({"id": "a", "run": 60}, 1.0)
    broker.advance(1.0)
    assert broker.state_of("a") == {"state": "being submitted"}
    queues.lost = False
    broker.advance(100.0)
    assert (broker.state_of("a")["state"], broker.state_of("a")["job_id"], len(queues.jobs)) == ("submitted", "1", 1)

    def rejects() -> None:
        raise NoAnswer("no cluster took the job: alpha rejected the job: Invalid qos")

    queues.before_send = rejects
    broker.offer({"id": "b", "run": 60}, 101.0)
    broker.advance(101.0)
    assert "Invalid qos" in broker.state_of("b")["refused"]


def test_two_brokers_of_one_user_may_have_jobs_of_the_same_id(tmp_path: Path) -> None:
    queues = Queues({"alpha": 0.0})
    for name in ("one", "other"):
        broker = ClusterBroker(queues, ByPreference(0.0), EVENTS, Journal(tmp_path / name), True)
        broker.offer({"id": "a", "run": 60}, 1.0)
        broker.advance(1.0)
    assert [job_id for _, job_id in queues.jobs.values()] == ["1", "2"]


def test_a_rejected_job_is_not_counted_in_front_of_the_next() -> None:
    queues = Queues({"alpha": 0.0})

    def rejects() -> None:
        raise NoAnswer("alpha rejected the job")

    broker = ClusterBroker(queues, ByPreference(0.0), EVENTS, None, True)
    queues.before_send = rejects
    broker.offer({"id": "a", "run": 600}, 1.0)
    broker.advance(1.0)
    queues.before_send = None
    assert broker.offer({"id": "b", "run": 60}, 2.0)["best_offer"]["likely_start_s"] == 2.0


def test_a_broker_killed_anywhere_loses_no_job_and_sends_none_twice(tmp_path: Path) -> None:
    """Tests kills before a submission, after it, and with the last line of the journal cut at any byte."""
    rng = random.Random(5)
    for round_ in range(50):
        queues, path = Queues({"alpha": 0.0, "beta": 90.0}), tmp_path / f"{round_}"
        left = rng.randrange(8)

        def dies() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        queues.before_send = dies
        jobs = [{"id": f"j{k}", "run": 60} for k in range(8)]

        def run(queues: Queues = queues, path: Path = path, jobs: list[dict[str, Any]] = jobs) -> ClusterBroker:
            broker = ClusterBroker(queues, ByPreference(0.0), EVENTS, Journal(path), True)
            for k, job in enumerate(jobs):  # the sender sends those jobs again that got no reply
                broker.offer(job, float(k))
                broker.advance(float(k))
            broker.advance(1000.0)
            return broker

        with pytest.raises(Killed):
            run()
        queues.before_send = None
        text = path.read_bytes()
        path.write_bytes(text[: len(text) - rng.randrange(0, 40)])
        broker = run()
        submitted = {key.rpartition(":")[2]: job for key, job in queues.jobs.items()}
        assert len(queues.jobs) == len(jobs)
        assert {row["id"]: (row["resource"], row["job_id"]) for row in broker.table()} == submitted
        assert ClusterBroker(queues, ByPreference(0.0), EVENTS, Journal(path), True).table() == (broker.table())
        assert sum("job" in json.loads(line) for line in path.read_text().splitlines()) == len(jobs)


def test_a_job_without_its_script_is_refused_in_one_sentence() -> None:
    broker = ClusterBroker(Queues({"alpha": 0.0}), ByPreference(0.0), EVENTS)
    with pytest.raises(UsageError, match="no run"):
        broker.offer({"id": "a"}, 1.0)
    assert broker.table() == []
    with pytest.raises(UsageError, match="accepted: run, drop"):
        ClusterBroker(Queues({"alpha": 0.0}), ByPreference(0.0), MappingRule(None, late="stop"))
