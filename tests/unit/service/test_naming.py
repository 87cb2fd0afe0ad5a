"""Tests whether results name users: the site's setting decides, `auto` asks the store, and in doubt no user is
named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from batchcast.service.settings import are_users_hidden
from batchcast.store import clock_jobs
from batchcast.store.database import Store


def remember(store: Path, cluster: str, **site: Any) -> None:
    with Store(str(store), create=True).begin() as connection:
        clock_jobs.write_meta(connection, cluster, **({"site": site} if site else {"cycle_at": 1.0}))


def at_home(tmp_path: Path, settings: str | None = None, **more: str) -> Mapping[str, str]:
    if settings is not None:
        (tmp_path / "batchcast").mkdir()
        (tmp_path / "batchcast" / "batchcast.toml").write_text(settings)
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), **more}


def test_where_nobody_set_anything_up_users_are_named(tmp_path: Path) -> None:
    assert are_users_hidden(at_home(tmp_path)) == (False, "")


@pytest.mark.parametrize(("word", "hidden"), [("yes", True), ("no", False), ("on", True)])
def test_the_setting_decides_without_a_store(tmp_path: Path, word: str, hidden: bool) -> None:
    assert are_users_hidden(at_home(tmp_path, f'private = "{word}"')) == (hidden, "")


@pytest.mark.parametrize("private", [True, False])
def test_auto_does_as_the_store_has_learned(tmp_path: Path, private: bool) -> None:
    remember(tmp_path / "s.db", "c", private=private)
    assert are_users_hidden(at_home(tmp_path, f'store = "{tmp_path}/s.db"')) == (private, "")
    assert are_users_hidden(at_home(tmp_path, BATCHCAST_STORE=str(tmp_path / "s.db"))) == (private, "")


def test_a_store_at_its_usual_place_is_asked_without_any_setting(tmp_path: Path) -> None:
    usual = tmp_path / ".local" / "share" / "batchcast" / "store.db"
    usual.parent.mkdir(parents=True)
    remember(usual, "c", private=True)
    assert are_users_hidden(at_home(tmp_path))[0]


def test_one_cluster_that_hides_its_jobs_hides_all(tmp_path: Path) -> None:
    remember(tmp_path / "s.db", "open", private=False)
    remember(tmp_path / "s.db", "closed", private=True)
    assert are_users_hidden(at_home(tmp_path, BATCHCAST_STORE=str(tmp_path / "s.db"))) == (True, "")


def test_a_store_that_does_not_say_hides_them_with_the_reason(tmp_path: Path) -> None:
    remember(tmp_path / "s.db", "open", private=False)
    remember(tmp_path / "s.db", "never seen")
    hidden, why = are_users_hidden(at_home(tmp_path, BATCHCAST_STORE=str(tmp_path / "s.db")))
    assert hidden
    assert "does not say" in why


@pytest.mark.parametrize("text", ['private = "perhaps"', "private = [", 'store = "/nowhere/store.db"'])
def test_what_cannot_be_read_hides_them_with_the_reason(tmp_path: Path, text: str) -> None:
    hidden, why = are_users_hidden(at_home(tmp_path, text))
    assert hidden
    assert why


def test_a_file_that_is_no_store_hides_them(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("no database, by far")
    assert are_users_hidden(at_home(tmp_path, BATCHCAST_STORE=str(tmp_path / "s.db")))[0]
    assert are_users_hidden(at_home(tmp_path, BATCHCAST_CONFIG=str(tmp_path / "missing.toml")))[0]
