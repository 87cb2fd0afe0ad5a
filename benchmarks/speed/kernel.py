"""`kernel`: the effect of each of its parts, a comparison with other methods, and its cost."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from batchcast.evaluation.replay import replay
from batchcast.events.event import End, Start, Submit
from batchcast.events.recorded import events
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.metrics.accuracy import relative_accuracy
from batchcast.metrics.bursts import user_weeks
from batchcast.metrics.paired import PairedDifference, paired_differences
from batchcast.predict.registry import make
from batchcast.predict.runtime.kernel import LEVELS
from batchcast.simulation import Policy, simulate
from batchcast.table import Trace
from batchcast.trace import Selection, read_trace, select

SHARED = Path(os.environ.get("BATCHCAST_SHARED", Path(__file__).parents[3] / "shared"))
# log, selection, time zone; settings were chosen on TUNED alone, and SCORED was scored after that
Part = tuple[str, Selection | None, str | None]
TUNED: dict[str, Part] = {
    "HPC2N 2002-03": ("HPC2N-2002-2.2-cln", Selection(until="2004-01-01"), None),
    "BLUE 2000-01": ("SDSC-BLUE-2000-4.2-cln", Selection(until="2002-01-01"), None),
    "DS until Oct": ("SDSC-DS-2004-2.1-cln", Selection(until="2004-10-01"), None),
    "CTC until 1997": ("CTC-SP2-1996-3.1-cln", Selection(until="1997-01-01"), None),
    "KTH until Apr": ("KTH-SP2-1996-2.1-cln", Selection(until="1997-04-01"), None),
}
PAPERS: dict[str, Part] = {
    "HPC2N04": ("HPC2N-2002-2.2-cln", Selection(since="2004-01-01", until="2005-01-01"), None),
    "HPC2N05": ("HPC2N-2002-2.2-cln", Selection(since="2005-01-01"), None),
    "SDSC02": ("SDSC-BLUE-2000-4.2-cln", Selection(since="2002-01-01", status=("1",)), "+01:00"),
    "SDSC04": ("SDSC-DS-2004-2.1-cln", Selection(status=("1",)), None),
}
WHOLE: dict[str, Part] = {
    "CTC": ("CTC-SP2-1996-3.1-cln", None, None),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln", None, None),
    "KTH": ("KTH-SP2-1996-2.1-cln", None, None),
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln", None, None),
    "LPC": ("LPC-EGEE-2004-1.2-cln", None, None),
    "DAS2": ("DAS2-fs1-2003-1", None, None),
}
POINTS = ("point=between", "point=accuracy")
WITHOUT = ("learn=no", "offsets=no", "running=0", "scaled=no", "relative=no")
OTHERS = ("recent_mean", "last_2", "knn_ga:generations=0,h=1000000", "parzen", "user_clusters", "trip")
SJBF = Policy(backfill_order="sjf")
PLANNED = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def run() -> None:
    """Print every table; the real logs are not in the repository."""
    if not SHARED.is_dir():
        print("skipped: the real logs are not in the repository (BATCHCAST_SHARED names their folder)")
        return
    speed()
    memory()
    ablation(TUNED)
    against(PAPERS | WHOLE)
    curve(PAPERS)


def opened(parts: dict[str, Part]) -> Iterator[tuple[str, Trace]]:
    """The parts by name."""
    for name, (log, selection, timezone) in parts.items():
        trace = read_trace(str(SHARED / "traces" / f"{log}.swf.gz"), timezone=timezone)
        yield name, trace if selection is None else select(trace, selection)


def speed(jobs: int = 10_000, times: int = 15, whole_times: int = 3) -> None:
    """Print jobs per second of CPU, learning included: one pass over a log's first jobs, in closed loop; and one live
    answer.

    Then over whole logs, whose users have a longer history. The best of several runs counts, because other work on the
    machine slows the others down.
    """
    print(f"{f'kernel, CPU; best of {times}, {jobs:,} jobs':40}{'one pass':>10}{'closed loop':>18}"
          f"{'live: learns, asked':>34}")  # fmt: skip
    parts = {"HPC2N04": PAPERS["HPC2N04"], "CTC": WHOLE["CTC"], "KTH": WHOLE["KTH"]}
    for name, whole in opened(parts):
        trace = whole.take(np.arange(min(jobs, len(whole))))
        cells = rates(trace, times)
        asked, learned = live(trace)
        print(f"{name:32}{cells}  {np.mean(learned):6.0f} us, {np.median(asked):4.0f} us (99 %: "
              f"{np.percentile(asked, 99):.0f})", flush=True)  # fmt: skip
        print(f"{f'{name}, all {len(whole):,}, best of {whole_times}':32}{rates(whole, whole_times)}", flush=True)


def rates(trace: Trace, times: int) -> str:
    """Return jobs per second in one pass and in closed loop."""
    few, best = trace.take(np.arange(200)), {"pass": np.inf, "loop": np.inf}
    make("runtime", "kernel").predict_trace(few)
    simulate(few, SJBF, "kernel", wide="cut")
    for _ in range(times):
        begun = time.process_time()
        make("runtime", "kernel").predict_trace(trace)
        best["pass"] = min(best["pass"], time.process_time() - begun)
        loop = simulate(trace, SJBF, "kernel", wide="cut", clock=time.thread_time).kernel_s
        best["loop"] = min(best["loop"], loop)
    return "".join(f"{len(trace) / took:10,.0f} jobs/s" for took in best.values())


def live(trace: Trace) -> tuple[list[float], list[float]]:
    """Return microseconds of CPU per answer, and per job learned, one by one."""
    method, state = make("runtime", "kernel"), SystemState()
    asked, learned = [], [0.0] * len(trace)
    for event in events(trace):
        begun = time.thread_time()
        if isinstance(event, Submit):
            method.predict(event.job, state)
            asked.append(1e6 * (time.thread_time() - begun))
        begun = time.thread_time()
        state.apply(event)
        method.observe(event, state)
        if isinstance(event, Submit | Start | End):
            learned[event.job.row] += 1e6 * (time.thread_time() - begun)
    return asked, learned


def memory(counts: tuple[int, ...] = (300_000, 1_000_000), part: int = 50_000) -> None:
    """Print the memory for jobs of a thousand users. More jobs have ended than `kernel` remembers, so memory does not
    grow."""
    rng, method, state = np.random.default_rng(0), make("runtime", "kernel"), SystemState()
    before, done = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for count in counts:
        while done < count:
            users, procs = rng.integers(0, 1000, part).tolist(), (2.0 ** rng.integers(0, 8, part)).tolist()
            limits, runs = (3600.0 * rng.integers(1, 25, part)).tolist(), rng.lognormal(6, 2, part).tolist()
            for row, (user, width, limit, run) in enumerate(zip(users, procs, limits, runs), done):
                job = JobRequest(row, row, 100.0 * row, width, limit, float("nan"), user_id=user)
                method.observe(Submit(100.0 * row, job), state)
                method.observe(End(100.0 * row + run, job, run, 0.0), state)
            done += part
        arrays = sum(array.nbytes for array in method.memory)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"memory after {done:,} jobs: {arrays / 1e6:.0f} MB of arrays, {grown / 1e3:.0f} MB more held by the "
              "process at its peak (getrusage)", flush=True)  # fmt: skip


def ablation(parts: dict[str, Part]) -> None:
    """Print MAE and accuracy of the median, and the change if a part is omitted or another point used (90 %, users'
    weeks)."""
    print("\nwhat leaving a part out changes: MAE in s and accuracy (90 %); below 0 in MAE: better without")
    for name, trace in opened(parts):
        whole = make("runtime", "kernel:point=median").predict_trace(trace).points
        error, accuracy = measures(whole, trace)
        print(f"{name:16}{'point=median':14}{np.nanmean(error):9.0f}{np.nanmean(accuracy):8.4f}", flush=True)
        for words in (*POINTS, *(f"point=median,{part}" for part in WITHOUT)):
            points = make("runtime", f"kernel:{words}").predict_trace(trace).points
            late, near = difference(points, whole, trace)
            shown = words.removeprefix("point=median,")
            print(f"{'':16}{shown:14}{interval(late, 0):>28}{interval(near, 4):>30}  {late.verdict()}", flush=True)


def against(parts: dict[str, Part], others: tuple[str, ...] = OTHERS) -> None:
    """Print MAE and accuracy of every method, and kernel's difference from it with its interval."""
    print("\nkernel against others: MAE in s, accuracy, underestimates; kernel minus it (90 %)")
    for name, trace in opened(parts):
        whole = make("runtime", "kernel").predict_trace(trace).points
        said = {"kernel": whole, **{spec: f.points for spec, f in replay(trace, list(others)).items()}}
        for spec, points in said.items():
            error, accuracy = measures(points, trace)
            under = np.nanmean(np.where(np.isnan(error), np.nan, points < trace.run_time))
            line = f"{name:11}{spec:31}{np.nanmean(error):8.0f}{np.nanmean(accuracy):6.3f}{under:6.3f}"
            if spec != "kernel":
                late, near = difference(whole, points, trace)
                largest = f"  {late.largest_share:.0%} one group's" if late.is_decided_by_one else ""
                verdict = f"  {late.verdict()}, {near.verdict(lower_is_better=False)}"
                line += f"{interval(late, 0):>26}{interval(near, 3):>26}{verdict}{largest}"
            print(line, flush=True)


def curve(parts: dict[str, Part]) -> None:
    """Print MAE against the share of underestimates, when planning with each quantile."""
    print("\nMAE in s and underestimates when the quantile is what is planned with")
    print(f"{'':9}" + "".join(f"{level:>14g}" for level in PLANNED))
    for name, trace in opened(parts):
        bounds = make("runtime", "kernel").predict_trace(trace)
        cells = []
        for level in PLANNED:
            points = bounds.quantiles[:, LEVELS.index(level)]
            points = np.where(np.isnan(points), bounds.points, points)
            error, _ = measures(points, trace)
            cells.append(f"{np.nanmean(error):8.0f} {np.mean((points < trace.run_time)[~np.isnan(error)]):.3f}")
        print(f"{name:9}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


def measures(points: np.ndarray, trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return absolute error and min/max of each job that ran."""
    ran = ~np.isnan(trace.run_time)
    near = np.where(ran, relative_accuracy(points, np.where(ran, trace.run_time, 1.0)), np.nan)
    return np.abs(points - trace.run_time), near


def difference(points: np.ndarray, other: np.ndarray, trace: Trace) -> tuple[PairedDifference, PairedDifference]:
    """Return how much `points` exceeds `other` in absolute error and accuracy."""
    groups = user_weeks(trace.nominal("user_id").codes, trace.submit_time)
    pairs: Any = zip(measures(points, trace), measures(other, trace))
    late, near = (paired_differences(a[None], b, groups, np.random.default_rng(0))[0] for a, b in pairs)
    return late, near


def interval(found: PairedDifference, digits: int) -> str:
    """Return the difference with the ends of its interval."""
    return f"{found.difference:+.{digits}f} ({found.low:+.{digits}f} .. {found.high:+.{digits}f})"
