"""A real JupyterHub with batchspawner on the lab's Slurm, and the few requests that a browser sends."""

from __future__ import annotations

import contextlib
import http.cookiejar
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from slurm_lab import Lab

import batchcast.client

HOME = Path(sys.prefix) / "jupyterhub"
"""The folder where `make setup-workflows` installs the hub: a separate venv, because the hub needs other versions of
packages."""
CONTRIB = Path(__file__).parents[3] / "contrib" / "jupyterhub"
CONFIG = """
import sys
from batchspawner import SlurmSpawner
sys.path.insert(0, {contrib!r})
from batchcast_jupyterhub import offer

class Here(SlurmSpawner):
    def _req_homedir_default(self):
        return {folder!r}

    def state_gethost(self):
        return "127.0.0.1"  # the lab's nodes are all this machine

c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[0]}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{ports[1]}"
c.ConfigurableHTTPProxy.command = [{home!r} + "/bin/configurable-http-proxy"]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[2]}"
c.JupyterHub.spawner_class = Here
c.SlurmSpawner.exec_prefix = "setpriv --reuid={{username}} --regid={{username}} --clear-groups"
c.SlurmSpawner.req_srun = ""
c.SlurmSpawner.req_prologue = "export HOME=" + {folder!r}
c.SlurmSpawner.req_keepvars_extra = "LD_LIBRARY_PATH,SLURM_CONF"
c.SlurmSpawner.batchspawner_singleuser_cmd = {home!r} + "/bin/batchspawner-singleuser"
c.Spawner.cmd = [{home!r} + "/bin/jupyterhub-singleuser"]
c.Spawner.environment = {{"PATH": {home!r} + "/bin:/usr/bin:/bin", "SLURM_CONF": {conf!r}}}
c.SlurmSpawner.batch_script = SlurmSpawner.batch_script.default_value.replace(
    "#SBATCH --get-user-env=L\\n", "")  # the lab's users have no shell to log in with
offer(c, {choices!r})
"""


def missing() -> str:
    """Return why the hub cannot run here; an empty string if it can."""
    return "" if (HOME / "bin" / "jupyterhub").exists() else "no JupyterHub in .venv/jupyterhub (make setup-workflows)"


class Hub:
    """A running hub: `page` and `send` act as a browser that is signed in as one user."""

    def __init__(self, lab: Lab, service: Path, choices: dict[str, dict[str, str]]) -> None:
        self.folder, self.lab = lab.root / "hub", lab
        self.folder.mkdir()
        self.folder.chmod(0o777)
        ports = _free_ports()
        self.address = f"http://127.0.0.1:{ports[0]}/hub"
        (self.folder / "batchcast_client.py").symlink_to(batchcast.client.__file__)
        config = CONFIG.format(contrib=str(CONTRIB), ports=ports, home=str(HOME), folder=str(self.folder),
                               conf=str(lab.slurm_conf), choices=choices)  # fmt: skip
        (self.folder / "config.py").write_text(config)
        environment = {
            **lab.outside, "BATCHCAST_SERVICE": str(service), "PYTHONPATH": str(self.folder),
            "PATH": f"{HOME / 'bin'}:{lab.outside['PATH']}",
        }  # fmt: skip
        with (lab.root / "log" / "hub.log").open("wb") as log:
            command = [str(HOME / "bin" / "jupyterhub"), "-f", str(self.folder / "config.py")]
            self.process = subprocess.Popen(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)  # fmt: skip
        self.cookies = http.cookiejar.CookieJar()
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def __enter__(self) -> Hub:
        self.lab.wait(self._is_up, "an answer of the hub", 60)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)

    def said(self) -> str:
        """Return the end of the hub's log."""
        return (self.lab.root / "log" / "hub.log").read_text(errors="replace")[-3000:]

    def page(self, place: str) -> str:
        """A page's text."""
        return str(self.browser.open(self.address + place, timeout=60).read().decode())

    def send(self, place: str, **fields: str) -> str:
        """Return the page after a form was sent, as the browser would load it."""
        self.page(place)
        mark = next(one.value for one in self.cookies if one.name == "_xsrf")
        body = urlencode({"_xsrf": mark, **fields}).encode()
        try:
            return str(self.browser.open(f"{self.address}{place}", body, timeout=60).read().decode())
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{error}: {self.said()}") from None

    def sign_in(self, user: str) -> None:
        """Sign in as this user."""
        self.send("/login", username=user, password="any")

    def choices(self) -> dict[str, str]:
        """Return each choice of the form with the text about its start; empty if there is no text."""
        rows = re.findall(
            r'<label><input type="radio"[^>]*>\s*([^<]*)(?:<span[^>]*>([^<]*)</span>)?', self.page("/spawn")
        )
        return {name.strip(): said for name, said in rows}

    def _is_up(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(self.said())
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return "Sign in" in self.page("/login")
        return False


def _free_ports() -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
