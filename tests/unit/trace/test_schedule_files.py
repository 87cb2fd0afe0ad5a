# SPDX-License-Identifier: Apache-2.0
"""Tests that schedules and predictions as CSV equal what `csv` and `str` would write, value by value."""

import csv
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast.simulation import Schedule
from batchcast.trace.schedule import COLUMNS, Forecasts, write_forecasts, write_schedule

IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
SECONDS = st.one_of(
    st.integers(-(2**54), 2**54).map(float), st.floats(-1e9, 1e9), st.sampled_from([np.nan, np.inf, 1e-7, 0.1])
).map(lambda value: value + 0.0)


def _text(value: object) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


@given(st.lists(st.tuples(st.integers(0, 10**6), *[SECONDS] * 4, st.integers(1, 99), st.booleans()), max_size=9))
def test_a_schedule_is_written_as_str_writes_each_value(tmp_path_factory, jobs) -> None:
    columns = [np.array([job[k] for job in jobs]) for k in range(7)]
    job_id, submit, start, end, plan, procs, backfilled = columns
    schedule = Schedule(np.arange(len(jobs)), job_id, submit, start, end, procs, plan, backfilled, 99, 0, {}, ())
    path = tmp_path_factory.mktemp("schedule") / "one.csv"
    write_schedule(path, schedule)
    told = zip(job_id, submit.astype(float), start.astype(float), end.astype(float), procs, plan.astype(float),
               backfilled.astype(int))  # fmt: skip
    lines = [",".join(_text(value.item()) for value in values) for values in told]
    assert path.read_text() == "\n".join([",".join(COLUMNS), *lines, ""])


@given(st.lists(st.tuples(IDS, st.integers(0, 99), SECONDS, SECONDS), min_size=1, max_size=9))
def test_forecasts_are_written_as_csv_to_ten_digits(tmp_path_factory, jobs) -> None:
    ids, group, run, said = (np.array([job[k] for job in jobs]) for k in range(4))
    path: Path = tmp_path_factory.mktemp("forecasts") / "forecasts.csv"
    write_forecasts(path, Forecasts(ids, group, run, {"last_2:a=1,b": said}))
    beside = path.with_name("beside.csv")
    with beside.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["job_id", "group", "run_time", "last_2:a=1,b"])
        for row in zip(ids, group, run, said):
            writer.writerow([*row[:2], *("" if value != value else f"{value:.10g}" for value in row[2:])])
    assert path.read_bytes() == beside.read_bytes()
