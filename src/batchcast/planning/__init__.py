"""Planning with forecasts: which limits of waiting jobs are shortened for a while, and when each goes back. Pure."""

from .decide import Action, decide, verdict
from .record import Entry, State, whose
from .terms import How, Terms, least_limit
from .untouched import why_untouched

__all__ = ["Action", "Entry", "How", "State", "Terms", "decide", "least_limit", "verdict", "whose", "why_untouched"]
