"""Tests that whoever answers in place of a service gets no token, and chooses no word of a command."""

from __future__ import annotations

import datetime
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import batchcast.client
from batchcast.cli.main import cli
from batchcast.client import Client, UnsafeAddressError
from batchcast.errors import NoAnswer

from ..until import until

SECRET = "secret-token-of-ada"


class Listener(http.server.ThreadingHTTPServer):
    """A server on a port of loopback that keeps the heads of requests and gives one answer to each."""

    def __init__(self, answer: Callable[[], object] = dict) -> None:
        heads: list[str] = []
        self.heads = heads

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heads.append(f"{self.path}\n{self.headers}")
                body = json.dumps(answer()).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write nothing on stderr."""

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Listener:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


def ask(address: str, token: str = "") -> tuple[int, bytes]:
    return Client(address, token).get("/v1/x", "", time.monotonic() + 30.0)


def test_a_token_is_not_sent_to_a_port_that_anybody_may_listen_on() -> None:
    with Listener() as listener:
        with pytest.raises(UnsafeAddressError, match="while the service is down, any user"):
            ask(listener.address, SECRET)
        assert listener.heads == []
        assert ask(listener.address)[0] == 200, "without a token, loopback is asked"


@pytest.mark.parametrize("address", ["http://192.0.2.7:8080", "http://[2001:db8::1]:8080"])
def test_plain_http_does_not_leave_this_computer(address: str) -> None:
    with pytest.raises(UnsafeAddressError, match="plain http is only for this computer"):
        ask(address)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate of 127.0.0.1 in one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "batchcast test")])
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now,
                                   now + datetime.timedelta(days=1)).add_extension(alternative, False)  # fmt: skip
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(private + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def over_tls(certificate: Path) -> Iterator[Listener]:
    with Listener() as listener:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
        listener.address = listener.address.replace("http:", "https:")
        batchcast.client._tls.cache_clear()
        yield listener
        batchcast.client._tls.cache_clear()


def test_a_token_goes_over_tls_to_a_server_whose_certificate_is_trusted(
    over_tls: Listener, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert ask(f"{over_tls.address}/batchcast", SECRET)[0] == 200
    (head,) = over_tls.heads
    assert head.startswith("/batchcast/v1/x\n"), "a proxy may have the service below a path"
    assert f"Bearer {SECRET}" in head


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_with_another_certificate_gets_no_token(
    over_tls: Listener, certificate: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host == "localhost":  # the certificate is trusted, but for another name
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(ssl.SSLError):
        ask(over_tls.address.replace("127.0.0.1", host), SECRET)
    assert over_tls.heads == []


SERVES = """
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
os.chown(sys.argv[1], int(sys.argv[2]), -1)
if int(sys.argv[3]): os.setuid(int(sys.argv[3]))
server.listen()
while True:
    connection = server.accept()[0]
    connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + connection.recv(65536))
    connection.close()
"""


def answers_on(path: Path, token: str, owner: int = 0, user: int = 0) -> bytes:
    """Return what a server on a socket received; the socket belongs to `owner`, and the server runs as `user`."""
    with subprocess.Popen([sys.executable, "-c", SERVES, str(path), str(owner or os.geteuid()), str(user)]) as server:
        try:
            until(lambda: path.exists() and path.stat().st_mode & 0o777 == 0o666)
            return until(lambda: tried(path, token))
        finally:
            server.kill()


def tried(path: Path, token: str) -> bytes:
    try:
        return ask(str(path), token)[1]
    except OSError:
        return b""


def test_a_token_goes_to_a_socket_in_a_folder_of_one_s_own(tmp_path: Path) -> None:
    assert SECRET.encode() in answers_on(tmp_path / "api.sock", SECRET)


def test_a_token_does_not_go_to_a_socket_that_others_could_have_made(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(UnsafeAddressError, match=r"other users can write to \S+/shared"):
        answers_on(shared / "api.sock", SECRET)
    (shared / "api.sock").unlink()
    assert answers_on(shared / "api.sock", ""), "without a token, the socket is asked"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_token_goes_to_another_user_only_if_root_gave_that_user_the_folder(tmp_path: Path) -> None:
    sticky, service = tmp_path / "tmp", tmp_path / "service"
    sticky.mkdir()
    sticky.chmod(0o1777)
    service.mkdir()
    os.chown(service, 5001, -1)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(folder.stat().st_mode | 0o011)
    assert SECRET.encode() in answers_on(service / "api.sock", SECRET, 5001, 5001)
    for owner, user in ((5001, 5001), (0, 5001)):
        path = sticky / f"{owner}.sock"
        with pytest.raises(UnsafeAddressError, match=r"belongs to another user|user 5001 listens on"):
            answers_on(path, SECRET, owner, user)
    link = sticky / "link.sock"
    link.symlink_to(service / "api.sock")
    os.lchown(link, 5002, -1)
    (service / "api.sock").unlink()
    with pytest.raises(UnsafeAddressError, match=r"link\.sock belongs to another user"):
        answers_through(link, service / "api.sock")


def answers_through(link: Path, path: Path) -> bytes:
    """Return what a server of user 5001 received through a link."""
    with subprocess.Popen([sys.executable, "-c", SERVES, str(path), "5001", "5001"]) as server:
        try:
            return until(lambda: tried(link, SECRET))
        finally:
            server.kill()


def test_another_service_does_not_get_the_token_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from batchcast.clusters.configured import Cluster
    from batchcast.clusters.prediction import ask_service
    from batchcast.formats.slurm.sbatch import Request

    monkeypatch.setenv("BATCHCAST_TOKEN", SECRET)

    def answer() -> dict[str, Any]:
        return {"log": {"cluster": "b"}, "settings": {}, "warnings": [], "results": []}

    with Listener(answer) as listener:
        assert ask_service(Cluster(name="b", service=listener.address), Request({}), False).log.cluster == "b"
        assert SECRET not in "".join(listener.heads)


SBATCH = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word" >> "$LAB/argv"; done\necho 4711\n'
SCRIPT = "#!/bin/sh\n#SBATCH -n 4 -t 60 --mem=1G\necho\n"
HOSTILE = (
    "--export=ALL,BASH_ENV=/tmp/evil.sh --output=/home/ada/.bashrc --open-mode=append --chdir=/tmp --wrap=id -M other"
)
ROW = {"what": "as requested", "same_size": True, "partition": "main", "qos": "normal", "flags": HOSTILE, "procs": 4.0,
       "limit_s": 3600.0, "memory_kib": None, "begin_s": 0.0, "waits_s": [1.0], "runs_s": [10.0], "basis": "x",
       "change": {"partition": "main"}}  # fmt: skip


class Lab:
    """A user whose only cluster has a service, and an sbatch that writes down its arguments."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "bin").mkdir()
        (folder / "bin" / "sbatch").write_text(SBATCH)
        (folder / "bin" / "sbatch").chmod(0o755)
        (folder / "job.sh").write_text(SCRIPT)
        self.folder, self.settings = folder, folder / "batchcast.toml"
        for name, value in {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "LAB": str(folder),
                            "XDG_STATE_HOME": str(folder), "BATCHCAST_CONFIG": str(self.settings)}.items():  # fmt: skip
            monkeypatch.setenv(name, value)

    def submit(self, answer: Callable[[], object]) -> Result:
        """Run `batchcast submit` with a service that gives this answer."""
        return self.run(answer, "submit")

    def run(self, answer: Callable[[], object], *words: str) -> Result:
        """Run a verb about the job's script with a service that gives this answer."""
        with Listener(answer) as listener:
            table = f'[[cluster]]\nname = "alpha"\nservice = "{listener.address}"\nsubmit = "sbatch -M alpha"\n'
            self.settings.write_text(table)
            return CliRunner().invoke(cli, [*words, str(self.folder / "job.sh")])

    @property
    def argv(self) -> list[str]:
        """The arguments of each sbatch that ran."""
        path = self.folder / "argv"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def document(*rows: dict[str, Any], **more: Any) -> Callable[[], object]:
    log = {"cluster": "alpha", "own_runs": {}}
    return lambda: {"schema": "batchcast/start/1", "log": log, "settings": {"now_s": time.time()}, "warnings": [],
                    "results": list(rows)} | more  # fmt: skip


@pytest.mark.parametrize("qos", ["", "long"])
def test_the_words_of_a_service_never_reach_sbatch(lab: Lab, qos: str) -> None:
    """The row has hostile words in `flags`, as an earlier version wrote this field: the options are made here."""
    done = lab.submit(document(ROW | {"change": {"partition": "main", "qos": qos}}))
    assert done.exit_code == 0, done.output + repr(done.exception)
    words = [
        "-M",
        "alpha",
        "--partition=main",
        *([f"--qos={qos}"] if qos else []),
        "--ntasks=4",
        "--time=60",
        "--mem=1G",
    ]
    *argv, comment, job = lab.argv
    assert argv == [*words, "--parsable"]
    assert comment.startswith("--comment=sent-by-batchcast:")
    assert job == str(lab.folder / "job.sh")
    assert f"alpha: sbatch {' '.join(argv)} {comment} {job}" in done.stderr, "the command is shown before it runs"


@pytest.mark.parametrize(("change", "words"), [
    ({"size": 0.5, "limit_s": 7200.0}, "--ntasks=2 --time=02:00:00 --mem=1G"),
    ({"limit_s": 600.0, "memory_kib": 524288.0}, "--ntasks=4 --time=00:10:00 --mem=512M"),
    ({"gpu_type": "a100"}, "--ntasks=4 --time=60 --mem=1G"),
])  # fmt: skip
def test_another_size_or_limit_is_only_shown_and_only_if_it_is_asked_for(
    lab: Lab, change: dict[str, Any], words: str
) -> None:
    answer = document(ROW | {"change": {"partition": "main", **change}})
    assert isinstance(lab.submit(answer).exception, NoAnswer)
    done = lab.run(answer, "start", "--where", "--any-size", "--json", "--test")
    (row,) = json.loads(done.stdout)["results"]
    assert row["command"] == f"sbatch -M alpha --partition=main {words}"
    assert lab.argv == []


BAD_CHANGES: list[dict[str, Any]] = [
    {"export": "ALL,BASH_ENV=/tmp/x"}, {"wrap": "id"}, {"output": "/home/ada/.bashrc"}, {"flags": HOSTILE},
    {"partition": "main --wrap=id"}, {"partition": "--wrap=id"}, {"partition": "main\n#SBATCH --wrap=id"},
    {"partition": "main,other"}, {"qos": "-Mother"}, {"qos": "$(id)"}, {"qos": "a\x00b"}, {"qos": "x" * 1000},
    {"gpu_type": "a100;id"}, {"partition": ["main"]}, {"size": 1e9}, {"size": -1.0}, {"size": "2"},
    {"limit_s": -5.0}, {"limit_s": "1:00:00 --wrap=id"}, {"limit_s": 1e300}, {"memory_kib": 0.0},
]  # fmt: skip
BAD_ROWS: list[dict[str, Any]] = [
    {"waits_s": [-1.0]}, {"waits_s": ["1"]}, {"waits_s": [1.0] * 100_000}, {"runs_s": None}, {"procs": -4.0},
    {"procs": 1e300}, {"begin_s": "now"}, {"limit_s": -1.0}, {"qos": "a b"}, {"basis": "x" * 100_000}, {"change": None},
]  # fmt: skip


@pytest.mark.parametrize("row", [*({"change": {"partition": "main"} | each} for each in BAD_CHANGES), *BAD_ROWS])
def test_a_hostile_field_makes_the_answer_useless(lab: Lab, row: dict[str, Any]) -> None:
    done = lab.submit(document(ROW | row))
    assert "alpha: no answer: its service " in getattr(done.exception, "hint", ""), done.output + repr(done.exception)
    assert "gives an answer that cannot be used" in getattr(done.exception, "hint", "")
    assert lab.argv == []


def test_escapes_in_the_texts_of_a_service_do_not_reach_the_terminal(lab: Lab) -> None:
    done = lab.submit(document(ROW, warnings=["\x1b]0;owned\x07 late"]))
    assert "late" in done.stderr
    assert not {"\x1b", "\x07"} & set(done.output)


@pytest.mark.parametrize("answer", [
    document(log={"cluster": "alpha", "own_runs": {"job.sh": [9.0, 1e6, 0.1]}}), document(log={"cluster": ["alpha"]}),
    document(settings={"now_s": "soon"}), document(warnings=["x"] * 10_000), document(results={"a": 1}), lambda: [],
    lambda: "text", lambda: {"error": 1}, lambda: {"results": None},
])  # fmt: skip
def test_a_document_of_another_form_is_no_answer(lab: Lab, answer: Callable[[], object]) -> None:
    done = lab.submit(answer)
    assert "gives an answer that cannot be used" in getattr(done.exception, "hint", ""), repr(done.exception)
    assert lab.argv == []
