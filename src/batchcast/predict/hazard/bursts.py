# SPDX-License-Identifier: Apache-2.0
"""Which submissions count as evidence: of a burst, forecast before anything is known of it, only some."""

from __future__ import annotations

from collections.abc import Hashable

EACH = 20
"""So many count for each time that the number forecast blindly doubles, and the first twice as many all."""


class _Sender:
    """Of a sender with open forecasts: how many, how many since there were none, the latest of those known."""

    __slots__ = ("issued", "known", "open")

    def __init__(self) -> None:
        self.open = self.issued = self.known = 0


class Bursts:
    """Tells which submissions of a burst count as evidence.

    Parameters
    ----------
    each
        So many count for each doubling of what is forecast blindly.

    Notes
    -----
    A sender is told *blindly* what is forecast later than the latest forecast whose outcome is known, while it is open
    itself. The first `2 each` told blindly all count, then every second, from the `4 each`-th on every fourth, and so
    on: an array of 1,000 has 131 votes. They lie along all of it, so that they show how long its last tasks wait, too.
    Which forecasts count is decided when they are made, so that no outcome chooses its own weight. O(1) each, and
    memory for the open ones.

    >>> bursts = Bursts()
    >>> sum(bursts.counts(job, "ada") for job in range(1000))
    131
    >>> bursts.resolved(999, known=True)
    >>> bursts.counts(1000, "ada")
    True
    """

    def __init__(self, each: int = EACH) -> None:
        self.each = each
        self.senders: dict[Hashable, _Sender] = {}
        self.of: dict[int, tuple[Hashable, int]] = {}

    def counts(self, row: int, sender: Hashable) -> bool:
        """Whether the forecast made now of the sender's job `row` counts; the job is open from now on."""
        mine = self.senders.get(sender)
        if mine is None:
            mine = self.senders[sender] = _Sender()
        mine.open += 1
        mine.issued += 1
        self.of[row] = sender, mine.issued
        blind = min(mine.open, mine.issued - mine.known)
        return mine.issued % (1 << (blind // (2 * self.each)).bit_length()) == 0

    def resolved(self, row: int, known: bool) -> None:
        """The job waits no more; `known`: its wait is an outcome, otherwise nothing will become known of it."""
        if row not in self.of:
            return
        sender, number = self.of.pop(row)
        mine = self.senders[sender]
        mine.open -= 1
        if known:
            mine.known = max(mine.known, number)
        if not mine.open:
            del self.senders[sender]
