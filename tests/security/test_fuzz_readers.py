"""Feeds damaged inputs to every reader, from a seed: the reader returns a result or one clear error, within limits of
memory and time.

`BATCHCAST_FUZZ_SEED` sets the seed (the weekly workflow uses the date), and `BATCHCAST_FUZZ_INPUTS` the number of
inputs per reader. A failure prints the reader, the seed, the number of the input, and the command that runs this input
alone.
"""

from __future__ import annotations

import gzip
import lzma
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from tools.demo_log import demo_workload

from batchcast.errors import BatchcastError
from batchcast.formats.pbs.qstat import parse_qstat, sighting
from batchcast.formats.slurm.resources import fold
from batchcast.machines.toml import describe
from batchcast.schedule.slurm.site import make_site
from batchcast.service.settings import load
from batchcast.sweep.study import read_study
from batchcast.trace.machine_files import open_machine, toml_of
from batchcast.trace.read import read_trace
from batchcast.trace.write import write_by_ending
from tests.unit.formats.test_batsim import LOG as BATSIM
from tests.unit.formats.test_job_json import document
from tests.unit.formats.test_nextflow import RAW, table
from tests.unit.formats.test_pbs import PRO, TORQUE
from tests.unit.formats.test_qstat import SLURMS_WRAPPER
from tests.unit.formats.test_qstat import TEXT as QSTAT
from tests.unit.formats.test_sacct import JOB, dump

ROOT = Path(__file__).parents[2]
SEED = os.environ.get("BATCHCAST_FUZZ_SEED", "63")
INPUTS = int(os.environ.get("BATCHCAST_FUZZ_INPUTS", "150"))
MEMORY = 4 << 30
"""Limit of address space in bytes: numpy, pyarrow and compiled kernels map about 2 GiB without using it."""
SECONDS = 10
"""Limit of processor time for one input, which only an endless input reaches."""
ALONE = "BATCHCAST_FUZZ_SEED={seed} python -m tests.security.test_fuzz_readers {reader} {number} 1"
WORDS = (
    "", "nan", "inf", "-1", "0", "(null)", "UNLIMITED", "1e400", "9" * 20, "9" * 5000, "\u00b2", "=", "|", ",", ";",
    "[", "n[1-", "n[1-1000000]", "n[1-999999,1-999999]", "ALL", "{", "}", '"', "'", "\\", "null", "true", "[]", "{}",
    "[" * 2000, "\0", "\u2028", "\u202e", "\n", "\r", "\t", "NodeName=", "Include slurm.conf\n", "State=DOWN", "1-",
    "1:2:3:4", "gpu:", "x" * 300, "a." * 200, "-", "2026-02-30T25:61:61", "9999-12-31T23:59:59",
)  # fmt: skip
DUMPS = ROOT / "tests" / "unit" / "formats" / "slurm-24.11"
CONF = {
    "slurm.conf": "ClusterName=c\nSchedulerType=sched/backfill\nSchedulerParameters=bf_interval=30\nGresTypes=gpu\n"
    "NodeName=DEFAULT CPUs=8 RealMemory=16000\nNodeName=n[1-4] Feature=x\n"
    "NodeSet=s Feature=x\nDownNodes=n4 State=DOWN\n"
    "Include other.conf\nPartitionName=all Nodes=ALL Default=YES MaxTime=60\nPartitionName=part Nodes=s,g1\n",
    "other.conf": "NodeName=g[1-2] CPUs=4 Gres=gpu:2 Weight=3\n",
    "gres.conf": "NodeName=g[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n",
}
STUDY = """policies = ["easy"]
predictors = ["requested", "kernel:k=3"]
[[log]]
path = "a.swf"
[[period]]
since = "1 d"
"""
SETTINGS = 'store = "store.db"\nprivate = "yes"\nruntime = "recent_mean"\nwait = "forecast"\ninterval_s = "60 s"\n'

QSTAT_JSON = """{"timestamp": 1, "pbs_version": "23", "Jobs": {"7.pbs": {"Job_Name": "a", "job_state": "F",
"Job_Owner": "ada@l", "ctime": "Sat Nov 21 10:00:00 2026", "stime": "Sat Nov 21 10:01:00 2026", "queue": "q",
"Resource_List": {"ncpus": 4, "walltime": "01:00:00"}, "resources_used": {"walltime": "00:00:50"}}}}"""


def changed(r: random.Random, data: bytes) -> bytes:
    """Return the bytes with one to four pieces removed, doubled, cut, swapped or replaced by unusual words."""
    for _ in range(r.choice((1, 1, 2, 4))):
        at = r.randrange(len(data) + 1)
        end = min(len(data), at + r.choice((1, 3, 20, 200)))
        word = r.choice(WORDS).encode()
        kind = r.randrange(7)
        if kind == 0:
            data = data[:at] + data[end:]
        elif kind == 1:
            data = data[:at] + word + data[at:]
        elif kind == 2:
            data = data[:at] + data[at:end] * r.choice((2, 2, 50)) + data[end:]
        elif kind == 3 and (values := list(re.finditer(rb"(?<=[=|:,; ])[^ |,;\n]+", data))):
            value = r.choice(values)
            data = data[: value.start()] + word + data[value.end() :]
        elif kind == 4:
            lines = data.split(b"\n")
            one, other = r.randrange(len(lines)), r.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            data = b"\n".join(lines)
        elif kind == 5:
            data = data[:at]
        else:
            data = data[:at] + r.randbytes(r.choice((1, 1, 8))) + data[at + 1 :]
    return data


def written(ending: str) -> bytes:
    """Return forty jobs of the demo log in the format of this file ending."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{ending}"
        write_by_ending(demo_workload()[:40], path)
        return path.read_bytes()


def read_log(path: Path) -> None:
    read_trace(path)


def read_machine(path: Path) -> None:
    """Open, write, read again and describe a machine."""
    machine = open_machine(path)
    again = path.parent / "again.toml"
    again.write_text(toml_of(machine))
    assert toml_of(open_machine(again)) == again.read_text(), "what was written is read as something else"
    describe(machine, fold)
    make_site(machine)


def read_qstat(path: Path) -> None:
    for job_id, attributes in parse_qstat(path.read_bytes().decode("utf-8", "replace")):
        with suppress(ValueError):  # the collector counts records that it cannot read
            sighting(job_id, attributes)


def study(path: Path) -> None:
    read_study(path.read_bytes().decode("utf-8", "replace"), str(path))


def settings(path: Path) -> None:
    load({}, {"BATCHCAST_CONFIG": str(path)})


Sample = bytes | Mapping[str, bytes]
"""A damaged input: a file, or the files of a folder."""


def corpus() -> dict[str, tuple[Callable[[Path], None], list[Sample]]]:
    """Return for each reader the function that reads a path, and valid samples."""
    texts = {path.name: path.read_bytes() for path in DUMPS.iterdir()}
    plain = {name: text for name, text in texts.items() if name.endswith(".txt")}
    json = {name: text for name, text in texts.items() if name.endswith(".json")} | {"config.txt": texts["config.txt"]}
    conf = {name: text.encode() for name, text in CONF.items()}
    sacct, swf = dump(JOB, {**JOB, "JobID": "8", "State": "PENDING"}).encode(), written(".swf")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in plain.items():
            (Path(folder) / name).write_bytes(text)
        toml = toml_of(open_machine(folder)).encode()
    return {
        "sacct": (read_log, [sacct]),
        "sacct-csv": (read_log, [sacct.replace(b",", b"").replace(b"|", b",")]),
        "json": (read_log, [document(form) for form in ("old", "middle", "new")]),
        "swf": (read_log, [swf]),
        "csv": (read_log, [written(".csv")]),
        "pbs": (read_log, [f"{PRO}\n{TORQUE}\n".encode()]),
        "nextflow": (read_log, [table(RAW).encode()]),
        "batsim": (read_log, [BATSIM.encode()]),
        "parquet": (read_log, [written(".parquet")]),
        "packed": (read_log, [gzip.compress(swf), lzma.compress(swf), gzip.compress(sacct) * 3]),
        "qstat": (read_qstat, [QSTAT.encode(), SLURMS_WRAPPER.encode(), QSTAT_JSON.encode()]),
        "dumps": (read_machine, [plain, json]),
        "slurm-conf": (read_machine, [conf]),
        "toml": (read_machine, [toml]),
        "study": (study, [STUDY.encode()]),
        "settings": (settings, [SETTINGS.encode()]),
    }


NAMES = {"toml": "machine.toml", "packed": "log.gz"}


class TooLong(BaseException):
    """Raised when the time limit is reached; no reader catches it."""


def _too_long(*_: object) -> None:
    raise TooLong(f"more than {SECONDS} s of processor time")


def attack(reader: str, first: int, count: int, folder: Path) -> int:
    """Give the reader these inputs, print each failure, and return the number of failures."""
    read, samples = corpus()[reader]
    failed = 0
    signal.signal(signal.SIGVTALRM, _too_long)
    for number in range(first, first + count):
        r = random.Random(f"{SEED} {reader} {number}")
        place = folder / reader / str(number)
        place.mkdir(parents=True)
        sample = r.choice(samples)
        if isinstance(sample, bytes):
            path = place / NAMES.get(reader, "log")
            path.write_bytes(changed(r, sample))
        else:
            path, hit = place, r.choice(sorted(sample))
            for name, data in sample.items():
                (place / name).write_bytes(changed(r, data) if name == hit else data)
        print(f"input {reader} {number}", flush=True)  # the last input of a process that is killed
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            read(path)
        except BatchcastError:
            pass
        except (Exception, TooLong):
            failed += 1
            print(f"FAILED: {ALONE.format(seed=SEED, reader=reader, number=number)}")
            traceback.print_exc(limit=-4, file=sys.stdout)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return failed


def main(readers: str, first: str, count: str) -> int:
    """Run the inputs in this process, under its limits."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    seconds = int(time.process_time()) + 120 + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with tempfile.TemporaryDirectory() as folder:
        failed = sum(attack(reader, int(first), int(count), Path(folder)) for reader in readers.split(","))
    return min(failed, 1)


READERS = (
    "sacct,sacct-csv,json,swf", "csv,pbs,nextflow,batsim", "parquet,packed,qstat",
    "dumps,slurm-conf,toml,study,settings",
)  # fmt: skip
"""The readers that one process tests, because imports take longer than a hundred inputs."""


@pytest.mark.long
@pytest.mark.parametrize("readers", READERS)
def test_no_damaged_input_ends_in_a_traceback_or_costs_more_than_it_may(readers: str) -> None:
    command = [sys.executable, "-m", "tests.security.test_fuzz_readers", readers, "0", str(INPUTS)]
    environment = {**os.environ, "BATCHCAST_FUZZ_SEED": SEED}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    inputs = re.findall(r"(?m)^input (\S+) (\d+)$", done.stdout)
    told = re.sub(r"(?m)^input .*\n", "", done.stdout)
    assert done.returncode == 0, (
        f"seed {SEED}, exit {done.returncode}, last input {inputs[-1:]}\n{told[-8000:]}{done.stderr[-2000:]}"
    )
    assert len(inputs) == INPUTS * len(readers.split(","))


@pytest.mark.long
def test_a_reader_that_fails_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    """Checks that an endless reader and a reader that raises are counted, with the command that repeats the failure."""

    def broken(path: Path) -> None:
        if path.parent.name == "1":
            raise KeyError("x")
        while path.parent.name == "2":
            pass

    monkeypatch.setattr(sys.modules[__name__], "SECONDS", 0.05)
    monkeypatch.setattr(sys.modules[__name__], "corpus", lambda: {"swf": (broken, [b"1 2 3\n"])})
    before = signal.getsignal(signal.SIGVTALRM)
    try:
        assert attack("swf", 0, 4, tmp_path) == 2
    finally:
        signal.signal(signal.SIGVTALRM, before)
    told = capsys.readouterr().out
    assert "KeyError: 'x'" in told
    assert f"BATCHCAST_FUZZ_SEED={SEED} python -m tests.security.test_fuzz_readers swf 2 1" in told


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
