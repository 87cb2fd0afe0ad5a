"""The attack of the security review, repeated: python -m tests.security.attack [postgresql://...]

A private site with a real service (TCP and unix socket) and a real collector, in an SQLite store, and in the PostgreSQL
database that the URL names. Programs that replace Slurm's commands answer the collector. Three attackers try what the
review found (H1 to M9, and the low-severity points that an attacker causes): a neighbor with another user id, a client
over TCP, and files from strangers. A row is a point of the review, a number is how often the attacker succeeded: each
number must be 0. A dash: the point does not exist with this store. The last row is a control: how many secrets the same
questions return to root.

The program needs root, because it runs code as the neighbor.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import http.client
import json
import lzma
import os
import pickle
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock
from urllib.parse import urlencode

from batchcast.compiled.place import kernel_folder
from batchcast.errors import BatchcastError
from batchcast.service.answers.model_store import CLOCK, _digest, _secret_key
from batchcast.service.settings import load
from batchcast.store import tokens
from batchcast.store.database import Store
from batchcast.store.place import clock_path
from batchcast.trace import read_trace
from batchcast.trace.machine_files import open_machine
from batchcast.trace.whole_file import whole_file
from tests.unit.service.http.test_bad_clients import Process
from tests.until import until

from .site import FIGURES, FORECAST, OTHER, OWNER, SECRETS, build
from .test_kept_model import Canary
from .test_routes import ASKED, JOB, SIZES, found_in

NEIGHBOUR = 4321
"""A user id that no account of the machine has."""
CHOICE = f"/v1/choices?{urlencode({'choice': SIZES[1]})}"
QUESTIONS = {
    "H3": (f"/script?job={JOB}", f"/v1/start?job={JOB}"),
    "M1": (f"/v1/hint?user={OTHER}&partition=main&ntasks=389", f"/v1/hint?user={OWNER}"),
    "other": ("/", f"/jobs?user={OWNER}", f"/v1/report?user={OWNER}", f"/v1/walltime?job={JOB}", "/metrics"),
}
"""The questions of each point; after a blank the fields of a form. `test_routes.py` asks every route as every
viewer."""
ON_TCP = {**QUESTIONS, "H4": (f"/script {ASKED}",)}
ON_UNIX = {**QUESTIONS, "H4": (f"/v1/where?{ASKED}", CHOICE)}
CONTROL = {"H3": QUESTIONS["H3"], "H4": (CHOICE,)}
MOST_MB = 500
SLURM = """#!/bin/sh
case "$(basename "$0") $*" in
"scontrol show config"*) printf 'ClusterName = c\\nPrivateData = jobs\\nSLURM_VERSION = 22.05.8\\n' ;;
"scontrol --oneliner show partition"*) echo "PartitionName=main Default=YES State=UP TotalCPUs=8 Nodes=n1" ;;
squeue*) echo $$ > PLACE/asked; cat PLACE/gate; echo "$SQUEUE_FORMAT2" | sed 's/[A-Za-z-]*:\\([^,]*\\),*/T\\1/g' ;;
sinfo*) ;;
*) exit 1 ;;
esac
"""
SETTINGS = f'runtime = "recent_mean"\nmemory = ""\nlimits = "largest_recent"\nwait = "{FORECAST},recent_wait:need=1"\n'


def as_neighbour(act: Callable[[], Any]) -> Any:
    """Run a function as the user `neighbour` in a separate process, and return its result."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(NEIGHBOUR)
            os.setuid(NEIGHBOUR)
            os.write(there, json.dumps(act()).encode())
        os._exit(0)
    os.close(there)
    with os.fdopen(here) as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text)  # an attack that crashed is not a valid attack


def opened(*paths: Path) -> int:
    """Return how many of the files this process can read or lock."""
    count = 0
    for path in paths:
        with contextlib.suppress(PermissionError), path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            count += 1
    return count


class Asked(NamedTuple):
    """The addresses of the service of one store."""

    tcp: Any
    unix: str

    def ask(self, address: Any, target: str, form: str = "", **headers: str) -> tuple[int, str]:
        """Return the status and the text of an answer."""
        client = http.client.HTTPConnection("localhost", timeout=60)
        client.sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        client.sock.connect(address)
        kind = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        client.request("POST" if form else "GET", target, form or None, kind | headers)
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        return answer.status, text

    def told(self, address: Any, questions: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Return, by point, how many secrets of the owner the answers at an address contain."""
        found = {}
        for point, some in questions.items():
            answers = {each: self.ask(address, *each.split(" ")) for each in some}
            assert all(status < 500 for status, _ in answers.values()), answers
            found[point] = sum(len(found_in(text, each, SECRETS, FIGURES)) for each, (_, text) in answers.items())
        return found

    def warm(self) -> None:
        """Wait until the models are loaded: until then the service answers everybody with 503."""
        for address in self:
            until(lambda at=address: self.ask(at, CHOICE)[0] != 503, seconds=300.0, every=0.2)

    def many_connections(self) -> int:
        """M5: return how many requests of an honest client and user fail while one client holds 30 connections."""
        with contextlib.ExitStack() as held:
            for _ in range(30):
                one = held.enter_context(socket.create_connection(self.tcp))
                one.sendall(f"GET /v1/where?{ASKED} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            honest = [self.ask(self.tcp, "/v1/health")[0], as_neighbour(lambda: self.ask(self.unix, "/v1/health")[0])]
        return sum(status != 200 for status in honest)

    def stream(self, store: str) -> int:
        """M7: return whether a stream is still open ten seconds after its token was revoked."""
        with Store(store) as base:
            with base.begin() as connection:
                token = tokens.issue(connection, os.urandom(36), "otherb", "", time.time(), time.time() + 600)
            with socket.create_connection(self.tcp, timeout=60) as client:
                head = f"GET /jobs/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
                client.sendall(head.encode())
                assert b" 200 " in client.recv(100)
                with base.begin() as connection:
                    tokens.revoke(connection, [str(tokens.id_of(token))], time.time())
                client.settimeout(10)
                with contextlib.suppress(ConnectionResetError):
                    try:
                        while client.recv(65536):
                            pass
                    except TimeoutError:
                        return 1
        return 0

    def digits(self) -> int:
        """Low severity: return how many forms with numbers of 5,000 digits are answered with a failure."""
        form = {"partition": "main", "ntasks": "4", "time": "60"}
        forms = (urlencode({**form, field: "9" * 5000}) for field in ("time", "mem", "ntasks", "nodes"))
        return sum(self.ask(self.tcp, "/script", each)[0] >= 500 for each in forms)


@contextlib.contextmanager
def serving(place: Path, store: str) -> Iterator[Asked]:
    """Start the service on TCP and on a unix socket that every user can reach."""
    settings = load({"store": store}, {})
    with Process(settings, 1024) as tcp, Process(settings, 1024, str(place / "socket")) as unix:
        asked = Asked(tcp.address, unix.address)
        asked.warm()
        yield asked
    assert b"Traceback" not in tcp.log + unix.log


def collecting(place: Path, store: str) -> dict[str, int]:
    """M2, M8, M9: count the files that the neighbor reads and locks while a collector waits for squeue."""
    os.mkfifo(place / "gate")
    (place / "bin").mkdir()
    for name in ("scontrol", "squeue", "sinfo", "sacct", "sdiag"):
        (place / "bin" / name).write_text(SLURM.replace("PLACE", str(place)))
        (place / "bin" / name).chmod(0o755)
    environment = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "BATCHCAST_STORE": store}
    collector = subprocess.Popen(
        [sys.executable, "-m", "batchcast", "collect", "--once"], env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    with (place / "gate").open("w"):  # squeue has opened the file for reading
        process = Path("/proc", (place / "asked").read_text().strip())
        secret = next(
            word for word in (process / "environ").read_bytes().split(b"\0") if word.startswith(b"SQUEUE_FORMAT2=")
        )
        mark = secret.split(b":")[1].split(b",")[0]
        assert len(mark) > 16, "no mark is in the environment"

        def reads() -> int:
            seen = [each for each in (process / "cmdline", process.parent / process.name / "environ") if opened(each)]
            return sum(mark in each.read_bytes() for each in seen)

        found = {"M8": as_neighbour(reads)}
        if "://" not in store:
            found["M9"] = as_neighbour(lambda: opened(Path(f"{store}.lock")))
            files = [path for path in Path(store).parent.iterdir() if path.name.startswith(Path(store).name)]
            found["M2"] = as_neighbour(lambda: opened(*files))
    said = collector.communicate()[0].decode()
    assert "Traceback" not in said, said
    return found


def open_store(store: str) -> int:
    """M2: return whether the service serves a store that other users can read."""
    Path(store).chmod(0o644)
    command = [sys.executable, "-m", "batchcast", "serve", "--store", store, "--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    Path(store).chmod(0o600)
    return int("is open to others" not in done.stderr)


def on_site(place: Path, url: str = "") -> dict[str, int]:
    """Return the results of all attacks on the service and the collector of one store, by point."""
    place.chmod(0o755)
    store = build(place, True, url)
    with serving(place, store) as asked:
        each = as_neighbour(lambda: [asked.told(asked.tcp, ON_TCP), asked.told(asked.unix, ON_UNIX)])
        found = {point: sum(one[point] for one in each) for point in ON_TCP}
        control = asked.told(asked.unix, CONTROL)
        assert all(control.values()), control
        found |= {"M5": asked.many_connections(), "M7": asked.stream(store), "5,000 digits": asked.digits()}
    found |= collecting(place, store)
    if not url:
        found["M2"] += open_store(store)
    return {**found, "control": sum(control.values())}


def unpacked(place: Path) -> dict[str, int]:
    """H1, H2: return what code runs when a user asks with the store of an unpacked folder, in this folder, and with a
    store in a shared folder in which the neighbor has replaced the saved model.

    As a control the saved model is first replaced with the user's own key: then its code must run.
    """
    build(place, False)
    model, ran = clock_path(str(place / "store.db"), "c"), place / "ran"
    head = json.loads(model.read_bytes().partition(b"\n")[0])
    body = pickle.dumps(Canary(ran))
    head["parts"][CLOCK]["bytes"] = len(body)
    first = json.dumps(head).encode() + b"\n"
    (place / ".numba_config.yaml").write_text(f"cache_dir: {place / 'kernels'}\n")
    (place / "job.sh").write_text("#!/bin/sh\n#SBATCH -p main -n 4 -t 60\n")
    words = [sys.executable, "-m", "batchcast", "start", "--test", "job.sh", "--store", "./store.db"]
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}

    def runs(write: Callable[[bytes], object], key: bytes) -> int:
        """Return whether the code of a model that is written with a key runs when the user asks."""
        model.unlink(missing_ok=True)
        write(first + _digest(key, first, body) + b"\n" + body)
        done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)
        assert "Traceback" not in done.stderr, done.stderr
        count = int(ran.exists())
        ran.unlink(missing_ok=True)
        return count

    def of_neighbour(way: Callable[[], object]) -> Callable[[bytes], object]:
        """Return an attack in which the neighbor writes a file, and puts it in the model's place."""

        def written(text: bytes) -> int:
            theirs.unlink(missing_ok=True)
            theirs.write_bytes(text)
            way()
            return 0

        return lambda text: as_neighbour(lambda: written(text))

    place.chmod(0o777)
    theirs = place / "theirs"
    with mock.patch.dict(os.environ, environment, clear=True):
        kernel_folder.cache_clear()
        own = _secret_key()
    kernel_folder.cache_clear()
    assert runs(model.write_bytes, own), "the control: with the user's own key the code runs"
    found = runs(model.write_bytes, b"of somebody else")
    # the neighbor's files have a digest that nobody could make without the key, and are refused because of their owner
    for way in (lambda: theirs.rename(model), lambda: os.link(theirs, model), lambda: model.symlink_to(theirs)):
        found += runs(of_neighbour(way), own)
    return {"H1": found, "H2": len(list(place.glob("kernels/**/*")))}


def beside_output(place: Path) -> int:
    """M3: return whether a link that the neighbor made in a shared folder redirects an output file."""
    precious = place / "precious"
    precious.write_text("mine")
    (place / "shared").mkdir()
    (place / "shared").chmod(0o1777)
    place.chmod(0o755)
    names = (f".out.csv.{os.getpid()}.part", ".out.csv.part", "out.csv.part", ".out.csv.tmp", "out.csv")

    def lay() -> int:
        for name in names:
            (place / "shared" / name).symlink_to(precious)
        return 0

    as_neighbour(lay)
    with contextlib.suppress(OSError, BatchcastError), whole_file(place / "shared" / "out.csv") as part:
        part.write_text("theirs")
    return int(precious.read_text() != "mine")


def kernels(place: Path) -> int:
    """M4: return whether kernels are loaded from a folder that a group can write to, or that the neighbor owns."""
    before, count = dict(os.environ), 0
    os.environ.pop("NUMBA_CACHE_DIR", None)
    os.environ["XDG_CACHE_HOME"] = str(place / "cache")
    place.chmod(0o755)
    for owner, mode in ((0, 0o770), (NEIGHBOUR, 0o700)):
        shutil.rmtree(place / "cache", ignore_errors=True)
        kernel_folder.cache_clear()
        folder = Path(kernel_folder())
        assert folder.is_relative_to(place / "cache")
        os.chown(folder, owner, -1)
        folder.chmod(mode)
        kernel_folder.cache_clear()
        count += Path(kernel_folder()).is_relative_to(place / "cache")
    os.environ.clear()
    os.environ.update(before)
    kernel_folder.cache_clear()
    return count


def bombs(place: Path) -> dict[str, int]:
    """M6 and low: return which files are opened, hang or use much memory, and whether an error reveals another file."""
    line = b"1 10 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1\n"
    (place / "a.swf.gz").write_bytes(gzip.compress(line + b"\n" * (80 << 20)))
    (place / "a.swf.xz").write_bytes(lzma.compress(line + b"\n" * (80 << 20), preset=0))
    (place / "deep.toml").write_text(".".join("a" * 100_000) + " = 1\n")
    os.mkfifo(place / "pipe")
    (place / "secret").write_text("root:my-secret-word\n")
    for name, included in (("zero", "/dev/zero"), ("fifo", place / "pipe"), ("other", place / "secret")):
        (place / name).mkdir()
        text = f"Include {included}\nNodeName=n1 CPUs=4\nPartitionName=p Nodes=n1\n"
        (place / name / "slurm.conf").write_text(text)
    tries: list[tuple[Callable[[Any], Any], Path]] = [(read_trace, place / f"a.swf.{end}") for end in ("gz", "xz")]
    tries += [(open_machine, place / "deep.toml")]
    tries += [(open_machine, place / name / "slurm.conf") for name in ("zero", "fifo", "other")]
    got, tells, before = 0, 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for act, path in tries:
        try:
            act(path)
            got += 1
        except BatchcastError as error:
            tells += "my-secret-word" in f"{error} {error.hint}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"M6": got + (grown > MOST_MB * 1024), "Include": tells}


ROWS = {
    "H1": "a saved model runs code", "H2": "a working folder runs code", "H3": "/script?job= names an owner",
    "H4": "answers tell sizes and limits", "M1": "/v1/hint tells of others", "other": "any other route tells",
    "M2": "the store is open", "M3": "a link beside an output file", "M4": "kernels of others are loaded",
    "M5": "a client locks others out", "M6": "small files take memory or time", "M7": "a stream outlives its token",
    "M8": "the mark is in /proc", "M9": "the lock can be held", "5,000 digits": "an answer of 500",
    "Include": "an error quotes any file", "control": "(root sees, for comparison)",
}  # fmt: skip


def attack(*urls: str) -> dict[str, dict[str, int]]:
    """Return the counts by point and store."""
    with tempfile.TemporaryDirectory(prefix="attack-") as name, contextlib.ExitStack() as kept:
        root = Path(name)
        root.chmod(0o755)
        (root / "b.toml").write_text(SETTINGS)
        own = {"BATCHCAST_CONFIG": str(root / "b.toml"), "XDG_STATE_HOME": str(root)}
        kept.enter_context(mock.patch.dict(os.environ, own))  # which also takes away what it adds
        places = [root / kind for kind in ("folder", "output", "cache", "bombs", "sqlite", *map(str, range(len(urls))))]
        for place in places:
            place.mkdir()
        found = {"either": {**unpacked(places[0]), "M3": beside_output(places[1]), "M4": kernels(places[2])}}
        found["either"] |= bombs(places[3])
        found["SQLite"] = on_site(places[4])
        for place, url in zip(places[5:], urls):
            found["PostgreSQL"] = on_site(place, url)
    return found


def table(found: dict[str, dict[str, int]]) -> str:
    """Return the counts as text, with a row for each point."""
    stores = [name for name in found if name != "either"]
    lines = [f"{'point':13}{'attack':34}" + "".join(f"{name:>12}" for name in stores)]
    for point, words in ROWS.items():
        counts = (found["either"].get(point, found[name].get(point, "-")) for name in stores)
        lines.append(f"{point:13}{words:34}" + "".join(f"{count:>12}" for count in counts))
    return "\n".join(lines)


def main() -> int:
    if os.geteuid() != 0:
        sys.exit("this program becomes another user: run it as root")
    found = attack(*sys.argv[1:2])
    print(table(found))
    return int(any(count for some in found.values() for point, count in some.items() if point != "control"))


if __name__ == "__main__":
    sys.exit(main())
