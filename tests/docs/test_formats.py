"""Tests that the example map on the page of formats is valid, and that the page names the included maps."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from batchcast.formats.csv.column_map import make_map
from batchcast.trace.column_maps import ready_maps

PAGE = (Path(__file__).parent.parent.parent / "docs" / "reference" / "formats.md").read_text()


def test_the_map_on_the_page_is_accepted() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    made = make_map(tomllib.loads(text), "site.toml")
    assert (made.name, made.delimiter, made.procs_total) == ("site", ";", 4096.0)
    assert [column.target for column in made.columns][-2:] == ["case", "cutoff"]


def test_every_ready_made_map_is_named() -> None:
    for each in ready_maps():
        assert f"`--map {each.name}`" in PAGE
        assert each.header
        assert {column.source for column in each.columns} <= set(each.header)
