"""What all the attempts of a job cost. Pure, without numpy: a page needs it too."""

from __future__ import annotations


def spent(request: float, peak: float, again: float) -> float:
    """All that a job's attempts ask for until one is enough: `again` after the first where that suffices, else twice as
    much each time. In the unit of the request; the run time of every attempt counts in full.

    >>> unknown = float("nan")
    >>> spent(4.0, 3.0, unknown), spent(4.0, 6.0, 7.0), spent(1.0, 3.0, unknown), spent(4.0, 9.0, 6.0)
    (4.0, 11.0, 7.0, 28.0)
    """
    total = request
    if peak > request and again >= peak:
        return request + again
    while peak > request > 0:
        request *= 2.0
        total += request
    return total
