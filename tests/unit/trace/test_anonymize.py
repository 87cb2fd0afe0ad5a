"""Tests anonymized logs: no name is left, a name has one token in every log, and measurements are unchanged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.columns import COLUMNS
from batchcast.errors import UsageError
from batchcast.formats.swf import read_swf, write_chunks
from batchcast.table import LogInfo, Nominal, Trace
from batchcast.trace import read_trace
from batchcast.trace.anonymize import TOKENS, WEEK, anonymize, shift_of, token
from batchcast.trace.write import write_by_ending

KEY = b"a key of more than sixteen characters"
SECRET = st.integers(0, 30).map(lambda k: f"Secret{k}Zq")
NAMES = [*TOKENS, "submit_line"]


def log(names: dict[str, list[str | None]], rows: int, ids=None) -> Trace:
    """A log in which every secret text contains the letters of `Secret`."""
    info = LogInfo(
        source="/home/SecretUser/SecretSite.swf",
        header={"Computer": "SecretMachine", "Note": "by SecretAdmin"},
        names={"queue_id": {1: "SecretQueue"}},
        notes=("first: 'SecretNote'",),
        dropped={"not selected: --user SecretUser": 3},
        sha256="5ec2e7",
        unix_start=1e9,
        max_procs=64.0,
    )
    columns = {"submit_time": np.arange(rows) * 60.0, "run_time": np.arange(rows) * 7.0, "req_procs": np.ones(rows)}
    columns |= {name: Nominal.encode(values) for name, values in names.items()} | {"uid": np.arange(rows) + 4711.0}
    return Trace.from_arrays(columns | ({} if ids is None else {"job_id": ids}), info)


def everything(path: Path) -> str:
    """Return everything readable in a file, packed or not, metadata included."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        return json.dumps(table.to_pydict()) + str(table.schema.metadata) + str(table.schema)
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


@given(st.data(), st.integers(1, 12), st.sampled_from([".swf.gz", ".csv", ".parquet"]))
def test_no_name_is_left_anywhere(tmp_path_factory, data, rows, ending) -> None:
    cell = st.one_of(st.none(), SECRET)
    names = {name: data.draw(st.lists(cell, min_size=rows, max_size=rows)) for name in NAMES}
    ids = np.array([f"Secret{k}.server" if k % 3 else f"{k}_1" for k in range(rows)])
    made, told = anonymize(
        log(names, rows, ids), KEY, shift=data.draw(st.sampled_from([0.0, 3600.0])), numeric="swf" in ending
    )
    path = tmp_path_factory.mktemp("anon") / f"out{ending}"
    write_by_ending(made, path)
    text = everything(path)
    for hidden in ("Secret", "5ec2e7", "4711"):
        assert hidden not in text
    treated = {t.column: t.treatment for t in told}
    assert (treated["uid"], treated["submit_line"], treated["run_time"]) == ("dropped", "replaced", "kept")
    for name in NAMES:
        original, now = names[name], made.nominal(name).decode() if name in made.names else []
        assert [v is None for v in original] == [v is None for v in now]
        assert len({*zip(original, now)}) == len({*original}) == len({*now})


def test_memory_per_processor_stays_per_processor() -> None:
    line = b"1 10 5 60 4 -1 500 4 120 1000 1 7 2 -1 1 -1 -1 -1"
    made, _ = anonymize(read_swf([line]), KEY, numeric=True)
    assert made.info.memory_per == "processor"
    fields = list(write_chunks(made))[-1].split()
    assert (fields[6], fields[9]) == ("500", "1000")


def test_one_name_is_one_token_in_every_log_and_another_key_gives_others() -> None:
    one, _ = anonymize(log({"user_id": ["ada", "bob"]}, 2), KEY)
    other, _ = anonymize(log({"user_id": ["zoe", "ada", None]}, 3), KEY)
    numbers, _ = anonymize(log({"user_id": ["ada", "bob"]}, 2), KEY, numeric=True)
    ada = one.nominal("user_id").decode()[0]
    assert other.nominal("user_id").decode()[1] == ada == f"user_{token(KEY, 'user_id', 'ada'):012x}"
    assert numbers.nominal("user_id").decode()[0] == int(str(ada)[5:], 16)
    assert anonymize(log({"user_id": ["ada"]}, 1), KEY + b"x")[0].nominal("user_id").decode() != [ada]
    assert anonymize(log({"group_id": ["ada"]}, 1), KEY)[0].nominal("group_id").decode()[0] != f"group_{str(ada)[5:]}"


def test_what_is_kept_is_as_it_was_and_times_move_together() -> None:
    trace = log({"user_id": ["ada", "bob"], "queue_id": ["q", None]}, 2)
    made, told = anonymize(trace, KEY, shift=WEEK, keep=["queue_id", "uid"])
    assert (made.submit_time + made.info.unix_start - trace.submit_time - trace.info.unix_start).tolist() == [WEEK] * 2
    assert made.nominal("queue_id").decode() == ["q", None]
    assert made.number("uid").tolist() == [4711.0, 4712.0]
    assert made.info.names == {"queue_id": {1: "SecretQueue"}}
    assert (made.info.max_procs, made.info.header, made.info.sha256, made.info.notes) == (64.0, {}, "", ())
    assert {t.treatment for t in told} == {"kept", "moved", "replaced"}
    epoch = Trace.from_arrays({"submit_time": [10.0], "eligible_time": [12.0]})
    moved, _ = anonymize(epoch, KEY, shift=5.0)
    assert (moved.submit_time[0], moved.number("eligible_time")[0]) == (15.0, 17.0)
    for name in COLUMNS:
        if name in made.names and COLUMNS[name].kind == "number":
            assert np.array_equal(made.number(name), trace.number(name))


def test_the_random_shift_goes_with_the_key_and_keeps_the_hour_of_the_week() -> None:
    shifts = {shift_of(b"%d" % k) for k in range(50)}
    assert len(shifts) > 20
    assert all(shift % WEEK == 0 and -9 * 52 * WEEK < shift <= -52 * WEEK for shift in shifts)


def test_job_numbers_are_renumbered_with_the_tasks_of_an_array_together() -> None:
    made, told = anonymize(log({}, 4, np.array(["900_1", "900_2", "x.srv", "77"])), KEY, ids="renumber")
    assert sorted(made.job_id.tolist()) == ["1_1", "1_2", "2", "3"]
    assert [t.treatment for t in told if t.column == "job_id"] == ["renumbered"]
    whole, _ = anonymize(log({}, 2, np.array([900, 77])), KEY, ids="renumber")
    assert whole.job_id.tolist() == [1, 2]


def test_an_unknown_column_to_keep_is_said() -> None:
    with pytest.raises(UsageError, match=r"^keep: the log has no column 'usr' .*user_id"):
        anonymize(log({"user_id": ["a"]}, 1), KEY, keep=["usr"])


@pytest.mark.shared
def test_the_nrel_sample_keeps_its_measurements(shared: Path, tmp_path: Path) -> None:
    trace = read_trace(shared / "traces" / "NREL-eagle-sample1000.csv.gz")
    made, _ = anonymize(trace, KEY)
    write_by_ending(made, tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_text()
    for name in ("user_id", "account", "partition_id", "job_name", "work_dir", "submit_line"):
        assert not any(str(value) in text for value in trace.nominal(name).categories), name
    again = read_trace(tmp_path / "out.csv")
    assert np.array_equal(again.run_time, trace.run_time)
    assert np.array_equal(again.submit_time, trace.submit_time)
