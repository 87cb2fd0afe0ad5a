# SPDX-License-Identifier: Apache-2.0
"""The plain meaning of run-time methods, for pages and terminal answers. Imports nothing, so that verbs start fast."""

from __future__ import annotations

PLAIN = {
    "kernel": "similar-jobs predictor",
    "last_2": "mean of the user's last two jobs",
    "recent_mean": "mean of recent similar jobs",
    "requested": "users' time limits",
    "actual": "true run times",
}


def method_words(spec: str) -> str:
    """Return a run-time method with its plain meaning before its name.

    >>> method_words("kernel"), method_words("requested"), method_words("mine:k=3")
    ('similar-jobs predictor (kernel)', "users' time limits", 'mine:k=3')
    """
    words = PLAIN.get(spec.partition(":")[0])
    return spec if words is None else words if spec in ("requested", "actual") else f"{words} ({spec})"
