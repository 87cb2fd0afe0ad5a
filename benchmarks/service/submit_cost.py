"""Cost of `batchcast.lua` in job_submit.lua for a submission, on a real Slurm: sbatch without the plugin, with the
service running, refused and hung, and a burst while it hangs.

    .venv/bin/python benchmarks/service/submit_cost.py [SUBMISSIONS [BURST]]

Needs what tests/slurm needs, and lua-socket. The arms take turns in rounds, because other work on the machine affects
them all. `waited` is the time that the module itself counted: all that it adds to a submission except a few table
accesses.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "slurm" / "lab"))

from follow import BATCHCAST, Follower
from slurm_lab import Lab, missing

from batchcast.errors import BatchcastError
from batchcast.store.reader import Reader

ROOT = Path(__file__).resolve().parents[2]
ARMS = ("without", "up", "refused", "hung")
ROUNDS = 2
SCRIPT = """
package.path = "{folder}/?.lua;" .. package.path
local there, batchcast = pcall(require, "batchcast")
if there then batchcast.path = "{socket}" else slurm.log_error("%s", batchcast) end
function slurm_job_submit(job, partitions, uid)
   local hint = there and batchcast.ask(job)
   if there then
      slurm.log_info("hint calls=%d failures=%d waited=%.4f hint=%s why=%s", batchcast.calls, batchcast.failures,
                     batchcast.waited, tostring(hint and (hint.limit or hint.likely_start)), batchcast.last_failure)
   end
   return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
"""


def submit(lab: Lab) -> float:
    """Return the seconds that one sbatch takes; raises if it fails."""
    began = time.perf_counter()
    lab.run("sbatch", "-H", "-t", "20", "-n1", "-J", "relax", "-o", "/dev/null", "--chdir=/tmp", "--wrap", "true")
    return time.perf_counter() - began


@contextlib.contextmanager
def service(arm: str, lab: Lab, follower: Follower, place: Path) -> Iterator[None]:
    """Run the service as this arm needs it, at `place`."""
    place.unlink(missing_ok=True)
    if arm == "up":
        with (lab.root / "log" / "serve.log").open("ab") as log:
            env = {**follower.env, "BATCHCAST_LISTEN": str(place)}
            process = subprocess.Popen([*BATCHCAST, "serve"], env=env, stdout=log, stderr=log)
        try:
            lab.wait(lambda: place.exists(), "a service", 120)
            ask = [
                "curl",
                "-sS",
                "--unix-socket",
                str(place),
                "http://localhost/v1/hint?user=root&name=relax&partition=main",
            ]
            lab.wait(lambda: b"likely_start_s" in subprocess.run(ask, capture_output=True).stdout, "a hint", 60)
            yield
        finally:
            process.terminate()
            process.wait(30)
    elif arm == "hung":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))
            listening.listen(4096)
            yield
    else:
        yield


def restart(lab: Lab, arm: str, place: Path) -> None:
    """Run slurmctld with or without the plugin, whose module has no recorded failure."""
    lab.stop("slurmctld")
    lab.conf["JobSubmitPlugins"] = "" if arm == "without" else "lua"
    if arm == "without":
        del lab.conf["JobSubmitPlugins"]
    (lab.root / "etc" / "job_submit.lua").write_text(SCRIPT.format(folder=lab.root / "etc", socket=place))
    lab._write_configuration()
    lab.start_slurmctld()


def teach(lab: Lab, follower: Follower) -> None:
    """Submit a few jobs before the first cycle and some after it, until a wait has been predicted from them."""

    def told() -> bool:
        lab.run("sbatch", "-t", "20", "-n1", "-J", "relax", "-o", "/dev/null", "--chdir=/tmp", "--wrap", "sleep 1")
        time.sleep(3)
        text = "SELECT count(*) AS n FROM forecasts WHERE kind = 'wait' AND grounds <> 'no_history'"
        return bool(Reader(follower.store).rows(text)[0]["n"])

    def tried() -> bool:
        with contextlib.suppress(BatchcastError):
            return told()
        return False

    lab.wait(tried, "a forecast", 240)


def counted(lab: Lab) -> str:
    lines = [line for line in lab.tail("slurmctld", 200_000).splitlines() if "hint calls=" in line]
    return lines[-1].partition("hint ")[2] if lines else "nothing was asked"


def main(submissions: int, burst: int) -> None:
    if reason := missing():
        sys.exit(reason)
    with Lab(nodes=2, cpus=4) as lab:
        shutil.copy(ROOT / "src/batchcast/service/units/batchcast.lua", lab.root / "etc")
        follower = Follower(
            lab, str(lab.root / "s.db"), interval=2, WAIT="recent_wait:need=1", RUNTIME="recent_mean,last_2"
        )
        follower.start()
        teach(lab, follower)
        place = lab.root / "run" / "api.sock"
        spans: dict[str, list[float]] = {arm: [] for arm in ARMS}
        said = dict.fromkeys(ARMS, "")
        for _ in range(ROUNDS):
            for arm in ARMS:
                restart(lab, arm, place)
                with service(arm, lab, follower, place):
                    submit(lab)
                    spans[arm] += [submit(lab) for _ in range(submissions // ROUNDS)]
                    said[arm] = "" if arm == "without" else counted(lab)
                lab.run("scancel", "--user=root", check=False)
        print(f"{'arm':10} {'mean ms':>8} {'median':>8} {'p99':>8}  counted by the module in the last round")
        for arm in ARMS:
            ms = 1000 * np.array(spans[arm])
            print(f"{arm:10} {ms.mean():8.1f} {np.median(ms):8.1f} {np.quantile(ms, 0.99):8.1f}  {said[arm]}")
        restart(lab, "hung", place)
        with service("hung", lab, follower, place):
            began = time.perf_counter()
            for _ in range(burst):
                submit(lab)
            print(f"burst of {burst}, hung: {time.perf_counter() - began:.1f} s in all; {counted(lab)}")
        follower.kill()


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(200, 2000)[len(given) :])
