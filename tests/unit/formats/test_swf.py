"""Tests the SWF reader: the scanner against its slow reference version on clean and damaged text, headers, and
messages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import swf_split

from batchcast.columns import COLUMNS, SWF_FIELDS
from batchcast.errors import InputError
from batchcast.formats import swf
from batchcast.formats.swf import looks_like, read_swf
from batchcast.job import status_from_swf
from batchcast.table import Trace
from batchcast.trace.clean import without_repeats

LINE = "{} {} 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1"


@pytest.fixture(autouse=True, scope="module", params=["compiled scanner", "numpy alone"])
def _reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs with both readers of a plain line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swf, "numba_is_loaded", lambda: request.param == "compiled scanner")
        yield


def rows(trace: Trace) -> list[list[object]]:
    """Return the log as the slow reference version prints it."""
    columns = []
    for name in SWF_FIELDS:
        if name == "job_id":
            columns.append([float(v) for v in trace.job_id.tolist()])
        elif COLUMNS[name].kind == "nominal":
            columns.append(trace.nominal(name).decode())
        else:
            columns.append([None if v != v else v for v in trace.number(name).tolist()])
    return [list(row) for row in zip(*columns)]


def naive_rows(text: bytes) -> list[list[object]]:
    records = [list(r) for r in swf_split.read(text)]
    for record in records:
        record[10] = None if record[10] is None else status_from_swf(int(record[10]))
    return records


def check(text: bytes, block: int) -> None:
    expected = naive_rows(text)
    blocks = [text[k : k + block] for k in range(0, len(text), block)]
    if not expected:
        with pytest.raises(InputError):
            read_swf(blocks)
    else:
        trace = read_swf(blocks)
        assert rows(trace) == expected
        text_lines = [w for w in (line.split() for line in text.split(b"\n")) if w and not w[0].startswith(b";")]
        assert sum(trace.info.dropped.values()) == len(text_lines) - len(expected)


numbers = st.one_of(
    st.integers(-1, 100),
    st.integers(0, 2**40),
    st.floats(0, 1e6).map(lambda x: round(x, 2)),
    st.sampled_from(
        ["-1", "-1.00", "0", "-0", "7.", ".5", "1e3", "nan", "inf", "-5", "+3", "12345678901234567890", "1_0"]
    ),
    st.sampled_from(["x", "12x", "-", ".", "--1", "1:00", "\N{ARABIC-INDIC DIGIT THREE}"]),
).map(str)
lines = st.one_of(
    st.tuples(st.integers(1, 50), st.integers(0, 50)).map(lambda p: LINE.format(*p)),
    st.lists(numbers, min_size=16, max_size=20).map(" ".join),
    st.lists(st.integers(-1, 9).map(str), min_size=18, max_size=19).map("\t ".join),
    st.sampled_from(["", "  ", "; MaxProcs: 8", ";", "\r", " ;x", "|||", "\x00\x01"]),
)
ends = st.sampled_from(["\n", "\r\n"])


@given(st.lists(st.tuples(lines, ends), max_size=12), st.integers(1, 200))
def test_reads_what_its_naive_twin_reads(pairs, block: int) -> None:
    check("".join(line + end for line, end in pairs).encode().rstrip(b"\n"), block)


@given(st.lists(st.integers(0, 10**6), min_size=3, max_size=30, unique=True), st.data())
def test_damage_loses_no_good_record(submits, data) -> None:
    """Bytes are overwritten at random: every line that stays whole is read, and no exception is raised."""
    text = bytearray("\n".join(LINE.format(k + 1, s) for k, s in enumerate(submits)).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + 1] = data.draw(st.binary(min_size=0, max_size=3))
    check(bytes(text), 97)


def test_decimals_are_pythons_own() -> None:
    words = ["0.1", "123456.789", "552.21", "999999999999.999", "0.000001", "18446744.07"]
    trace = read_swf(["\n".join(LINE.format(k + 1, w) for k, w in enumerate(words)).encode()])
    assert sorted(trace.submit_time.tolist()) == sorted(map(float, words))


def test_columns_nobody_knows_are_not_stored() -> None:
    trace = read_swf([LINE.format(1, 0).encode()])
    assert "app_id" not in trace.names
    assert "used_mem_kib" not in trace.names
    assert trace.nominal("app_id").decode() == [None]


def test_unsorted_and_repeated_records_are_kept_and_said() -> None:
    text = "\n".join([LINE.format(2, 10), LINE.format(1, 5), LINE.format(2, 20)])
    trace = read_swf([text.encode()])
    assert trace.submit_time.tolist() == [5.0, 10.0, 20.0]
    assert any("sorted" in note for note in trace.info.notes)
    assert any("1 records repeat the job number" in note for note in without_repeats(trace).info.notes)


def test_broken_lines_are_counted_with_their_place() -> None:
    text = "\n".join(["; MaxProcs: 8", LINE.format(1, 0), "1 2 3", LINE.format(2, "12x"), LINE.format(3, 9)])
    trace = read_swf([text.encode()], "a.swf")
    assert trace.job_id.tolist() == [1, 3]
    assert sum(trace.info.dropped.values()) == 2
    assert "3 fields instead of 18 (first: line 3" in trace.info.notes[-2]
    assert "line 4, field 2 (submit_time): '12x'" in trace.info.notes[-1]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1 2 3", r"a\.swf:2: 3 fields instead of 18"),
        (LINE.format(2, "12x"), r"a\.swf:2: field 2 \(submit_time\): a field is not a number: '12x'"),
        (LINE.format(2, 5).replace("60", "nan"), r"a\.swf:2: run_time: .*'nan'"),
        (LINE.format(2, 5).replace("60", "-7"), r"a\.swf:2: run_time: .*'-7'"),
    ],
)
def test_strict_stops_at_the_first_broken_line(bad: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_swf([f"{LINE.format(1, 0)}\n{bad}\n".encode()], "a.swf", strict=True)


def test_negative_and_nan_fields_are_unknown_and_noted() -> None:
    trace = read_swf([f"{LINE.format(1, 0).replace('60', 'nan')}\n{LINE.format(2, 1).replace('60', '-7')}".encode()])
    assert np.isnan(trace.run_time).all()
    assert "2 values of run_time" in trace.info.notes[-1]


def test_a_header_that_lies_is_a_note() -> None:
    text = f"; MaxProcs: many\n; MaxRecords: 7\n; UnixStartTime: soon\n{LINE.format(1, 0)}"
    info = read_swf([text.encode()]).info
    assert np.isnan(info.max_procs)
    assert len([note for note in info.notes if "not a number" in note]) == 2
    assert any("the log has 7 records, but it has 1" in note for note in info.notes)


def test_a_text_without_a_job_is_one_message_with_the_reason() -> None:
    with pytest.raises(
        InputError, match="the file has no job record; 2 lines are broken, most often: 17 fields instead of 18"
    ):
        read_swf([(" ".join("1" * 17) + "\n").encode() * 2])


def test_many_odd_lines_in_one_block_are_all_seen() -> None:
    text = "\n".join(["; note"] * 9000 + [LINE.format(k, f"+{k}") for k in range(9000)])
    assert len(read_swf([text.encode()])) == 9000


def test_signs_of_swf() -> None:
    assert looks_like(b"junk\n" + LINE.format(1, 0).encode())
    assert not looks_like(b"JobID|State\n1|FAILED\n; a remark: with a colon\n")
