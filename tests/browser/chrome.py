"""A real Chromium, controlled through its DevTools protocol: opens pages, records what they do, and takes pictures."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
)
INKED = """[...document.querySelectorAll('figure:not([hidden]) .plot')].filter(({chart}) => {
    const ink = chart.theme.colours[chart.shown[0].meta.slot % chart.theme.colours.length];
    const wanted = [1, 3, 5].map(k => parseInt(ink.slice(k, k + 2), 16)), {left, top, width, height} = chart.plot.bbox;
    const {data} = chart.plot.ctx.getImageData(left, top, width, height);
    for (let k = 0; k < data.length; k += 4)
        if (data[k + 3] > 100 && wanted.every((v, c) => Math.abs(data[k + c] - v) < 12)) return true;
    return false; }).length"""
AXE = (
    "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}).then(r => r.violations.map("
    "v => [v.id, v.nodes.map(n => n.html.slice(0, 200) + ' ' + n.failureSummary)]))"
)
LOCAL = ("file:", "data:", "blob:", "about:")


@dataclass
class Visit:
    """Records what a page did while it was open: console messages, errors and requests."""

    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    loaded: bool = False


class Tab:
    """A browser tab; `call` sends a DevTools command and handles the events that arrive meanwhile."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.sent = 0
        self.visit = Visit()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a DevTools command; RuntimeError if the browser rejects the command."""
        self.sent += 1
        self.socket.send(json.dumps({"id": self.sent, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.sent:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self._note(message)

    def open(
        self, path: Path | str, *, width: int, height: int = 900, dark: bool = False, unfold: bool = True
    ) -> Visit:
        """Load a file or an address at a given window size and color scheme; returns after the first drawn frame.

        `unfold` opens all folded sections, so that their figures are drawn.
        """
        self.visit = Visit()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        while not self.visit.loaded:
            self._note(json.loads(self.socket.recv()))
        self.run("window.drawn || 1")
        if unfold:
            self.run("document.querySelectorAll('details.fold').forEach(d => { d.open = true; })")
            self.run("new Promise(done => setTimeout(done))")
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return self.visit

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def inked(self) -> int:
        """Return how many plots contain pixels in the color of their first series."""
        return int(self.run(INKED))

    def violations(self) -> list[Any]:
        """Return the problems that axe-core reports on the page: the rule, and each element with its fault."""
        import axe_core_python

        self.run(Path(axe_core_python.__file__).with_name("axe.min.js").read_text())
        found: list[Any] = self.run(AXE)
        return found

    def picture(self, path: Path, most: int = 20_000) -> None:
        """Save a PNG of the whole page, or of its first `most` pixel rows."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _note(self, message: dict[str, Any]) -> None:
        kind, given = message.get("method"), message.get("params", {})
        if kind == "Page.loadEventFired":
            self.visit.loaded = True
        elif kind == "Runtime.exceptionThrown":
            self.visit.complaints.append(json.dumps(given["exceptionDetails"])[:500])
        elif kind == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.visit.complaints.append(json.dumps(given["args"])[:500])
        elif kind == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.visit.complaints.append(given["entry"]["text"])
        elif kind == "Network.requestWillBeSent" and not given["request"]["url"].startswith(LOCAL):
            self.visit.outside.append(given["request"]["url"])


@contextmanager
def browser(chromium: str) -> Iterator[Tab]:
    """Starts a headless Chromium with a new profile, and stops it at the end of the `with` block."""
    import websocket

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [chromium, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            port = next(line for line in process.stderr if "DevTools listening on" in line).split(":")[-1].split("/")[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
                target = next(t for t in json.load(answer) if t["type"] == "page")
            socket = websocket.create_connection(target["webSocketDebuggerUrl"], timeout=60, suppress_origin=True)
            try:
                yield Tab(socket)
            finally:
                socket.close()
        finally:
            process.terminate()
            process.wait(timeout=30)
            assert process.stderr is not None
            process.stderr.close()
