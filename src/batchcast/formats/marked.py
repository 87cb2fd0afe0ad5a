"""Records of a scheduler's client whose every field ends in a mark that no user could have put into a name."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError

Record = dict[str, str]


def parse_marked(text: str, mark: str, fields: Sequence[str], *, header: bool = False) -> tuple[list[Record], int]:
    """The records of `text` by field name, and how many pieces at its end made no whole record (a cut answer).

    Each record is `len(fields)` values, each followed by `mark`, then a newline; values may hold newlines, delimiters,
    quotes and any Unicode, since the caller draws the mark at random for every call. `header` drops a first record of
    titles. Raises InputError when nothing of a non-empty text is a record. O(length).

    >>> parse_marked("1@x|y\\nz@\\n2@@\\n", "@", ("JobID", "Name"))
    ([{'JobID': '1', 'Name': 'x|y\\nz'}, {'JobID': '2', 'Name': ''}], 0)
    """
    pieces = text.split(mark)
    tail = pieces.pop()
    width = len(fields)
    whole = len(pieces) // width
    records = []
    for k in range(whole):
        values = pieces[k * width : (k + 1) * width]
        values[0] = values[0].removeprefix("\n")
        records.append(dict(zip(fields, (v.strip(" ") for v in values))))
    broken = len(pieces) - whole * width + (1 if tail.strip() else 0)
    if broken and not records:
        raise InputError(
            f"an answer of the scheduler is not in the form asked for: {text[:80]!r}",
            hint="batchcast doctor shows the client's version and what it answers",
        )
    return records[1:] if header else records, broken
