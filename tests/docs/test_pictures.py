"""Tests that the pictures of README and docs show today's demo and pages; `make pictures` draws them again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT
from tools import docs_pictures

IMAGES = ROOT / "docs" / "images"
SHOWN = json.loads((IMAGES / "shown.json").read_text(encoding="utf-8"))["shows"]
ADVICE = "run `make pictures`, look at each picture, and commit docs/images"


def test_each_picture_is_in_the_list_and_shows_something() -> None:
    drawn = {path.stem: path.stat().st_size for path in IMAGES.glob("*.png")}
    assert set(SHOWN) <= set(drawn)
    assert set(docs_pictures.REPORT) <= set(SHOWN)
    assert set(drawn) == {*docs_pictures.REPORT, *docs_pictures.PAGES}
    assert min(drawn.values()) > 10_000, drawn  # the file of an empty page has a few hundred bytes


@pytest.mark.long
def test_the_reports_pictures_have_the_figures_of_todays_demo(tmp_path: Path) -> None:
    today = docs_pictures.demo_figures(docs_pictures.demo(tmp_path))
    assert len(today) > 5
    for name in docs_pictures.REPORT:
        assert SHOWN[name] == today, ADVICE


def test_the_pages_still_use_each_label_that_their_pictures_show() -> None:
    for name in docs_pictures.PAGES:
        assert len(SHOWN[name]) >= 5
        assert set(SHOWN[name]) <= docs_pictures.texts(), f"{name}: {ADVICE}"


def test_labels_are_texts_of_the_pages_and_not_data() -> None:
    page = "<h1>Next: about 17:51</h1><h2>Jobs of ada</h2><p>Name</p><th>group <b>7</b></th><th>Waiting</th>"
    assert docs_pictures.labels(page + "<th>Waiting</th>") == ["Waiting"]
