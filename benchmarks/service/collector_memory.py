"""Memory and time of a collector's start over a long history: python benchmarks/service/collector_memory.py [JOBS]

Jobs are spread evenly over 400 days; each line is a separate process that reads this many last days again.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOW, DAYS = 1_790_000_000.0, 400.0


def fill(path: str, count: int) -> None:
    """A store of finished jobs of 300 users, all of which the clock has passed on."""
    from sqlalchemy import insert

    from batchcast.store.clock_jobs import write_meta
    from batchcast.store.database import Store
    from batchcast.store.schema import jobs

    def row(k: int) -> dict[str, object]:
        submit = NOW - DAYS * 86400 * (1 - k / count)
        start, end = submit + 60 + k % 900, submit + 360 + k % 900 + k % 4000
        names = {"user_id": f"u{k % 300}", "account": f"a{k % 40}", "job_name": f"n{k % 2000}", "group_id": "g"}
        asked = {**names, "partition_id": "main", "qos": "normal", "work_dir": f"/home/u{k % 300}/w{k % 5000}"}
        amounts = {"req_procs": 1.0 + k % 64, "alloc_procs": 1.0 + k % 64, "req_time": 7200.0, "req_mem_kib": 4e6}
        life = {"start_time": start, "end_time": end, "status": "completed", "state": "completed", "open": 0, "told": 7}
        heard = {"told_start": start, "told_end": end, "told_status": "completed", "first_seen": submit}
        key = {"cluster": "c", "job_id": str(k), "submit_time": submit, "restarts": 0}
        return {**key, **asked, **amounts, **life, **heard}

    store = Store(path, create=True)
    with store.begin() as connection:
        for begin in range(0, count, 20_000):
            connection.execute(insert(jobs), [row(k) for k in range(begin, min(count, begin + 20_000))])
        write_meta(connection, "c", total_procs=10_000.0, told_until=NOW, live_since=NOW)


def hear(path: str, days: float) -> None:
    """One start."""
    from batchcast.service.answers.model_store import make_predictors
    from batchcast.service.collector.clock import StoredClock
    from batchcast.store.database import Store

    before = time.process_time()
    clock = StoredClock("c", lambda: make_predictors("recent_mean", "recent_wait"))
    with Store(path).begin() as connection:
        clock.rebuild(connection, NOW - days * 86400)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{days:4g} days heard: {peak:5.0f} MB peak, {time.process_time() - before:5.1f} s CPU", flush=True)


def main() -> None:
    """Print the table, each line measured in a separate process."""
    if len(sys.argv) == 4:
        hear(sys.argv[2], float(sys.argv[3]))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    with tempfile.TemporaryDirectory() as place:
        path = str(Path(place) / "store.db")
        fill(path, count)
        print(f"{count} jobs in {DAYS:g} days, recent_mean and recent_wait")
        for days in (30, 90, DAYS):
            subprocess.run([sys.executable, __file__, "hear", path, str(days)], check=True)


if __name__ == "__main__":
    main()
