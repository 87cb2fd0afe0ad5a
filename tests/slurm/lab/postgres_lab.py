"""A real PostgreSQL in a temporary directory, on a unix socket, run by an ordinary user and stopped by its pid."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

PLACES = ":".join(str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
USER = "postgres"


def missing() -> str:
    """Return why PostgreSQL cannot run here; an empty string if it can."""
    if shutil.which("initdb", path=f"{PLACES}:{os.environ.get('PATH', '')}") is None:
        return "no PostgreSQL server on this machine (tests/slurm/install.sh installs it)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"PostgreSQL does not run as root and there is no user {USER}"
    return ""


class Postgres:
    """Usage: `with Postgres() as server: url = server.fresh_database()`."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="bcpg-"))
        self.owner = USER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.databases = 0
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Postgres:
        if os.geteuid() == 0:
            shutil.chown(self.root, self.owner)
        data = self.root / "data"
        self._run("initdb", "-D", str(data), "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
        command = ("postgres", "-D", str(data), "-k", str(self.root), "-c", "listen_addresses=", "-c", "fsync=off")
        with (self.root / "log").open("wb") as log:
            self.process = subprocess.Popen(self._as_owner(*command), env=self._env(), stdout=log, stderr=log)
        end = time.monotonic() + 60
        while subprocess.run(
            self._as_owner("pg_isready", "-h", str(self.root)), env=self._env(), capture_output=True
        ).returncode:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start: {(self.root / 'log').read_text()[-500:]}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGQUIT)  # stop at once: the data is not needed again
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            if self.process.poll() is None:
                self.process.kill()
        # deleting hundreds of databases takes ten seconds
        subprocess.Popen(["rm", "-rf", str(self.root)], start_new_session=True)

    def fresh_database(self) -> str:
        """Return the URL of a new, empty database."""
        self.databases += 1
        name = f"store{self.databases}"
        self._run("createdb", "-h", str(self.root), name)
        return f"postgresql://{self.owner}@/{name}?host={self.root}"

    def _run(self, *command: str) -> None:
        done = subprocess.run(self._as_owner(*command), env=self._env(), capture_output=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr.decode(errors='replace')}")

    def _as_owner(self, *command: str) -> list[str]:
        if os.geteuid() != 0:
            return list(command)
        return ["setpriv", f"--reuid={self.owner}", f"--regid={self.owner}", "--clear-groups", *command]

    def _env(self) -> dict[str, str]:
        return {"PATH": f"{PLACES}:{os.environ.get('PATH', '')}", "LC_ALL": "C.UTF-8", "HOME": str(self.root)}
