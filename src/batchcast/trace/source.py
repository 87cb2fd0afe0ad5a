# SPDX-License-Identifier: Apache-2.0
"""Open a log as blocks of bytes (plain, gzip, xz or standard input) with a checksum. The compression is recognised by
content."""

from __future__ import annotations

import hashlib
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from ..ceilings import Ceilings, open_regular
from ..errors import InputError, input_error

BLOCK = 1 << 20
ABOUT = "_log.json"
"""The file in a folder of Parquet files that describes the log."""
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
    """A file, a pipe or standard input (`-`) as blocks of uncompressed bytes of at most 1 MiB."""

    def __init__(self, path: str | Path, *, strict: bool = False, regular: bool = False) -> None:
        self.path = str(path)
        self.name = "standard input" if self.path == STDIN else self.path
        self.damage = ""  # a sentence about a damaged archive; its blocks end early
        self._strict = strict
        self._regular = regular
        self._ceilings = Ceilings.set()
        self._packed = 0
        self.is_packed = False
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file's bytes that were read so far."""
        return self._hash.hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """Yield the text block by block; InputError if the file does not exist, is empty or is not text."""
        raw = self._raw()
        first = next(raw, b"")
        if not first:
            raise input_error(self.name, "the file is empty", hint="check that the log was written")
        for magic, (what, advice) in _REFUSED.items():
            if first.startswith(magic):
                raise input_error(self.name, f"this is {what}, not a job log", accepted=FORMS, hint=advice)
        kind = "gzip" if first.startswith(b"\x1f\x8b") else "xz" if first.startswith(b"\xfd7zXZ\x00") else ""
        self.is_packed = bool(kind)
        yield from self._unpacked(first, raw, kind) if kind else chain([first], raw)

    def _raw(self) -> Iterator[bytes]:
        """Yield the blocks of the file as stored."""
        try:
            if self.path == STDIN:
                yield from self._read(sys.stdin.buffer)
            else:
                with open_regular(self.path, or_pipe=not self._regular) as file:
                    yield from self._read(file)
        except FileNotFoundError:
            raise InputError(f"{self.name}: no such file", hint=_nearby(Path(self.path))) from None
        except IsADirectoryError:
            hint = "give the path of one file in this folder"
            raise InputError(f"{self.name}: is a folder, not a log", hint=hint) from None
        except PermissionError:
            raise InputError(f"{self.name}: cannot be read: permission denied", hint="check its permissions") from None
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror or error}") from None

    def _read(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the blocks of an open file and update the checksum."""
        while block := file.read(BLOCK):
            self._hash.update(block)
            self._packed += len(block)
            yield block

    def _unpacked(self, first: bytes, raw: Iterator[bytes], kind: str) -> Iterator[bytes]:
        """Yield decompressed blocks of bounded size, member after member. If the archive is damaged, the function
        yields all text before the damage."""
        new: Any = lzma.LZMADecompressor if kind == "xz" else partial(zlib.decompressobj, wbits=31)
        unpacker, unpacked_bytes = new(), 0
        try:
            for packed in chain([first], raw):
                # zlib returns unread input instead of storing it, so only lzma has `needs_input`.
                while packed or not (unpacker.eof or getattr(unpacker, "needs_input", True)):
                    if unpacker.eof:
                        packed = packed.lstrip(b"\0")  # the formats allow padding between and after members
                        if not packed:
                            break
                        unpacker = new()
                    text = unpacker.decompress(packed, BLOCK)
                    packed = unpacker.unused_data if unpacker.eof else getattr(unpacker, "unconsumed_tail", b"")
                    unpacked_bytes += len(text)
                    self._ceilings.check_unpacked(self.name, unpacked_bytes, self._packed)
                    if text:
                        yield text
            if not unpacker.eof:
                self._damaged(f"the {kind} archive ends in the middle", unpacked_bytes)
        except (zlib.error, lzma.LZMAError, EOFError) as error:
            for _ in raw:
                pass  # read the remaining bytes, because the checksum covers the whole file
            self._damaged(f"the {kind} archive is damaged ({error})", unpacked_bytes)

    def _damaged(self, what: str, got: int) -> None:
        """Record the damage; raise InputError if strict or if there is no text at all."""
        if self._strict or not got:
            raise input_error(self.name, what, hint="fetch the file again and compare its checksum")
        self.damage = f"{what}: only the first {got} bytes of text could be read, the last line may be truncated"


FORMS = (
    "SWF, `sacct -P` or --json, a PBS accounting log or CSV, plain, .gz or .xz, batchcast's Parquet, or - for standard"
    " input"
)


def _nearby(path: Path) -> str:
    """Return a hint with similar names of files in the same folder."""
    names: list[str] = []
    with suppress(OSError):
        names = [p.name for p in path.parent.iterdir()]
    near = get_close_matches(path.name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(str(path.parent / name) for name in near)}?" if near else "check the path"


def unpacked_text(path: str | Path) -> str:
    """Return the text of a gzip or xz file; InputError if it is damaged, UnicodeDecodeError if it is not text."""
    try:
        source = Source(path, strict=True, regular=True)
        text = b"".join(source.blocks())
    except InputError as error:
        why = error.message.removeprefix(f"{path}: ")
        raise InputError(f"{path}: cannot be read ({why})", hint=error.hint) from None
    if not source.is_packed:
        raise InputError(f"{path}: cannot be read (not a gzip or xz file)", hint="copy the file again")
    return text.decode("utf-8")


def demo_path() -> Path:
    """Return the path of the demo log: SWF, 5,000 synthetic jobs on 256 processors.

    Examples
    --------
    >>> demo_path().name
    'demo.swf.gz'
    """
    from importlib.resources import files

    return Path(str(files("batchcast") / "data" / "demo.swf.gz"))
