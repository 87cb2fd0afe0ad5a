"""Draw the pages in a real Chromium at both sizes and themes: python -m tools.screenshots STORE FOLDER [PAGE]."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

from batchcast.service.http.server import Server
from batchcast.service.settings import load

PAGES = {
    "jobs": "?user=carl",
    "script": "script?user=carl",
    "accuracy": "accuracy",
    "cluster": "cluster",
    "operators": "operators",
}
MOST = 1600
SIZES = {"wide": 1280, "narrow": 390}


def chrome() -> Any:
    """Import the module of the browser tests that controls Chromium."""
    place = Path(__file__).parents[1] / "tests" / "browser" / "chrome.py"
    spec = importlib.util.spec_from_file_location("chrome", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["chrome"] = module
    spec.loader.exec_module(module)
    return module


def pictures(
    store: str, folder: Path, pages: list[str], language: str = "en", themes: tuple[bool, ...] = (False, True)
) -> None:
    """Write one PNG for each page, size and theme."""
    chromium = shutil.which("chromium") or "chromium"
    folder.mkdir(parents=True, exist_ok=True)
    with Server(load({"store": store}, {}), "127.0.0.1:0", print) as server, chrome().browser(chromium) as tab:
        for name in pages or PAGES:
            for size, width in SIZES.items():
                for dark in themes:
                    mark = "&" if "?" in PAGES[name] else "?"
                    visit = tab.open(f"{server.shown}/{PAGES[name]}{mark}lang={language}", width=width, dark=dark)
                    tab.picture(folder / f"{name}-{size}-{'dark' if dark else 'light'}.png", MOST)
                    for complaint in visit.complaints:
                        print(name, complaint, file=sys.stderr)


if __name__ == "__main__":
    pictures(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
