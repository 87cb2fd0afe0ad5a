# SPDX-License-Identifier: Apache-2.0
"""Compare two evaluations: their settings, their results, and whether differences are larger than chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import plots
from ..errors import UsageError
from ..metrics.accuracy import FORECAST, Errors, size_class
from ..metrics.bursts import user_weeks
from ..metrics.measure import Measure
from ..metrics.paired import LEAST_GROUPS, Difference, PairedDifference, paired_differences
from ..metrics.schedule import COMPARED, SCHEDULE, Waits, bounded_slowdown
from ..table.result import Picture, Rows
from ..trace.schedule import Forecasts
from ..units import span

FORECAST_MEANS = tuple(measure for measure in FORECAST if measure.is_mean)
SELECTION = (
    *("from", "to", "status", "partition", "queue", "user", "first", "clean", "procs", "machine_procs", "timezone"),
    *("score_from", "score_to", "score_status", "wide", "default_request"),
)
Document = Mapping[str, Any]
Columns = Mapping[str, np.ndarray]
Schedules = Callable[[Mapping[str, Any]], Columns | None]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Rows):
    """`rows` are flat: `part` (forecast, schedule, validity or setting), and each value of reports A and B under keys
    that end in `_a` and `_b`.

    `unlike` has the reasons why the two reports are not comparable (empty: they are); `only` names what only one report
    has. `samples` has, for each job in A and B, the absolute errors of a method, ("forecast", "", its name), and the
    waits of a schedule, ("schedule", policy, predictor), if an interval could be computed from them.
    """

    unlike: Sequence[str]
    only: Sequence[str]
    samples: Mapping[tuple[str, str, str], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Comparison of two reports: {len(self.part('schedule'))} schedules in both>"

    def part(self, name: str) -> list[Mapping[str, Any]]:
        """Return the rows of one part of the comparison, such as `forecast`."""
        return [row for row in self.rows if row["part"] == name]

    def _pictures(self) -> Mapping[str, Picture]:
        each = {
            part: {
                ", ".join(filter(None, (row.get("policy", ""), row["predictor"]))): tuple(
                    end / 60.0 for end in (change.value, change.low, change.high)
                )
                for row in self.part(part)
                if (change := Difference.get(row, measure.name))
            }
            for part, measure in (("forecast", FORECAST[0]), ("schedule", SCHEDULE[0]))
        }
        waits = {"differences": partial(plots.intervals, each["schedule"], "B minus A, mean wait (min)")}
        errors = {"error_differences": partial(plots.intervals, each["forecast"], "B minus A, mean error (min)")}
        return (waits if each["schedule"] else {}) | errors


@dataclass(frozen=True, slots=True)
class Report:
    """A report of `evaluate`: its document, the schedule of each result row (None if the report does not store it), and
    the predictions."""

    document: Document
    schedules: Schedules = lambda row: None
    forecasts: Forecasts | None = None


def compare(a: Report, b: Report, *, seed: int = 0, resamples: int = 1000) -> Comparison:
    """Match two reports of `evaluate` by policy and predictor; changes are B - A.

    A row has the values of each measure in report A and in report B, and the change in `differences`. If both reports
    store a row's schedule, the changes of mean wait and of mean bounded slowdown have an interval over groups of one
    user's submissions of one week (`metrics.paired`; a week and size class if the reports store no users), and `blocks`
    names the groups; else `no_interval` gives the reason. If both reports store their predictions, the changes of
    `FORECAST_MEANS` also have confidence intervals. Equal seeds give equal confidence intervals.
    """
    rows: list[dict[str, Any]] = []
    samples: dict[tuple[str, str, str], tuple[np.ndarray, np.ndarray]] = {}
    for part, measures in (("forecast", FORECAST), ("schedule", SCHEDULE)):
        ours, theirs = _by_name(a.document, part), _by_name(b.document, part)
        for key in ours:
            if key in theirs:
                row = _row(part, ours[key], theirs[key], [measure.name for measure in measures])
                if part == "schedule":
                    sides = _schedule_sides(row, a.schedules(ours[key]), b.schedules(theirs[key]))
                else:
                    sides = _forecast_sides(row["predictor"], a.forecasts, b.forecasts)
                rows.append(_with_intervals(row, sides, seed, resamples))
                if isinstance(sides, _Sides) and "blocks" in rows[-1]:
                    samples[part, *key] = sides.values[measures[0]]
    one, other = a.document, b.document
    rows += _validity(one, other)
    rows += [{"part": "setting", "setting": name, "a": x, "b": y} for name, x, y in _settings(one, other)]
    only = [*_only(one, other, "A"), *_only(other, one, "B")]
    return Comparison(rows, _unlike(one, other, rows), only, samples)


class _Sides(NamedTuple):
    """Each measure's values of the same jobs in report A and in report B, the group of each job, and the groups in
    words, for a row with intervals (`unit`) and for the reason why there are none (`few`)."""

    values: Mapping[Measure, tuple[np.ndarray, np.ndarray]]
    group: np.ndarray
    unit: str
    few: str


def _by_name(document: Document, part: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    rows = (row for row in document["results"] if row["part"] == part)
    return {(str(row.get("policy", "")), str(row.get("predictor", ""))): row for row in rows}


def _row(part: str, a: Mapping[str, Any], b: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"part": part, **({"policy": a["policy"]} if part == "schedule" else {})}
    row |= {"predictor": a["predictor"], "jobs_a": a.get("jobs"), "jobs_b": b.get("jobs")}
    values = {name: (_number(a.get(name)), _number(b.get(name))) for name in names}
    for name, (x, y) in values.items():
        row |= {f"{name}_a": x, f"{name}_b": y}
    return {**row, "differences": {name: Difference(y - x) for name, (x, y) in values.items()}}


def _validity(a: Document, b: Document) -> list[dict[str, Any]]:
    ours, theirs = (next((r for r in d["results"] if r["part"] == "validity"), None) for d in (a, b))
    if ours is None or theirs is None:
        return []
    row = _row("validity", ours, theirs, ("recorded_over_simulated", "recorded_mean_wait_s", "simulated_mean_wait_s"))
    return [{**row, "trusted_a": ours.get("trusted"), "trusted_b": theirs.get("trusted")}]


def _schedule_sides(row: Mapping[str, Any], ours: Columns | None, theirs: Columns | None) -> _Sides | str:
    """Return the waits and slowdowns of one schedule in both reports, or the reason why there is no interval."""
    if ours is None or theirs is None:
        return "a schedule's file is missing"
    if not all(np.array_equal(ours[name], theirs[name]) for name in ("job_id", "submit_time")):
        return "the schedules contain different jobs"
    a, b = (Waits(x["start_time"] - x["submit_time"], x["end_time"] - x["start_time"]) for x in (ours, theirs))
    means = (a.wait, row["mean_wait_s_a"]), (b.wait, row["mean_wait_s_b"])
    if not all(len(w) and math.isclose(w.mean(), m, rel_tol=1e-6, abs_tol=1e-6) for w, m in means):
        return "the figures cover only a part of the jobs in the schedules"
    group, unit = _groups(ours)
    return _Sides({measure: (measure.compute(a), measure.compute(b)) for measure in COMPARED}, group, unit, unit)


def _with_intervals(row: dict[str, Any], sides: _Sides | str, seed: int, resamples: int) -> dict[str, Any]:
    """Return the row with the interval of each measure's change, or with the reason why there is no interval."""
    if isinstance(sides, str):
        return {**row, "no_interval": sides}
    changes = dict(row["differences"])
    for measure, (a, b) in sides.values.items():
        one = _change(a, b, sides.group, seed, resamples)
        if one.why_not:
            return {**row, "no_interval": f"there are {one.groups} {sides.few} and {LEAST_GROUPS} are needed"}
        words = _decided_by(one, _WORDS[measure.unit]) if measure.unit in _WORDS else ""
        changes[measure.name] = one.stated(lower_is_better=not measure.more_is_better, decided_by=words)
    return {**row, "blocks": f"{one.groups} {sides.unit}", "differences": changes}


def _change(a: np.ndarray, b: np.ndarray, group: np.ndarray, seed: int, resamples: int) -> PairedDifference:
    """Return the mean of the paired differences b - a, with its confidence interval."""
    return paired_differences(b[None], a, group, np.random.default_rng(seed), draws=resamples)[0]


def compare_starts(
    a: Columns, b: Columns, user: Mapping[str, int] | None = None, *, seed: int = 0, resamples: int = 1000
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Compare two schedules of the same jobs (`trace.schedule.read_starts`): the number of equal starts, and a row per
    mean.

    Jobs are matched by their id; submit times, end times and processors that one schedule lacks are taken from the
    other schedule. Rows are `wait` and `turnaround` in seconds and `bounded_slowdown`. Each row has the value of A, the
    value of B, and the difference B minus A with an interval that resamples groups of one `user` (a number by job id)
    and week, else of one size class and week. If neither schedule has submit times, the only row is `start`. If all
    submissions differ by the same number of seconds, B's times are shifted by this number; `other_job_in_b` counts jobs
    with equal ids whose submission or size still differs in B. Raises UsageError if no job is in both schedules.
    Costs O(n log n).
    """
    ids, at_a, at_b = np.intersect1d(a["job_id"], b["job_id"], return_indices=True)
    if not len(ids):
        begin = "; ".join(", ".join(map(str, side["job_id"][:3])) for side in (a, b))
        hint = f"the job ids must refer to the same jobs; they begin with {begin}"
        raise UsageError("no job is in both schedules", hint=hint)
    shift = _clock_apart(a["submit_time"][at_a], b["submit_time"][at_b])
    b = {**b, **{name: b[name] + shift for name in ("submit_time", "start_time", "end_time")}} if shift else b
    ours, theirs = ({k: v[at] for k, v in side.items()} for side, at in ((a, at_a), (b, at_b)))
    both = {k: np.where(np.isnan(ours[k]), theirs[k], ours[k]) for k in ("submit_time", "procs")}
    apart = np.flatnonzero(ours["start_time"] != theirs["start_time"])
    begins = np.minimum(ours["start_time"], theirs["start_time"])[apart]
    shared = {
        "jobs": len(ids),
        "only_a": len(a["job_id"]) - len(ids),
        "only_b": len(b["job_id"]) - len(ids),
        "same_start": len(ids) - len(apart),
        "first_apart": str(ids[apart[np.argmin(begins)]]) if len(apart) else "",
        "clock_b_behind_s": shift,
        "other_job_in_b": int((_differ(ours, theirs, "submit_time", 1.0) | _differ(ours, theirs, "procs", 0.0)).sum()),
        "before_submission_a": int((ours["start_time"] < both["submit_time"]).sum()),
        "before_submission_b": int((theirs["start_time"] < both["submit_time"]).sum()),
        "makespan_a_s": float(np.max(ours["end_time"])),
        "makespan_b_s": float(np.max(theirs["end_time"])),
    }
    known = bool(np.isfinite(both["submit_time"]).all())
    when = both["submit_time"] if known else ours["start_time"]
    who = np.array([-1 if user is None else user.get(str(name), -1) for name in ids])
    group = user_weeks(who, when, size_class(np.where(np.isnan(both["procs"]), 1, both["procs"])))
    rows = []
    for name, of in _means(ours, theirs, both["submit_time"] if known else None).items():
        one = _change(*of, group, seed, resamples)
        means = {"a": float(np.nanmean(of[0])), "b": float(np.nanmean(of[1])), "difference": one.difference}
        rows.append({"measure": name, **means, "low": one.low, "high": one.high, "groups": one.groups})
    return shared, rows


def _differ(a: Columns, b: Columns, name: str, apart: float) -> np.ndarray:
    """Return a mask of the jobs whose values in `a` and `b` are both known and differ by more than `apart`."""
    return np.asarray(np.abs(a[name] - b[name]) > apart)  # a comparison with NaN is false


def _clock_apart(a: np.ndarray, b: np.ndarray) -> float:
    """Return the seconds by which B's clock is behind A's; 0 if the known submit times differ by unequal amounts.

    A workload that was written for Batsim always begins at time 0, whatever the log's first submit time.
    """
    apart = (a - b)[~np.isnan(a) & ~np.isnan(b)]
    return float(apart[0]) if len(apart) > 1 and np.ptp(apart) < 1e-6 else 0.0


def _means(ours: Columns, theirs: Columns, submit: np.ndarray | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the waits, turnarounds and slowdowns to compare, from both schedules."""
    a, b, end_a, end_b = (side[name] for name in ("start_time", "end_time") for side in (ours, theirs))
    if submit is None:
        return {"start": (a, b)}
    pairs = {"wait": (a - submit, b - submit)}
    if np.isfinite(end_a).any() and np.isfinite(end_b).any():
        pairs["turnaround"] = end_a - submit, end_b - submit
        pairs["bounded_slowdown"] = bounded_slowdown(a - submit, end_a - a), bounded_slowdown(b - submit, end_b - b)
    return pairs


GROUPED_BY = "groups of one user's submissions of one week (if the log names no user: of one size class)"


def _forecast_sides(name: str, a: Forecasts | None, b: Forecasts | None) -> _Sides | str:
    """Return the errors of one method in both reports, or the reason why there are no intervals."""
    if a is None or b is None or name not in a.points or name not in b.points:
        return "a report has no forecasts.csv"
    if not np.array_equal(a.job_id, b.job_id) or not np.array_equal(a.run_time, b.run_time):
        return "other jobs were scored"
    ours, theirs = (Errors(each.points[name], each.run_time) for each in (a, b))
    values = {measure: (measure.compute(ours), measure.compute(theirs)) for measure in FORECAST_MEANS}
    return _Sides(values, np.unique(a.group, return_inverse=True)[1], GROUPED_BY, "groups")


def _decided_by(one: PairedDifference, words: Callable[[float], str]) -> str:
    """Return a sentence about a change that one group of jobs decides. Reports store groups as numbers, so the sentence
    names no user."""
    if not one.is_decided_by_one:
        return ""
    rest = "unknown" if math.isnan(one.without) else words(one.without)
    return (
        f"{100 * one.largest_share:.0f} % of the sum of absolute changes is {one.largest_jobs:,} "
        f"jobs of one group; without them the change is {rest} instead of {words(one.difference)}"
    )


def signed_time(value: float) -> str:
    """Return a difference of times as text with its sign.

    >>> signed_time(-90.0), signed_time(0.0)
    ('-1 min 30 s', '0')
    """
    return f"{'-' if value < 0 else '+'}{span(abs(value))}" if value else "0"


_WORDS: Mapping[str, Callable[[float], str]] = {
    "seconds": signed_time, "ratio": "{:+.3f}".format, "share": "{:+.3f}".format,
}  # fmt: skip


def _groups(schedule: Columns) -> tuple[np.ndarray, str]:
    """Return the groups of jobs that a report stores for its schedule, else groups by week and size class; and a
    description of the groups."""
    if "group" in schedule:
        return schedule["group"], GROUPED_BY
    nobody = np.full(len(schedule["procs"]), -1)
    return user_weeks(nobody, schedule["submit_time"], size_class(schedule["procs"])), "weeks and classes of sizes"


def _settings(a: Document, b: Document) -> list[tuple[str, Any, Any]]:
    """Return the settings that differ between the reports, with both values."""
    ours, theirs = a["settings"], b["settings"]
    names = dict.fromkeys([*ours, *theirs])
    return [(name, ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)]


def _unlike(a: Document, b: Document, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the reasons why the two reports are not comparable."""
    reasons = []
    logs = a["log"], b["log"]
    if logs[0].get("sha256") != logs[1].get("sha256"):
        names = [f"{log.get('source')} ({log.get('jobs')} jobs)" for log in logs]
        reasons.append(f"the logs differ: A is of {names[0]}, B of {names[1]}")
    settings = {name: (x, y) for name, x, y in _settings(a, b)}
    differing = [name for name in settings if name in SELECTION]
    if differing:
        reasons.append(f"the reports use different jobs, machines or requests: {', '.join(differing)} differ")
    for name in ("protocol", "loop"):
        if name in settings:
            reasons.append(f"the {name} differs: {settings[name][0]} against {settings[name][1]}")
    if not reasons and any(row.get("jobs_a") != row.get("jobs_b") for row in rows):
        reasons.append("the same selection gave a different number of jobs: the two reports may come from different"
                       " versions of batchcast")  # fmt: skip
    return reasons


def _only(a: Document, b: Document, side: str) -> list[str]:
    sentences = []
    for part in ("forecast", "schedule"):
        theirs = _by_name(b, part)
        missing = [" ".join(filter(None, key)) for key in _by_name(a, part) if key not in theirs]
        if missing:
            sentences.append(f"only {side} has {part}{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    return sentences


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else float("nan")
