"""Tests that the docs build writes a reference page from the code for commands, methods, settings and columns."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT
from tools.reference import PAGES, on_files, on_page_markdown


@pytest.mark.parametrize(
    ("page", "row"),
    [
        ("commands.md", "| `--predictor NAMES` |"),
        ("commands.md", "## batchcast site purge"),
        ("methods.md", "| `recent_mean` |"),
        ("methods.md", "`k=5`, `fields=user_id+req_time+procs`"),
        ("method-details.md", "::: batchcast.predict.runtime.kernel.Kernel"),
        ("settings.md", "| `interval_s` |"),
        ("settings.md", "`kernel,recent_mean,last_2,calibrated`"),
        ("columns.md", "| `req_time` | s | submission |"),
        ("columns.md", "| `kpoints` |"),
        ("columns.md", "`end_time` | `date`, `epoch_ms` |"),
        ("columns.md", "`text`, `whole`, `number`, `seconds`"),
    ],
)
def test_a_page_lists_what_the_code_declares(page: str, row: str) -> None:
    assert row in PAGES[page]()


def test_every_option_of_every_page_has_a_text() -> None:
    empty = [
        line for page in PAGES.values() for line in page().splitlines() if line.startswith("| `") and "|  |" in line
    ]
    assert [line for line in empty if line.startswith("| `--")] == []


def test_the_docs_build_adds_the_pages_that_its_navigation_names() -> None:
    files = pytest.importorskip("mkdocs.structure.files", reason="mkdocs is not installed: make setup-docs")
    config = pytest.importorskip("mkdocs.config.defaults").MkDocsConfig()
    config.load_dict({"site_name": "batchcast", "docs_dir": str(ROOT / "docs"), "site_dir": str(ROOT / "site")})
    config.validate()
    config.plugins._current_plugin = "hook"
    made = {file.src_uri for file in on_files(files.Files([]), config)}
    assert made == {f"reference/{name}" for name in PAGES}

    assert made <= set(re.findall(r"reference/[a-z-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))


def test_links_of_a_file_in_the_root_lead_into_the_site() -> None:
    made = on_page_markdown('--8<-- "ARCHITECTURE.md"\n')
    assert "](reference/plug-ins.md)" in made
    assert "](contributing.md)" in made
    assert on_page_markdown("# A page") == "# A page"
