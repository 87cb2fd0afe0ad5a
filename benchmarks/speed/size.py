"""Cost by size: 10^5 to 10^7 synthetic jobs at 80 % load, read and simulated with EASY and last_2 in the loop."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = (100_000, 1_000_000, 10_000_000)
PROCS, LOAD, SEED = 1024, 0.8, 1

_MEASURE = """
import json, resource, sys
from batchcast.simulation import Policy, simulate
from batchcast.trace import read_trace
from batchcast.trace.source import demo_path
cpu = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
simulate(read_trace(demo_path()), Policy(), "last_2")
begun = cpu()
trace = read_trace(sys.argv[1])
read = cpu()
schedule = simulate(trace, Policy(), "last_2")
done = cpu()
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))  # not the parent's
print(json.dumps([len(trace), read - begun, done - read, peak, float(schedule.wait_time.mean())]))
"""


def run() -> None:
    """Print each size, measured in a separate process: CPU time and peak memory (RSS), with kernels loaded
    beforehand."""
    print("        jobs  write, s   read, s  simulate, s  us per job  peak, GiB   wait, s")
    per_job = []
    with tempfile.TemporaryDirectory(prefix="batchcast-size-") as folder:
        for jobs in SIZES:
            path = Path(folder) / "log.swf"
            written = _write(path, jobs)
            done = subprocess.run(
                [sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True
            )
            count, read, simulated, peak_kib, wait = json.loads(done.stdout.splitlines()[-1])
            path.unlink()
            per_job.append((read + simulated) / count * 1e6)
            print(
                f"{count:12,}{written:10.1f}{read:10.2f}{simulated:13.2f}{per_job[-1]:12.2f}{peak_kib / 2**20:11.2f}"
                f"{wait:10,.0f}",
                flush=True,
            )
    print(f"time per job, most to least: {max(per_job) / min(per_job):.2f}")


def _write(path: Path, jobs: int) -> float:
    """Generate and write a log in a separate process; return CPU seconds."""
    code = (
        "import resource, sys; from batchcast.trace import write_trace; import numpy as np\n"
        "from batchcast.trace.synth import Recipe, make_log\n"
        f"recipe = Recipe(jobs={jobs}, procs={PROCS}, load={LOAD}, kinds='apart', waits='none')\n"
        f"write_trace(make_log(np.random.default_rng({SEED}), recipe), sys.argv[1])\n"
        "print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return float(done.stdout)
