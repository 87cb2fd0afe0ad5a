"""Tests selection by date and name: half-open ranges, in the log's zone, names as users type them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from batchcast.errors import NoAnswer, UsageError
from batchcast.table import LogInfo, Trace
from batchcast.trace import Selection, read_trace, select, selection_mask
from batchcast.trace.select import parse_date

INFO = LogInfo(unix_start=1_000_000_000.0, timezone="UTC", names={"queue_id": {3: "normal (18 hours)"}})
LOG = Trace.from_arrays(
    {
        "submit_time": [0.0, 10.0, 20.0, 30.0],
        "status": ["completed", "timeout", "failed", None],
        "queue_id": [3, 1, 3, None],
        "user_id": ["ada", "bob", "ada", "cyd"],
    },
    INFO,
)


def ids(**chosen) -> list[int]:
    first = chosen.pop("first", None)
    return select(LOG, Selection(**chosen), first).job_id.tolist()


def test_dates_are_half_open() -> None:
    start, end = "2001-09-09T01:46:50", "2001-09-09T01:47:10"  # seconds 10 and 30 of the log's clock
    assert ids(since=start, until=end) == [2, 3]
    assert ids(since="@1000000010", until="@1000000030") == [2, 3]


def test_dates_are_local_to_the_logs_zone() -> None:
    stockholm = LOG.with_info(replace(INFO, timezone="Europe/Stockholm"))
    assert select(stockholm, Selection(since="2001-09-09T03:46:50")).job_id.tolist() == [2, 3, 4]


def test_a_status_is_a_word_or_an_swf_number() -> None:
    assert ids(status=["1"]) == [1]
    assert ids(status=["0"]) == [2, 3]
    assert ids(status=["TIMEOUT", "unknown"]) == [2, 4]


def test_names_are_ids_or_what_the_header_calls_them() -> None:
    assert ids(queue=["3"]) == ids(queue=["normal"]) == [1, 3]
    assert ids(queue=["unknown"]) == [4]
    assert ids(user=["ada", "cyd"]) == [1, 3, 4]


def test_first_counts_after_the_rest_and_everything_left_out_is_counted() -> None:
    kept = select(LOG, Selection(user=["ada"], status=["1", "0"]), first=1)
    assert kept.job_id.tolist() == [1]
    assert dict(kept.info.dropped) == {
        "not selected: --status 1,0": 1,
        "not selected: --user ada": 1,
        "not selected: --first 1": 1,
    }


def test_a_mask_cuts_nothing() -> None:
    assert selection_mask(LOG, Selection(status=["failed"])).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"queue": ["nomal"]}, r"no 'nomal' \(accepted: 1, 3 \(normal\), unknown\)"),
        ({"status": ["done"]}, "not a status: done .*completed"),
        ({"since": "last year"}, "not a time: 'last year'.*2024-01-31.*yesterday.*now-7days"),
    ],
)
def test_what_means_nothing_here_is_refused_with_the_accepted_forms(chosen, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ids(**chosen)


@pytest.mark.parametrize(
    "text", ["yesterday", "now-7days", "14:00", "uts1000000000", "@1000000000", "2001-09-09T01:46"]
)
def test_every_option_takes_the_same_forms_of_time(text: str) -> None:
    """Regression: `info --from` and `report -S` had different grammars, and each rejected what the other accepted."""
    from batchcast.service.answers.answer import parse_when

    local = datetime.now().astimezone().tzinfo
    assert local is not None
    assert parse_date(text, local) == pytest.approx(parse_when(text), abs=60.0)


def test_an_empty_selection_says_what_there_is() -> None:
    with pytest.raises(NoAnswer, match="from 2001-09-09 01:46:40 to 2001-09-09 01:47:10"):
        ids(since="2030-01-01")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("log", "zone", "chosen", "jobs"),
    [
        ("HPC2N-2002-2.2-cln", None, {"since": "2004-01-01", "until": "2005-01-01"}, 81934),
        ("HPC2N-2002-2.2-cln", None, {"since": "2005-01-01"}, 55389),
        ("SDSC-BLUE-2000-4.2-cln", "+01:00", {"since": "2002-01-01", "status": ["1"]}, 80756),
        ("SDSC-DS-2004-2.1-cln", None, {"status": ["completed"]}, 66744),
    ],
)
def test_the_papers_data_sets_come_out_exactly(shared: Path, log: str, zone, chosen, jobs: int) -> None:
    trace = read_trace(shared / "traces" / f"{log}.swf.gz", timezone=zone)
    assert len(select(trace, Selection(**chosen))) == jobs
