"""Compares our memory requests with published sizers on Nextflow's trace files: GiB-hours wasted, failed attempts.

    python benchmarks/memory_sizers.py nextflow-*.csv.gz
    python benchmarks/memory_sizers.py --protocol paper --seeds 3 nextflow-*.csv.gz

Wasted memory is the memory that all attempts of a task requested, less the memory that it used, times its hours; a
failed attempt lasts as long as the task. There are two protocols. `clock`: a request uses the tasks of the process that
had ended when the task was submitted; with fewer than `--least` such tasks the user's written request is used, except
that `ours` uses the shares of their requests that other processes used. `paper` (Bader et al. 2024, section III): for
each process of at least 34 tasks, a rule first learns a random 30 % of the tasks, and then each other task right after
its prediction, whenever the task ended. No real system could do this.

The rules, by their papers, on the size of a task's input (column `input_size`, else the bytes read, `rchar`): `witt
percentile` and `witt regression` (Witt et al. 2019: the 95th percentile; a line, and above it a standard deviation of
its relative errors), both doubled after a failure; `tovar` (Tovar et al. 2018, eq. 1; then the largest seen, then a
node of 128 GB); `sizey` (Bader et al. 2024: line, neighbours, forest and network weighted by accuracy and efficiency;
the offset of least past waste; then the largest seen, then doubled). Departure: Sizey searches its models' settings
anew after every task; here they are fixed, fitted again whenever the history has grown by a tenth, and their accuracy
is the accuracy of predictions made before the task was learned. It needs scikit-learn.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from batchcast.metrics.paired import paired_differences
from batchcast.predict.namesakes import HISTORY, cheapest_at_risk, share_for_new

NODE_GIB = 128e9 / 2**30


@dataclass(frozen=True, slots=True)
class Task:
    """A completed task: bytes read, GiB used and requested, its hours, and its instants (s)."""

    process: str
    size: float
    peak: float
    hours: float
    written: float
    submit: float
    end: float


def read_tasks(path: Path) -> list[Task]:
    """Return the completed tasks of a raw trace file with a measured peak and run time, in order of submission."""
    raw = path.read_bytes()
    lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().splitlines()
    found = []
    for row in csv.DictReader(lines, delimiter="\t" if "\t" in lines[0] else ","):
        try:
            task = Task(
                f"{path.name}:{row['process']}", float(row.get("input_size") or row["rchar"]),
                float(row["peak_rss"]) / 2**30, float(row["realtime"]) / 3.6e6, float(row["memory"]) / 2**30,
                float(row["submit"]) / 1e3, float(row["complete"]) / 1e3,
            )  # fmt: skip
        except ValueError:
            continue
        if row["status"] == "COMPLETED" and task.peak > 0 and task.hours > 0:
            found.append(task)
    return sorted(found, key=lambda task: task.submit)


@dataclass
class Rule:
    """A rule for the requests of one process; `past` has the tasks that it has learned, in order."""

    past: list[Task] = field(default_factory=list)

    def learn(self, task: Task) -> None:
        self.past.append(task)

    def first(self, task: Task, shares: dict[str, float]) -> float:
        """Return the request while too few tasks of the process have ended; `shares` has, for each process, the share
        of the request that it used."""
        return task.written

    def again(self, task: Task, failed: float) -> float:
        """Return the next request after the request `failed`, which was too small."""
        return 2.0 * failed

    @property
    def peaks(self) -> np.ndarray:
        return np.array([task.peak for task in self.past])

    @property
    def sizes(self) -> np.ndarray:
        return np.array([task.size for task in self.past])


class Written(Rule):
    def ask(self, task: Task) -> float:
        return task.written


class Ours(Rule):
    risk = 0.05

    def ask(self, task: Task) -> float:
        last = self.past[-HISTORY:]
        return cheapest_at_risk(self.peaks[-HISTORY:], np.array([t.hours for t in last]), self.bound(task), self.risk)

    def first(self, task: Task, shares: dict[str, float]) -> float:
        share = share_for_new([one for name, one in shares.items() if name != task.process], self.risk)
        held = max((one.peak for one in self.past), default=0.0)
        return max(share * task.written, held) if share == share else task.written

    def again(self, task: Task, failed: float) -> float:
        written = self.bound(task)
        return written if written > failed else 2.0 * failed

    def bound(self, task: Task) -> float:
        return task.written


class Late(Ours):
    """Our rule for processes with history; for other processes it returns the user's written request, as all published
    rules do."""

    def first(self, task: Task, shares: dict[str, float]) -> float:
        return task.written


class Unbounded(Late):
    """Our rule for tasks without a written request; no published rule covers this case."""

    def bound(self, task: Task) -> float:
        return math.nan


class Percentile(Rule):
    def ask(self, task: Task) -> float:
        return float(np.percentile(self.peaks, 95))


class Regression(Rule):
    def __init__(self) -> None:
        super().__init__()
        self.errors: list[float] = []

    def line(self, size: float) -> float:
        if np.ptp(self.sizes) == 0:
            return float(self.peaks.mean())
        slope, start = np.polyfit(self.sizes / self.sizes.max(), self.peaks, 1)
        return float(start + slope * size / self.sizes.max())

    def learn(self, task: Task) -> None:
        if len(self.past) >= 2:
            self.errors.append((task.peak - self.line(task.size)) / task.peak)
        super().learn(task)

    def ask(self, task: Task) -> float:
        said = self.line(task.size) * (1.0 + (float(np.std(self.errors)) if self.errors else 0.0))
        return said if said > 0 else float(self.peaks.max())


class Tovar(Rule):
    def ask(self, task: Task) -> float:
        order = np.argsort(-self.peaks, kind="stable")
        peaks, hours = self.peaks[order], np.array([t.hours for t in self.past])[order]
        above = np.concatenate([[0.0], np.cumsum(hours)[:-1]])
        above = above[np.searchsorted(-peaks, -peaks, side="left")]  # hours of tasks that use more memory
        return float(peaks[np.argmin(peaks * hours.sum() + peaks[0] * above)])

    def again(self, task: Task, failed: float) -> float:
        largest = float(self.peaks.max())
        return largest if failed < largest else max(NODE_GIB, 2.0 * failed)


class Sizey(Rule):
    MODELS = 4
    DEFAULT_OFFSET = 0.05
    ALPHA = 0.0  # the paper's weight of efficiency relative to accuracy

    def __init__(self) -> None:
        super().__init__()
        self.fitted_at, self.models = 0, []
        self.said: list[np.ndarray] = []

    def fit(self) -> None:
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.linear_model import LinearRegression
        from sklearn.neighbors import KNeighborsRegressor
        from sklearn.neural_network import MLPRegressor

        few = min(3, len(self.past))
        self.low, self.high = self.scale()
        x, y = self.scaled(self.sizes), (self.peaks - self.low[1]) / self.high[1]
        self.models = [
            LinearRegression(),
            KNeighborsRegressor(few, weights="distance"),
            RandomForestRegressor(30, random_state=0),
            MLPRegressor(hidden_layer_sizes=(16,), solver="lbfgs", max_iter=200, random_state=0),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for model in self.models:
                model.fit(x, y)
        self.fitted_at = len(self.past)

    def scale(self) -> tuple[tuple[float, float], tuple[float, float]]:
        pairs = (self.sizes, self.peaks)
        return tuple(float(a.min()) for a in pairs), tuple(float(np.ptp(a)) or 1.0 for a in pairs)

    def scaled(self, sizes: np.ndarray) -> np.ndarray:
        return ((sizes - self.low[0]) / self.high[0])[:, None]

    def models_say(self, size: float) -> np.ndarray:
        if len(self.past) > 1.1 * self.fitted_at or not self.models:
            self.fit()
        x = self.scaled(np.array([size]))
        return np.array([float(model.predict(x)[0]) for model in self.models]) * self.high[1] + self.low[1]

    def learn(self, task: Task) -> None:
        if len(self.past) >= 2:
            self.said.append(np.append(self.models_say(task.size), task.peak))
        super().learn(task)

    def ask(self, task: Task) -> float:
        now = self.models_say(task.size)
        said = np.array(self.said).reshape(-1, self.MODELS + 1)
        truth, models = said[:, -1:], said[:, :-1]
        off = np.minimum(np.abs(truth - models) / truth, 1.0)
        accuracy = -off.mean(axis=0) if len(said) else np.zeros(self.MODELS)
        score = self.ALPHA * -now / now.max() + (1.0 - self.ALPHA) * accuracy
        weights = np.exp(score) / np.exp(score).sum()
        offset = float(weights @ [self.offset(models[:, k], truth[:, 0]) for k in range(self.MODELS)])
        request = float(weights @ now) * (1.0 + offset)
        return request if request > 0 else float(self.peaks.min())

    def offset(self, said: np.ndarray, truth: np.ndarray) -> float:
        """Return the offset with the least waste: the standard deviation or the median of the relative errors, either
        of all errors or of underestimates only."""
        if len(said) < 2:
            return self.DEFAULT_OFFSET
        errors = (truth - said) / truth
        below = errors[errors > 0]
        near = np.abs(errors) <= 2.5 * np.percentile(np.abs(errors), 90) - 1.5 * np.percentile(np.abs(errors), 10)
        choices = [float(np.std(np.abs(errors[near]))), float(np.median(np.abs(errors)))]
        choices += [float(np.std(below)), float(np.median(below))] if len(below) else [self.DEFAULT_OFFSET]
        hours = np.array([task.hours for task in self.past[-len(said) :]])

        def waste(offset: float) -> float:
            asked = np.maximum(said * (1.0 + offset), 1e-9)
            return float((hours * np.where(asked >= truth, asked - truth, asked + truth.max() - truth)).sum())

        return min(choices, key=waste)

    def again(self, task: Task, failed: float) -> float:
        largest = float(self.peaks.max())
        return largest if largest > 1.05 * failed else 2.0 * failed


RULES: dict[str, Callable[[], Any]] = {
    "ours": Ours, "ours, known ones": Late, "ours, nothing written": Unbounded, "witt percentile": Percentile,
    "witt regression": Regression, "tovar": Tovar, "sizey": Sizey, "as written": Written,
}  # fmt: skip


def spent(rule: Any, task: Task, asked: float) -> tuple[float, int]:
    """Return GiB-hours wasted over all attempts, and the number of failed attempts."""
    total, failed = asked, 0
    while asked < task.peak:
        failed, asked = failed + 1, rule.again(task, asked)
        total += asked
    return (total - task.peak) * task.hours, failed


def by_clock(tasks: list[Task], make: Callable[[], Any], least: int) -> Iterator[tuple[Task, float, int]]:
    """Yield each task's waste and failures; requests use only the tasks that had ended at its submission."""
    rules: dict[str, Any] = {}
    shares: dict[str, float] = {}
    ends, done = sorted(tasks, key=lambda task: task.end), 0
    for task in tasks:
        while ends[done].end <= task.submit:
            ended = ends[done]
            rules.setdefault(ended.process, make()).learn(ended)
            shares[ended.process] = max(shares.get(ended.process, 0.0), ended.peak / ended.written)
            done += 1
        rule = rules.get(task.process) or make()
        known = len(rule.past) >= least
        asked = rule.ask(task) if known else rule.first(task, shares)
        yield (task, *spent(rule if known or asked < task.written else Written(), task, asked))


def by_paper(tasks: list[Task], make: Callable[[], Any], seed: int) -> Iterator[tuple[Task, float, int]]:
    """Yield each task's waste and failures if a random 30 % of each process are learned first, and each other task
    right after its prediction."""
    for process in sorted({task.process for task in tasks}):
        own = [task for task in tasks if task.process == process]
        if len(own) < 34:
            continue
        order = np.random.default_rng([seed, len(own)]).permutation(len(own)).tolist()
        rule, first = make(), math.ceil(0.3 * len(own))
        for position, row in enumerate(order):
            if position >= first:
                yield (own[row], *spent(rule, own[row], rule.ask(own[row])))
            rule.learn(own[row])


def table(name: str, found: dict[str, list[tuple[Task, float, int]]]) -> None:
    """Print one line per rule, compared with ours: means per task with intervals over processes, and the median
    process."""
    tasks = [task for task, _, _ in found["ours"]]
    group = np.unique([task.process for task in tasks], return_inverse=True)[1]
    wasted = {rule: np.array([waste for _, waste, _ in rows]) for rule, rows in found.items()}
    failed = {rule: np.array([1000.0 * bad for _, _, bad in rows]) for rule, rows in found.items()}
    used = sum(task.peak * task.hours for task in tasks)
    print(f"\n{name}: {len(tasks):,} requests, {group.max() + 1} processes, {used:,.1f} GiB-hours used")
    differences = "".join(f"ours less it, {what}".ljust(32) for what in ("GiB-hours a 1,000", "failures of 1,000"))
    print(f"{'':22}{'wasted':>9}{'failed':>8}  {differences}the median process, ours / it")
    for rule in found:
        line = f"{rule:22}{wasted[rule].sum():9,.1f}{failed[rule].mean():8.1f}  "
        if rule != "ours":
            for values in ({k: 1000.0 * v for k, v in wasted.items()}, failed):
                one = paired_differences(values["ours"][None], values[rule], group, np.random.default_rng(0))[0]
                line += f"{one.verdict():8}{one.difference:+.4g} ({one.low:+.4g} to {one.high:+.4g})".ljust(32)
            line += median_process(*(np.bincount(group, wasted[one]) for one in ("ours", rule)))
        print(line)


def median_process(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return the ratio of our waste to another rule's waste for the median process, with a 90 % interval over resampled
    processes."""
    ratio = (ours / np.where(theirs > 0, theirs, np.nan))[theirs > 0]
    drawn = np.random.default_rng(0).integers(0, len(ratio), (2000, len(ratio)))
    low, high = np.quantile(np.median(ratio[drawn], axis=1), (0.05, 0.95))
    return f"{np.median(ratio):.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--protocol", choices=("clock", "paper"), default="clock")
    parser.add_argument("--least", type=int, default=3, help="ended tasks of a process before a rule is asked (clock)")
    parser.add_argument("--seeds", type=int, default=3, help="orders that the paper's protocol draws")
    parser.add_argument("--risk", type=float, default=Ours.risk, help="how many may outgrow ours; 1: least cost alone")
    parser.add_argument("--rules", default=",".join(RULES).replace(", ", ","), help="which, ours always among them")
    given = parser.parse_args()
    Ours.risk = given.risk
    wanted = [name for name in RULES if name.replace(", ", ",") in given.rules or name == "ours"]
    whole: dict[str, list[tuple[Task, float, int]]] = {name: [] for name in wanted}
    for path in given.logs:
        tasks = read_tasks(path)
        found = {}
        for name in track(wanted, path.name, transient=True):
            if given.protocol == "clock":
                found[name] = list(by_clock(tasks, RULES[name], given.least))
            else:
                found[name] = [row for seed in range(given.seeds) for row in by_paper(tasks, RULES[name], seed)]
            whole[name] += found[name]
        table(path.name, found)
    if len(given.logs) > 1:
        table("all", whole)


if __name__ == "__main__":
    main()
