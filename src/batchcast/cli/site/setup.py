# SPDX-License-Identifier: Apache-2.0
"""`batchcast doctor` checks a site and shows its settings; `batchcast install` writes systemd units."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import BatchcastError
from ..grammar import option, output_option, verb
from ..output import document, echo, emit, say
from ..site_options import myself, site_options, site_settings

if TYPE_CHECKING:
    from ...service.settings import Settings

SERVICES = ("batchcast-collect.service", "batchcast-export.service", "batchcast-serve.service")
ASK_SLURM = ("batchcast-collect.service",)
START = "batchcast-start"
OTHER_FILES = ("batchcast-export.timer", "batchcast.sysusers", "batchcast.lua", "cli_filter.lua", START)
PROGRAM = "/opt/batchcast/bin/batchcast"
NO_NETWORK = "PrivateNetwork=yes\nRestrictAddressFamilies=AF_UNIX\n"
NETWORK = "PrivateNetwork=no\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n"
LISTED = "/run/batchcast/planned"
CLOSED = re.compile(r"#.*\nUMask=0077\n")
"""The units' own line, with the comment above it."""
OPEN = """\
# Every user can read the store, because Slurm hides no jobs. To restrict it to the owner: UMask=0077.
UMask=0022
"""


def unit_files(
    program: str, *, is_open: bool, is_remote: bool, clients: str = "", slurm_conf: str = "", plan_list: str = ""
) -> dict[str, str]:
    """Return the content of each systemd unit file, by file name.

    `program` is the command that the units start. `is_open` lets everybody read the store, else only its owner.
    `is_remote` (a store on another server) lets the service use the network. `clients` is the folder of squeue and
    sacct if it is not a usual one, `slurm_conf` the path for SLURM_CONF, and `plan_list` the file in which the
    collector lists planned jobs for the script that runs when a job starts.
    >>> text = unit_files("/opt/b/bin/batchcast", is_open=False, is_remote=False, clients="/opt/slurm/bin")
    >>> [line for line in text["batchcast-collect.service"].splitlines() if "PATH" in line or "ExecStart" in line]
    ['ExecStart=/opt/b/bin/batchcast collect --quiet', 'Environment=PATH=/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin']
    """
    from ...service.settings import settings_file

    folder = files("batchcast.service") / "units"
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in (*SERVICES, *OTHER_FILES)}
    for name in SERVICES:
        text = texts[name].replace(PROGRAM, program)
        if is_open:
            text = CLOSED.sub(OPEN, text)
        if is_remote:
            text = text.replace(NO_NETWORK, NETWORK)
        if name in ASK_SLURM:
            more = [f"Environment=PATH={clients}:/usr/local/bin:/usr/bin:/bin\n"] if clients else []
            more += [f"Environment=SLURM_CONF={slurm_conf}\n"] if slurm_conf else []
            text = text.replace("\nRestart=", "\n" + "".join(more) + "Restart=", 1)
        texts[name] = text
    texts["batchcast.toml"] = settings_file()
    texts[START] = _start(texts[START], clients, slurm_conf, plan_list)
    return texts


def _start(text: str, clients: str, slurm_conf: str, plan_list: str) -> str:
    """Return the script for PrologSlurmctld; slurmctld does not pass its environment to it."""
    text = text.replace(LISTED, plan_list or LISTED)
    if clients:
        text = text.replace("PATH=/usr/local", f"PATH={clients}:/usr/local", 1)
    if slurm_conf:
        text = text.replace("\nexport PATH\n", f"\nSLURM_CONF={slurm_conf}\nexport PATH SLURM_CONF\n")
    return text


@verb()
@site_options
@option("--no-ask", "Check only settings, programs and store; call no daemon.")
@option("--settings", "Show every setting, its value and where it was set.", "show_settings")
def doctor(no_ask: bool, show_settings: bool, as_json: bool, **options: Any) -> None:
    """Check the installation: programs, daemons, store, settings. Each problem comes with a remedy. Exit code 1 if a
    check failed."""
    from ...clusters.check import check_clusters
    from ...service.operations.doctor import check, settings_in_force

    settings = site_settings(options)
    force = settings_in_force(settings)
    if show_settings and not as_json:
        width = max(len(s["setting"]) for s in force)
        for s in force:
            echo(f"{s['setting'].ljust(width)} = {s['value']}  [{s['from']}]  {s['meaning']}")
        return
    findings = [*check(settings, not no_ask), *check_clusters(settings, myself(), not no_ask)]
    if as_json:
        emit(document("doctor", {}, {s["setting"]: s["value"] for s in force}, [], findings))
    else:
        for s in force:
            if s["from"] != "built in":
                echo(f"setting  {s['setting']} = {s['value']} ({s['from']})")
        width = max(len(f["check"]) for f in findings)
        for f in findings:
            echo(f"{f['state']:8} {f['check'].ljust(width)}  {f['found']}")
            if f["do"] and f["state"] != "ok":
                echo(f"{'':8} {''.ljust(width)}  -> {f['do']}")
    failed = [f["check"] for f in findings if f["state"] == "failed"]
    if failed:
        raise BatchcastError(f"failed: {', '.join(failed)}")


USUAL = ("/usr/bin", "/bin", "/usr/local/bin")


@verb()
@output_option(
    "Output folder.", "units", type=click.Path(file_okay=False), metavar="FOLDER", default="units", show_default=True
)
@option(
    "--private-jobs yes|no|auto",
    "Let only the collector read the store.  [default: the setting `private`, else Slurm's PrivateData]",
    "private",
)
def install(units: str, private: str | None, as_json: bool) -> None:
    """Write the systemd units of collector, service and export, and print how to enable them.

    The units start this installation, with the PATH and SLURM_CONF that Slurm needs and the network that the store
    needs. If jobs are hidden, or Slurm cannot be queried, only the collector's user may read the store.
    """
    from ...service.settings import load
    from ...store.place import sqlite_path
    from ...trace.whole_file import whole_file

    settings = load({"private": private})
    is_open, why = _is_open(settings)
    squeue = shutil.which("squeue")
    clients = str(Path(squeue).parent) if squeue and str(Path(squeue).parent) not in USUAL else ""
    program = Path(sys.prefix) / "bin" / "batchcast"
    texts = unit_files(
        str(program),
        is_open=is_open,
        is_remote=sqlite_path(settings["store"]) is None,
        clients=clients,
        slurm_conf=os.environ.get("SLURM_CONF", ""),
        plan_list=settings["plan_list"],
    )
    folder = Path(units)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with whole_file(folder / name) as part:
            part.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                part.chmod(0o755)
    if as_json:
        shown = {"units": units, "program": str(program), "open": is_open, "why": why}
        return emit(document("install", {}, shown, [], [{"file": str(folder / name)} for name in texts]))
    say(f"{len(texts)} files in {units}; {'every user' if is_open else 'only its collector'} may read the store: {why}")
    for what, place in ((str(program), program), ("its Python", Path(sys.base_prefix))):
        if place.is_relative_to("/home") or place.is_relative_to("/root"):
            say(f"note: {what} lies in a home directory ({place}), which the units cannot read: install batchcast in "
                "/opt/batchcast, with the system's Python")  # fmt: skip
    if squeue is None:
        say("note: squeue is not on PATH here; the collector needs it")
    for line in commands_after_install(folder):
        echo(line)


def commands_after_install(folder: Path) -> list[str]:
    """Return the commands that put the written units into place and start them; the guides show the same commands."""
    return [
        f"cp {folder}/batchcast.sysusers /usr/lib/sysusers.d/batchcast.conf && systemd-sysusers",
        f"mkdir -p /etc/batchcast && cp -n {folder}/batchcast.toml /etc/batchcast/",
        f"cp {folder}/batchcast-*.service {folder}/batchcast-*.timer /etc/systemd/system/",
        "systemctl daemon-reload && systemctl enable --now batchcast-collect batchcast-serve batchcast-export.timer",
    ]


def _is_open(settings: Settings) -> tuple[bool, str]:
    """Return whether every user may read the store, and the reason."""
    from ...service.batch_system import open_scheduler

    word = settings["private"]
    if word != "auto":
        return word == "no", f"private = {word}"
    try:
        hides = open_scheduler(settings)[0].hides_jobs()
    except BatchcastError as error:
        return False, f"Slurm did not report whether it hides jobs ({error.message})"
    return not hides, "Slurm's PrivateData hides jobs" if hides else "Slurm hides no jobs (PrivateData)"
