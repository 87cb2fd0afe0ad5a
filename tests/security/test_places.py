"""Tests the locations of batchcast's files: umasks, setgid homes, shared folders, `sudo` with a user's HOME, a
read-only HOME.

Each case runs in a separate process with a real umask, real permissions and, if the test runs as root, real other
users.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

USER, OTHER, GROUP = 4321, 4322, 4400
"""User ids that no account of the machine has; both users are members of the group."""
UMASKS = (0o002, 0o022)
MAKES = """
import json, os, sys
os.umask(int(sys.argv[2], 8))
uid = int(sys.argv[3])
from batchcast.compiled import place
from batchcast.events.live import LiveClock
from batchcast.predict.registry import make
from batchcast.service.answers import model_store
from batchcast.store.database import Store
from batchcast.store.place import clock_path
from batchcast.store.database import single_writer
from batchcast.trace.whole_file import whole_file

if uid:  # the modules are loaded: the Python of a test may lie where no other user gets in
    os.setgroups([4400])
    os.setgid(4400)
    os.setuid(uid)
work = sys.argv[1]
said = {"kernels": place.kernel_folder(), "key": model_store._secret_key().hex()}
said["again"] = model_store._secret_key().hex()
try:
    with Store(work + "/store.db", create=True) as store, single_writer(store):
        pass
    clock = model_store.SavedClock(LiveClock({"last_2": make("runtime", "last_2")}, 8.0), 0.0, 0, 0.0, {})
    model_store.save(clock_path(work + "/store.db", "c"), clock)
    with whole_file(work + "/out.csv") as part:
        part.write_text("figures")
except Exception as error:
    said["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files and processes of another user")


@dataclass
class Machine:
    """A folder that every user can enter, with a home, a working folder, and a temporary folder with the sticky bit
    like /tmp's."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work"

    def run(self, umask: int, uid: int = 0) -> dict[str, Any]:
        """Return the output of a process that creates all of batchcast's files; `uid` 0 means the user of the test."""
        environment = {"HOME": str(self.home), "TMPDIR": str(self.root / "tmp"), "PATH": os.environ["PATH"]}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        words = [sys.executable, "-c", MAKES, str(self.work), oct(umask), str(uid)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=self.root, check=False)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        assert "Traceback" not in done.stderr
        return told


@pytest.fixture
def machine() -> Iterator[Machine]:
    """The folder is not inside pytest's own folder, which is closed to other users and would make everything safe."""
    with tempfile.TemporaryDirectory(prefix="places-") as name:
        here = Machine(Path(name).resolve())
        here.root.chmod(0o755)
        for part, bits in (("home", 0o755), ("work", 0o755), ("tmp", 0o1777)):
            (here.root / part).mkdir()
            (here.root / part).chmod(bits)
        yield here


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def check_private(machine: Machine, said: dict[str, Any], umask: int) -> None:
    """Check that outputs have only the permissions of the umask, and that other users cannot write to our folders."""
    assert "error" not in said
    assert said["key"] == said["again"]
    kernels = Path(said["kernels"])
    assert mode(kernels) & 0o077 == 0
    assert mode(kernels.parent) & 0o022 == 0
    assert mode(kernels.parent / "clock.key") & 0o077 == 0
    for name in ("store.db", "store.db.lock"):
        assert mode(machine.work / name) & 0o077 == 0, name
    for path in machine.work.glob("store.db*clock"):
        assert mode(path) & 0o022 == 0, path.name
    assert mode(machine.work / "out.csv") == 0o666 & ~umask
    assert not list(machine.work.glob(".*.part"))


@pytest.mark.parametrize("umask", UMASKS, ids=oct)
@pytest.mark.parametrize("setgid", [False, True], ids=["plain home", "setgid home"])
def test_a_umask_and_a_setgid_home_open_nothing(umask: int, setgid: bool, machine: Machine) -> None:
    """A site whose homes belong to a project's group and have the setgid bit, where all files are created for that
    group."""
    if setgid:
        for path in (machine.home, machine.work):
            path.chmod(0o2755)
    said = machine.run(umask)
    assert Path(said["kernels"]).is_relative_to(machine.home)
    check_private(machine, said, umask)


@needs_root
@pytest.mark.parametrize("umask", UMASKS, ids=oct)
def test_a_home_that_the_group_can_write_to_holds_no_kernels(umask: int, machine: Machine) -> None:
    """The group could replace our folder, so kernels and key must be in the temporary folder."""
    for path in (machine.home, machine.work):
        os.chown(path, USER, GROUP)
        path.chmod(0o2775)
    said = machine.run(umask, USER)
    assert Path(said["kernels"]).is_relative_to(machine.root / "tmp" / f"batchcast-{USER}")
    check_private(machine, said, umask)


@needs_root
@pytest.mark.parametrize(("bits", "is_sticky"), [(0o777, False), (0o1777, True)], ids=["not sticky", "sticky"])
def test_two_users_of_a_shared_home_run_nothing_of_each_other(bits: int, is_sticky: bool, machine: Machine) -> None:
    """As in a container or on a cluster where all users share one HOME: each user has separate kernels and a separate
    key."""
    machine.home.chmod(bits)
    machine.work.chmod(0o1777)
    first = machine.run(0o022, USER)
    for path in machine.work.iterdir():
        path.unlink()
    second = machine.run(0o022, OTHER)
    assert Path(first["kernels"]).is_relative_to(machine.home) == is_sticky
    assert Path(second["kernels"]).is_relative_to(machine.root / "tmp"), "the first user's folder is not the second's"
    assert first["key"] != second["key"]
    for said, uid in ((first, USER), (second, OTHER)):
        assert Path(said["kernels"]).stat().st_uid == uid
        assert mode(Path(said["kernels"])) & 0o077 == 0


@needs_root
def test_root_with_a_user_s_home_runs_nothing_of_the_user_s_and_takes_nothing_over(machine: Machine) -> None:
    """Under `sudo` that keeps HOME, root must neither load the files there nor leave files that the user cannot
    write."""
    os.chown(machine.home, USER, GROUP)
    machine.work.chmod(0o1777)
    own = machine.run(0o022, USER)
    assert Path(own["kernels"]).is_relative_to(machine.home)
    before = {path: path.stat().st_uid for path in machine.home.rglob("*")}
    for path in machine.work.iterdir():
        path.unlink()
    root = machine.run(0o022)
    assert not Path(root["kernels"]).is_relative_to(machine.home)
    assert root["key"] != own["key"]
    assert {path: path.stat().st_uid for path in machine.home.rglob("*")} == before
    for path in machine.work.iterdir():
        path.unlink()
    assert machine.run(0o022, USER) == own


@needs_root
def test_root_in_a_new_home_of_a_user_leaves_nothing_that_keeps_the_user_out(machine: Machine) -> None:
    """If the very first call uses `sudo`, the user's own later call must work, with kernels in the home."""
    os.chown(machine.home, USER, GROUP)
    machine.work.chmod(0o1777)
    machine.run(0o022)
    left = [path for path in machine.home.rglob("*") if path.stat().st_uid == 0]
    for path in machine.work.iterdir():
        path.unlink()
    said = machine.run(0o022, USER)
    assert left == []
    assert Path(said["kernels"]).is_relative_to(machine.home)


@needs_root
@pytest.mark.parametrize("umask", UMASKS, ids=oct)
def test_a_home_that_cannot_be_written_to(umask: int, machine: Machine) -> None:
    """With a read-only HOME, as a service has, kernels and key are in a private part of the temporary folder."""
    os.chown(machine.work, USER, GROUP)
    machine.home.chmod(0o555)
    said = machine.run(umask, USER)
    assert Path(said["kernels"]).is_relative_to(machine.root / "tmp" / f"batchcast-{USER}")
    check_private(machine, said, umask)


@needs_root
def test_a_place_for_the_store_that_cannot_be_written_to_is_said_in_words(machine: Machine) -> None:
    said = machine.run(0o022, USER)
    assert "cannot be created" in said["error"]
    assert "Permission denied" in said["error"]


@needs_root
@pytest.mark.parametrize("bits", [0o777, 0o1777], ids=["not sticky", "sticky"])
def test_a_store_of_another_user_in_a_shared_folder_is_not_opened(bits: int, machine: Machine) -> None:
    machine.work.chmod(bits)
    machine.run(0o022, USER)
    before = (machine.work / "store.db").read_bytes()
    said = machine.run(0o022, OTHER)
    assert "store.db" in said["error"]
    assert (machine.work / "store.db").read_bytes() == before
    assert (machine.work / "store.db").stat().st_uid == USER
