"""A real Slurm of several nodes on this machine, with accounting, in its own directory, optionally on a fast clock.

The daemons are real: munged, MariaDB, slurmdbd, slurmctld and one slurmd per node run as on a cluster, on loopback,
with free ports, and each is stopped by its pid. On a fast clock (`speed` > 1) all of Slurm, its clients and the jobs
live in one accelerated time (libfaketime); MariaDB stays on real time.

    python tests/slurm/lab/slurm_lab.py --nodes 4 run -- CMD...     bring it up, run CMD in it, take it down
    BATCHCAST_LAB=newer python tests/slurm/lab/slurm_lab.py ...     the same with the Slurm that newer.sh installs
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import configuration
from places import NEWER, SEARCHED, Place

REAL_TIME = time.monotonic
USERS = ("daemon", "games")
"""Ordinary users that every Debian has; jobs are submitted in their names."""


CHOSEN = {"root": NEWER if os.environ.get("BATCHCAST_LAB") == "newer" else Path("/")}
"""The default location of a lab's Slurm: this machine, or the folder of `newer.sh`."""


def missing(speed: float = 1.0) -> str:
    """Return why the lab cannot run here; an empty string if it can."""
    return Place(CHOSEN["root"]).missing(speed, USERS)


class Lab:
    """One cluster: `with Lab(nodes=4, speed=60) as lab: lab.run("sinfo")`. Everything lies under `lab.root`."""

    def __init__(
        self, *, nodes: int = 4, cpus: int = 4, speed: float = 1.0, conf: Mapping[str, str] | None = None
    ) -> None:
        self.nodes, self.cpus, self.speed = nodes, cpus, speed
        self.conf = dict(conf or {})
        self.place = Place(CHOSEN["root"])
        self.root = Path(tempfile.mkdtemp(prefix="bclab-"))
        self.root.chmod(0o755)
        self.ports = _free_ports(nodes + 2)
        self._clock: subprocess.Popen[bytes] | None = None
        self._mariadb: subprocess.Popen[bytes] | None = None
        self._origin = (0.0, 0.0)
        self.env = self._base_environment()

    # -- life ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Lab:
        """Start all daemons; a start that takes too long on a busy machine is repeated once.

        From then on SIGTERM exits normally, so that a stopped benchmark stops its lab.
        """
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        for last in (False, True):
            try:
                self.up()
                break
            except BaseException as error:
                self.down()
                if last or not isinstance(error, TimeoutError):
                    raise
                self.__init__(nodes=self.nodes, cpus=self.cpus, speed=self.speed, conf=self.conf)
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Start all daemons and wait until every node is idle."""
        for name in ("etc", "log", "state", "spool", "run", "munge", "bin", "mysql"):
            (self.root / name).mkdir(exist_ok=True)
        self.place.open(self.root)
        self._link_daemons()
        self._write_configuration()
        if self.speed != 1:
            self._start_clock()
        self._origin = (REAL_TIME(), float(self.run("date", "+%s.%N")))
        self._start_munged()
        self._start_mariadb()
        self.start_slurmdbd()
        self._seed_accounting()
        self.start_slurmctld()
        self._start_nodes()  # raises errors that a slurmd reports about its configuration
        self.wait(self._nodes_idle, "idle nodes", 90)

    def _nodes_idle(self) -> bool:
        self._start_nodes()
        return self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(self.nodes)

    def _start_nodes(self) -> None:
        """Start a slurmd for each node that has none: on a busy machine some die right after they daemonize."""
        slurmd, step = (str(self.root / "bin" / name) for name in ("slurmd", "slurmstepd"))
        running = {words[2] for words in map(_words, _processes_under(self.root)) if words[:2] == [slurmd, "-N"]}
        for name in sorted({f"n{k}" for k in range(1, self.nodes + 1)} - running):
            self._daemon("slurmd", "-N", name, "-d", step, "-f", str(self.slurm_conf))

    def down(self) -> None:
        """Stop every process by its pid and remove the directory."""
        for path in (
            *sorted(self.root.glob("run/slurmd-*.pid")),
            *(self.pid_file(n) for n in ("slurmctld", "slurmdbd")),
        ):
            self._signal(path, signal.SIGTERM)
        for path in (*self.root.glob("run/slurmd-*.pid"), self.pid_file("slurmctld"), self.pid_file("slurmdbd")):
            self._reap(path)
        for pid in _processes_under(self.root):  # slurmstepd processes and jobs left behind
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._signal(self.pid_file("munged"), signal.SIGTERM)
        for process in (self._mariadb, self._clock):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                if process.poll() is None:
                    process.kill()
        self._reap(self.pid_file("munged"))
        self.place.close()
        if "FAKETIME_SHARED" in self.env:
            for path in Path("/dev/shm").glob(f"*faketime*_{self.env['FAKETIME_SHARED'].split('_')[-1]}"):
                path.unlink(missing_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)

    # -- use ----------------------------------------------------------------------------------------------------

    @property
    def outside(self) -> dict[str, str]:
        """Return the environment of a program that queries this Slurm: a collector, a user's shell."""
        return self.place.outside(self.env)

    @property
    def slurm_conf(self) -> Path:
        """Return the path of the configuration file for clients."""
        return self.root / "etc" / "slurm.conf"

    def pid_file(self, name: str) -> Path:
        """Return the path of the daemon's pid file."""
        return self.root / "run" / f"{name}.pid"

    def run(self, *command: str, check: bool = True, user: str | None = None, **more: object) -> str:
        """Return a client's stdout; raise with its stderr if it fails. The call is limited to five real minutes."""
        argv = list(command)
        if user is not None:
            argv = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *argv]
        done = self._run_raw(argv, **more)
        for _ in range(3):  # a client whose daemon died in the middle of an answer, on an overloaded machine
            if done.returncode == -signal.SIGPIPE:
                done = self._run_raw(argv, **more)
        later = b"try again in a bit"  # slurmdbd cannot change a job that it is still recording
        if later in done.stderr:
            tries = [done]

            def accepted() -> bool:
                tries.append(self._run_raw(argv, **more))
                return later not in tries[-1].stderr

            self.wait(accepted, "job written down by slurmdbd")
            done = tries[-1]
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="replace")

    def now(self) -> float:
        """Return the cluster's clock in seconds since the epoch, extrapolated from one query."""
        return self._origin[1] + (REAL_TIME() - self._origin[0]) * self.speed

    def submit(self, *options: str, seconds: float, user: str = USERS[0], name: str = "job") -> str:
        """Submit a job that sleeps; return its id."""
        return (
            self.run(
                "sbatch",
                "--parsable",
                f"--uid={user}",
                f"--gid={user}",
                "--chdir=/tmp",
                "-o",
                "/dev/null",
                "-J",
                name,
                *options,
                "--wrap",
                f"sleep {seconds:g}",
            )
            .strip()
            .split(";")[0]
        )

    def wait(self, condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
        """Wait until the condition holds, checked ten times a second, for at most this many real seconds."""
        end = REAL_TIME() + seconds
        while True:
            with contextlib.suppress(RuntimeError):
                if condition():
                    return
            if REAL_TIME() > end:
                raise TimeoutError(f"no {what} within {seconds:g} s\n{self.tail('slurmctld')}")
            time.sleep(0.1)

    def tail(self, name: str, lines: int = 15) -> str:
        """Return the end of a daemon's log."""
        path = self.root / "log" / f"{name}.log"
        return (
            "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else f"(no {path.name})"
        )

    # -- daemons ------------------------------------------------------------------------------------------------

    def start_slurmctld(self) -> None:
        """Start slurmctld and wait until it answers."""
        self._listening("slurmctld", self.ports[0], "-f", str(self.slurm_conf))
        self.wait(lambda: self.run("sinfo", "-h") or True, "slurmctld answer")

    def stop(self, name: str) -> None:
        """Stop slurmctld or slurmdbd by its pid."""
        path = self.pid_file(name)
        self._signal(path, signal.SIGTERM)
        self._reap(path)

    def start_slurmdbd(self) -> None:
        """Start slurmdbd and wait until it answers."""
        self._listening("slurmdbd", self.ports[1], MYSQL_UNIX_PORT=str(self.root / "run" / "mysql.sock"))
        self.wait(lambda: self.run("sacctmgr", "-n", "show", "cluster") or True, "slurmdbd answer")

    def _listening(self, name: str, port: int, *options: str, **environment: str) -> None:
        """Start a daemon and wait until its port is open: on a busy machine some die right after they daemonize."""
        path = str(self.root / "bin" / name)

        def there() -> bool:
            if _listens(port):
                return True
            if not any(words[:1] == [path] for words in map(_words, _processes_under(self.root))):
                self._daemon(name, *options, **environment)
            return False

        self._daemon(name, *options, **environment)  # raise errors that the daemon reports about its configuration
        self.wait(there, f"{name} port", 120)

    def _daemon(self, name: str, *options: str, **environment: str) -> None:
        """Start a daemon; a daemon that hangs before it daemonizes is killed and started again, as systemd would."""
        words, env = self.place.inside([str(self.root / "bin" / name), *options]), {**self.env, **environment}
        for last in (False, False, False, True):  # in CI, slurmctld hung twice in a row
            try:
                done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
                break
            except subprocess.TimeoutExpired:
                for pid in _processes_under(self.root):
                    if _words(pid)[:1] == [str(self.root / "bin" / name)]:
                        os.kill(pid, signal.SIGKILL)
                if last:
                    raise
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.decode(errors='replace')}\n{self.tail(name)}")

    def _start_munged(self) -> None:
        key = self.root / "munge" / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        run, munge = self.root / "run", self.root / "munge"
        self._run_raw(
            [
                "munged",
                f"--key-file={key}",
                f"--socket={run}/munge.socket",
                f"--pid-file={run}/munged.pid",
                f"--log-file={munge}/munged.log",
                f"--seed-file={munge}/seed",
                "--num-threads=4",
            ]
        )
        self.wait(lambda: (run / "munge.socket").exists(), "munge socket")

    def _start_mariadb(self) -> None:
        """Start MariaDB in real time, on a unix socket only, without durability, because the lab is discarded."""
        sock, data = self.root / "run" / "mysql.sock", self.root / "mysql"
        self._on_real_time(
            "mariadb-install-db",
            "--no-defaults",
            "--user=root",
            f"--datadir={data}",
            "--skip-test-db",
            "--auth-root-authentication-method=socket",
            "--auth-root-socket-user=root",
        ).check_returncode()
        options = (
            "--no-defaults",
            "--user=root",
            f"--datadir={data}",
            f"--socket={sock}",
            "--skip-networking",
            f"--pid-file={self.root}/run/mariadbd.pid",
            "--innodb-buffer-pool-size=96M",
            "--innodb-log-file-size=48M",
            "--innodb-lock-wait-timeout=900",
            "--innodb-flush-log-at-trx-commit=0",
        )
        with (self.root / "log" / "mariadb.log").open("wb") as log:
            self._mariadb = subprocess.Popen(
                self.place.inside(["mariadbd", *options]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_real(self.env),
            )
        sql = (
            "create database slurm_acct_db; create user slurm@localhost identified by 'lab';"
            "grant all on slurm_acct_db.* to slurm@localhost"
        )
        self.wait(lambda: not self._on_real_time("mariadb-admin", "-S", str(sock), "ping").returncode, "mariadbd")
        self._on_real_time("mariadb", "-S", str(sock), "-e", sql).check_returncode()

    def _on_real_time(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        """Run a program of the database, which does not use the fast clock."""
        return subprocess.run(self.place.inside(command), capture_output=True, timeout=120, env=_real(self.env))

    def _seed_accounting(self) -> None:
        for kind, names, more in (
            ("cluster", ("lab",), ()),
            ("account", ("physics", "chemistry"), ("Cluster=lab",)),
            ("user", ("root", *USERS), ("Account=physics,chemistry", "DefaultAccount=physics")),
        ):
            self.wait(lambda k=kind, n=names, m=more: self._added(k, n, m), f"{kind} in accounting")

    def _added(self, kind: str, names: Sequence[str], more: Sequence[str]) -> bool:
        """Return whether accounting has these entries; else add them once more, because sacctmgr may lose its
        connection under load."""
        there = set(self.run("sacctmgr", "-nP", "show", kind, f"format={kind}").split())
        if not there >= set(names):
            self.run("sacctmgr", "-iQ", "add", kind, *names, *more, check=False)
        return there >= set(names)

    # -- configuration ------------------------------------------------------------------------------------------

    def _base_environment(self) -> dict[str, str]:
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SQUEUE", "SACCT", "SBATCH", "FAKETIME"))
        }
        kept.pop("LD_PRELOAD", None)
        return {
            **kept,
            "PATH": f"{SEARCHED}:{kept.get('PATH', '')}",
            "SLURM_CONF": str(self.slurm_conf),
            "LC_ALL": "C.UTF-8",
        }

    def _link_daemons(self) -> None:
        """Create links with Slurm's own program names, because Slurm compares these names and the emulator package may
        own them."""
        for name in ("slurmctld", "slurmd", "slurmstepd", "slurmdbd"):
            target = self.place.find(f"{name}-wlm", name)
            link = self.root / "bin" / name
            if target is not None and not link.is_symlink():
                link.symlink_to(target)

    def _write_configuration(self) -> None:
        """Write slurm.conf and slurmdbd.conf as they are now (`conf` may have changed)."""
        if not self.place.is_here:  # Slurm 22.05 has no such plugin; later versions configure cgroups differently
            (self.root / "etc" / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        configuration.write(self.root, self.ports, self.nodes, self.cpus, self.speed, self.conf)

    def _start_clock(self) -> None:
        """Start a process that holds the shared start of the fast clock; all other processes join it by their
        environment."""
        self._clock = subprocess.Popen(
            ["faketime", "-m", "-f", f"+0 x{self.speed:g}", "sh", "-c", "env -0; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.env,
        )
        assert self._clock.stdout is not None
        text = b""
        while not (b"FAKETIME_SHARED" in text and b"LD_PRELOAD" in text and text.endswith(b"\0")):
            piece = os.read(self._clock.stdout.fileno(), 65536)
            if not piece:
                raise RuntimeError("faketime did not start")
            text += piece
        found = dict(item.split("=", 1) for item in text.decode(errors="replace").split("\0") if "=" in item)
        self.env |= {k: v for k, v in found.items() if k == "LD_PRELOAD" or k.startswith("FAKETIME")}
        for path in Path("/dev/shm").glob(f"*faketime*{found['FAKETIME_SHARED'].split('_')[-1]}"):
            path.chmod(0o666)  # jobs of other users use the same clock

    # -- helpers ------------------------------------------------------------------------------------------------

    def _run_raw(self, argv: Sequence[str], **more: object) -> subprocess.CompletedProcess[bytes]:
        options: dict[str, object] = {
            "env": self.env,
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "timeout": 300,
            **more,
        }
        return subprocess.run(self.place.inside(argv), **options)

    def _signal(self, path: Path, number: int) -> None:
        with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
            os.kill(int(path.read_text()), number)

    def _reap(self, path: Path) -> None:
        """Wait until the process of a pid file is gone; kill it after ten seconds."""
        try:
            pid = int(path.read_text())
        except (FileNotFoundError, ValueError):
            return
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            if not select.select([process], [], [], 10)[0]:
                signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [])
            os.close(process)
        path.unlink(missing_ok=True)


def _real(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k != "LD_PRELOAD" and not k.startswith("FAKETIME")}


def _free_ports(count: int) -> list[int]:
    """Return ports that no program listens on, below the kernel's range, each bound once as a check."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            s = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                s.bind(("127.0.0.1", 10000 + secrets.randbelow(20000)))
                found.append(s.getsockname()[1])
        return found


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _words(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return []


def _processes_under(root: Path) -> Iterator[int]:
    """Yield the ids of the processes that were started with this lab's configuration, without this process."""
    mark = f"SLURM_CONF={root}/etc/slurm.conf".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            pid = int(path.parent.name)
            if (
                mark in path.read_bytes().split(b"\0")
                and pid != os.getpid()
                and b"munged" not in (path.parent / "cmdline").read_bytes()
                and b"mariadbd" not in (path.parent / "cmdline").read_bytes()
                and (path.parent / "comm").read_bytes().strip() != b"cat"
            ):
                yield pid


def main() -> int:
    """Start a lab and run a command in it: `run -- CMD`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run"])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("command", nargs="*", default=["bash"])
    given = parser.parse_args()
    reason = missing(given.speed)
    if reason:
        print(f"slurm_lab: {reason}", file=sys.stderr)
        return 1
    with Lab(nodes=given.nodes, cpus=given.cpus, speed=given.speed) as lab:
        return subprocess.run(given.command, env={**lab.outside, "LAB": str(lab.root)}).returncode


if __name__ == "__main__":
    sys.exit(main())
