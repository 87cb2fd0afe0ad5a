"""Logs larger than memory: SWF converted as a stream to a folder by month, then simulated and predicted month by month.

10^5 and 10^6 jobs, or FOLDER_JOBS=10000000; FOLDER_VERBS=convert,simulate chooses what is run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = [int(float(size)) for size in os.environ.get("FOLDER_JOBS", "1e5,1e6").split(",")]
PROCS, LOAD, SEED = 1024, 0.8, 1
MAKE = f"""
import sys
from batchcast.formats.swf import write_chunks
from batchcast.trace.synth import Recipe, make_blocks
first = True
recipe = Recipe(jobs=int(sys.argv[1]), procs={PROCS}, load={LOAD}, kinds="apart", longest=600.0)
for block in make_blocks({SEED}, recipe):
    chunks = write_chunks(block)
    header = next(chunks)
    if first:
        sys.stdout.write("".join(f"{{line}}\\n" for line in header.splitlines() if "MaxRecords" not in line))
    first = False
    for chunk in chunks:
        sys.stdout.write(chunk)
"""
RUN = """
import json, resource, sys
from batchcast.cli.main import cli
cli.main(sys.argv[1:], standalone_mode=False)
cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([cpu, peak]), file=sys.stderr)
"""
VERBS = {
    "convert": ("convert", "-", "-o", "{log}/"),
    "simulate": ("simulate", "{log}", "--predictor", "last_2", "--in-periods", "{log}-simulate"),
    "runtime": ("runtime", "{log}", "--predictor", "last_2,recent_mean", "--in-periods", "{log}-runtime"),
    "wait": ("wait", "{log}", "--predictor", "recent_wait", "--in-periods", "{log}-wait"),
}


def run() -> None:
    """Print, for each size and verb in a separate process: CPU seconds, peak memory (RSS), the folder's size."""
    chosen = os.environ.get("FOLDER_VERBS", ",".join(VERBS)).split(",")
    print(f"load {os.getloadavg()[0]:.1f} before")
    print("        jobs  verb      CPU, s  us a job  peak, MiB  written, MiB")
    for jobs in SIZES:
        with tempfile.TemporaryDirectory(prefix="batchcast-folder-") as folder:
            log = Path(folder) / "log"
            for verb in chosen:
                words = [word.format(log=log) for word in VERBS[verb]]
                cpu, peak = _convert(words, jobs) if verb == "convert" else _measured(words)
                written = log if verb == "convert" else Path(f"{log}-{verb}")
                size = sum(path.stat().st_size for path in written.rglob("*") if path.is_file())
                print(
                    f"{jobs:12,}  {verb:8}{cpu:8.1f}{cpu / jobs * 1e6:10.2f}{peak / 1024:11,.0f}{size / 2**20:14,.0f}",
                    flush=True,
                )


def _convert(words: list[str], jobs: int) -> list[float]:
    """Measure a conversion whose log another process generates into a pipe, so that no process has the whole text in
    memory."""
    with subprocess.Popen([sys.executable, "-c", MAKE, str(jobs)], stdout=subprocess.PIPE) as maker:
        try:
            measured = _measured(words, maker.stdout)
        finally:  # the reason why the log is truncated matters more than its reader's message
            if code := maker.wait():
                why = signal.Signals(-code).name if code < 0 else f"exit {code}"
                raise SystemExit(f"the log could not be made: {why}")
    return measured


def _measured(words: list[str], stdin: object = None) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words],
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: list[float] = json.loads(done.stderr.splitlines()[-1])
    return found
