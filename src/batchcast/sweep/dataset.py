# SPDX-License-Identifier: Apache-2.0
"""A study's results as a partitioned Parquet dataset, a row a task, each written whole as it comes.

And what a study will cost before it runs.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import InputError, NoAnswer, UsageError
from ..metrics.schedule import MEASURES as OF_A_SCHEDULE
from ..trace.whole_file import whole_file
from .task import Task

FOLDED = 1000
MEASURES = (*(measure.name for measure in OF_A_SCHEDULE), "geometric_mean_bounded_slowdown", "machine_procs")
LISTS = {"user": "int32", "user_jobs": "int32", "user_wait_s": "double", "job_wait_s": "double",
         "job_bounded_slowdown": "double", "job_group": "int32"}  # fmt: skip
TEXT = ("key", "period", "settings", "policy", "predictor", "digest", "code", "host")
WHOLE = ("replicate", "seed", "jobs", "left_out", "corrections")
OF_A_RUN = ("task_s", "host")
"""What differs between two runs of one task: the seconds it took, and where."""


def schema() -> Any:
    """The Arrow schema of a result; the log's name is the partition's."""
    import pyarrow as pa

    return pa.schema(
        [
            *((name, pa.string()) for name in TEXT),
            *((name, pa.int64()) for name in WHOLE),
            *((name, pa.float64()) for name in (*MEASURES, "task_s")),
            *((name, pa.list_(pa.type_for_alias(kind))) for name, kind in LISTS.items()),
        ]
    )


class Dataset:
    """The results of a folder; `keep` writes one, `done` says which tasks need no more work."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.results = self.folder / "results"
        self._loose: Counter[str] = Counter()
        self._held: dict[Path, Any] = {}  # single results of this run, but for lists of jobs: folding reads none again
        self._schema = schema()

    def done(self) -> set[str]:
        """The keys of all results that are kept."""
        import pyarrow.parquet as pq

        keys: set[str] = set()
        for path in self.results.glob("log=*/*.parquet"):
            keys.update(
                _read(lambda p=path: pq.read_table(p, columns=["key"], partitioning=None), path)["key"].to_pylist()
            )
        return keys

    def keep(self, row: Mapping[str, Any]) -> None:
        """Write one result; about a millisecond."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        place = self.results / f"log={row['log']}"
        place.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist([row], schema=self._schema)
        path = place / f"{row['key']}.parquet"
        with whole_file(path) as beside:  # one row: coding it costs more than it saves
            pq.write_table(table, beside, compression="none", use_dictionary=False, write_statistics=False)
        if row["job_wait_s"] is None:
            self._held[path] = table
        self._loose[row["log"]] += 1
        if self._loose[row["log"]] >= FOLDED:
            self.fold(row["log"])

    def fold(self, log: str) -> None:
        """Make one file of a log's single results; what was there before stays readable at every instant."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        place = self.results / f"log={log}"
        loose = sorted(path for path in place.glob("*.parquet") if not path.name.startswith("many-"))
        self._loose[log] = 0
        if len(loose) < 2:
            return
        tables = [
            self._held.pop(path, None) or _read(lambda p=path: pq.read_table(p, partitioning=None), path)
            for path in loose
        ]
        with whole_file(place / f"many-{loose[0].stem}.parquet") as beside:
            pq.write_table(pa.concat_tables(tables), beside, compression="zstd")
        for path in loose:
            path.unlink()

    def fold_all(self) -> None:
        """The same for every log: what a study does at its end."""
        for place in self.results.glob("log=*"):
            self.fold(place.name.removeprefix("log="))

    def declare(self, tasks: Sequence[Task], study: str) -> None:
        """Keep what the study consists of: reports are of the study as it was declared last."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({"key": [t.key for t in tasks], "place": range(len(tasks)), "label": [t.label for t in tasks],
                          "log": [t.log.name for t in tasks]})  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(self.folder / "tasks.parquet") as beside:
            pq.write_table(table, beside, compression="zstd")
        with whole_file(self.folder / "study.toml") as beside:
            beside.write_text(study, encoding="utf-8")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else works on this folder meanwhile; UsageError where somebody does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"{self.folder}: another sweep is at work here", hint="-o FOLDER for one of its own"
                ) from None
            for path in self.results.glob("log=*/.*.part"):  # of a process that was killed
                with suppress(OSError):
                    os.unlink(path)
            yield


def results(folder: str | Path, *, lists: bool = True) -> Any:
    """The results of a study as a polars DataFrame, a row a task in the study's order; `.to_pandas()` makes it pandas.

    Parameters
    ----------
    folder
        What `batchcast sweep` wrote.
    lists
        Whether the columns of users and jobs (`dataset.LISTS`) are read too.

    Raises
    ------
    NoAnswer
        Where no task of the study has a result.
    """
    import polars as pl

    place = Path(folder)
    if not (place / "tasks.parquet").is_file() or not any(place.glob("results/log=*/*.parquet")):
        raise NoAnswer(f"{place}: no results of a study", hint="batchcast sweep STUDY.toml -o FOLDER")
    columns = ["log", *TEXT, *WHOLE, *MEASURES, "task_s", *(LISTS if lists else ())]
    declared = pl.scan_parquet(place / "tasks.parquet").select("key", "place")
    found = pl.scan_parquet(
        place / "results" / "*" / "*.parquet", hive_partitioning=True, hive_schema={"log": pl.String}
    )
    table = found.select(columns).unique("key").join(declared, on="key").sort("place").drop("place").collect()
    if not table.height:
        raise NoAnswer(f"{place}: no task of the study has a result", hint="batchcast sweep STUDY.toml -o FOLDER")
    return table


def _read(read: Any, path: Path) -> Any:
    """What a file holds; InputError names one that cannot be read, and what to do with it."""
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise InputError(f"{path}: not readable ({reason})", hint="remove it: its tasks run again") from None


Seconds = Mapping[tuple[str, str, str], float]


def measured_seconds(folder: str | Path) -> Seconds:
    """The mean seconds of the finished tasks of a folder by log, policy and predictor; empty where there are none."""

    try:
        table = results(folder, lists=False)
    except NoAnswer:
        return {}
    means = table.select("log", "policy", "predictor", "task_s").group_by("log", "policy", "predictor").mean()
    return {(log, policy, predictor): seconds for log, policy, predictor, seconds in means.iter_rows()}


def estimate(
    tasks: Sequence[Task], done: set[str], measured: Seconds, stated: float | None, workers: int
) -> list[dict[str, Any]]:
    """A row a log, and one of all: tasks, those to do, seconds a task and where they are from, core-hours, time.

    A task of which none like it was measured is taken at the mean of those of its log, else at what is stated; NaN
    where neither is known. The time on `workers` is that of their even share, and no shorter than the longest task.
    """
    rows = []
    for log in [*dict.fromkeys(task.log.name for task in tasks), ""]:
        mine = [task for task in tasks if not log or task.log.name == log]
        todo = [task for task in mine if task.key not in done]
        seconds = [seconds_of(task, measured, stated) for task in todo]
        total = sum(seconds)
        rows.append(
            {
                "log": log or "all",
                "tasks": len(mine),
                "done": len(mine) - len(todo),
                "to_do": len(todo),
                "task_s": total / len(todo) if todo else 0.0,
                "core_hours": total / 3600.0,
                "wall_s": max(total / workers, max(seconds)) if seconds else 0.0,
            }
        )
    return rows


def seconds_of(task: Task, measured: Seconds, stated: float | None) -> float:
    """What one task is taken at; NaN where nothing is known."""
    own = measured.get((task.log.name, task.policy, task.predictor))
    if own is not None:
        return own
    of_log = [seconds for (log, _, _), seconds in measured.items() if log == task.log.name]
    if of_log:
        return sum(of_log) / len(of_log)
    return float("nan") if stated is None else stated
