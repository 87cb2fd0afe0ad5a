"""The location of a lab's Slurm: this machine's packages, or a newer Slurm in a folder of its own (`newer.sh`).

A Slurm in a folder runs in a mount namespace whose root is that folder, where the lab's directory has the same path as
outside, so that the same configuration, pid files and sockets work on both sides. The mounts disappear with the process
that holds them.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

NEWER = Path(os.environ.get("BATCHCAST_NEWER_SLURM", "/var/lib/batchcast-lab/trixie"))
SEARCHED = (
    "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/lib/x86_64-linux-gnu/slurm-wlm:/usr/libexec"
)
CLIENTS = ("squeue", "sacct", "scontrol", "sinfo", "sdiag", "sacctmgr", "sbatch", "scancel", "sprio")
PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr", "sbatch")
MOUNT = """
for place in proc dev dev/shm; do mount --bind "/$place" "$1/$place"; done
mkdir -p "$1$2"
mount --bind "$2" "$1$2"
echo mounted
exec chroot "$1" cat
"""


class Place:
    """The root below which a lab's programs lie: `/`, or a folder with its own Debian."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self._lab = Path("/nowhere")
        self._holder: subprocess.Popen[bytes] | None = None

    @property
    def is_here(self) -> bool:
        """Return whether this is the machine's own Slurm."""
        return self.root == Path("/")

    def missing(self, speed: float, users: Sequence[str]) -> str:
        """Return why a lab cannot run there; an empty string if it can."""
        if os.geteuid() != 0:
            return "Slurm's daemons need root here"
        script = "install" if self.is_here else "newer"
        wanted = [*PROGRAMS, *(["faketime"] if speed != 1 else [])]
        if absent := [name for name in wanted if self.find(name) is None]:
            where = "on this machine" if self.is_here else f"in {self.root}"
            return f"no {', '.join(absent)} {where} (tests/slurm/{script}.sh installs them)"
        if strangers := [name for name in users if not _is_user(name)]:
            return f"no user {', '.join(strangers)} on this machine"
        return "" if self.is_here else self._unmountable()

    def _unmountable(self) -> str:
        words = ["unshare", "--mount", "--propagation=private", "mount", "--bind", "/proc", str(self.root / "proc")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return f"nothing can be mounted here for a Slurm in a folder: {done.stderr.strip()}" if done.returncode else ""

    def find(self, *names: str) -> str | None:
        """Return the path, as seen inside, of the first of these programs that exists."""
        paths = (f"{folder}/{name}" for name in names for folder in SEARCHED.split(":"))
        return next((path for path in paths if os.path.exists(self.root / path[1:])), None)

    def open(self, lab: Path) -> None:
        """Make the lab's directory visible inside, and let programs outside query the Slurm inside."""
        self._lab = lab
        if self.is_here:
            return
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation=private", "sh", "-euc", MOUNT, "sh", str(self.root), str(lab)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"mounted\n":
            raise RuntimeError(f"{self.root}: its mounts failed")
        (lab / "clients").mkdir(exist_ok=True)
        for name in CLIENTS:
            words = " ".join(self.inside([str(self.find(name))]))
            (lab / "clients" / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (lab / "clients" / name).chmod(0o755)

    def close(self) -> None:
        """Release the mounts."""
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()
            with contextlib.suppress(OSError):
                (self.root / str(self._lab)[1:]).rmdir()

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return a command as it must be run inside."""
        if self._holder is None:
            return list(command)
        return ["nsenter", f"--target={self._holder.pid}", "--mount", "--root", "--wd", "--", *command]

    @property
    def rights(self) -> tuple[str, ...]:
        """Return the privileges that `setpriv` must leave an ordinary user for queries to a Slurm in a folder."""
        names = "+sys_admin,+sys_chroot,+sys_ptrace"
        return () if self.is_here else (f"--inh-caps={names}", f"--ambient-caps={names}")

    def outside(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a program of this machine that queries the lab's Slurm (as root)."""
        if self.is_here:
            return dict(environment)
        return {**environment, "PATH": f"{self._lab}/clients:{environment['PATH']}"}


def _is_user(name: str) -> bool:
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False
