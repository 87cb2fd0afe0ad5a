# SPDX-License-Identifier: Apache-2.0
"""Whether an outcome is within a predicted bound: the one rule of every place that counts the coverage of bounds."""

# Without NumPy, because answers from memory load neither NumPy nor the store's library.

from __future__ import annotations

from typing import Any

RESOLUTION = 1.0
"""Tolerance of a bound of times: one second, because logs record whole seconds."""


def is_covered(actual: Any, bound: Any, tolerance: float = RESOLUTION) -> Any:
    """Return whether each actual value is within its bound, up to a tolerance; False for NaN.

    >>> is_covered(3600.0, 3599.999999999998), is_covered(3602.0, 3600.0)
    (True, False)
    """
    return actual <= bound + tolerance
