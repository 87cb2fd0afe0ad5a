# SPDX-License-Identifier: Apache-2.0
"""Classes of sizes, limits and waits that every heat map of waits shares; plain numbers, for rows and arrays alike.

>>> class_of(3600.0, LIMITS), class_of(3601.0, LIMITS), class_of(64, SIZES), class_of(None, SIZES)
(0, 1, 3, -1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST_JOBS = 5
"""A median of fewer jobs is not shown."""
SHADES_S = (60.0, 900.0, 7200.0, 28800.0)
"""Five shades, the same everywhere: up to a minute, a quarter, two hours, eight, and more."""
SIZES = ((1, 1), (2, 4), (5, 16), (17, 64), (65, math.inf))
LIMITS = ((0, 3600), (3600, 4 * 3600), (4 * 3600, 12 * 3600), (12 * 3600, 86400), (86400, math.inf))
"""Up to and with each end, for limits are round."""
HOURS = 3
"""Hours of a day that one cell holds."""


def class_of(value: float | None, classes: Sequence[tuple[float, float]]) -> int:
    """Which class a value is in, classes reaching up to and with their ends; -1 where it is unknown.

    >>> class_of(4.5, SIZES), class_of(0, SIZES), class_of(1e9, SIZES)
    (2, 0, 4)
    """
    if value is None or value != value:
        return -1
    return sum(value > high for _, high in classes[:-1])


def shade_of(wait: float, shades: Sequence[float] = SHADES_S) -> int:
    """Which shade a value has: how many of these limits it exceeds.

    >>> shade_of(60.0), shade_of(61.0), shade_of(1e9)
    (0, 1, 4)
    """
    return sum(wait > least for least in shades)
