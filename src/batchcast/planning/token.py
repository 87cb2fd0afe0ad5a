"""One `batchcast:...;` token in a comment that belongs to others: what stands beside it is left as it is. Pure."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"(?:^| )batchcast:([^;]*);")
LONGEST = 1000
"""A comment of others that is longer is left alone: every look would carry it."""


def without(comment: str) -> str:
    """The comment without any token of ours.

    >>> [without(t) for t in ("nights only batchcast:limit=02:00:00;", "batchcast:start=x;", "batchcast a;b")]
    ['nights only', '', 'batchcast a;b']
    """
    return _TOKEN.sub("", comment)


def merged(comment: str, words: str) -> str:
    """The comment with a token of these words as its only one; without words, with none.

    >>> merged("nights only", "limit=02:00:00"), merged("a batchcast:limit=1;", ""), merged("", "x=1")
    ('nights only batchcast:limit=02:00:00;', 'a', 'batchcast:x=1;')
    """
    others = without(comment)
    if not words:
        return others
    return f"{others} batchcast:{words};" if others else f"batchcast:{words};"


def words_of(comment: str) -> str:
    """What our token in it says; empty where there is none.

    >>> words_of("a batchcast:start=2026-11-22T23:40;"), words_of("a batchcast b")
    ('start=2026-11-22T23:40', '')
    """
    token = _TOKEN.search(comment)
    return token.group(1) if token else ""


def may_merge(comment: str) -> bool:
    """Whether scontrol gives others' text back as it was: printable, not in quotes, not long.

    >>> may_merge("x y z"), may_merge("'quoted'"), may_merge("two\\nlines")
    (True, False, False)
    """
    return comment.isprintable() and len(comment) <= LONGEST and comment[:1] not in ("'", '"')
