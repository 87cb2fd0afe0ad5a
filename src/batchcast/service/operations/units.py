# SPDX-License-Identifier: Apache-2.0
"""The units of this package as one site needs them: its program, its Slurm, its store, who may read what is written."""

from __future__ import annotations

from importlib.resources import files

SERVICES = ("batchcast-collect.service", "batchcast-export.service", "batchcast-serve.service")
ASK_SLURM = ("batchcast-collect.service",)
START = "batchcast-start"
OTHERS = ("batchcast-export.timer", "batchcast.sysusers", "batchcast.toml", "batchcast.lua", "cli_filter.lua", START)
PROGRAM, CLOSED, OPEN = "/opt/batchcast/bin/batchcast", "UMask=0077", "UMask=0022"
NO_NETWORK = "PrivateNetwork=yes\nRestrictAddressFamilies=AF_UNIX\n"
NETWORK = "PrivateNetwork=no\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n"
LISTED = "/run/batchcast/planned"
CLOSED_NOTE = "# The store is its owner's alone, users ask batchcast-serve. Open to everybody: UMask=0022.\n"
OPEN_NOTE = "# Everybody may read the store: jobs are hidden from nobody here. Where they are to be: UMask=0077.\n"


def unit_files(
    program: str, *, is_open: bool, is_remote: bool, clients: str = "", slurm_conf: str = "", plan_list: str = ""
) -> dict[str, str]:
    """The files by name.

    `program` is the command the units start; `is_open` lets everybody read the store, else nobody but its owner;
    `is_remote` (a store on another server) lets the service reach the network; `clients` is the folder of squeue and
    sacct where it is no usual one, `slurm_conf` the file that they are pointed at, `plan_list` where the collector
    lists planned jobs for what runs as a job starts.

    >>> text = unit_files("/opt/b/bin/batchcast", is_open=False, is_remote=False, clients="/opt/slurm/bin")
    >>> [line for line in text["batchcast-collect.service"].splitlines() if "PATH" in line or "ExecStart" in line]
    ['ExecStart=/opt/b/bin/batchcast collect --quiet', 'Environment=PATH=/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin']
    """
    folder = files("batchcast.service") / "units"
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in (*SERVICES, *OTHERS)}
    for name in SERVICES:
        text = texts[name].replace(PROGRAM, program)
        if is_open:
            text = text.replace(CLOSED_NOTE, "").replace(CLOSED, OPEN_NOTE + OPEN)
        if is_remote:
            text = text.replace(NO_NETWORK, NETWORK)
        if name in ASK_SLURM:
            more = [f"Environment=PATH={clients}:/usr/local/bin:/usr/bin:/bin\n"] if clients else []
            more += [f"Environment=SLURM_CONF={slurm_conf}\n"] if slurm_conf else []
            text = text.replace("\nRestart=", "\n" + "".join(more) + "Restart=", 1)
        texts[name] = text
    texts[START] = _start(texts[START], clients, slurm_conf, plan_list)
    return texts


def _start(text: str, clients: str, slurm_conf: str, plan_list: str) -> str:
    """The script for PrologSlurmctld; slurmctld hands its own environment on to none."""
    text = text.replace(LISTED, plan_list or LISTED)
    if clients:
        text = text.replace("PATH=/usr/local", f"PATH={clients}:/usr/local", 1)
    if slurm_conf:
        text = text.replace("\nexport PATH\n", f"\nSLURM_CONF={slurm_conf}\nexport PATH SLURM_CONF\n")
    return text
