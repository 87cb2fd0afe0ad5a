# SPDX-License-Identifier: Apache-2.0
"""Tests *My jobs* and *The cluster*: similar jobs in one line, and a young site from its first job on."""

from __future__ import annotations

import http.client
import math
import re
import time
from pathlib import Path
from typing import Any

from batchcast.formats.sighting import Sighting
from batchcast.service.http.server import Server
from batchcast.service.page.jobs import Chances, _together, axis
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store


def waiting(job_id: str, start: float, name: str = "relax", **more: Any) -> dict[str, Any]:
    chances = Chances(start - 60, start, start + 600)
    usual = {
        "job_id": job_id,
        "name": name,
        "partition": "main",
        "procs": 4.0,
        "reason": "Priority",
        "chances": chances,
    }
    return usual | more


def lines(*jobs: dict[str, Any]) -> list[dict[str, Any]]:
    return _together(jobs, axis(0.0, [job["chances"] for job in jobs]))


def test_jobs_of_one_name_are_one_line_with_first_middle_and_last() -> None:
    (line,) = lines(*(waiting(str(k), 3600.0 * k) for k in (5, 1, 4, 2, 3)))
    assert (line["count"], line["ids"], line["chances"].by_50) == (5, ["1"], 3600.0)
    assert (line["middle"], line["last"]) == (3 * 3600.0, 5 * 3600.0)
    assert [part["ids"] for part in line["parts"]] == [["1"], ["2"], ["3"], ["4"], ["5"]]


def test_tasks_of_an_array_with_one_answer_are_one_part() -> None:
    (line,) = lines(*(waiting(f"7_{k}", 900.0) for k in range(3)), waiting("7_9", 7200.0))
    assert [part["ids"] for part in line["parts"]] == [["7_0", "7_1", "7_2"], ["7_9"]]
    assert (line["count"], line["middle"], line["last"]) == (4, 900.0, 7200.0)


def test_other_names_sizes_and_reasons_stand_apart_and_the_first_start_leads() -> None:
    later, apart = waiting("1", 9000.0), waiting("2", 60.0, name="small")
    found = lines(later, apart, waiting("3", 90.0, procs=64.0), waiting("4", 80.0, reason="Resources"))
    assert [line["ids"] for line in found] == [["2"], ["4"], ["3"], ["1"]]
    assert {len(line["parts"]) for line in found} == {1}


def test_jobs_without_a_name_stand_with_their_array_alone() -> None:
    assert len(lines(waiting("5", 60.0, name=""), waiting("6", 60.0, name=""))) == 2


def test_a_start_that_nobody_knows_comes_last() -> None:
    never = waiting("9", 1.0, chances=Chances(math.nan, math.inf, math.inf))
    (line,) = lines(never, waiting("8", 600.0))
    assert (line["ids"], line["last"]) == (["8"], math.inf)


def test_my_jobs_says_which_limit_lets_a_job_start_before_a_maintenance(tmp_path: Path) -> None:
    """A job of five days waits for a maintenance in three days; the page gives the advice that support staff write by
    hand."""
    path, now, day = str(tmp_path / "s.db"), time.time(), 86400.0
    begin = now + 3 * day + 615.0  # ten minutes for the scheduler, and a quarter of a minute for this test
    power = {"name": "power", "start": begin, "end": begin + day, "maintenance": True}
    with Store(path, create=True).begin() as connection:
        for job_id, reason in (("7", "ReqNodeNotAvail, Reserved for maintenance"), ("8", "Priority")):
            asked = {"user_id": "ada", "partition_id": "main", "req_procs": 4.0, "req_time": 5 * day}
            waits = Sighting(job_id, job_id, now - 300, "PENDING", reason=reason, requested=asked)
            history.take_in(connection, "c", [waits], now)
        clock_jobs.write_meta(
            connection, "c", site={"partitions": {}}, cycle_at=now, told_until=now, reservations=[power]
        )
    settings = load({"store": path, "proxy_from": "127.0.0.1", "proxy_header": "X-User"}, {})
    with Server(settings, "127.0.0.1:0", lambda _: None) as server:
        asking = http.client.HTTPConnection(*server.address[:2], timeout=60)
        asking.request("GET", "/", headers={"X-User": "ada"})
        answer = asking.getresponse().read().decode()
        asking.close()
    said = re.findall(
        r"The maintenance power begins at .*? With a time limit of at most (\S+) the job can start", answer
    )
    assert said == ["3-00:00:00"], "one sentence, for the job that waits for the maintenance"
