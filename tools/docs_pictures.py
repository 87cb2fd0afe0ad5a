"""Draw the pictures of README and docs in a real Chromium: `make pictures`.

The pictures of the report come from `batchcast demo`, and the pictures of pages from the synthetic site of
`tools.demo_site`. Each has 256 colours and about 60 kB. `docs/images/shown.json` has the content of each picture in
words: the demo's mean waits, or the labels of a page. `tests/docs/test_pictures.py` finds an outdated picture: the demo
has other waits, or a label is no longer used.
"""

from __future__ import annotations

import html.parser
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from PIL import Image

from batchcast.service.http.server import Server
from batchcast.service.settings import load
from batchcast.store.clock_jobs import write_meta
from batchcast.store.database import Store

from .catalogue import wanted
from .demo_site import PEOPLE, build
from .screenshots import chrome

PLACE = Path(__file__).parents[1] / "docs" / "images"
MOST = 1400
TRIES = 30
REPORT = {
    "demo-report": (["In short", "How much sooner would jobs start"], ["Simulated schedules"]),
    "demo-machine": (["The machine"], ["Queue under Slurm", "A Gantt excerpt"]),
}
"""Sections of the demo's page, and their parts that remain in the picture."""
PAGES = {
    "page-accuracy": ("accuracy?lang=en", 1280, False),
    "page-jobs": ("?user=USER", 1280, False),
    "page-jobs-narrow-dark": ("?user=USER", 390, True),
    "page-script": ("script?job=JOB&lang=en", 1280, False),
    "page-script-narrow": ("script?job=JOB&lang=en", 390, False),
    "page-cluster": ("cluster?lang=en", 1280, False),
    "page-operators": ("operators?lang=en", 1280, False),
}
KEEP = """((sections, parts) => {
  const of = (text, names) => names.some((name) => text.startsWith(name));
  const show = (one, shown) => { one.hidden = !shown; if (!shown) one.style.display = 'none'; };
  document.querySelectorAll('h1, nav, .choices').forEach((one) => show(one, false));
  for (const section of document.querySelectorAll('section')) {
    const title = section.querySelector('h2').textContent;
    show(section, of(title, sections));
    if (title === 'In short') continue;
    const inside = (one) => one.matches('details.fold') ? [...one.children] : [one];
    let shown = false;
    for (const one of [...section.children].slice(1).flatMap(inside)) {
      const head = one.matches('h3') ? one : one.querySelector(':scope > h3');
      if (head) shown = of(head.textContent, parts);
      show(one, shown);
    }
  }
})(SECTIONS, PARTS)"""


LABELS = ("h1", "h2", "h3", "th", "label", "button", "summary", "legend")


class Labels(html.parser.HTMLParser):
    """Collects headings, column titles and buttons of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if not self.inside and tag in LABELS:
            self.inside = tag
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self.inside:
            self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.found[-1] += data


def texts() -> set[str]:
    """Return every text of the pages that does not come from data: the sources of the German catalogue."""
    return {str(message.id) for message in wanted() if isinstance(message.id, str)}


def labels(page: str) -> list[str]:
    """Return the labels of a page that are texts of the pages, each once, in order of first use."""
    reader = Labels()
    reader.feed(page)
    found, known = (" ".join(text.split()) for text in reader.found), texts()
    return list(dict.fromkeys(text for text in found if text in known))


def demo_figures(report: Path) -> list[str]:
    """Return the demo's figures in its pictures: the mean wait of each schedule, in minutes."""
    rows = json.loads((report / "result.json").read_text(encoding="utf-8"))["results"]
    return [
        f"{row['policy']}, {row['predictor']}: {row['mean_wait_s'] / 60:.1f} min"
        for row in rows
        if row["part"] == "schedule"
    ]


def demo(folder: Path) -> Path:
    """Make the demo's report in a folder."""
    subprocess.run([sys.executable, "-m", "batchcast", "demo", "-o", str(folder / "demo")], check=True,
                   capture_output=True)  # fmt: skip
    return folder / "demo"


def targets(server: str) -> dict[str, str]:
    """Return the address of each page, for the user with the most jobs whose start is known."""
    user = max(PEOPLE, key=lambda name: len(known(server, name)))
    job = known(server, user)[0]
    return {
        name: f"{server}/{target.replace('USER', user).replace('JOB', job)}" for name, (target, _, _) in PAGES.items()
    }


def refreshed(store: str) -> None:
    """Let the synthetic collector run now, because pages warn of a collector that has not run for minutes."""
    with Store(store).begin() as connection:
        now = time.time()
        write_meta(connection, "demo", cycle_at=now, snapshot_at=now, told_until=now)


def page_labels(server: str, address: str) -> list[str]:
    """Return the labels of a served page, after its track record is computed."""
    for _ in range(TRIES):
        with urlopen(address, timeout=300) as answer:
            page = answer.read().decode()
        if "being worked out" not in page:
            return labels(page)
        known(server, PEOPLE[0])  # a question about a start computes the track record
        time.sleep(1)
    raise SystemExit(f"{address}: the track record is not worked out after {TRIES} tries")


def keep(picture: Path, place: Path) -> None:
    """Save a picture with few colours, which is enough for plain areas."""
    small = Image.open(io.BytesIO(picture.read_bytes())).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(place, optimize=True)
    print(f"{place.name}: {small.width} x {small.height}, {place.stat().st_size // 1000} kB")


def known(server: str, user: str) -> list[str]:
    """Return the waiting jobs of a user whose start is known."""
    try:
        with urlopen(f"{server}/v1/start?user={user}", timeout=300) as answer:
            return [one["job_id"] for one in json.load(answer)["results"] if one["likely_start_s"] is not None]
    except HTTPError:  # no job waits
        return []


def drawn(tab: Any, folder: Path) -> dict[str, list[str]]:
    """Draw every picture in a folder; return the content of each."""
    shows = {}
    report = demo(folder)
    for name, (sections, parts) in REPORT.items():
        tab.open(report / "index.html", width=1145)
        tab.run(KEEP.replace("SECTIONS", repr(sections)).replace("PARTS", repr(parts)))
        if not tab.run("[...document.querySelectorAll('section:not([hidden]) figure')].some(f => f.offsetHeight > 0)"):
            sys.exit(
                f"{name}: the page of `batchcast demo` has no chart in {sections}, {parts}: see REPORT in {__file__}"
            )
        tab.picture(folder / "one.png", 2 * MOST)
        keep(folder / "one.png", PLACE / f"{name}.png")
        shows[name] = demo_figures(report)
    store = str(folder / "demo.db")
    build(store, looks=True)
    refreshed(store)
    with Server(load({"store": store}, {}), "127.0.0.1:0", lambda _: None) as server:
        for name, address in targets(server.shown).items():
            refreshed(store)
            shows[name] = page_labels(server.shown, address)
            _, width, dark = PAGES[name]
            tab.open(address, width=width, dark=dark)
            tab.picture(folder / "one.png", MOST)
            keep(folder / "one.png", PLACE / f"{name}.png")
    return shows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, chrome().browser(shutil.which("chromium") or "chromium") as opened:
        found = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "shows": drawn(opened, Path(place))}
    (PLACE / "shown.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
