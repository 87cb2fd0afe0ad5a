# SPDX-License-Identifier: Apache-2.0
"""What `start` prints: a table of waiting jobs with a sentence per job, and tables of the choices for a script."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...units import counted, span
from ..output import Row, clock, echo, print_columns, print_rows, say


def say_ignored(options: Sequence[str]) -> None:
    """Name the script's options that predictions ignore, on stderr; nothing if there are none."""
    if options:
        say(f"ignored: {', '.join(options)} (the prediction is for a job without them)")


def print_where(results: Sequence[Row], now: float, deadline: bool, any_size: bool, script: str) -> None:
    """Print one line per choice, then the best choice as a command to copy, and the rule that selected this choice."""
    gpus, qos = any(r["gpus"] for r in results), "qos, " * (len({r["qos"] for r in results}) > 1)
    memory = "memory_kib|MEMORY, " * any(_is_known(r["memory_kib"]) for r in results)
    columns = (
        f"partition, {qos}what, procs|CPUS, {'gpus, ' * gpus}limit_s, {memory}"
        f"likely_start_s|STARTS, by_90_start_s|BY 90%, likely_end_s|DONE, {'chance_done_by|IN TIME, ' * deadline}"
        f"core_hours|CPU H{', gpu_hours|GPU H' * gpus}"
    )
    print_rows(columns, results, left=2, cells={"gpus": lambda r: f"{r['gpus']:g} {r['gpu_type']}".strip()}, now=now)
    for line in gpu_switches(results):
        echo(line)
    if results:
        echo(best_words(results, deadline, any_size, script))


AS_REQUESTED = "as requested"  # the text of `answers.script`, which is slow to import


def gpu_switches(ways: Sequence[Row]) -> list[str]:
    """Return the savings or costs of other types of GPU: the best choice for each type compared with the script's best
    choice.

    >>> way = {"what": "as requested", "gpus": 2.0, "gpu_type": "a100", "by_90_start_s": 9000.0, "likely_end_s": 9900.0,
    ...        "gpu_hours": 2.0}
    >>> gpu_switches([way, {**way, "what": "with v100", "gpu_type": "v100", "by_90_start_s": 1800.0}])
    ['with v100: 90 % start 2 h sooner, likely end the same, GPU-hours the same']
    """
    asked = next((way for way in ways if way["what"] == AS_REQUESTED), None)
    lines: dict[str, str] = {}
    if asked is None:
        return []
    for way in ways:
        if (way["gpus"], way["gpu_type"]) != (asked["gpus"], asked["gpu_type"]) and way["what"] not in lines:
            start, end = (_moved(way[key] - asked[key]) for key in ("by_90_start_s", "likely_end_s"))
            hours = way["gpu_hours"] - asked["gpu_hours"]
            cost = "the same" if not abs(hours) >= 0.05 else f"{abs(hours):.1f} {'more' if hours > 0 else 'fewer'}"
            lines[way["what"]] = f"{way['what']}: 90 % start {start}, likely end {end}, GPU-hours {cost}"
    return list(lines.values())


def _moved(seconds: float) -> str:
    """Return a change of an instant in words."""
    if seconds != seconds:
        return NOT_KNOWN
    return "the same" if abs(seconds) < 60 else f"{span(abs(seconds))} {'later' if seconds > 0 else 'sooner'}"


def print_chunks(results: Sequence[Row], now: float) -> None:
    """Print one line per chunk length, and the length with which all chunks are likely to end first."""
    columns = "length_s, chunks, likely_wait_s|WAIT EACH, likely_end_s|DONE, by_90_end_s|BY 90%, chance_first|FIRST"
    print_rows(columns, results, left=1, now=now)
    best = results[0]
    echo(f"earliest likely end: {best['chunks']} x --time={best['limit']} (probability {best['chance_first']:.0%})")
    echo(f"basis: {best['basis']}")


def best_words(ways: Sequence[Row], deadline: bool, any_size: bool, script: str) -> str:
    """Return a sentence with the rule that selected the first choice, and its options. If no choice has the requested
    size, the sentence says so.

    >>> ways = [{"same_size": True, "flags": "--ntasks=4"}, {"same_size": False, "flags": "--ntasks=8"}]
    >>> print(best_words(ways, False, False, "job.sh"))
    the first row has the earliest BY 90% plus likely run time, for the size in the script (--any-size: for any size)
    best: sbatch --ntasks=4 job.sh
    """
    if not any_size and not ways[0]["same_size"]:
        return "no partition accepts the size in the script (--any-size also ranks other sizes)"
    rule = "highest probability to finish in time" if deadline else "earliest BY 90% plus likely run time"
    others = not any_size and not all(way["same_size"] for way in ways)
    size = ", for the size in the script (--any-size: for any size)" if others else ""
    return f"the first row has the {rule}{size}\nbest: sbatch {ways[0]['flags']} {shlex.quote(script)}"


def _is_known(value: float | None) -> bool:
    """Return whether a number is neither None nor NaN."""
    return value is not None and value == value


NOT_KNOWN = "not known"  # the text of `answers.fair_share`, which is slow to import
SPANS = {"10_min": "10 min", "1_hour": "1 h", "4_hours": "4 h", "1_day": "1 day"}


def _by_words(results: Iterable[Row], words: Callable[[Row], str], most: int, joint: str = ": ") -> list[str]:
    """Return one line for each of the first `most` texts, with the jobs that share it; an empty text has no line."""
    jobs: dict[str, list[str]] = {}
    for r in results:
        if text := words(r):
            jobs.setdefault(text, []).append(str(r["job_id"]))
    return [f"{_names(ids)}{joint}{text}" for text, ids in list(jobs.items())[:most]]


def sentences(results: Sequence[Row], now: float, most: int = 5) -> list[str]:
    """Return one line for each of the first `most` jobs that have an answer; tasks with the same answer share a line.

    The track record of the answers is printed once at the end for all jobs that share it.
    """
    records = dict.fromkeys(coverage_of_similar(r) for r in results if sentence(r, now))
    lines = _by_words(results, lambda r: sentence(r, now, "" if len(records) == 1 else coverage_of_similar(r)), most)
    if len(records) != 1:
        return lines
    (record,) = records
    return [f"{lines[0]}; {record}"] if len(lines) == 1 else [*lines, record]


def why_moved(results: Iterable[Row], now: float, most: int = 5) -> list[str]:
    """Return one line for each of the first `most` reasons why an answer moved, with the jobs that share it."""
    moved = (r for r in results if r.get("why_it_moved"))
    return _by_words(moved, lambda r: f"since {clock(r['moved_since_s'], now)}: {r['why_it_moved']}", most, ", ")


def before_maintenance(results: Iterable[Row], most: int = 5) -> list[str]:
    """Return one line for each of the first `most` time limits with which jobs could start before a maintenance.

    Users may shorten the time limit of their waiting jobs; the job keeps its position in the queue.
    """
    lines = _by_words(results, lambda r: str(r.get("maintenance") or ""), most)
    how = "to shorten a limit and keep the place in the queue: scontrol update JobId=JOBID TimeLimit=LIMIT"
    return [*lines, how] if lines else []


def priority_passes(results: Iterable[Row], most: int = 5) -> list[str]:
    """Return one line for each of the first `most` answers about priorities and fair share, with its jobs.

    >>> priority_passes([{"job_id": "7", "priority_passes": "not known"}])
    []
    """
    known = (r for r in results if r.get("priority_passes") != NOT_KNOWN)
    return _by_words(known, lambda r: str(r.get("priority_passes") or ""), most)


def sentence(r: Row, now: float, record: str = "") -> str:
    """Return a job's answer as a sentence: the 10 and 90 % times, the median, the chances, and the track record.

    >>> sentence({"likely_start_s": math.inf}, 0.0)
    ''
    """
    likely, early, late = (r.get(f"{name}_start_s", math.nan) for name in ("likely", "by_10", "by_90"))
    if not math.isfinite(likely):
        return ""
    words = [f"{_between(early, late, now)}most likely {_minute(likely, now)}"]
    chances = {name: r.get(f"chance_within_{key}", math.nan) for key, name in SPANS.items()}
    known = [f"{name} {_percent(share)}" for name, share in chances.items() if share == share]
    if known:
        words.append(f"probability to start within {', '.join(known)}")
    return "; ".join([*words, record] if record else words)


def coverage_of_similar(r: Row) -> str:
    """Return the coverage of the last similar predictions."""
    count, share = r.get("track_record_like_this") or 0, r.get("track_record_came_true")
    if not count or share is None or share != share:
        return "no similar prediction has a known outcome yet"
    of = f"of the last {count:,} similar predictions"
    return f"{of}, {_percent(share)} of the jobs started between their two times (target: 80 %)"


def _between(early: float, late: float, now: float) -> str:
    """Return the 10 % and 90 % start times as the beginning of a sentence."""
    if math.isfinite(early) and math.isfinite(late):
        return f"between {_minute(max(early, now), now)} and {_minute(late, now)}, "
    if math.isfinite(early):
        return f"not before {_minute(max(early, now), now)}, "
    return f"by {_minute(late, now)}, " if math.isfinite(late) else ""


def _minute(epoch: float, now: float) -> str:
    """Return a time as text, without seconds if it is more than ten minutes away."""
    return clock(epoch, now)[:-3] if epoch - now > 600.0 else clock(epoch, now)


def _percent(share: float) -> str:
    """Return a share as text; only a certain event has 0 or 100 %.

    >>> _percent(0.004), _percent(0.5), _percent(0.999)
    ('under 1 %', '50 %', 'over 99 %')
    """
    if 0.0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1.0 else f"{share:.0%}".replace("%", " %")


def _names(ids: list[str]) -> str:
    """Return the id of the first job and the number of the other jobs."""
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"


def advice_lines(r: Row) -> list[str]:
    """Return the advice for a script, if there is any: limit and memory as options of sbatch, and the reasons.

    >>> advice_lines({"advised_limit": "01:00:00", "advised_why": "a.", "advised_memory": "2G",
    ...               "advised_memory_why": "b."})
    ['advised: --time=01:00:00 --mem=2G', '  --time: a.', '  --mem: b.']
    """
    if r.get("advised_limit") is None:
        return []
    flag, no = (f" --mem={r['advised_memory']}", "") if r["advised_memory"] is not None else ("", "no ")
    flags = f"advised: --time={r['advised_limit']}{flag}"
    return [flags, f"  --time: {r['advised_why']}", f"  {no}--mem: {r['advised_memory_why']}"]


LONGEST = 32
"""Maximum length of the shared name of an array's tasks; a longer name would make the table too wide."""


def print_waiting(results: Sequence[Row], now: float, slurm: bool) -> None:
    """Print a table of waiting jobs, and what their predictions rest on.

    Tasks of an array that wait for the same reason share a line, from first to last start.
    """
    slurm = slurm or results[0]["method"] is None
    groups: dict[tuple[str, ...], list[Row]] = {}
    for r in results:
        array, _, task = r["job_id"].partition("_")
        columns = _columns(r, now, slurm)
        same = (array, columns[0], columns[-1]) if task and math.isfinite(r["likely_start_s"]) else columns
        groups.setdefault((array, str(bool(task)), *same), []).append(r)
    lines = [["JOBID", "PARTITION", "LIKELY", "BY 90%", "WAITED", *(["SLURM SAYS"] if slurm else []), "WHY IT WAITS"]]
    for tasks in groups.values():
        tasks.sort(key=lambda r: r["likely_start_s"] if math.isfinite(r["likely_start_s"]) else math.inf)
        first, last = (_columns(_extreme(tasks, least), now, slurm) for least in (True, False))
        cells = [_from_to(a, b) if name != "WAITED" else a for name, a, b in zip(lines[0][1:], first, last)]
        lines.append([_together([r["job_id"] for r in tasks]), *cells])
    print_columns(lines, left=len(lines[0]))
    heads = [
        {**tasks[0], "job_id": f"{tasks[0]['job_id']} (the first of {len(tasks):,})"} if len(tasks) > 1 else tasks[0]
        for tasks in groups.values()
    ]
    for line in (*sentences(heads, now), *before_maintenance(heads), *priority_passes(heads), *why_moved(heads, now)):
        echo(line)
    for line in _bases([r["basis"] for r in results]):
        echo(line)
    for r in results:
        if r.get("simulated_why"):
            echo(f"simulated on the machine: {clock(r['simulated_start_s'], now)} ({r['simulated_why']})")
        for line in advice_lines(r):
            echo(line)
    for part, r in {r["partition"]: r for r in results}.items():
        if r["method"] is not None:
            echo(f"track record on {part}{_record(r)}")


def _extreme(tasks: Sequence[Row], least: bool) -> Row:
    """Return the first (or last) task by likely start, with the earliest (or latest) of each time over all tasks.

    The task that likely starts first need not have the earliest 90 % time.
    """
    of: dict[str, Any] = dict(tasks[0 if least else -1])
    for name in ("likely_start_s", "by_90_start_s", "slurm_start_s"):
        known = [r[name] for r in tasks if r.get(name) is not None and r[name] == r[name]]
        if known:
            of[name] = min(known) if least else max(known)
    return of


def _from_to(first: str, last: str) -> str:
    """Return a range of two cells as text; if both are on one day, the day is given once.

    >>> _from_to("2026-11-27T01:00:00", "2026-11-27T02:30:00"), _from_to("main", "main")
    ('2026-11-27T01:00:00 to 02:30:00', 'main')
    """
    day, _, hour = last.partition("T")
    return first if first == last else f"{first} to {hour if hour and first.startswith(day) else last}"


def _bases(said: Sequence[str]) -> list[str]:
    """Return the bases of the answers; bases that differ only in their figures are counted.

    >>> _bases(["model: behind 2 jobs", "model: behind 3 jobs", "it cannot start as it is"])
    ['basis: model: behind 2 jobs (1 other answer with other figures: --json)', 'basis: it cannot start as it is']
    """
    kinds: dict[str, list[str]] = {}
    for basis in dict.fromkeys(said):
        kinds.setdefault(re.sub(r"[0-9.]+", "", basis.partition(":")[0]), []).append(basis)
    others = " ({} with other figures: --json)"
    return [
        f"basis: {some[0]}{others.format(counted(len(some) - 1, 'other answer')) if len(some) > 1 else ''}"
        for some in kinds.values()
    ]


def _record(r: Row) -> str:
    """Return how accurate the predictions of the answering method were so far."""
    from ...predict.protocol import method_name

    who = method_name(r["method"])
    came, late, cover = r["track_record_forecasts"], r["track_record_overdue"], r["track_record_coverage_90"]
    if not came and not late:
        return f": the outcome of {who} is not known yet, so the reliability of its 90 % time is unknown"
    long = f" of {r['track_record_of']}" if r.get("track_record_of", "all") != "all" else ""
    words = [f"{came:,} forecasts{long} by {who}"]
    if late:
        words.append(f"{late} more jobs wait longer than their 90 % time")
    if cover is not None and cover == cover:
        words.append(f"{cover:.0%} started by the 90 % time")
    if came:
        words.append(f"half were within {span(r['track_record_median_ae_s'], '-')}")
    return f", last 30 days: {', '.join(words)}"


def _columns(r: Row, now: float, slurm: bool) -> tuple[str, ...]:
    """Return the table cells of a job, except its id. A wait from an unknown instant is shown as +wait."""
    lines = []
    for name in ("likely", "by_90"):
        wait, at = r[f"{name}_wait_s"], r[f"{name}_start_s"]
        floating = at != at and wait == wait and wait != float("inf")
        lines.append(f"+{span(wait)}" if floating else clock(at, now))
    why = r["reason_in_words"] + (f" (+ counts from {r['counts_from']})" if lines[0].startswith("+") else "")
    estimate = [clock(r["slurm_start_s"], now)] if slurm else []
    return (r["partition"] or "-", *lines, span(r["waited_s"], "-"), *estimate, why)


def _together(ids: list[str]) -> str:
    """Return one name for tasks of an array, at most `LONGEST` characters: the first spans and the last span.

    >>> _together(["15_2", "15_3", "15_4", "15_9"])
    '15_[2-4,9]'
    >>> _together([f"15_{k}" for k in range(1, 200) if k % 3])
    '15_[1-2,4-5,7-8,10-11,...,199]'
    """
    from ...formats.slurm.resources import fold

    if len(ids) == 1:
        return ids[0]
    name = fold(sorted(ids, key=lambda job_id: int(job_id.partition("_")[2])))
    array, _, tasks = name.removesuffix("]").partition("[")
    words = tasks.split(",")
    for kept in range(len(words) - 2, 0, -1):
        if len(name) <= LONGEST:
            break
        name = f"{array}[{','.join(words[:kept])},...,{words[-1]}]"
    return name
