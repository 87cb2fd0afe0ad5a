# SPDX-License-Identifier: Apache-2.0
"""Store the results of a study as a partitioned Parquet dataset with one row per task, and estimate the cost of a
study.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..ceilings import without_links
from ..errors import InputError, NoAnswer, UsageError
from ..metrics.schedule import GEOMETRIC_MEAN, SCHEDULE
from ..trace.whole_file import whole_file
from .task import Task

FOLDED = 1000
MEASURES = (*(measure.name for measure in (*SCHEDULE, GEOMETRIC_MEAN)), "machine_procs")
LISTS = {"user": "int32", "user_jobs": "int32", "user_wait_s": "double", "job_wait_s": "double",
         "job_bounded_slowdown": "double", "job_group": "int32"}  # fmt: skip
TEXT = ("key", "period", "settings", "policy", "predictor", "digest", "code", "host")
INTEGERS = ("replicate", "seed", "jobs", "left_out", "corrections")
OF_A_RUN = ("task_s", "host")
"""Columns that differ between two runs of the same task: its run time, and its host."""


def schema() -> Any:
    """Return the Arrow schema of a result; the dataset's partition contains the name of the log."""
    import pyarrow as pa

    lists = [(name, pa.list_(pa.type_for_alias(kind))) for name, kind in LISTS.items()]
    kinds = ((TEXT, pa.string()), (INTEGERS, pa.int64()), ((*MEASURES, "task_s"), pa.float64()))
    return pa.schema([*((name, kind) for names, kind in kinds for name in names), *lists])


class Dataset:
    """The results of a study in a folder: `keep` writes one result, and `finished_keys` returns the keys of the
    finished tasks."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.results = self.folder / "results"
        self._loose: Counter[str] = Counter()
        # this run's single results without their lists of jobs, so that fold() need not read the files
        self._unmerged: dict[Path, Any] = {}
        self._schema = schema()

    def finished_keys(self) -> set[str]:
        """Return the keys of all stored results."""
        paths = self.results.glob("log=*/*.parquet")
        return {key for path in paths for key in _read(path, columns=["key"])["key"].to_pylist()}

    def keep(self, row: Mapping[str, Any]) -> None:
        """Write the result of one task. One write takes about a millisecond."""
        import pyarrow as pa

        table = pa.Table.from_pylist([row], schema=self._schema)
        path = self.results / f"log={row['log']}" / f"{row['key']}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        # compressing a single row would cost more than it saves
        _write(table, path, compression="none", use_dictionary=False, write_statistics=False)
        if row["job_wait_s"] is None:
            self._unmerged[path] = table
        self._loose[row["log"]] += 1
        if self._loose[row["log"]] >= FOLDED:
            self.fold(row["log"])

    def fold(self, log: str) -> None:
        """Merge the files of a log's single results into one file; all results stay readable at any time."""
        import pyarrow as pa

        folder = self.results / f"log={log}"
        loose = sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("many-"))
        self._loose[log] = 0
        if len(loose) < 2:
            return
        tables = [self._unmerged.pop(path, None) or _read(path) for path in loose]
        _write(pa.concat_tables(tables), folder / f"many-{loose[0].stem}.parquet")
        for path in loose:
            path.unlink()

    def fold_all(self) -> None:
        """Merge the files of single results of every log, at the end of a study."""
        for folder in self.results.glob("log=*"):
            self.fold(folder.name.removeprefix("log="))

    def declare(self, tasks: Sequence[Task], study: str) -> None:
        """Store the list of the study's tasks. Reports cover the tasks of the study as it was last declared."""
        import pyarrow as pa

        table = pa.table({"key": [t.key for t in tasks], "place": range(len(tasks)), "label": [t.label for t in tasks],
                          "log": [t.log.name for t in tasks]})  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(table, self.folder / "tasks.parquet")
        with whole_file(self.folder / "study.toml") as beside:
            beside.write_text(study, encoding="utf-8")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder; UsageError if another sweep uses it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        hint = "choose another folder with -o FOLDER"
        try:
            file = open(self.folder / ".lock", "a", opener=without_links)  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{self.folder}/.lock cannot be written: {error.strerror}", hint=hint) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"{self.folder}: another sweep is using this folder", hint=hint) from None
            for path in self.results.glob("log=*/.*.part"):  # files that a killed process has left
                with suppress(OSError):
                    os.unlink(path)
            yield


def results(folder: str | Path, *, lists: bool = True) -> Any:
    """Return the results of a study as a polars DataFrame, one row per task in the study's order."""
    import polars as pl

    root = Path(folder)
    if not (root / "tasks.parquet").is_file() or not any(root.glob("results/log=*/*.parquet")):
        raise NoAnswer(f"{root}: no results of a study", hint="batchcast sweep STUDY.toml -o FOLDER")
    columns = ["log", *TEXT, *INTEGERS, *MEASURES, "task_s", *(LISTS if lists else ())]
    declared = pl.scan_parquet(root / "tasks.parquet").select("key", "place")
    files = root / "results" / "*" / "*.parquet"
    stored = pl.scan_parquet(files, hive_partitioning=True, hive_schema={"log": pl.String})
    table = stored.select(columns).unique("key").join(declared, on="key").sort("place").drop("place").collect()
    if not table.height:
        raise NoAnswer(f"{root}: no task of the study has a result", hint="batchcast sweep STUDY.toml -o FOLDER")
    return table


def _write(table: Any, path: Path, compression: str = "zstd", **options: Any) -> None:
    """Write a table to a file that appears only when it is complete."""
    import pyarrow.parquet as pq

    with whole_file(path) as beside:
        pq.write_table(table, beside, compression=compression, **options)


def _read(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Return the content of a file; InputError names a file that cannot be read and says what to do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, columns=columns, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        hint = "remove the file, and its tasks will run again"
        raise InputError(f"{path}: not readable ({reason})", hint=hint) from None


Seconds = Mapping[tuple[str, str, str], float]


def measured_seconds(folder: str | Path) -> Seconds:
    """Return the mean run time of finished tasks in seconds, by log, policy and predictor; empty if no task has
    finished."""

    try:
        table = results(folder, lists=False)
    except NoAnswer:
        return {}
    means = table.select("log", "policy", "predictor", "task_s").group_by("log", "policy", "predictor").mean()
    return {(log, policy, predictor): seconds for log, policy, predictor, seconds in means.iter_rows()}


def estimate(
    tasks: Sequence[Task], finished: set[str], measured: Seconds, stated: float | None, workers: int
) -> list[dict[str, Any]]:
    """Return the estimated cost of a study, one row per log and one for all logs: numbers of tasks, seconds per task,
    core-hours, and time.
    """
    # The time assumes an equal share of the work for each worker, and is at least the longest task. `stated`, the
    # study's own figure in seconds, is used if no similar task was measured; times are NaN if no run time is known.
    rows = []
    for log in [*dict.fromkeys(task.log.name for task in tasks), ""]:
        mine = [task for task in tasks if not log or task.log.name == log]
        todo = [task for task in mine if task.key not in finished]
        seconds = [seconds_of(task, measured, stated) for task in todo]
        total = sum(seconds)
        rows.append({
            "log": log or "all", "tasks": len(mine), "done": len(mine) - len(todo), "to_do": len(todo),
            "task_s": total / len(todo) if todo else 0.0, "core_hours": total / 3600.0,
            "wall_s": max(total / workers, *seconds) if seconds else 0.0,
        })  # fmt: skip
    return rows


def seconds_of(task: Task, measured: Seconds, stated: float | None) -> float:
    """Return the expected run time of a task: the measured mean of similar tasks, else of all tasks of its log, else
    `stated`; NaN if all are unknown.
    """
    own = measured.get((task.log.name, task.policy, task.predictor))
    if own is not None:
        return own
    of_log = [seconds for (log, _, _), seconds in measured.items() if log == task.log.name]
    if of_log:
        return sum(of_log) / len(of_log)
    return float("nan") if stated is None else stated
