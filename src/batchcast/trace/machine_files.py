# SPDX-License-Identifier: Apache-2.0
"""Read a machine: from TOML, from slurm.conf, or from a folder with the dumps of a site (text or JSON)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..ceilings import small_text
from ..errors import InputError
from ..formats.slurm.conf import dumps_of
from ..formats.slurm.resources import Names, fold
from ..formats.slurm.scontrol import read_machine
from ..formats.slurm.scontrol_json import UNTOLD, as_text
from ..machines.machine import Machine
from ..machines.toml import CAPTURE, read_machine_toml, write_machine
from .source import unpacked_text
from .whole_file import file_errors

_LARGEST_DUMP = 1 << 30  # bytes; the dump of a site with 100,000 nodes has a tenth of this size


def read_texts(folder: Path) -> dict[str, str]:
    """Return the text files of a folder by name. A file `NAME.xz` is unpacked and listed as `NAME`.

    Files that are not UTF-8 text are left out. InputError if a file cannot be read.
    """
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
"""For each file of a site's dumps, the command whose output it contains. `node.json` has the output with `--json`."""


def open_machine(path: str | Path) -> Machine:
    """Read the description of a machine: a TOML file (`batchcast machine`), a slurm.conf, a SimGrid platform (.xml), or
    a folder with the dumps `DUMPS`."""
    # A dump in a folder may be compressed (.xz) or in JSON (`node.json`). If a dump exists as text and as JSON, the
    # text is read. A missing dump is replaced by the folder's slurm.conf with its included files and gres.conf. If
    # `path` is itself a slurm.conf, slurm.conf replaces the dumps `STATE` in its folder, and the other dumps are read.
    place = Path(path)
    if place.is_dir():
        return machine_of(read_texts(place), str(place))
    if place.suffix == ".conf" and place.exists():
        texts = read_texts(place.parent)
        said = from_conf(texts, str(place.parent), place.name)
        return machine_of({**{name: text for name, text in texts.items() if name not in STATE}, **said}, str(place))
    if not place.exists():
        raise InputError(f"{place}: no such file", hint=CAPTURE)
    try:
        with file_errors(place, "cannot be read"):
            text = small_text(place)
    except UnicodeDecodeError as error:
        what = f"{place}: not text: {error.reason} at byte {error.start} (accepted: TOML in UTF-8)"
        raise InputError(what, hint=CAPTURE) from None
    if place.suffix == ".xml":
        from ..formats.batsim import read_platform

        return read_platform(text, str(place))
    return read_machine_toml(text, Names(), str(place))


def machine_of(texts: dict[str, str], where: str) -> Machine:
    """Return the machine that texts by file name describe; InputError if nodes or partitions are missing.

    `where` is the name of the folder for messages.
    """
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
    left_out = list(machine.left_out)
    if given["partition.txt"].lstrip().startswith("{") and len(machine.partitions) > 1:
        left_out.append(UNTOLD)
    left_out += [name for name in ("topology.yaml", "resources.yaml") if name in texts]
    enforced = set(machine.settings.get("AccountingStorageEnforce", "").split(",")) & {"limits", "qos", "safe"}
    if "slurm.conf" in texts and enforced and not (qos or assoc):
        left_out.append(LIMITS)
    return replace(machine, left_out=tuple(left_out))


STATE = ("node.txt", "node.json", "partition.txt", "partition.json", "config.txt", "config.json")
"""Dumps of `scontrol show` that are not needed if slurm.conf is given, which has the same facts."""
LIMITS = "limits of QOS and accounts (sacctmgr -P show qos > qos.txt; sacctmgr -P show assoc > assoc.txt)"


def from_conf(texts: dict[str, str], where: str, name: str = "slurm.conf") -> dict[str, str]:
    """Return the dumps that a folder's slurm.conf replaces.

    An included file is first searched for in the same folder, because a copied slurm.conf still has the paths of the
    machine from which it was copied.
    """
    if name not in texts:
        raise InputError(f"{where}/{name}: not text (accepted: slurm.conf(5), in UTF-8)")

    def load(included: str) -> str | None:
        if (text := texts.get(Path(included).name)) is not None:
            return text
        try:
            return small_text(Path(where) / included)
        except (OSError, ValueError, InputError):  # small_text also refuses pipes and devices, which may never end
            return None

    return dumps_of(texts[name], f"{where}/{name}", load, texts.get("gres.conf", ""))


def toml_of(machine: Machine) -> str:
    """Return the machine as TOML, with node names as host lists (`n[1-4]`)."""
    return write_machine(machine, fold)
