"""Whose jobs are drawn: the users who hold most get a colour and a hatching each, the others are grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..table import Nominal
from .blocks import Colouring

HATCHINGS = ("/", "\\", "x", ".", "+", "|", "-")
MOST_USERS = len(HATCHINGS)
OTHERS = {"slot": 0, "pattern": "", "opacity": 0.5}


def owners(users: Nominal, held: np.ndarray) -> tuple[Colouring | None, list[int]]:
    """How n jobs are coloured by their users, and for each job the place of its series.

    Parameters
    ----------
    users : Nominal
        The user of each job (n,); unknown ones are among the others.
    held : ndarray
        Processor seconds of each job (n,) that count.

    Returns
    -------
    tuple
        The colouring, the user with most processor time first (ties: the lower name), None where no user is known;
        and the places.
    """
    known = users.is_known()
    if not known.any():
        return None, []
    time = np.bincount(users.codes[known], held[known], len(users.categories))
    here = np.bincount(users.codes[known], minlength=len(users.categories)) > 0
    ranked = sorted(np.flatnonzero(here).tolist(), key=lambda code: -time[code])
    first = ranked[:MOST_USERS]
    series: list[Mapping[str, Any]] = [
        {"name": said(users.categories[code]), "slot": place + 1, "pattern": HATCHINGS[place]}
        for place, code in enumerate(first)
    ]
    rest = len(ranked) - len(first)
    if rest or not known.all():
        series.append({"name": f"others ({rest} users)" if rest else "others", **OTHERS})
    place_of = {code: place for place, code in enumerate(first)}
    return Colouring("whose it is", "whose", series), [place_of.get(code, len(first)) for code in users.codes.tolist()]


def job_words(ids: Sequence[Any], users: Nominal) -> list[str]:
    """What a read-out calls each job: its number, and whose it is where that is known."""
    return [f"job {job}" if user is None else f"job {job} of {said(user)}" for job, user in zip(ids, users.decode())]


def said(user: int | str) -> str:
    """A user as the log names them.

    >>> said(7), said("carl")
    ('user 7', 'user carl')
    """
    return f"user {user}"
