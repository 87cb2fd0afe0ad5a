"""What one cycle of planning did: counts, and what went wrong in words."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Planned:
    """What one cycle of planning did, and how many jobs stand on a planned limit after it."""

    planned: int = 0
    restored: int = 0
    standing: int = 0
    commented: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Planned, restored, standing."""
        return self.planned, self.restored, self.standing
