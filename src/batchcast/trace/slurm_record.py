"""Open a folder with a recorded schedule of a real Slurm, or one with a site's dumps."""

from __future__ import annotations

import lzma
from pathlib import Path

from ..errors import InputError
from ..formats.slurm_record import Record, read_record

NEEDED = ("run.json", "node.txt", "partition.txt", "submissions.tsv", "sacct.psv")


def read_texts(folder: Path) -> dict[str, str]:
    """Text files of a folder by name; `.xz` is unpacked and left out of the name, what is no text stays out."""
    texts = {}
    for path in sorted(folder.iterdir()):
        try:
            if path.suffix == ".xz":
                with lzma.open(path, "rt", encoding="utf-8") as file:
                    texts[path.stem] = file.read()
            elif path.is_file():
                texts[path.name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise InputError(f"{path}: cannot be read ({error})", hint="copy it anew") from None
    return texts


def open_record(folder: str | Path) -> Record:
    """One recorded run. InputError names the file that is missing."""
    place = Path(folder)
    texts = read_texts(place) if place.is_dir() else {}
    missing = [name for name in NEEDED if name not in texts]
    if missing:
        raise InputError(
            f"{place}: no recorded run here: {', '.join(missing)} not found", hint="a folder as drive.py writes it"
        )
    return read_record(place.name, texts)
