"""Tests input files of new jobs: what the collector reads below its roots, what users cannot make it read, and its
use."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import pytest

from batchcast.errors import InputError, UsageError
from batchcast.formats.sighting import Sighting, Site, Snapshot
from batchcast.formats.slurm.sbatch import Request
from batchcast.service.answers.forecaster import features_in
from batchcast.service.collector.inputs import InputReader, roots_of
from batchcast.trace.input_files import checked_features, features_at_submission, folder_below

ME = pwd.getpwuid(os.geteuid()).pw_name
PW = """&CONTROL
 calculation = 'scf'
/
&SYSTEM
 ibrav = 2, nat = 2, ntyp = 1, ecutwfc = {cutoff}
/
&ELECTRONS
/
K_POINTS automatic
 4 4 4 0 0 0
"""
LATER = time.time() + 1e6


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the directory of one job, `run`."""
    place = tmp_path / "home"
    (place / "run").mkdir(parents=True)
    (place / "run/pw.in").write_text(PW.format(cutoff=30))
    return place


def status(root: Path, name: str = "run", submit: float = LATER, owner: int | None = None) -> str:
    """Return the result of reading a directory's input files."""
    with folder_below(str(root), str(root / name), os.geteuid() if owner is None else owner) as folder:
        return str(features_at_submission(folder, submit)["input_files"])


def test_a_directory_below_a_root_is_read_and_others_are_not(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "pw.in").write_text(PW.format(cutoff=99))
    jobs = [(1, ME, str(root / "run"), LATER), (2, ME, str(outside), LATER), (3, ME, f"{root}/run/../../other", LATER)]
    jobs += [(4, ME, str(root / "gone"), LATER), (5, "no-such-user", str(root / "run"), LATER)]
    found = InputReader([str(root)], 30.0).read(jobs)
    assert found[1]["qe_ecutwfc"] == 30.0
    assert {row: values["input_files"] for row, values in found.items()} == {
        1: "read", 4: "no directory", 5: "unknown user",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["file", "directory", "parent"])
def test_no_link_below_the_root_is_followed(root: Path, tmp_path: Path, kind: str) -> None:
    """A user can name any directory with --chdir, and can link to another user's file from an own directory."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "pw.in").write_text(PW.format(cutoff=77))
    if kind == "file":
        (root / "run/pw.in").unlink()
        (root / "run/pw.in").symlink_to(secret / "pw.in")
        assert status(root) == "no inputs"
        return
    (root / "trap").symlink_to(secret if kind == "directory" else tmp_path)
    with pytest.raises(InputError, match="without following links"):
        status(root, "trap" if kind == "directory" else "trap/secret")


def test_files_of_another_owner_are_refused(root: Path) -> None:
    with folder_below(str(root), str(root / "run"), os.geteuid() + 1) as folder:
        with pytest.raises(InputError, match="does not belong to the owner of the job"):
            folder.text("pw.in")
        with pytest.raises(InputError, match="is not the name of a file"):
            folder.text("../run/pw.in")


@pytest.mark.parametrize("what", ["pipe", "endless"])
def test_a_pipe_and_a_huge_file_are_passed_over(root: Path, what: str) -> None:
    place = root / "run/INCAR"
    os.mkfifo(place) if what == "pipe" else place.touch()
    (root / "run/pw.in").unlink()
    if what == "endless":
        os.truncate(place, 1 << 40)
    assert status(root) == "unreadable"


def test_files_written_after_the_submission_are_not_used(root: Path) -> None:
    written = (root / "run/pw.in").stat().st_mtime
    assert status(root, submit=written) == "read"
    assert status(root, submit=written - 10) == "changed"


def test_a_directory_that_takes_too_long_costs_its_user_the_turn_and_nobody_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a time limit of zero, a user's first directory is late, and the second one is not tried."""
    (root / "b").mkdir()
    reader = InputReader([str(root)], 0.0)
    jobs = [(1, ME, str(root / "run"), LATER), (2, ME, str(root / "b"), LATER)]
    assert [one["input_files"] for one in reader.read(jobs).values()] == ["took too long", "not read in time"]
    reader.seconds = 30.0
    assert [one["input_files"] for one in reader.read(jobs).values()] == ["not read in time"] * 2
    reader._slow.clear()
    assert [one["input_files"] for one in reader.read(jobs).values()] == ["read", "no inputs"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_reads_as_the_owner_of_the_job(root: Path) -> None:
    """NFS with root squash denies root access; in this test the file system denies the owner access."""
    nobody = pwd.getpwnam("nobody")
    for place in (root, root.parent, root / "run"):
        place.chmod(0o755)
    file = root / "run/pw.in"
    os.chown(file, nobody.pw_uid, nobody.pw_gid)
    jobs = [(1, "nobody", str(root / "run"), LATER)]
    for parent in root.parents:
        if not parent.stat().st_mode & 0o001:
            pytest.skip(f"{parent} is closed to other users")
    assert InputReader([str(root)], 30.0).read(jobs)[1]["input_files"] == "read"
    file.chmod(0)
    assert InputReader([str(root)], 30.0).read(jobs)[1]["input_files"] == "no inputs"


def test_answers_of_the_reading_process_and_of_users_are_checked() -> None:
    assert checked_features({"encut": 400}) == {"encut": 400.0}
    for wrong in ([], {"a b": 1}, {"a": float("nan")}, {"a": "x" * 65}, {"a": [1]}, {f"n{k}": 1 for k in range(201)}):
        with pytest.raises(InputError):
            checked_features(wrong)
    with pytest.raises(UsageError, match="JSON object"):
        features_in(Request({"inputs": "[" * 100_000}))


@pytest.mark.parametrize("wrong", ["home", "/", "/home, ../x"])
def test_a_root_must_be_an_absolute_directory_below_the_top(wrong: str) -> None:
    with pytest.raises(UsageError, match="absolute directories"):
        roots_of(wrong)


class Batch:
    """A batch system whose jobs run 10 min with a small cutoff and 100 min with a large one, all named `relax`."""

    def __init__(self, places: list[Path]) -> None:
        self.places, self.time = places, 1e9

    def _seen(self, number: int) -> Sighting:
        submit = 1e9 + 100.0 * number
        run = 600.0 if number % 2 else 6000.0
        asked = {
            "user_id": ME, "partition_id": "main", "req_procs": 4.0, "req_time": 36000.0, "job_name": "relax",
            "work_dir": str(self.places[number % 2]),
        }  # fmt: skip
        end = submit + run
        if self.time < end:
            started = {"start_time": submit, "allocated": {"alloc_procs": 4.0}} if self.time >= submit + 50 else {}
            state = "RUNNING" if started else "PENDING"
            return Sighting(str(number), str(number), submit, state, requested=asked, **started)
        return Sighting(str(number), str(number), submit, "COMPLETED", start_time=submit, end_time=end, requested=asked,
                        allocated={"alloc_procs": 4.0})  # fmt: skip

    def _jobs(self) -> list[Sighting]:
        return [self._seen(k) for k in range(160) if 1e9 + 100.0 * k <= self.time]

    def now(self) -> float:
        return self.time

    ticks = now

    def snapshot(self) -> Snapshot:
        return Snapshot(self.time, tuple(one for one in self._jobs() if one.is_open))

    def history(self, since: float, until: float) -> Snapshot:
        return Snapshot(self.time, tuple(one for one in self._jobs() if since <= one.end_time <= until))

    def ended(self, ids: list[str], since: float) -> Snapshot:
        return Snapshot(self.time, tuple(one for one in self._jobs() if one.job_id in ids and not one.is_open))

    def site(self) -> Site:
        return Site("c", "22.05", 300.0, False, 1000.0, True, {}, 0.0)

    def shape(self) -> str:
        return ""

    def hides_jobs(self) -> bool:
        return False

    def nodes_away(self) -> tuple[()]:
        return ()

    def reservations(self) -> list[dict]:
        return []
