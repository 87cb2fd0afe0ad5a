# SPDX-License-Identifier: Apache-2.0
"""`RunSetup`: how a log is replayed and simulated, apart from predictor, policy and machine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..errors import UsageError, check_word
from .recorded import PROTOCOLS

WORDS = {"protocol": PROTOCOLS, "loop": ("closed", "open"), "wide": ("drop", "widen", "cut")}
"""The accepted words of the settings that accept only certain words."""
OF_A_POOL = ("wide", "loop", "default_request", "plan_level")
"""The settings that only a pool of processors uses."""


@dataclass(frozen=True, slots=True)
class RunSetup:
    """The arguments that `simulate` and `evaluate` share, made once from their keywords and passed on as one value.

    `procs` is the rule for a job's processors, `req` or `alloc`, and `protocol` the order of events in a replay.
    `loop` says whether a planning predictor learns at simulated (`closed`) or at
    recorded ends (`open`), `wide` what happens to jobs wider than the machine. `default_request` is the time limit in
    seconds of jobs without one, `plan_level` the level of the quantile to plan with instead of the point. `total` is
    the machine's size (None: the log's), and `native` lets the kernel use compiled predictors. Raises UsageError for a
    value that is not accepted.
    """

    procs: str = "req"
    protocol: str = "honest"
    loop: str = "closed"
    wide: str = "drop"
    default_request: float | None = None
    plan_level: float | None = None
    total: float | None = None
    native: bool = True

    def __post_init__(self) -> None:
        for name, accepted in WORDS.items():
            check_word(name, getattr(self, name), accepted)
        if self.default_request is not None and not self.default_request > 0:
            raise UsageError(f"--default-request: {self.default_request!r} (accepted: seconds above 0)")
        if self.plan_level is not None and not 0 < self.plan_level < 1:
            raise UsageError(f"--plan-level: {self.plan_level!r} (accepted: a quantile above 0 and below 1)")

    def shared(self) -> dict[str, Any]:
        """Return the keyword arguments that `simulate` and `evaluate` share, for results and for calls of both."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("total", "native")}

    def of_a_pool(self) -> dict[str, Any]:
        """Return the settings that only a pool of processors uses and that differ from their defaults."""
        return {name: getattr(self, name) for name in OF_A_POOL if getattr(self, name) != getattr(RunSetup(), name)}
