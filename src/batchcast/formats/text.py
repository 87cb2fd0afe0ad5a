"""Bytes of text as Unix writes them: without a byte order mark, lines ended by newlines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

BOM = b"\xef\xbb\xbf"


def unix_text(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks without a UTF-8 byte order mark; where lines end in CR alone (old Macs, some exports), in LF.

    A text is taken for one of CR lines when its first block has carriage returns and no newline at all; otherwise
    carriage returns stay as they are (`\\r\\n` is every reader's own matter). O(bytes).

    >>> list(unix_text([b"\\xef\\xbb\\xbfa\\rb", b"\\rc"])), list(unix_text([b"a\\r\\nb"]))
    ([b'a\\nb', b'\\nc'], [b'a\\r\\nb'])
    """
    rest = iter(blocks)
    first = next(rest, b"").removeprefix(BOM)
    ends_in_cr = b"\n" not in first and b"\r" in first.rstrip(b"\r")
    yield first.replace(b"\r", b"\n") if ends_in_cr else first
    for block in rest:
        yield block.replace(b"\r", b"\n") if ends_in_cr else block
