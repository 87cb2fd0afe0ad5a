"""Tests the table of columns: when each value is known, and the properties on which other packages rely."""

from batchcast.columns import COLUMNS, INPUT_COLUMNS, MOMENT_WORDS, SWF_FIELDS
from batchcast.inputs.features import MEANINGS
from batchcast.job import JobRequest


def test_every_column_says_when_it_is_known():
    assert {column.known_at for column in (*COLUMNS.values(), *INPUT_COLUMNS.values())} <= set(MOMENT_WORDS)


def test_what_became_of_a_job_is_not_known_at_its_submission():
    later = {name for name, column in COLUMNS.items() if column.known_at != "submission"}
    assert {"wait_time", "run_time", "status", "alloc_procs", "used_mem_kib", "eligible_time", "restarts"} <= later


def test_a_request_holds_nothing_that_is_known_later():
    own = set(JobRequest._fields) - {"row", "procs", "extra"}
    assert all(COLUMNS[name].known_at == "submission" for name in own)


def test_swf_has_its_eighteen_fields_in_order():
    assert len(SWF_FIELDS) == 18
    assert [COLUMNS[name].swf for name in SWF_FIELDS] == list(range(1, 19))


def test_the_features_of_input_files_are_declared():
    assert set(MEANINGS) | {"input_files"} == set(INPUT_COLUMNS)
