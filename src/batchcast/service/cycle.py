"""What one cycle of the collector did."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..store import history
from .clock import Step
from .plan_outcome import Planned


@dataclass(slots=True)
class Cycle:
    """What one cycle did, for the log line and the tests."""

    at: float
    jobs: int = 0
    seen: history.Taken = field(default_factory=history.Taken)
    ended: history.Taken = field(default_factory=history.Taken)
    step: Step = field(default_factory=Step)
    gone: int = 0
    windows: int = 0
    broken: int = 0
    behind_s: float = math.nan
    problems: list[str] = field(default_factory=list)
    unreachable: bool = False
    planned: Planned = field(default_factory=Planned)
