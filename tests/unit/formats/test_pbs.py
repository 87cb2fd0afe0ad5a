"""PBS accounting logs: E records become jobs, the rest is counted, nothing in a line raises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import InputError
from batchcast.formats.pbs import read_pbs
from batchcast.trace import read_trace

STAMP = "04/01/2024 10:00:00"
PRO = (
    f'{STAMP};E;12[3].srv;user=ada group=g account="a b" jobname=run queue=long ctime=100 qtime=101 etime=110 '
    "start=150 end=250 Resource_List.mem=2gb Resource_List.ncpus=8 Resource_List.nodect=2 "
    "Resource_List.walltime=01:00:00 Exit_status=-29 resources_used.walltime=00:01:39"
)
TORQUE = (
    f"{STAMP};E;9.srv;user=bob ctime=90 start=95 end=96 Resource_List.nodes=2:ppn=4+n7:ppn=2 "
    "Resource_List.walltime=600 Exit_status=0"
)
OTHERS = [f"{STAMP};{kind};9.srv;queue=long" for kind in "QSRL"]


def test_both_dialects_are_read_and_other_records_counted(tmp_path: Path) -> None:
    path = tmp_path / "20240401"
    path.write_text("\n".join([*OTHERS, PRO, TORQUE, "junk"]) + "\n")
    trace = read_trace(path)
    assert trace.info.format == "pbs"
    assert trace.job_id.tolist() == ["9", "12_3"]
    assert trace.wait_time.tolist() == [5.0, 50.0]
    assert trace.run_time.tolist() == [1.0, 99.0]
    assert trace.procs().tolist() == [10.0, 8.0]
    assert trace.req_time.tolist() == [600.0, 3600.0]
    assert trace.number("req_mem_kib").tolist()[1] == 2 * 1024**2
    assert trace.nominal("status").decode() == ["completed", "timeout"]
    assert trace.nominal("account").decode() == [None, "a b"]
    assert trace.info.dropped["PBS R record (only E counts)"] == 1
    assert trace.info.dropped["broken line: not an accounting record"] == 1


def test_a_log_without_ended_jobs_and_strict_say_where() -> None:
    with pytest.raises(InputError, match="no E record"):
        read_pbs([OTHERS[0].encode()])
    with pytest.raises(InputError, match=":2:"):
        read_pbs([f"{PRO}\njunk".encode()], strict=True)


@given(st.lists(st.tuples(st.integers(0, len(PRO) - 1), st.characters(exclude_characters="\n\r")), max_size=6))
def test_a_damaged_line_never_raises_and_is_kept_or_counted(changes) -> None:
    text = list(PRO)
    for place, letter in changes:
        text[place] = letter
    trace = read_pbs([("".join(text) + "\n" + TORQUE).encode("utf-8", "replace")])
    assert len(trace) + sum(trace.info.dropped.values()) == 2
    assert not np.any(trace.run_time < 0)
