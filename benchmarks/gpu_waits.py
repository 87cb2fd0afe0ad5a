# SPDX-License-Identifier: Apache-2.0
"""Effect of GPU features on `forecast`: errors with and without these features on two GPU logs, paired over users and
weeks.

`python -m benchmarks.gpu_waits FOLDER` reads um-dicc-2022 and mit-supercloud-2021-q1 with their maps in FOLDER. The
first log has no numbers of GPUs: each job of a GPU partition counts as one GPU of the partition's type.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

from batchcast.events.machine_size import peak_procs
from batchcast.metrics.bursts import user_weeks
from batchcast.metrics.paired import paired_differences
from batchcast.metrics.wait import log_crps
from batchcast.predict.hazard.features import NAMES
from batchcast.predict.wait import forecast
from batchcast.predict.wait.forecast import seen_in
from batchcast.table import Trace
from batchcast.trace.read import read_trace

LOGS = {
    "um-dicc-2022": {
        "req_gpus": pl.col("partition").str.starts_with("gpu-").fill_null(False).cast(pl.Int64),
        "gpu_type": pl.col("partition").str.extract("gpu-(.*)"),
    },
    "mit-supercloud-2021-q1": {"req_gpus": pl.col("tres_req").str.extract("1002=([0-9]+)").cast(pl.Int64).fill_null(0)},
}
GPU_FEATURES = [k for k, name in enumerate(NAMES) if name.startswith(("gpus: ", "gpu_type: "))]
FIRST = 3000
SEEDS = (0, 1, 2)
"""Each model is fitted with three seeds and the errors are averaged, because single fits differ by chance."""


def read(folder: Path, name: str) -> Trace:
    """Read a log with its GPUs."""
    jobs = pl.read_csv(folder / f"{name}.csv.gz", infer_schema_length=None)
    text = (folder / f"{name}.map.toml").read_text()
    columns = "".join(f'{column} = "{column}"\n' for column in LOGS[name])
    with tempfile.TemporaryDirectory() as place:
        jobs.with_columns(**LOGS[name]).write_csv(f"{place}/log.csv")
        Path(f"{place}/map.toml").write_text(text + "\n" + columns)
        log = read_trace(f"{place}/log.csv", map=f"{place}/map.toml")
    return log.with_info(replace(log.info, max_procs=peak_procs(log)))


def errors(log: Trace, with_features: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the CRPS of log(1 + wait) and the error of the median in minutes, means over SEEDS."""

    def without(*given: Any) -> Any:
        seen = seen_in(*given)
        seen.rows[:, GPU_FEATURES] = np.nan
        return seen

    found = []
    for seed in SEEDS:
        with mock.patch.object(forecast, "seen_in", seen_in if with_features else without):
            said = forecast.Forecast(seed=seed).predict_trace(log)
        crps = log_crps(log.wait_time, said.levels, said.quantiles)
        found.append((crps, np.abs(said.points - log.wait_time) / 60))
    return np.mean([one for one, _ in found], axis=0), np.mean([other for _, other in found], axis=0)


def main(folder: Path) -> None:
    rows = []
    for name in LOGS:
        log = read(folder, name)
        gpus = np.nan_to_num(log.number("req_gpus")) > 0
        new, old = errors(log, True), errors(log, False)
        later = (np.arange(len(log)) >= FIRST) & np.isfinite(log.wait_time)
        size = np.log2(np.fmax(log.procs("req"), 1)).astype(int)
        group = user_weeks(log.nominal("user_id").codes, log.submit_time, size)
        for what, which in (("GPU jobs", later & gpus), ("other jobs", later & ~gpus)):
            each = np.unique(group[which], return_inverse=True)[1]
            row = {"log": name, "jobs of": what, "jobs": int(which.sum()), "groups": int(each.max()) + 1}
            for measure, one, other in zip(("crps", "error_min"), new, old):
                pair = paired_differences(one[which][None], other[which], each, np.random.default_rng(0))[0]
                row |= {measure: float(one[which].mean()), f"{measure}_without": float(other[which].mean())}
                ends = {"difference": pair.difference, "low": pair.low, "high": pair.high}
                row |= {f"{measure}_{end}": value for end, value in ends.items()}
            rows.append(row)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
