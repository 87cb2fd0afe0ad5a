"""Tests the grants to readers in docs/reference/live.md on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from batchcast.errors import BatchcastError
from batchcast.store.database import Store
from batchcast.store.reader import Reader
from batchcast.store.statements import TEXTS

GUIDE = Path(__file__).parents[3] / "docs" / "reference" / "live.md"


def granted() -> list[str]:
    """Return the SQL statements of the page."""
    block = GUIDE.read_text().split("```sql\n")[1].split("```")[0]
    return [one.strip() for one in block.split(";") if one.strip()]


@pytest.mark.postgres
def test_readers_read_and_write_nothing(postgres_server: Callable[[], str]) -> None:
    url = postgres_server()
    store = Store(url, create=True)
    database = url.rpartition("/")[2] if "?" not in url else url.partition("?")[0].rpartition("/")[2]
    with store.begin() as connection:
        connection.execute(text("DROP ROLE IF EXISTS readers"))
        connection.execute(text("DO $$ BEGIN CREATE ROLE batchcast; EXCEPTION WHEN duplicate_object THEN NULL; END $$"))
        for statement in granted():
            connection.execute(text(statement.replace("DATABASE batchcast", f"DATABASE {database}")))
        connection.execute(text("DO $$ BEGIN CREATE ROLE eve LOGIN IN ROLE readers;"
                                " EXCEPTION WHEN duplicate_object THEN GRANT readers TO eve; END $$"))  # fmt: skip
    as_eve = (
        url.replace("postgresql://", "postgresql://eve@", 1) if "@" not in url else url.replace("postgres@", "eve@")
    )
    reader = Reader(as_eve)
    for question, words in TEXTS.items():
        assert isinstance(reader.ask(question, **({"most": 1} if ":most" in words else {})), list)
    with pytest.raises(BatchcastError, match="permission denied"), Store(as_eve).begin() as connection:
        connection.execute(text("DELETE FROM jobs"))
