# SPDX-License-Identifier: Apache-2.0
"""Open a machine: its TOML, a folder with a site's dumps, as text or as `--json` writes them, or its slurm.conf."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..ceilings import parse_toml, small_text
from ..errors import InputError
from ..formats.slurm.conf import dumps_of
from ..formats.slurm.resources import Names, fold
from ..formats.slurm.scontrol import read_machine
from ..formats.slurm.scontrol_json import UNTOLD, as_text
from ..machines.machine import Machine
from ..machines.toml import read_machine_toml, write_machine
from .source import unpacked_text

_LARGEST_DUMP = 1 << 30  # bytes: a site of 100,000 nodes prints a tenth of it


def read_texts(folder: Path) -> dict[str, str]:
    """Text files of a folder by name; `.xz` is unpacked and left out of the name, what is no text stays out."""
    texts = {}
    for path in sorted(folder.iterdir()):
        try:
            if path.suffix == ".xz":
                texts[path.stem] = unpacked_text(path)
            elif path.is_file():
                texts[path.name] = small_text(path, _LARGEST_DUMP)
        except UnicodeDecodeError:
            continue
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error})", hint="copy it anew") from None
    return texts


DUMPS = {
    "node.txt": ("scontrol", "show", "node", "-o"),
    "partition.txt": ("scontrol", "show", "partition", "-o"),
    "config.txt": ("scontrol", "show", "config"),
    "reservation.txt": ("scontrol", "show", "reservation", "-o"),
    "qos.txt": ("sacctmgr", "-P", "show", "qos"),
    "assoc.txt": ("sacctmgr", "-P", "show", "assoc"),
}
"""The files of a site's dumps, and the command whose output each holds; `node.json` is the same with `--json`."""


def open_machine(path: str | Path) -> Machine:
    """The machine of a TOML file, a slurm.conf, a platform of SimGrid's (.xml), or of a folder with the dumps `DUMPS`.

    Each of a folder may be packed (.xz), and JSON instead (`node.json`); where both are there, the text is read. What
    no dump tells is read from the folder's `slurm.conf` with its includes and `gres.conf`. A slurm.conf that is named
    itself comes before the dumps beside it.
    """
    place = Path(path)
    if place.is_dir():
        return machine_of(read_texts(place), str(place))
    if place.suffix == ".conf" and place.exists():
        texts = read_texts(place.parent)
        said = from_conf(texts, str(place.parent), place.name)
        return machine_of({**{name: text for name, text in texts.items() if name not in STATE}, **said}, str(place))
    if not place.exists():
        raise InputError(f"{place}: no such file", hint="batchcast machine capture -o machine.toml")
    try:
        text = small_text(place)
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not text: {error.reason} at byte {error.start} (accepted: TOML in UTF-8)",
                         hint="batchcast machine capture -o machine.toml") from None  # fmt: skip
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror})") from None
    if place.suffix == ".xml":
        from ..formats.batsim import read_platform

        return read_platform(text, str(place))
    parse_toml(text, str(place), "batchcast machine capture -o machine.toml")
    return read_machine_toml(text, Names(), str(place))


def machine_of(texts: dict[str, str], where: str) -> Machine:
    """The machine of dumps by file name; nodes and partitions are needed, from dumps or a slurm.conf."""
    if "slurm.conf" in texts:
        said = from_conf(texts, where)
        texts = texts | {name: text for name, text in said.items() if not {name, name[:-3] + "json"} & set(texts)}
    given = {name: texts.get(name) or texts.get(name.replace(".txt", ".json"), "") for name in DUMPS}
    missing = [name for name in ("node.txt", "partition.txt") if not given[name]]
    if missing:
        commands = "; ".join(f"{' '.join(DUMPS[name])} > {name}" for name in missing)
        raise InputError(f"{where}: {', '.join(missing)} not found, nor a slurm.conf", hint=commands)
    node, partition, config, reservation, qos, assoc = (
        as_text(name.removesuffix(".txt"), text, f"{where}: {name}") for name, text in given.items()
    )
    machine = read_machine(node, partition, config, reservation, qos, assoc)
    if given["partition.txt"].lstrip().startswith("{") and len(machine.partitions) > 1:
        machine = replace(machine, left_out=(*machine.left_out, UNTOLD))
    beside = [name for name in ("topology.yaml", "resources.yaml") if name in texts]
    if beside:
        machine = replace(machine, left_out=(*machine.left_out, *beside))
    enforced = set(machine.settings.get("AccountingStorageEnforce", "").split(",")) & {"limits", "qos", "safe"}
    if "slurm.conf" in texts and enforced and not (qos or assoc):
        machine = replace(machine, left_out=(*machine.left_out, LIMITS))
    return machine


STATE = ("node.txt", "node.json", "partition.txt", "partition.json", "config.txt", "config.json")
"""The dumps that a slurm.conf can stand for."""
LIMITS = "limits of QOS and accounts (sacctmgr -P show qos > qos.txt; sacctmgr -P show assoc > assoc.txt)"


def from_conf(texts: dict[str, str], where: str, name: str = "slurm.conf") -> dict[str, str]:
    """A folder's slurm.conf as dumps. An Include is looked for beside it, then where its path says."""
    if name not in texts:
        raise InputError(f"{where}/{name}: not text (accepted: slurm.conf(5), in UTF-8)")

    def load(wanted: str) -> str | None:
        if (text := texts.get(Path(wanted).name)) is not None:
            return text
        try:
            return small_text(Path(where) / wanted)
        except (OSError, ValueError, InputError):  # also a FIFO or a device, which has no end
            return None

    return dumps_of(texts[name], f"{where}/{name}", load, texts.get("gres.conf", ""))


def toml_of(machine: Machine) -> str:
    """The machine as TOML, node names in their short form."""
    return write_machine(machine, fold)
