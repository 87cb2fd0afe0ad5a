"""Tests damaged values of the table `meta`: one clear error, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from batchcast.errors import InputError
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.http import api
from batchcast.service.settings import load
from batchcast.store import clock_jobs
from batchcast.store.database import Store
from batchcast.store.reader import Reader

NAMES = ("site", "cycle_at", "told_until", "snapshot_at", "interval_s", "total_procs", "wait_methods", "health")
WORDS = ("", "{", "\\u0000", "[[1]]", '"x"', '{"private": "perhaps"}', "[" * 5000, "9" * 5000, '{"partitions": []}')
PLACES = ("/v1/start?user=ada", "/v1/hint?user=ada", "/v1/report?user=ada", "/v1/accuracy")


@pytest.mark.long
def test_a_damaged_value_is_one_clear_error_and_no_failure(url: str) -> None:
    sound = {"site": {"private": True, "partitions": {"main": {"procs": 8.0}}}, "cycle_at": 900.0, "told_until": 900.0,
             "snapshot_at": 900.0, "interval_s": 30.0, "total_procs": 8.0, "wait_methods": ["recent_wait"],
             "health": {}}  # fmt: skip
    with Store(url, create=True) as store:
        for name in NAMES:
            for word in WORDS:
                with store.begin() as connection:
                    clock_jobs.write_meta(connection, "c", **sound)
                    connection.execute(
                        text("UPDATE meta SET value = :word WHERE cluster = 'c' AND name = :name"),
                        {"word": word, "name": name},
                    )
                is_damaged = not (name == "health" and word.endswith("}"))
                for place in PLACES[:1] if not is_damaged else PLACES:
                    answer = api.reply(load({"store": url}, {}), place, Viewer("ada"), 1000.0)
                    assert answer.status in ((500,) if is_damaged else (200, 404)), (name, word[:20], place)
                    assert ("is damaged" in answer.body) == is_damaged, (name, word[:20], place)
                if is_damaged:
                    with Reader(url) as reader, pytest.raises(InputError, match=f"'{name}' is damaged"):
                        reader.memory("c")
                    with store.begin() as connection, pytest.raises(InputError, match=f"'{name}' is damaged"):
                        clock_jobs.read_meta(connection, "c")


@pytest.mark.parametrize("word", ["thirteen", "-1", "1.5", "9" * 5000, "\u00b2"])
def test_a_damaged_schema_version_is_one_clear_error(url: str, word: str) -> None:
    with Store(url, create=True) as store, store.begin() as connection:
        connection.execute(text("UPDATE meta SET value = :word WHERE name = 'schema_version'"), {"word": word})
    for opens in (lambda: Reader(url), lambda: Store(url)):
        with pytest.raises(InputError, match="'schema_version' is damaged"):
            opens()
