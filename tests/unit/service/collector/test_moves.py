"""Tests that the store records a move of a waiting job's predicted start, with the queue events that explain it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from batchcast.document import compact, plain
from batchcast.formats.sighting import NodeAway, Sighting
from batchcast.predict.protocol import Prediction
from batchcast.service.answers.answer import nodes_away
from batchcast.service.answers.disclosure import Viewer, disclosed
from batchcast.service.answers.start import start_answer
from batchcast.service.collector.clock import note_nodes, remember, start_times
from batchcast.service.page.jobs import my_jobs
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.reader import Reader

METHOD = "forecast"


def seen(job_id: str, submit: float, state: str = "PENDING", **more: Any) -> Sighting:
    asked = {"user_id": more.pop("user", "ada"), "partition_id": "main", "req_time": 36000.0}
    asked |= {"req_procs": more.pop("procs", 4.0)}
    return Sighting(job_id, job_id, submit, state, requested=asked, priority=more.pop("priority", 50.0), **more)


class Site:
    """A store in which job 1 waits since second 0 and has these predictions."""

    def __init__(self, url: str) -> None:
        self.url, self.store = url, Store(url, create=True)
        self.take(0.0, seen("1", 0.0))
        with self.store.begin() as connection:
            clock_jobs.write_meta(connection, "c", wait_methods=[METHOD], cycle_at=0.0, told_until=0.0)
        self.away(-100.0)

    def take(self, at: float, *jobs: Sighting) -> None:
        with self.store.begin() as connection:
            history.take_in(connection, "c", jobs, at)

    def away(self, at: float, *nodes: str, procs: float = 64.0, partition: str = "main") -> None:
        """These nodes are down, and no others."""
        with self.store.begin() as connection:
            note_nodes(connection, "c", [NodeAway(node, partition, procs) for node in nodes], at)

    def tell(self, wait: float, now: float) -> dict[str, Any]:
        """Return the answer for job 1 after it was predicted to wait this long in all."""
        said = Prediction(wait, (0.5, 0.9), (wait, 2.0 * wait), "model: behind 2 jobs", "model")
        with self.store.begin() as connection:
            why = remember(connection, "c", [start_times(1, 0.0, said, now)], now)
            one = {"row": 1, "method": METHOD, "as_of": now, "why": why[1], "prediction": said}
            clock_jobs.renew(connection, "c", [one])
            issued = {"row": 1, "kind": "wait", "moment": "submit", "method": METHOD, "as_of": 0.0, "issued_at": 0.0}
            if now == 0.0:
                clock_jobs.issue(connection, [{**issued, "prediction": said}])
        answer = disclosed(start_answer(self.row(), now), hidden=False)
        assert json.loads(compact(answer)) == plain(answer), "the served JSON has what Python answers"
        return answer

    def row(self) -> dict[str, Any]:
        reader = Reader(self.url)
        try:
            return next(row for row in reader.waiting("c", METHOD) if row["row"] == 1)
        finally:
            reader.close()


@pytest.fixture
def site(url: str) -> Site:
    made = Site(url)
    assert made.tell(7200.0, 0.0)["why_it_moved"] == "", "nothing was told before"
    return made


def test_a_large_job_that_ended_early_is_said_to_be_why_it_starts_sooner(site: Site) -> None:
    site.take(700.0, seen("2", -600.0, "COMPLETED", procs=512.0, start_time=-600.0, end_time=600.0))
    answer = site.tell(4800.0, 700.0)
    assert answer["why_it_moved"].endswith("sooner")
    assert answer["why_it_moved"].startswith("a job of 512 processors ended 9 h 40 min early: ")
    assert answer["moved_by_s"] < -1800.0
    assert answer["moved_since_s"] == 0.0
    assert disclosed(start_answer(site.row(), 700.0), hidden=True)["why_it_moved"].startswith("jobs ended early: ")


def test_a_minute_is_no_reason_for_a_move_of_an_hour(site: Site) -> None:
    """Regression: a job that ran two minutes longer than predicted was named as the reason why another starts a day and
    a half later."""
    site.take(700.0, seen("2", -35300.0, "COMPLETED", procs=512.0, start_time=-35300.0, end_time=600.0))
    answer = site.tell(3600.0, 700.0)
    assert answer["why_it_moved"].endswith("sooner; no event in the queue explains it")
    assert answer["moved_by_s"] < -2000.0


def test_only_jobs_of_higher_priority_that_came_since_are_why_it_starts_later(site: Site) -> None:
    site.take(800.0, *(seen(str(k), 700.0 + k, user="bo", priority=90.0) for k in range(10, 15)),
              *(seen(str(k), 700.0 + k, user="bo", priority=10.0) for k in range(20, 25)))  # fmt: skip
    assert site.tell(10800.0, 800.0)["why_it_moved"].startswith("5 jobs of higher priority were submitted: ")


def test_a_job_that_outlives_its_forecast_and_nodes_that_are_drained_are_named(site: Site) -> None:
    site.take(1.0, seen("2", -35500.0, "RUNNING", procs=64.0, start_time=-35500.0))
    assert site.tell(10800.0, 900.0)["why_it_moved"].startswith(
        "a job of 64 processors runs 6 min 40 s longer than predicted"
    )
    site.away(1400.0, "t9")
    assert site.tell(18000.0, 1500.0)["why_it_moved"].startswith("node t9 is drained or down: ")
    site.away(1600.0, "t9", "t10", "t11")
    assert site.tell(28000.0, 3000.0)["why_it_moved"].startswith("nodes t[10-11] are drained or down: ")
    site.away(4000.0)
    assert site.tell(14000.0, 4500.0)["why_it_moved"].startswith("nodes t[9-11] are back: ")


def test_nodes_of_another_partition_and_those_down_before_the_job_came_explain_nothing(site: Site) -> None:
    site.away(-50.0, "t1")
    site.away(700.0, "t1", "g1", partition="gpu")
    assert "no event in the queue" in site.tell(18000.0, 900.0)["why_it_moved"]


def test_a_small_node_does_not_hide_much_work_that_came(site: Site) -> None:
    site.away(700.0, "t9", procs=2.0)
    site.take(800.0, *(seen(str(k), 700.0 + k, user="bo", priority=90.0, procs=64.0) for k in range(10, 15)))
    assert site.tell(10800.0, 900.0)["why_it_moved"].startswith("5 jobs of higher priority were submitted: ")


def test_what_no_job_explains_is_said_to_be_unexplained(site: Site) -> None:
    assert site.tell(18000.0, 900.0)["why_it_moved"].endswith("later; no event in the queue explains it")


def test_a_likely_time_that_went_by_is_itself_the_reason(site: Site) -> None:
    said = site.tell(9000.0, 7500.0)["why_it_moved"]
    assert said.startswith("the likely start time has passed: ")


def test_small_and_quick_moves_are_not_told_and_the_last_reason_stays_until_the_next(site: Site) -> None:
    assert site.tell(7000.0, 400.0)["why_it_moved"] == ""
    moved = site.tell(14400.0, 1000.0)
    assert moved["why_it_moved"] != ""
    again = site.tell(7200.0, 1100.0)
    assert (again["why_it_moved"], again["moved_since_s"]) == (moved["why_it_moved"], 0.0), "too soon after the last"
    assert site.tell(7200.0, 1500.0)["moved_since_s"] == 1000.0


def test_my_jobs_draws_how_the_times_have_moved_and_forgets_them_when_the_job_has_started(site: Site) -> None:
    settings, viewer = load({"store": site.url}, {}), Viewer("ada", sees_all=True)
    site.tell(14400.0, 1000.0)
    (line,) = my_jobs(settings, "ada", viewer, 1000.0)["waiting"]
    assert line["track"]["since"] == 0.0
    x, likely = zip(*(map(float, point.split(",")) for point in line["track"]["likely"].split()))
    assert (x[0], x[-1]) == (0.0, 1000.0)
    assert likely[-1] < likely[0], "later is higher, and y grows downwards"
    assert all(0.0 <= y <= 100.0 for y in likely)
    with site.store.begin() as connection:
        clock_jobs.renew(connection, "c", [])
    assert Reader(site.url).rows("SELECT * FROM moves") == []


def test_the_reason_is_kept_as_figures_that_any_language_can_tell(site: Site) -> None:
    site.tell(14400.0, 1000.0)
    why = json.loads(site.row()["renewed_why"])
    assert {"by_s", "since", "cause"} <= why.keys()
    assert math.isfinite(why["by_s"])


def test_the_clock_knows_the_nodes_that_are_away_and_no_longer_those_that_came_back(url: str) -> None:
    site = Site(url)
    site.away(0.0)
    site.away(60.0, "n3", "n4")
    site.away(120.0, "n4")
    with site.store.begin() as connection:
        assert nodes_away(clock_jobs.read_meta(connection, "c")) == {"n4"}
        assert nodes_away(clock_jobs.read_meta(connection, "another")) == frozenset()
