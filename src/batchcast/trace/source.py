# SPDX-License-Identifier: Apache-2.0
"""Opens a log as blocks of bytes: plain, gzip or xz told by content, or standard input; hashed on the way.

And finds column maps: those that come with batchcast by name, others by their file.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from ..ceilings import Ceilings, open_regular, parse_toml, small_text
from ..errors import InputError, UsageError, input_error
from ..formats.csv.column_map import ColumnMap, make_map

BLOCK = 1 << 20
STDIN = "-"
_REFUSED = {
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"BZh": ("bzip2", "bunzip2 it first, or pipe it: bzcat LOG | batchcast ... -"),
    b"\x28\xb5\x2f\xfd": ("zstandard", "pipe it: zstdcat LOG | batchcast ... -"),
    b"\xff\xfe": ("UTF-16 text", "iconv -f UTF-16 -t UTF-8 LOG, or pipe that: ... | batchcast ... -"),
    b"\xfe\xff": ("UTF-16 text", "iconv -f UTF-16 -t UTF-8 LOG, or pipe that: ... | batchcast ... -"),
    b"SQLite format 3": ("an SQLite database", "dump it as SWF or as a sacct dump"),
}


class Source:
    """One file, pipe or standard input as blocks of plain bytes, 1 MiB at most. With `regular` a pipe is refused.

    A damaged or truncated archive ends the blocks early: what could be read stands, and `damage` says so in a
    sentence; with `strict` it raises InputError. `sha256` is that of the file as it lies on disk, once all was read.
    """

    def __init__(self, path: str | Path, *, strict: bool = False, regular: bool = False) -> None:
        self.path = str(path)
        self.name = "standard input" if self.path == STDIN else self.path
        self.damage = ""
        self._strict = strict
        self._regular = regular
        self._ceilings = Ceilings.set()
        self._packed = 0
        self.is_packed = False
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The hash of the bytes read so far."""
        return self._hash.hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """The text, block by block; raises InputError for a file that is not there, is empty or is no text."""
        raw = self._raw()
        first = next(raw, b"")
        if not first:
            raise input_error(self.name, "the file is empty", hint="check that the log was written at all")
        for magic, (what, advice) in _REFUSED.items():
            if first.startswith(magic):
                raise input_error(self.name, f"this is {what}, not a job log", accepted=FORMS, hint=advice)
        self.is_packed = first.startswith((b"\x1f\x8b", b"\xfd7zXZ\x00"))
        if first.startswith(b"\x1f\x8b"):
            yield from self._unpacked(first, raw, lambda: zlib.decompressobj(wbits=31), "gzip")
        elif first.startswith(b"\xfd7zXZ\x00"):
            yield from self._unpacked(first, raw, lzma.LZMADecompressor, "xz")
        else:
            yield first
            yield from raw

    def _raw(self) -> Iterator[bytes]:
        try:
            if self.path == STDIN:
                yield from self._read(sys.stdin.buffer)
            else:
                with open_regular(self.path, or_pipe=not self._regular) as file:
                    yield from self._read(file)
        except FileNotFoundError:
            raise InputError(f"{self.name}: no such file", hint=_nearby(Path(self.path))) from None
        except IsADirectoryError:
            raise InputError(f"{self.name}: is a folder, not a log", hint="name one file in it") from None
        except PermissionError:
            raise InputError(f"{self.name}: may not be read", hint="check its permissions") from None
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror or error}") from None

    def _read(self, file: BinaryIO) -> Iterator[bytes]:
        while block := file.read(BLOCK):
            self._hash.update(block)
            self._packed += len(block)
            yield block

    def _unpacked(self, first: bytes, raw: Iterator[bytes], new: Any, kind: str) -> Iterator[bytes]:
        """Decompress, member after member, a bounded piece at a time; on damage what came before it stands."""
        unpacker, got = new(), 0
        try:
            for packed in chain([first], raw):
                while packed or not _is_hungry(unpacker):
                    if unpacker.eof:
                        packed = packed.lstrip(b"\0")  # padding between and after members is legal
                        if not packed:
                            break
                        unpacker = new()
                    text = unpacker.decompress(packed, BLOCK)
                    packed = unpacker.unused_data if unpacker.eof else getattr(unpacker, "unconsumed_tail", b"")
                    got += len(text)
                    self._ceilings.check_unpacked(self.name, got, self._packed)
                    if text:
                        yield text
            if not unpacker.eof:
                self._damaged(f"the {kind} archive ends in the middle", got)
        except (zlib.error, lzma.LZMAError, EOFError) as error:
            for _ in raw:
                pass  # the hash is of the whole file
            self._damaged(f"the {kind} archive is damaged ({error})", got)

    def _damaged(self, what: str, got: int) -> None:
        if self._strict or not got:
            raise input_error(self.name, what, hint="fetch the file again and compare its checksum")
        self.damage = f"{what}: only the first {got} bytes of text could be read, the last line may be cut"


FORMS = (
    "SWF, `sacct -P` or --json, a PBS accounting log or CSV, plain, .gz or .xz, batchcast's Parquet, or - for standard"
    " input"
)


def _is_hungry(unpacker: Any) -> bool:
    """Whether the decompressor holds no more text of its own; zlib hands unread input back instead of keeping it."""
    return bool(unpacker.eof or getattr(unpacker, "needs_input", True))


def _nearby(path: Path) -> str:
    from difflib import get_close_matches

    try:
        names = [p.name for p in path.parent.iterdir()]
    except OSError:
        return "check the path"
    near = get_close_matches(path.name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(str(path.parent / name) for name in near)}?" if near else "check the path"


A_MAP = Path(__file__).parents[1] / "data" / "maps" / "nrel.toml"
"""A map to begin from, where batchcast is installed."""


@cache
def ready_maps() -> tuple[ColumnMap, ...]:
    """The maps that come with batchcast, by name.

    >>> [each.name for each in ready_maps()]
    ['graham', 'nrel']
    """
    import tomllib
    from importlib.resources import files

    folder = files("batchcast") / "data" / "maps"
    items = sorted((item for item in folder.iterdir() if item.name.endswith(".toml")), key=lambda item: item.name)
    return tuple(make_map(tomllib.loads(item.read_text(encoding="utf-8")), item.name) for item in items)


def map_of(name: str) -> ColumnMap:
    """The map of a name, or in a TOML file; UsageError or InputError says what is accepted."""
    for each in ready_maps():
        if each.name == name:
            return each
    if not name.endswith(".toml"):
        ready = ", ".join(each.name for each in ready_maps())
        raise UsageError(f"--map: no map {name!r} (accepted: {ready}, or a file that ends in .toml)")
    try:
        text = small_text(name)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file", hint=f"{A_MAP} is one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: cannot be read: {error}") from None
    return make_map(parse_toml(text, name, f"{A_MAP} is one"), name)


def unpacked_text(path: str | Path) -> str:
    """The text of an archive (gzip or xz); InputError for a damaged one, UnicodeDecodeError for what is no text."""
    try:
        source = Source(path, strict=True, regular=True)
        text = b"".join(source.blocks())
    except InputError as error:
        raise InputError(
            f"{path}: cannot be read ({error.message.removeprefix(f'{path}: ')})", hint=error.hint
        ) from None
    if not source.is_packed:
        raise InputError(f"{path}: cannot be read (no archive)", hint="copy it anew")
    return text.decode("utf-8")


def fitting_map(header: Sequence[str]) -> ColumnMap | None:
    """The ready-made map of a file with exactly these columns, in any order."""
    for each in ready_maps():
        if each.header and len(header) == len(each.header) and set(header) == set(each.header):
            return each
    return None
