"""Tests wordings in answers, pages and logs that once misled an operator."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from batchcast.cli.users.start import print_waiting
from batchcast.formats.slurm.reasons import plain_reason
from batchcast.predict.hazard.features import NAMES, reason
from batchcast.service.log import Log
from batchcast.service.page.jobs import Chances, axis
from batchcast.service.page.texts import language_of

NOON = 1_795_694_400.0


def task(number: int, likely: float, by_90: float) -> dict[str, object]:
    return {
        "job_id": f"80_{number}", "partition": "main", "likely_start_s": NOON + likely, "by_90_start_s": NOON + by_90,
        "likely_wait_s": likely, "by_90_wait_s": by_90, "slurm_start_s": math.nan, "waited_s": 60.0,
        "reason_in_words": "jobs are ahead", "counts_from": "submission", "method": "forecast", "basis": "model: so",
        "track_record_forecasts": 0, "track_record_overdue": 0, "track_record_coverage_90": math.nan,
    }  # fmt: skip


def test_a_range_over_tasks_never_runs_backwards(capsys: pytest.CaptureFixture[str]) -> None:
    """The task that likely starts first may have the latest 90 % time."""
    print_waiting([task(1, 3600.0, 40000.0), task(2, 7200.0, 36000.0)], NOON, slurm=False)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("80_"))
    cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
    by_90 = [part.rpartition("T")[2] for part in cells[3].split(" to ")]
    assert by_90 == sorted(by_90)
    assert len(by_90) == 2


def test_a_job_with_others_ahead_is_not_said_to_have_room() -> None:
    features = np.zeros(len(NAMES))
    features[NAMES.index("fits")] = 1.0
    assert reason(features).endswith("enough resources are free now")
    features[NAMES.index("queue: all: jobs")] = math.log1p(30)
    assert reason(features).endswith("enough resources are free now, unless jobs ahead of it take them")


def test_slurms_long_reason_keeps_its_last_part() -> None:
    said = plain_reason("(Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions)")
    assert "partition with a higher priority" in said


def test_one_late_job_does_not_stretch_the_axis() -> None:
    soon = [Chances(60.0, 3600.0, 7200.0)] * 19
    assert axis(0.0, [*soon, Chances(3600.0, 6 * 86400.0, 7 * 86400.0)]).hours == axis(0.0, soon).hours
    assert axis(0.0, [Chances(3600.0, 6 * 86400.0, 7 * 86400.0)]).hours == 168


@pytest.mark.parametrize(
    ("language", "one", "more"), [("en", "in 1 day", "in 2 days"), ("de", "in 1 Tag", "in 2 Tagen")]
)
def test_one_day_is_singular(language: str, one: str, more: str) -> None:
    words = language_of(language)
    said = [words.many("in %(num)s day", "in %(num)s days", days) % {"num": days} for days in (1, 2)]
    assert said == [one, more]


def test_lines_of_a_log_have_a_time_outside_journald() -> None:
    lines: list[str] = []
    Log(lines.append, dated=True, clock=lambda: NOON)("notice", "the store is closed", level="warning")
    assert lines[0][:4] == "2026"
    assert lines[0].endswith("the store is closed")


def test_a_site_that_does_not_plan_is_not_told_that_planning_stops() -> None:
    from batchcast.service.planning.agent import Planner

    said = {}
    for plan in ("off", "limits"):
        done = SimpleNamespace(problems=[])
        store = SimpleNamespace(failures=1, begin=lambda: (_ for _ in ()).throw(OSError("full")))
        agent = SimpleNamespace(
            _record={}, _owed=[], _others=[], _failures=0, alarm=("", 0.0), store=store, settings={"plan": plan},
            transport=SimpleNamespace(now=lambda: NOON), _may_fail=lambda _: _Quiet(),
        )  # fmt: skip
        Planner._read(agent, "c", "", done)
        said[plan] = done.problems
    assert said["off"] == []
    assert "planning stops for" in said["limits"][0]


class _Quiet:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> bool:
        return True
