"""When to refit: soon and often at the beginning of a history, at a steady pace later."""

from __future__ import annotations


class Warming:
    """Due after 100, 200, 400, ... submissions until the gap has grown to `every`, then every `every`.

    A clock asks every `cadence` submissions; `due` says whether this is one.

    >>> pace = Warming(300)
    >>> [n for n in range(100, 1500, pace.cadence) if pace.due(n)]
    [100, 200, 400, 700, 1000, 1300]
    """

    FIRST = 100

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError("every is at least 1 job")
        self.every = every
        self.cadence = self.next = min(self.FIRST, every)

    def due(self, submitted: int) -> bool:
        """Whether to refit now; moves on to the next time if so."""
        if submitted < self.next:
            return False
        self.next = submitted + min(submitted, self.every)
        return True
