"""Why a job waits, in words, from what it saw at its submission."""

from __future__ import annotations

import numpy as np

from .features import NAMES

_AT = {name: place for place, name in enumerate(NAMES)}
_QUEUED, _BEFORE = _AT["queue: all: jobs"], _AT["queue: no larger nor longer: jobs"]
_FITS, _LACKING, _SHADOW = _AT["fits"], _AT["lacking"], _AT["shadow by forecasts"]
_OWN = _AT["queue: own: jobs"]


def reason(features: np.ndarray) -> str:
    """One line: who waits already, whether there is room, and when there is likely to be some.

    >>> reason(np.zeros(len(NAMES)))
    'nobody waits; too little room, until about 0 min from now'
    """
    queued, before, own = (round(float(np.expm1(features[k]))) for k in (_QUEUED, _BEFORE, _OWN))
    words = "nobody waits" if queued == 0 else f"behind {queued} job{'s' if queued != 1 else ''}"
    if queued and before:
        words += f", {before} of them no larger nor longer"
    if own:
        words += f", {own} the user's own"
    if features[_FITS] > 0:
        return f"{words}; it fits beside what runs"
    shadow = float(features[_SHADOW])
    if shadow != shadow:
        return f"{words}; larger than what can come free"
    return f"{words}; too little room, until about {rough_span(float(np.expm1(shadow)))} from now"


def rough_span(seconds: float) -> str:
    """A span as people say it.

    >>> rough_span(50.0), rough_span(5000.0), rough_span(200_000.0)
    ('1 min', '1.4 h', '2.3 days')
    """
    if seconds < 3600.0:
        return f"{round(seconds / 60.0)} min"
    return f"{seconds / 3600.0:.1f} h" if seconds < 2 * 86400.0 else f"{seconds / 86400.0:.1f} days"
