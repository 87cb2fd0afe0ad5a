"""Tests torn, ragged and unusually encoded CSV text: a bad row loses only itself, and every loss is counted."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import InputError, UsageError
from batchcast.formats.chunks import Problems
from batchcast.formats.csv.rows import CsvRows


def rows_of(text: bytes, **options) -> tuple[list[tuple[str, ...]], Problems]:
    problems = Problems("x.csv")
    rows = CsvRows([text], "x.csv", problems, **options)
    places = range(len(rows.header))
    return [row for _, columns in rows.batches(places) for row in zip(*columns)], problems


@given(
    st.lists(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=3, max_size=3)),
    st.integers(1, 40),
)
def test_what_csv_writes_is_read_whatever_the_blocks(cells, size) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([["a", "b", "c"], *cells])
    data = out.getvalue().encode()
    problems = Problems("x.csv")
    rows = CsvRows([data[k : k + size] for k in range(0, len(data), size)], "x.csv", problems)
    found = [list(row) for _, columns in rows.batches(range(3)) for row in zip(*columns)]
    assert found == cells
    assert problems.dropped == 0


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"1", "1 cells instead of 2"),
        (b"1,2,3", "3 cells instead of 2"),
        (b"1,\x00", "a NUL byte"),
        (b'1,"open', "quotes that do not match"),
        (b'1,"a"b', "quotes that do not match"),
    ],
)
def test_one_bad_row_costs_one_row(bad: bytes, why: str) -> None:
    good = b"\n".join(b"%d,x" % k for k in range(3000))
    found, problems = rows_of(b"a,b\n7,y\n" + bad + b"\n" + good)
    assert [row[0] for row in found] == ["7", *map(str, range(3000))]
    assert problems.counts() == {f"broken line: {why}": 1}
    assert "line 3" in problems.notes()[0]


def test_blank_lines_windows_ends_and_a_delimiter_at_the_end_are_no_harm() -> None:
    found, problems = rows_of(b"\xef\xbb\xbfa;b\r\n1;2;\r\n\r\n3;4\r\n")
    assert found == [("1", "2"), ("3", "4")]
    assert problems.notes() == []


def test_bytes_of_another_encoding_stay_different_and_are_counted() -> None:
    found, problems = rows_of(b"a,b\n1,M\xfcller\n2,M\xf6ller\n")
    assert found[0][1] != found[1][1]
    assert "2 values of text that is not utf-8" in problems.notes()[0]
    assert rows_of(b"a,b\n1,M\xfcller\n", encoding="latin-1")[0] == [("1", "Müller")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfea\x00,\x00", "UTF-16"),
        (b"a,b,a\n1,2,3\n", "occurs twice.*'a'"),
        (b",\n1,2\n", "no header"),
        (b'"a,b\n1,2\n', "no readable header"),
    ],
)
def test_a_text_without_a_good_header_is_one_message(text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rows_of(text)


def test_an_encoding_that_does_not_exist_or_hides_line_ends_is_refused() -> None:
    for name in ("utf-99", "utf-16"):
        with pytest.raises(UsageError, match="not an encoding"):
            rows_of(b"a,b\n", encoding=name)


def test_strict_stops_at_the_line() -> None:
    rows = CsvRows([b"a,b\n1,2\n3\n"], "x.csv", Problems("x.csv", strict=True))
    with pytest.raises(InputError, match=r"x\.csv:3: 1 cells instead of 2"):
        list(rows.batches([0]))


def test_a_stray_quote_takes_no_whole_records_in() -> None:
    text = b'a,b,c\n1,"open,10\n2,x,20\n3,y",30\n4,"two\nlines",40\n'
    problems = Problems("x.csv")
    rows = CsvRows([text], "x.csv", problems)
    found = [row for _, columns in rows.batches(range(3), lambda cells: cells[2].isdigit()) for row in zip(*columns)]
    assert found == [("2", "x", "20"), ("3", 'y"', "30"), ("4", "two\nlines", "40")]
    assert problems.counts() == {"broken line: an opening quote without a closing quote": 1}
    strict = CsvRows([text], "x.csv", Problems("x.csv", strict=True))
    with pytest.raises(InputError, match=r"x\.csv:2: an opening quote"):
        list(strict.batches(range(3), lambda cells: cells[2].isdigit()))
