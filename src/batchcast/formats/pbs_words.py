"""Messages of PBS accounting records as columns of text, many at a time: records of one layout are cut together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .pbs_record import has_blank_in_quotes, pairs_of

_FEW = 8


def columns_of(messages: Sequence[str], keys: Sequence[str]) -> dict[str, list[str]]:
    """The text of each key in every message, empty where a message has none; as `pairs_of` one by one, but quicker.

    Messages with as many words, and the same key in the same place, are split as one text: joined by line ends, the
    words of a column come apart at line end and key, and are as many as before only if each begins with that key.
    O(bytes).

    >>> columns_of(["a=1 b=2", "a=3 b=4", "b=5"], ["a", "b"])
    {'a': ['1', '3', ''], 'b': ['2', '4', '5']}
    """
    fields = {key: [""] * len(messages) for key in keys}
    groups: dict[int, list[int]] = {}
    for row, message in enumerate(messages):
        groups.setdefault(-1 if has_blank_in_quotes(message) else message.count(" "), []).append(row)
    _one_by_one(fields, groups.pop(-1, []), messages)
    for rows in groups.values():
        _cut(fields, rows, messages)
    return fields


def _cut(fields: Mapping[str, list[str]], rows: Sequence[int], messages: Sequence[str]) -> None:
    """Messages of as many words: their columns, or those of each part that agrees on the keys."""
    if len(rows) < _FEW:
        _one_by_one(fields, rows, messages)
        return
    width = messages[rows[0]].count(" ") + 1
    words = " ".join([messages[row] for row in rows]).split(" ")
    columns = {}
    for k in range(width):
        column = words[k::width]
        key, equals, _ = column[0].partition("=")
        values = "\n".join(column)[len(key) + 1 :].split(f"\n{key}=") if equals else []
        if len(values) != len(rows):
            parts: dict[str | None, list[int]] = {}
            for row, word in zip(rows, column):
                parts.setdefault(word.partition("=")[0] if "=" in word else None, []).append(row)
            _one_by_one(fields, parts.pop(None, []), messages)
            for part in parts.values():
                _cut(fields, part, messages)
            return
        columns[key] = values
    for key, target in fields.items():
        if key in columns:
            if len(rows) == len(messages):
                target[:] = columns[key]
            else:
                for row, value in zip(rows, columns[key]):
                    target[row] = value


def _one_by_one(fields: Mapping[str, list[str]], rows: Sequence[int], messages: Sequence[str]) -> None:
    for row in rows:
        pairs = pairs_of(messages[row])
        for key in fields.keys() & pairs.keys():
            fields[key][row] = pairs[key]
