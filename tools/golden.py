"""Store and compare the output that users see: python -m tools.golden write|check FOLDER [WORD ...]

`write` runs the demo, each verb on small logs and each URL of the service on a synthetic store, and writes every output
to a file of FOLDER. `check` runs them again and prints a diff of each changed file; it exits with 1 if there is one.
With words, only outputs whose name contains one of the words are made (all outputs take one minute of CPU). Before a
large change, write on main and check on the branch.

The clock is fixed: `time.time` returns one instant and timers return 0, so outputs have no measured times.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

NOW = 1_790_000_000.0
time.time = lambda: NOW
time.perf_counter = time.process_time = lambda: 0.0
os.environ |= {"TZ": "UTC", "COLUMNS": "120", "USER": "ada", "LOGNAME": "ada", "GOLDEN_KEY": "0" * 64}
time.tzset()

FIRST = "--first 500"
VERBS = {
    "synth": "synth -o OUT/memory.csv --jobs 300 --seed 1 --memory --json",
    "info": "info LOG --json",
    "info-text": "info LOG",
    "runtime": f"runtime LOG {FIRST} --predictor kernel,last_2 --by user --json",
    "runtime-text": f"runtime LOG {FIRST} --predictor kernel,last_2 --details",
    "runtime-memory": "runtime OUT/memory.csv --memory --json",
    "wait": f"wait LOG {FIRST} --predictor recent_wait,log_uniform --json",
    "wait-text": f"wait LOG {FIRST} --predictor recent_wait,log_uniform",
    "limits": f"limits LOG {FIRST} --by user --json",
    "limits-text": f"limits LOG {FIRST}",
    "limits-memory": "limits OUT/memory.csv --memory --json",
    "simulate": f"simulate POOL {FIRST} --policy easy,easy-sjbf,forecast --predictor last_2 --json",
    "simulate-text": f"simulate POOL {FIRST} --policy easy,easy-sjbf --predictor last_2 --replicates 3 --details",
    "simulate-split": f"simulate LOG {FIRST} --partitions split --policy easy --predictor last_2 --json",
    "simulate-learned": f"simulate LOG {FIRST} --machine learned --json",
    "simulate-slurm": f"simulate LOG {FIRST} --machine MACHINE --predictor last_2 --replicates 3 --json",
    "simulate-slurm-own": f"simulate LOG {FIRST} --scheduler slurm --set bf_interval=60 --json",
    "simulate-slurm-order": f"simulate LOG {FIRST} --machine MACHINE --order forecast:last_2 --json",
    "simulate-slurm-text": f"simulate LOG {FIRST} --machine MACHINE",
    "simulate-scored": f"simulate POOL {FIRST} --score-status completed",
    "evaluate": f"evaluate LOG {FIRST} --workers 1 -o OUT/evaluate --json",
    "evaluate-slurm": f"evaluate LOG {FIRST} --workers 1 --machine MACHINE --predictor last_2 -o OUT/slurm",
    "evaluate-pool": f"evaluate POOL {FIRST} --workers 1 --policy easy,easy-sjbf --predictor last_2 -o OUT/pool",
    "evaluate-split": f"evaluate LOG {FIRST} --partitions split --policy easy --predictor last_2 -o OUT/split",
    "compare": "compare OUT/evaluate OUT/slurm -o OUT/compare.html --json",
    "compare-text": "compare OUT/evaluate OUT/pool",
    "compare-starts": "compare OUT/slurm/schedules/slurm.requested.csv OUT/slurm/schedules/slurm.last_2.csv",
    "whatif": f"whatif LOG {FIRST} --machine MACHINE --vary nodes=+20% --vary limits=forecast:last_2"
              " --vary order=limit --replicates 2 --json",
    "whatif-text": f"whatif LOG {FIRST} --machine MACHINE --vary nodes=+20% --vary order=forecast:last_2",
    "machine-learn": "machine learn LOG --json",
    "machine-show": "machine show MACHINE --json",
    "sweep": "sweep run STUDY -o OUT/sweep --json",
    "sweep-report": "sweep report OUT/sweep -o OUT/sweep.html --json",
    "sweep-text": "sweep report OUT/sweep",
    "convert": "convert POOL -o OUT/pool.csv --json",
    "anonymize": "anonymize LOG -o OUT/hidden.csv --key-env GOLDEN_KEY --json",
    "site-start": "start --store STORE -u ada --json",
    "site-start-text": "start --store STORE -u ada",
    "site-walltime": "walltime --store STORE -u ada --name relax --json",
    "site-report": "report --store STORE -u ada --json",
    "site-report-text": "report --store STORE -u ada",
    "site-accuracy": "accuracy --store STORE --json",
    "site-plan": "plan --store STORE --json",
    "site-doctor": "doctor --store STORE --json",
    "demo": "demo -o OUT/demo --json",
}  # fmt: skip
URLS = (
    "/v1/start?user=ada", "/v1/test?ntasks=4&time=240", "/v1/where?ntasks=4&time=240",
    "/v1/walltime?user=ada&name=relax", "/v1/report?user=ada",
    "/v1/accuracy", "/v1/hint?user=ada&ntasks=4&time=240&name=relax", "/v1/health", "/v1/openapi.json", "/v1/none",
    "/v1/start", "/v1/walltime?risk=x", "/", "/?user=ada", "/jobs?user=ada", "/script", "/accuracy", "/cluster",
    "/operators", "/none",
)  # fmt: skip
STUDY = """predictors = ["requested", "last_2", "recent_mean"]
policies = ["easy", "easy-sjbf"]
replicates = 2
[[log]]
path = "{log}"
"""
FILES = ("*.html", "*.json", "*.csv", "schedules/*.csv")
"""Files that are stored if a verb writes a folder."""


def outputs(wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yield names and texts of every output."""
    from click.testing import CliRunner
    from tests.cluster import cluster_path

    from batchcast.cli.main import cli
    from batchcast.errors import BatchcastError
    from batchcast.trace.source import demo_path

    with tempfile.TemporaryDirectory() as work:
        out = Path(work)
        machine, study, store = out / "machine.toml", out / "study.toml", out / "store.db"
        study.write_text(STUDY.format(log=demo_path()))
        words = {"LOG": str(cluster_path()), "POOL": str(demo_path()), "MACHINE": str(machine), "OUT": work,
                 "STUDY": str(study), "STORE": str(store)}  # fmt: skip
        _write_machine(machine)
        if wanted("site-") or wanted("url"):
            _write_store(store)

        def hidden(text: str) -> str:
            for name in ("OUT", "LOG", "POOL"):
                text = text.replace(words[name], name)
            return text

        before = set(out.rglob("*"))
        for name, line in VERBS.items():
            if not wanted(name) and name != "synth":  # other verbs read its output
                continue
            said = CliRunner().invoke(cli, [_filled(word, words) for word in line.split()])
            error = said.exception
            if error and not isinstance(error, (SystemExit, BatchcastError)):
                raise error
            wrong = f"{error} {getattr(error, 'hint', '')}" if error else ""
            yield name, hidden(f"exit {said.exit_code} {wrong}\n{said.stdout}\n--- stderr\n{said.stderr}")
            made = sorted(set(out.rglob("*")) - before)
            before |= set(made)
            for path in made:
                if path.suffix in (".html", ".json", ".csv", ".swf", ".toml"):
                    yield f"{name}.{path.relative_to(out)}".replace("/", "."), hidden(path.read_text())
        if wanted("url"):
            for url, text in _answers(str(store)):
                yield "url" + re.sub(r"\W+", "_", url), hidden(text)


def _filled(word: str, words: dict[str, str]) -> str:
    """Return a word of a command with OUT, LOG and the like replaced by paths."""
    first, slash, rest = word.partition("/")
    return words.get(first, first) + slash + rest


def _write_machine(path: Path) -> None:
    from tests.cluster import cluster_machine

    from batchcast.trace.machine_files import toml_of

    path.write_text(toml_of(cluster_machine()))


def _write_store(path: Path) -> None:
    from .demo_site import build

    build(str(path), jobs=2500, seed=10, looks=True)


def _answers(store: str) -> Iterator[tuple[str, str]]:
    """Yield the service's answer to each URL: status, kind and body."""
    from batchcast.service.http import work_queue
    from batchcast.service.http.server import Server
    from batchcast.service.settings import load

    with (
        mock.patch.object(work_queue, "in_child", work_queue.in_thread),
        Server(load({"store": store}, {}), "127.0.0.1:0", lambda _: None, quiet=True) as server,
    ):
        for url in URLS:
            soon = body = "is being computed"
            while soon in body:  # the question computes the track record of the answers
                try:
                    answer = urllib.request.urlopen(server.shown + url, timeout=60)
                except urllib.error.HTTPError as error:
                    answer = error
                status, body = answer.status, answer.read().decode().replace(server.shown, "http://SERVER")
                time.sleep(0.2 * (soon in body))
            yield url, f"{status} {answer.headers.get('content-type')}\n{body}"


def _comparable(text: str) -> str:
    """Return an output without values that differ between runs: date, disk space, a sum's last digits."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|[\d.]+ [GT]B free|batchcast (write|check) .*", "...", text)
    return re.sub(r"\d+\.\d{6,}(e-?\d+)?", lambda number: f"{float(number[0]):.10g}", text)


def main(do: str, folder: str, *names: str) -> int:
    """Run the program; return the exit code."""
    place, changed = Path(folder), 0
    place.mkdir(parents=True, exist_ok=True)
    for name, text in outputs(lambda name: not names or any(word in name for word in names)):
        file = place / name
        if do == "write":
            file.write_text(text)
            continue
        old, text = (_comparable(each) for each in (file.read_text() if file.exists() else "", text))
        if old != text:
            changed += 1
            lines = difflib.unified_diff(old.splitlines(), text.splitlines(), f"{name} as kept", f"{name} now", n=0,
                                         lineterm="")  # fmt: skip
            print("\n".join(line[:600] for line in list(lines)[:40]), flush=True)
    print(f"{changed} outputs changed" if do == "check" else f"written to {folder}", file=sys.stderr)
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
