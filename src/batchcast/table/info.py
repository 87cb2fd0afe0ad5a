"""Where a trace came from: what the report prints as provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class LogInfo:
    """Where a trace came from and what was done to it on the way: what the report prints as provenance.

    `known_at_submit` names the undeclared columns that the user vouched for, see `Trace.knowing`. `memory_per` is the
    unit of the memory columns, `job` or `processor` (SWF). `unix_start` is the epoch second at which the log's clock
    reads 0; `max_procs_source` is `header`, `--procs-total`, `peak` or `unknown`; `dropped` counts records by the rule
    that left them out, `notes` are sentences for people (unsorted input, a header that lies), in the order they arose;
    where users are `private`, results name none of them.
    """

    source: str = "(memory)"
    format: str = "memory"
    sha256: str = ""
    unix_start: float = 0.0
    timezone: str = "UTC"
    timezone_source: str = "default"
    max_procs: float = float("nan")
    max_procs_source: str = "unknown"
    max_nodes: float = float("nan")
    header: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Mapping[int | str, str]] = field(default_factory=dict)
    known_at_submit: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    private: bool = False
    memory_per: str = "job"

    def with_dropped(self, rule: str, count: int) -> LogInfo:
        """The same, with `count` more records left out by `rule` (0 is recorded too: the rule was applied)."""
        return replace(self, dropped={**self.dropped, rule: self.dropped.get(rule, 0) + int(count)})

    def with_note(self, note: str) -> LogInfo:
        """The same, with one more sentence."""
        return replace(self, notes=(*self.notes, note))
