"""Policies as sentences name them, and what each does, in a line."""

from __future__ import annotations

from collections.abc import Sequence


def policy_words(policy: str) -> str:
    """A policy's name as a sentence says it.

    >>> policy_words("easy-sjbf"), policy_words("easy:correct=doubling"), policy_words("conservative")
    ('EASY-SJBF', 'EASY (correct=doubling)', 'conservative backfilling')
    """
    name, _, rest = policy.partition(":")
    return _POLICIES.get(name, name.upper()) + (f" ({rest})" if rest else "")


_POLICIES = {"conservative": "conservative backfilling", "slurm": "Slurm's two loops"}
_NOTES = {
    "fcfs": "FCFS: first come first served, nobody passes.",
    "easy": "EASY: first come first served; the first waiting job has a reservation and later ones may start early "
    "when they do not delay it.",
    "easy-sjbf": "EASY-SJBF: as EASY, but the candidates with the shortest planned run time are tried first.",
    "slurm": "Slurm's two loops: by priority and with backfill, under the limits and settings of the machine's "
    "description.",
    "conservative": "Conservative backfilling: every waiting job has a reservation, and a later one may start early "
    "only when it delays none of them.",
    "forecast": "FORECAST: the shortest planned run time first; who has waited two days goes before all, by arrival, "
    "with a reservation by limits.",
}


def policy_notes(policies: Sequence[str]) -> list[str]:
    """What the policies of a table do and what plans them, in one paragraph."""
    notes = dict.fromkeys(_NOTES[name] for name in (p.partition(":")[0] for p in policies) if name in _NOTES)
    plans = (
        "Planned with: requested = the users' limits; actual = the true run times, which nobody can have (the oracle); "
        "the others are forecasts made at submission from what had ended by then."
    )
    return [" ".join([*notes, plans])]
