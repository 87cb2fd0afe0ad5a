"""Tests CSV for spreadsheets: texts that would run as formulas are marked on request, and numbers are not."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.forked import batchcast

LOG = """job_id,submit_time,run_time,req_procs,job_name:text,offset:number
1,0,10,4,"=HYPERLINK(""http://x"",""y"")",-5
2,5,10,4,+1,3
3,6,10,4,-2+3,1
4,7,10,4,@SUM(A1),1
5,8,10,4,plain=1,1
"""


def test_formulas_are_marked_on_request_only(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    given = ['=HYPERLINK("http://x","y")', "+1", "-2+3", "@SUM(A1)", "plain=1"]
    for flags, names in (((), given), (("--mark-formulas",), [f"'{name}" for name in given[:4]] + given[4:])):
        done = batchcast("convert", tmp_path / "log.csv", "-o", tmp_path / "out.csv", *flags)
        assert done.returncode == 0, done.stderr
        rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
        assert [row[[name.partition(":")[0] for name in rows[0]].index("job_name")] for row in rows[1:]] == names
        offsets = next(at for at, name in enumerate(rows[0]) if name.startswith("offset"))
        assert rows[1][offsets] == "-5", "a number is no formula"


@pytest.mark.parametrize("out", ["out.swf", "out.parquet", "out/"])
def test_what_is_no_csv_has_no_formulas(tmp_path: Path, out: str) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    done = batchcast("convert", tmp_path / "log.csv", "-o", f"{tmp_path}/{out}", "--mark-formulas")
    assert done.returncode == 2
    assert "--mark-formulas is for CSV" in done.stderr
    assert not (tmp_path / out).exists()
