"""The probability integral transform of recent forecasts, the unresolved ones included, as a map of levels."""

from __future__ import annotations

import numpy as np

GRID = np.linspace(0.0, 1.0, 201)
IDENTITY = 100.0
"""How many outcomes of a perfect forecaster are mixed in."""


def transform_curve(values: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """The distribution (201,) over GRID of the transforms of forecasts, by Kaplan-Meier; nothing known: the identity.

    Parameters
    ----------
    values
        The forecast chance (n,) of what happened: of the outcome where `ended`, else of what has passed so far, in
        [0, 1].
    ended
        Whether the outcome is known (n,), bool; else it is beyond.

    Notes
    -----
    Kaplan & Meier 1958; at equal values outcomes come before the censored. What no outcome reaches follows the
    identity, scaled. O(n log n).

    >>> transform_curve(np.full(200, 0.5), np.ones(200, bool))[[99, 100]].round(3).tolist()
    [0.165, 0.833]
    """
    n = len(values)
    if n == 0:
        return GRID.copy()
    order = np.lexsort((~ended, values))
    sorted_values, known = values[order], ended[order]
    at_risk = np.arange(n, 0, -1)
    stays = np.cumprod(np.where(known, 1.0 - 1.0 / at_risk, 1.0))
    at = np.searchsorted(sorted_values, GRID, side="right")
    beyond = np.where(at > 0, stays[np.maximum(at - 1, 0)], 1.0)
    last = sorted_values[known][-1] if known.any() else 0.0
    if beyond[-1] > 0.0 and last < 1.0:  # the rest lies beyond the last outcome, spread as the forecaster spreads it
        rest = np.clip((GRID - last) / (1.0 - last), 0.0, 1.0)
        beyond = np.where(last < GRID, beyond[-1] * (1.0 - rest), beyond)
    beyond[-1] = 0.0
    outcomes = float(known.sum())
    return np.asarray((outcomes * (1.0 - beyond) + IDENTITY * GRID) / (outcomes + IDENTITY))


def kept_chances(curve: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """What forecast chances have meant of late: any shape, in [0, 1].

    >>> kept_chances(GRID, np.array([0.25]))
    array([0.25])
    """
    return np.asarray(np.interp(chances, GRID, curve))
