"""Jobs per second of the scheduling kernel: policies, predictors in the loop, a queue of 100,000."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

REPEATS = 7
LOGS = ("KTH-SP2-1996-2.1-cln", "SDSC-SP2-1998-4.2-cln", "CTC-SP2-1996-3.1-cln", "HPC2N-2002-2.2-cln")


def run() -> None:
    """Print medians of the kernel's own CPU time (after the log is read and the kernel loaded)."""
    _logs()
    own_schedulers()
    _long_queue()


def _logs() -> None:
    from batchcast.simulation import Policy, simulate
    from batchcast.simulation.policies import policy_of
    from batchcast.trace import read_trace
    from batchcast.trace.clean import clean
    from batchcast.trace.source import demo_path

    shared = Path(os.environ.get("BATCHCAST_SHARED", Path(__file__).parents[3] / "shared"))
    if not shared.is_dir():
        print("skipped: the real logs are not in the repository (BATCHCAST_SHARED names their folder)")
        return
    sjbf = Policy(backfill_order="sjf")
    corrected = Policy(backfill_order="sjf", correct="incremental")
    cases: tuple[tuple[str, Policy, str, bool], ...] = (
        ("EASY", Policy(), "requested", True),
        ("EASY-SJBF", sjbf, "requested", True),
        ("EASY-SJBF, last_2, incremental", corrected, "last_2", True),
        ("the same, the predictor in Python", corrected, "last_2", False),
        ("the policy forecast, last_2", policy_of("forecast"), "last_2", True),
        ("the policy forecast, kernel", policy_of("forecast"), "kernel", True),
        ("the same, learning nothing", policy_of("forecast"), "kernel:learn=no", True),
        ("the same, no candidate scaled", policy_of("forecast"), "kernel:scaled=no", True),
        ("the same, running jobs unheard", policy_of("forecast"), "kernel:running=0", True),
        ("conservative", Policy(backfill="conservative"), "requested", True),
        ("head by wfp, candidates by f1", Policy("wfp", backfill_order="f1"), "requested", True),
        ("head by a Python function", Policy(_order), "requested", True),
    )
    print(f"{'thousand jobs per CPU second':36}" + "".join(f"{name.split('-')[0]:>9}" for name in LOGS))
    traces = [clean(read_trace(shared / "traces" / f"{name}.swf.gz"), ["reference"]) for name in LOGS]
    small = read_trace(demo_path())
    for label, policy, spec, native in cases:
        simulate(small, policy, spec, native=native)  # compiles at the first use on this machine
        figures = []
        for trace in traces:
            few = REPEATS if native else 1
            took = [
                simulate(trace, policy, spec, procs="alloc", native=native, clock=time.thread_time).kernel_s
                for _ in range(few)
            ]
            figures.append(len(trace) / statistics.median(took) / 1000)
        print(f"{label:36}" + "".join(f"{figure:9.0f}" for figure in figures), flush=True)


def own_schedulers() -> None:
    """Print the schedulers of examples/my_scheduler.py on one log: jobs per second, and whether the kernel agrees."""
    import runpy

    from batchcast.simulation import simulate
    from batchcast.trace import read_trace

    root = Path(__file__).parents[2]
    shared = Path(os.environ.get("BATCHCAST_SHARED", root.parent / "shared"))
    if not shared.is_dir():
        return
    own = runpy.run_path(str(root / "examples" / "my_scheduler.py"), run_name="examples")
    trace = read_trace(shared / "traces" / "SDSC-SP2-1998-4.2-cln.swf.gz")
    for name, policy in (("Easy", "easy"), ("Sjbf", "easy-sjbf"), ("Conservative", "conservative")):
        for spec in ("requested", "last_2"):
            made = simulate(trace, own[name], spec, clock=time.thread_time)
            same = (made.start_time == simulate(trace, policy, spec).start_time).all()
            speed = len(made) / made.kernel_s
            print(f"{name}, {spec}: {len(made):,} jobs, {speed:,.0f} per CPU second, as the kernel: {same}", flush=True)


def _order(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
    return -procs * (wait / planned) ** 3


def _long_queue() -> None:
    """An overloaded machine: jobs arrive at twice the rate that it can serve, so half of them eventually wait."""
    from batchcast.schedule.advance import advance
    from batchcast.schedule.state import GIVEN, make_jobs, make_state
    from batchcast.simulation import Policy

    print("\noverloaded machine, microseconds of CPU per job")
    print(f"{'policy':24}{'jobs':>9}{'longest queue':>15}{'us per job':>12}")
    conservative = Policy(backfill="conservative")
    for policy in (Policy(), Policy(backfill_order="sjf"), Policy("sjf"), Policy(backfill_order="f1"), conservative):
        for count in (20_000, 200_000)[: 1 if policy.backfill == "conservative" else 2]:
            advance(make_state(make_jobs(*_overload(100)), 256, planner=GIVEN, **policy.rules()))  # compiled
            jobs: Any = make_jobs(*_overload(count))
            state = make_state(jobs, 256, planner=GIVEN, **policy.rules())
            begun = time.thread_time()
            advance(state)
            took = time.thread_time() - begun
            waiting = np.arange(1, count + 1) - np.searchsorted(np.sort(jobs["start"]), jobs["submit"], "right")
            print(f"{policy.name:24}{count:9}{waiting.max():15}{took / count * 1e6:12.2f}", flush=True)


def _overload(count: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(1)
    procs = 2 ** rng.integers(0, 7, count)
    length = np.ceil(rng.lognormal(6.0, 1.5, count))
    gap = float((procs * length).mean()) / 256 / 2
    submit = np.floor(np.cumsum(rng.exponential(gap, count)))
    request = length * rng.choice([1.0, 2.0, 5.0], count)
    return submit, procs, length, request, request
