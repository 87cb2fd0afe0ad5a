"""How long others wait for `start` while one user attacks: benchmarks/service/flood.py [JOBS or STORE] [SECONDS]

Bob, a separate process and a different unix user if this runs as root, does three things at once: 20 reports over the
whole history, each requested again when it is answered; 16 requests sent byte by byte; 500 idle connections, opened
again whenever they are closed or rejected. Alice asks `start` on a new connection each time. Printed: percentiles of
Alice's waits, the longest, and the peak memory of the service and its children together. Exits with 1 if an answer took
a second or more.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from memory import MEMORY_MAX_MB, ask, fill, held_mb, serving

REPORTS, SLOW, IDLE = 20, 16, 500
BOUND_S = 1.0
REPORT = b"GET /v1/report?partition=main&starttime=uts0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
NOBODY = 65534


def bob(place: str) -> None:
    """Run all three attacks until killed; print a line for every hundred answers or rejections."""
    came: list[bytes] = []

    def opened() -> socket.socket:
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(300)
        one.connect(place)
        return one

    def again(what: str) -> None:
        while True:
            try:
                with opened() as one:
                    if what == "report":
                        one.sendall(REPORT)
                    for byte in REPORT if what == "slow" else b"":
                        one.sendall(bytes([byte]))
                        time.sleep(0.2)
                    head = one.recv(65536)
                    came.append(head.split(b" ", 2)[1] if head else b"closed")
                    while one.recv(65536):
                        pass
            except OSError:
                came.append(b"closed")
            time.sleep(0.05)

    for what, count in (("report", REPORTS), ("slow", SLOW), ("idle", IDLE)):
        for _ in range(count):
            threading.Thread(target=again, args=(what,), daemon=True).start()
        time.sleep(1.0)  # so that the reports get their connections before the idle connections take all others
    while True:
        time.sleep(1.0)
        counts = {one.decode("latin-1"): came.count(one) for one in set(came)}
        print(json.dumps(counts), flush=True)


def measure(place: str, pid: int, seconds: float) -> tuple[list[float], float]:
    """Return Alice's waits, and the peak memory."""
    took, most, end = [], 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        status, wait = ask(place, "/v1/start?job=99999999")
        assert status == 200, status
        took.append(wait)
        most = max(most, held_mb(pid))
        time.sleep(0.05)
    return sorted(took), most


def main() -> None:
    """The table."""
    if sys.argv[1:2] == ["bob"]:
        bob(sys.argv[2])
        return
    given = sys.argv[1] if len(sys.argv) > 1 else "400000"
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 120.0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path, place = given, str(Path(folder) / "api.sock")
        if given.isdigit():
            fill(path := str(Path(folder) / "s.db"), int(given))
        drop = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        with serving(path, place) as pid:
            calm, _ = measure(place, pid, min(10.0, seconds))
            with subprocess.Popen([*drop, sys.executable, __file__, "bob", place], stdout=subprocess.PIPE) as worst:
                assert worst.stdout is not None
                worst.stdout.readline()
                try:
                    took, most = measure(place, pid, seconds)
                finally:
                    worst.kill()
                    lines = worst.stdout.read().decode().splitlines()
    for name, waits in (("calm", calm), ("under attack", took)):
        print(f"{name}: {len(waits)} questions, half within {waits[len(waits) // 2]:.3f} s, 99 % within "
              f"{waits[int(0.99 * len(waits))]:.3f} s, the slowest {waits[-1]:.3f} s")  # fmt: skip
    print(f"service and its children: at most {most:.0f} MB (allowed: {MEMORY_MAX_MB}); load {os.getloadavg()[0]:.1f} "
          f"on {os.cpu_count()} cores; bob was answered {lines[-1] if lines else '{}'}")  # fmt: skip
    sys.exit(took[-1] >= BOUND_S or most > MEMORY_MAX_MB)


if __name__ == "__main__":
    main()
