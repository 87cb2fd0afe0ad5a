"""A fixture that starts one Chromium for all browser tests of a module."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def tab(chromium: str) -> Iterator[Any]:
    """A tab of a real Chromium (see chrome.py, which pytest's importlib mode cannot import by name)."""
    spec = importlib.util.spec_from_file_location("chrome", Path(__file__).with_name("chrome.py"))
    assert spec is not None
    assert spec.loader is not None
    chrome = importlib.util.module_from_spec(spec)
    sys.modules["chrome"] = chrome
    spec.loader.exec_module(chrome)
    with chrome.browser(chromium) as opened:
        yield opened
