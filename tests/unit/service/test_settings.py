"""Tests that settings are typed: every accepted form is read, and any other is an error with its location and the
accepted forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchcast.errors import InputError, UsageError
from batchcast.service.answers.answer import staleness
from batchcast.service.settings import NAMES, is_private, load, meaning, planned_by


def from_file(tmp_path: Path, text: str, **environment: str) -> object:
    path = tmp_path / "b.toml"
    path.write_text(text)
    return load({}, {"BATCHCAST_CONFIG": str(path), **environment})


@pytest.mark.parametrize("word", ["true", "1", '"yes"', '"Yes"', '"on"', '"TRUE"', '"1"', '" yes "'])
@pytest.mark.parametrize("open_site", [{}, {"site": {"private": False}}])
def test_every_yes_means_private(tmp_path: Path, word: str, open_site: dict) -> None:
    assert is_private(from_file(tmp_path, f"private = {word}"), open_site)


@pytest.mark.parametrize("word", ["false", "0", '"no"', '"Off"'])
def test_every_no_means_open(tmp_path: Path, word: str) -> None:
    assert not is_private(from_file(tmp_path, f"private = {word}"), {"site": {"private": True}})


@pytest.mark.parametrize("word", ['"yeah"', '"privat"', "2", "[]", '""'])
def test_a_word_that_means_neither_opens_nothing(tmp_path: Path, word: str) -> None:
    with pytest.raises(InputError, match=r"private = .*accepted: yes, true, on, 1; no, false, off, 0; auto"):
        from_file(tmp_path, f"private = {word}")


def test_its_help_says_what_yes_does() -> None:
    assert "Hide jobs from other users" in meaning("private")


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("interval_s = 45", "interval_s", 45.0),
        ('interval_s = "2m"', "interval_s", 120.0),
        ('patience_s = "1:00:00"', "patience_s", 3600.0),
        ('limit_floor = "0:10:00"', "limit_floor", 600.0),
        ('limit_most = ""', "limit_most", float("inf")),
        ('limit_most = "7-0"', "limit_most", 604800.0),
        ('scheduler = "PBS"', "scheduler", "pbs"),
        ("least_users = 7", "least_users", 7),
    ],
)
def test_values_with_their_units(tmp_path: Path, text: str, name: str, value: object) -> None:
    assert from_file(tmp_path, text)[name] == value


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ('interval_s = "often"', "seconds, 90s, 10m"),
        ("interval_s = nan", "seconds"),
        ("interval_s = true", "seconds"),
        ("timeout_s = -1", "seconds"),
        ('limit_floor = "x"', "as Slurm takes it"),
        ("least_users = 0", "a number from 1 on"),
        ('least_users = "many"', "a number from 1 on"),
        ('scheduler = "lsf"', "slurm, pbs"),
        ("store = 7", "text"),
        ("privat = true", "accepted: store, scheduler"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, accepted: str) -> None:
    with pytest.raises(InputError, match=accepted) as wrong:
        from_file(tmp_path, text)
    assert str(tmp_path / "b.toml") in wrong.value.message


def test_every_setting_can_be_given_by_the_environment_and_has_a_meaning() -> None:
    assert all(meaning(name) for name in NAMES)
    settings = load({}, {"BATCHCAST_INTERVAL_S": "1m", "BATCHCAST_CONFIG": "/dev/null"})
    assert (settings["interval_s"], settings.source["interval_s"]) == (60.0, "$BATCHCAST_INTERVAL_S")


def test_what_a_stronger_place_took_away_is_remembered(tmp_path: Path) -> None:
    settings = from_file(tmp_path, 'store = "/there"', BATCHCAST_STORE="/here")
    assert settings["store"] == "/here"
    assert [(o.name, o.value, o.source) for o in settings.overruled] == [("store", "/there", str(tmp_path / "b.toml"))]


def test_looks_closer_than_the_floor_are_refused() -> None:
    with pytest.raises(UsageError, match="floor_s"):
        load({"interval_s": 1, "floor_s": 2}, {})


@pytest.mark.parametrize(
    ("interval", "ago", "stale"), [(30, 100, False), (30, 130, True), (600, 2000, False), (600, 2500, True)]
)
def test_what_is_stale_follows_the_interval(interval: float, ago: float, stale: bool) -> None:
    memory = {"cycle_at": 10_000.0, "told_until": 10_000.0, "interval_s": interval}
    assert bool(staleness(memory, 10_000.0 + ago)) is stale


@pytest.mark.parametrize(
    ("given", "by"),
    [
        ({}, "calibrated"),
        ({"runtime": "kernel,recent_mean"}, "kernel"),
        ({"runtime": "kernel,calibrated:of=last_2"}, "calibrated:of=last_2"),
    ],
)
def test_planning_uses_the_calibrated_method_unless_told_otherwise(given: dict[str, str], by: str) -> None:
    """Regression: with `kernel` the watchdog stopped planning in its first cycle, because on a new site only 69 % of
    the jobs ended within its 90 % bounds."""
    assert planned_by(load(given, {})) == by


@pytest.mark.parametrize(
    ("word", "by"), [("forecast", "forecast"), ("prediction", "forecast"), ("limits", "limits"), ("limit", "limits")]
)
def test_both_spellings_of_an_order_are_one_value(word: str, by: str) -> None:
    settings = load({"plan": "order"}, {"BATCHCAST_PLAN_ORDER_BY": word})
    assert settings["plan_order_by"] == by
    assert f"{settings['plan_order_by']}" == by, "and it is printed in one spelling"
    with pytest.raises(InputError, match=r"accepted: forecast, limits"):
        load({"plan_order_by": "none"}, {})
