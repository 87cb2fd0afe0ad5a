"""The pictures that README and docs show, drawn anew in a real Chromium: python -m tools.docs_pictures.

The report's from `batchcast demo`, the pages' from the made-up site of `tools.demo_site`; 256 colours, some 60 kB each.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from PIL import Image

from batchcast.service.http.server import Server
from batchcast.service.settings import load

from .demo_site import PEOPLE, build
from .screenshots import chrome

PLACE = Path(__file__).parents[1] / "docs" / "images"
MOST = 1400
TRIES = 30
REPORT = {
    "demo-report": (["In short", "How much sooner would jobs start"], ["Simulated schedules", "Mean wait"]),
    "demo-machine": (["The machine over time"], ["Queue under EASY", "A Gantt excerpt"]),
}
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
  document.querySelectorAll('h1, nav').forEach((one) => { one.hidden = true; one.style.display = 'none'; });
  for (const one of document.querySelectorAll('.choices')) one.style.display = 'none';
  for (const section of document.querySelectorAll('section')) {
    const title = section.querySelector('h2').textContent;
    section.hidden = !of(title, sections);
    if (title === 'In short') continue;
    let shown = false;
    for (const one of [...section.children].slice(1)) {
      const head = one.matches('h3') ? one : one.querySelector(':scope > h3');
      if (head) shown = of(head.textContent, parts) && head.textContent !== 'Queue under EASY-SJBF';
      one.hidden = !shown;
    }
  }
})(SECTIONS, PARTS)"""


def keep(picture: Path, place: Path) -> None:
    """A picture in few colours, which a page of plain areas does not miss."""
    small = Image.open(io.BytesIO(picture.read_bytes())).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(place, optimize=True)
    print(f"{place.name}: {small.width} x {small.height}, {place.stat().st_size // 1000} kB")


def known(server: str, user: str) -> list[str]:
    """The waiting jobs of a user of which a start can be said."""
    try:
        with urlopen(f"{server}/v1/start?user={user}", timeout=60) as answer:
            return [one["job_id"] for one in json.load(answer)["results"] if one["likely_start_s"] is not None]
    except HTTPError:  # none waits
        return []


def drawn(tab: Any, folder: Path) -> None:
    """Every picture, by way of a folder."""
    subprocess.run([sys.executable, "-m", "batchcast", "demo", "-o", str(folder / "demo")], check=True,
                   capture_output=True)  # fmt: skip
    for name, (sections, parts) in REPORT.items():
        tab.open(folder / "demo" / "index.html", width=1145)
        tab.run(KEEP.replace("SECTIONS", repr(sections)).replace("PARTS", repr(parts)))
        tab.picture(folder / "one.png", 2 * MOST)
        keep(folder / "one.png", PLACE / f"{name}.png")
    build(str(folder / "demo.db"), looks=True)
    with Server(load({"store": str(folder / "demo.db")}, {}), "127.0.0.1:0", lambda _: None) as server:
        user = max(PEOPLE, key=lambda name: len(known(server.shown, name)))
        job = known(server.shown, user)[0]
        for name, (target, width, dark) in PAGES.items():
            target = target.replace("USER", user).replace("JOB", job)
            for _ in range(TRIES):  # until the track record that it quotes is worked out
                tab.open(f"{server.shown}/{target}", width=width, dark=dark)
                if not tab.run("document.querySelector('.note') !== null"):
                    break
                known(server.shown, user)  # who asks for a start has it worked out
                time.sleep(1)
            tab.picture(folder / "one.png", MOST)
            keep(folder / "one.png", PLACE / f"{name}.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, chrome().browser(shutil.which("chromium") or "chromium") as opened:
        drawn(opened, Path(place))
