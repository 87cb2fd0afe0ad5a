"""Peak memory of `batchcast serve`, question by question, over many jobs: benchmarks/service/memory.py [JOBS or STORE]

The service runs as a child on a unix socket, as its unit starts it. Its peak is read with every answer, including the
process that computes the answer. `flood.py` measures how long others wait meanwhile.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY_MAX_MB = 512
"""The memory limit in batchcast-serve.service."""
QUESTIONS = (
    "/v1/report?user=user7&starttime=uts0",
    "/v1/report?partition=main&starttime=uts0",
    "/v1/report?account=group3&starttime=uts0",
    "/v1/accuracy?starttime=uts0",
    "/v1/walltime?name=*&user=user7",
    "/v1/test?partition=main&ntasks=4&time=1:00:00",
    "/v1/health",
    "/cluster",
    "/accuracy",
    "/operators",
    "/metrics",
)


def fill(path: str, jobs: int) -> None:
    """A store of this many finished jobs of 50 users in 90 days, each with two predictions, and one waiting job."""
    from sqlalchemy import insert

    from batchcast.store import schema
    from batchcast.store.clock_jobs import write_meta
    from batchcast.store.database import Store

    store, now = Store(path, create=True), time.time()
    apart = 90 * 86400 / jobs

    def job(k: int) -> dict[str, object]:
        submit = now - 90 * 86400 + apart * k
        start, end = submit + 60 + k % 900, submit + 60 + k % 900 + 300 + k % 4000
        asked = {"user_id": f"user{k % 50}", "account": f"group{k % 9}", "job_name": f"job{k % 400}"}
        asked |= {"partition_id": "main", "req_time": 7200.0, "req_procs": 4.0}
        life = {"start_time": start, "end_time": end, "open": 0, "told": 7}
        life |= {"state": "completed", "status": "completed"}
        heard = {"told_start": start, "told_end": end, "told_status": "completed", "first_seen": submit}
        key = {"row": k + 1, "cluster": "c", "job_id": str(k), "submit_time": submit, "restarts": 0}
        return {**key, **asked, **life, **heard, "alloc_procs": 4.0}

    def said(k: int, kind: str, method: str) -> dict[str, object]:
        at = now - 90 * 86400 + apart * k
        words = {"levels": "[0.5, 0.9]", "quantiles_s": "[500.0, 5000.0]", "basis": "b", "grounds": "class"}
        return {"row": k + 1, "kind": kind, "moment": "submit", "method": method, "as_of": at, "issued_at": at,
                "point_s": 500.0, **words}  # fmt: skip

    methods = (("wait", "recent_wait"), ("runtime", "recent_mean"))
    with store.begin() as connection:
        for begin in range(0, jobs, 20_000):
            some = range(begin, min(begin + 20_000, jobs))
            connection.execute(insert(schema.jobs), [job(k) for k in some])
            connection.execute(insert(schema.forecasts), [said(k, *which) for k in some for which in methods])
        waits = {"row": jobs + 1, "open": 1, "told": 1, "start_time": None, "end_time": None, "status": None}
        waits |= {"state": "pending", "reason": "Resources", "told_start": None, "told_end": None, "told_status": None}
        connection.execute(insert(schema.jobs), [{**job(jobs - 1), "job_id": "99999999", "user_id": "alice", **waits}])
        connection.execute(insert(schema.forecasts), [said(jobs, "wait", "recent_wait")])
        partitions = {"main": {"is_default": True}}
        write_meta(connection, "c", site={"private": False, "partitions": partitions}, cycle_at=now, told_until=now,
                   wait_methods=["recent_wait"], runtime_methods=["recent_mean"], total_procs=1000.0)  # fmt: skip
    store.close()


def ask(place: str, target: str) -> tuple[int, float]:
    """Return the status and the duration of an answer."""
    connection = http.client.HTTPConnection("localhost", timeout=600)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(place)
    begun = time.perf_counter()
    connection.request("GET", target)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, time.perf_counter() - begun


def held_mb(pid: int) -> float:
    """Return the memory that a process and its children use now."""
    pids = [pid, *(int(c) for task in Path(f"/proc/{pid}/task").glob("*/children") for c in task.read_text().split())]
    total = 0
    for one in pids:
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return total / 1024


@contextmanager
def serving(store: str, place: str) -> Iterator[int]:
    """Run `batchcast serve` on a unix socket during the block; yields its process id once it answers."""
    words = [sys.executable, "-m", "batchcast", "serve", "--quiet", "--store", store, "--listen", place]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            said = []
            for line in child.stderr:  # a warning may come before the line with the service's address
                said.append(line)
                if "answering from" in line:
                    break
            else:
                sys.exit(f"batchcast serve ended before it answered:\n{''.join(said)}")
            yield child.pid
        finally:
            child.terminate()


class Peak:
    """Measure the peak memory of a process and its children during the block, sampled every 20 ms."""

    def __init__(self, pid: int) -> None:
        self.pid, self.mb, self._over = pid, 0.0, threading.Event()
        self._looking = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self.mb = max(self.mb, held_mb(self.pid))

    def __enter__(self) -> Peak:
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._looking.join()


def main() -> None:
    """Print the table; exit with 1 if the service needed more than its unit allows."""
    given = sys.argv[1] if len(sys.argv) > 1 else "400000"
    count = int(given) if given.isdigit() else 0
    with tempfile.TemporaryDirectory() as folder:
        path, place = str(Path(folder) / "s.db"), str(Path(folder) / "api.sock")
        if given.isdigit():
            fill(path, count)
        else:
            path = given
        with serving(path, place) as pid:
            worst = questions(pid, place, count)
        print(json.dumps({"jobs": count, "worst_mb": round(worst), "allowed_mb": MEMORY_MAX_MB}))
        sys.exit(worst > MEMORY_MAX_MB)


def questions(pid: int, place: str, count: int) -> float:
    """Ask the questions one after the other; return the highest peak."""
    print(f"{count} jobs, {2 * count} forecasts; the service itself: {held_mb(pid):.0f} MB")
    worst = 0.0
    for target in QUESTIONS:
        with Peak(pid) as peak:
            status, took = ask(place, target)
        worst = max(worst, peak.mb)
        print(f"{status} {target}: {peak.mb:.0f} MB, {took:.1f} s; then {held_mb(pid):.0f} MB", flush=True)
    return worst


if __name__ == "__main__":
    main()
