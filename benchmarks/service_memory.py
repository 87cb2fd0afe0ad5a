"""Peak memory of one report over many jobs, in a process of its own: python benchmarks/service_memory.py [JOBS]."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import text

from batchcast.store.clock_jobs import write_meta
from batchcast.store.database import Store

ASK = """
import resource, sys, time
from batchcast.service.api import reply
from batchcast.service.ask import Asker
from batchcast.service.settings import load
settings = load({"store": sys.argv[1]}, {})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
answer = reply(settings, "/v1/report?partition=main&starttime=uts0", Asker("root", sees_all=True))
used = resource.getrusage(resource.RUSAGE_SELF)
print(answer.status, round(used.ru_maxrss / 1024), round(before / 1024), round(used.ru_utime, 1))
"""


def fill(path: str, jobs: int) -> None:
    """A store of finished jobs of 50 users."""
    store, now = Store(path, create=True), time.time()
    rows = [
        {"j": str(k), "s": now - 8e6 + 20 * k, "u": f"user{k % 50}", "n": f"job{k % 400}", "a": f"group{k % 9}"}
        for k in range(jobs)
    ]
    statement = text(
        "INSERT INTO jobs (cluster, job_id, submit_time, user_id, job_name, account, partition_id, req_time, "
        "req_procs, alloc_procs, state, status, start_time, end_time, open, first_seen, told) VALUES ('c', :j, :s, :u, "
        ":n, :a, 'main', 7200, 4, 4, 'COMPLETED', 'completed', :s + 60, :s + 1260, 0, :s, 7)"
    )
    with store.begin() as connection:
        connection.execute(statement, rows)
        write_meta(connection, "c", site={"private": False, "partitions": {}}, cycle_at=now, told_until=now)
    store.close()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    with tempfile.TemporaryDirectory() as place:
        path = str(Path(place) / "s.db")
        fill(path, count)
        done = subprocess.run([sys.executable, "-c", ASK, path], capture_output=True, text=True, check=True)
        status, peak, before, seconds = done.stdout.split()
        print(f"{count} jobs: status {status}, peak {peak} MB ({before} MB before), {seconds} s of CPU")
