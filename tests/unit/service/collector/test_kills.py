"""Tests two collectors of one PostgreSQL store, both killed again and again: the store's content equals that of a
single collector."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from tests.unit.service.collector.test_collector import Job, Script, step

from batchcast.errors import BatchcastError
from batchcast.service.collector.cycle import Collector
from batchcast.service.settings import Settings, load
from batchcast.store.database import Store, single_writer
from batchcast.store.reader import Reader

ROOT = Path(__file__).parents[4]
KILLS = 34
BEGIN, END, EVERY = 1000, 1720, 30
MOST_STATEMENTS = 40
"""A collector is killed at one of this many of its statements, by number."""
STORED = """SELECT jobs.job_id, jobs.start_time, jobs.end_time, jobs.told, kind, method, point_s, basis,
    outcome_s
    FROM forecast_outcomes JOIN jobs ON jobs.row = forecast_outcomes.row
    WHERE moment = 'submit' ORDER BY jobs.job_id, kind, method"""


def scripted() -> Script:
    return Script([Job(str(k), 1000 + 7 * k, 1050 + 9 * k, 1100 + 13 * k) for k in range(30)])


def settings_of(url: str) -> Settings:
    given = {"store": url, "history_days": 0.1, "runtime": "recent_mean", "wait": "recent_wait:need=1", "limits": ""}
    return load(given, {})


def live(url: str, place: Path, killed_at: int) -> int:
    """One life of a collector, from the unfinished cycle on; killed at one of its statements (0: never)."""
    store, script, left = Store(url), scripted(), [killed_at]

    def die(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        with single_writer(store):
            event.listen(store.engine, "after_cursor_execute", die)
            event.listen(store.engine, "commit", die)
            collector = Collector(script, store, settings_of(url))
            while (time := int(place.read_text())) < END:
                step(script, collector, time)
                place.write_text(str(time + EVERY))
    except BatchcastError as error:
        return os.EX_TEMPFAIL if "another collector" in str(error) else os.EX_SOFTWARE
    return 0


def supervise(url: str, place: Path, seed: int) -> int:
    """Start a collector again whenever it was killed or found the other one running; return the number of kills."""
    draws, kills, of_both = random.Random(seed), 0, place.with_name("kills")
    while True:
        killed_at = draws.randint(1, MOST_STATEMENTS) if len(of_both.read_bytes()) < KILLS else 0
        child = os.fork()
        if child == 0:
            code = os.EX_SOFTWARE
            try:
                code = live(url, place, killed_at)
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
            with of_both.open("ab") as file:
                file.write(b"x")
        elif (code := os.waitstatus_to_exitcode(status)) == 0:
            return kills
        elif code != os.EX_TEMPFAIL:
            raise SystemExit(f"a collector ended with {code}")


@pytest.mark.postgres
def test_two_collectors_killed_34_times_store_what_one_alone_stores(
    postgres_server: Callable[[], str], tmp_path: Path
) -> None:
    alone, shared = postgres_server(), postgres_server()
    script = scripted()
    step(script, Collector(script, Store(alone, create=True), settings_of(alone)), *range(BEGIN, END, EVERY))
    Store(shared, create=True)
    place = tmp_path / "time"
    place.write_text(str(BEGIN))
    (tmp_path / "kills").touch()
    env = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    pair = [
        subprocess.Popen(
            [sys.executable, __file__, shared, str(place), str(seed)], env=env, stdout=subprocess.PIPE, text=True
        )
        for seed in (1, 2)
    ]
    kills = [int(one.communicate(timeout=600)[0].split()[-1]) for one in pair]
    assert [one.returncode for one in pair] == [0, 0]
    assert sum(kills) in (KILLS, KILLS + 1)
    assert min(kills) > 0
    wanted = Reader(alone).rows(STORED)
    assert len(wanted) == 60
    assert Reader(shared).rows(STORED) == wanted
    assert Reader(shared).rows("SELECT count(*) AS n FROM jobs") == [{"n": 30}]
    assert Reader(shared).memory("c")["late"] == 0


if __name__ == "__main__":
    print(supervise(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
