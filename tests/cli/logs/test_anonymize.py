"""Tests `batchcast anonymize`: the key, the printed text, and that predictions are the same before and after."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from batchcast.cli.main import cli
from batchcast.errors import BatchcastError
from batchcast.table.result import flat
from batchcast.testing import small_log
from batchcast.trace import read_trace, write_parquet


def run(*words: str, **options) -> Result:
    return CliRunner().invoke(cli, list(words), **options)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    write_parquet(small_log(300), path)
    return path


@pytest.mark.parametrize("ending", [".swf", ".csv", ".parquet"])
@pytest.mark.parametrize("ids", ["keep", "renumber"])
def test_forecasts_are_the_same_before_and_after(log: Path, tmp_path: Path, ending: str, ids: str) -> None:
    out = tmp_path / f"out{ending}"
    if ending == ".swf":  # SWF has no job names, so the log is compared only in the columns that SWF can hold
        assert run("convert", str(log), "-o", str(tmp_path / "log.swf")).exit_code == 0
        log = tmp_path / "log.swf"
    done = run("anonymize", str(log), "-o", str(out), "--key", str(tmp_path / "key"), "--ids", ids)
    assert done.exit_code == 0, done.output
    figures = []
    for path in (log, out):
        ran = run("runtime", str(path), "--predictor", "last_2,recent_mean", "--json")
        assert ran.exit_code == 0, ran.output
        rows = json.loads(ran.stdout)["results"]
        # `decided_by` names a user, so its text differs; sums over users are added in another order
        for row in rows:
            for stated in row.get("differences", {}).values():
                stated["decided_by"] = ""
        kept = [{k: v for k, v in flat(row).items() if k != "seconds"} for row in rows]
        figures.append(kept)
    for before, after in zip(*figures, strict=True):
        assert before == {k: pytest.approx(v) if isinstance(v, float) else v for k, v in after.items()}


def test_the_risk_of_linking_is_measured_on_the_log_and_rounding_lowers_it(tmp_path: Path) -> None:
    """Four jobs of three users: after rounding, two jobs share both times, and one job stays unique with any
    rounding."""
    path, out = tmp_path / "log.csv", tmp_path / "out.csv"
    path.write_text(
        "job_id,submit_time,wait_time,run_time,req_procs,user_id\n"
        "1,86400,5,100,1,ada\n2,86460,5,130,1,bob\n3,90000,7,5000,1,cleo\n4,90000,7,5000,1,cleo\n"
    )
    found = {}
    for words in ((), ("--round-times", "1h")):
        done = run("anonymize", str(path), "-o", str(out), "--key", str(tmp_path / "key"), "--json", *words)
        document = json.loads(done.stdout)
        settings = document["settings"]
        found[words[1:]] = settings["linkable_jobs_share"], pytest.approx(settings["linkable_users_share"])
        whole = "can identify 50.0% of the jobs, and with them a job of 66.7% of the users"
        shares = "can identify 0.0%" if words else whole
        assert any(shares in warning for warning in document["warnings"]), document["warnings"]
    assert found == {(): (0.5, 2 / 3), ("1h",): (0.0, 0.0)}
    shared = read_trace(out)
    assert shared.submit_time.tolist() == [86400.0, 86400.0, 90000.0, 90000.0]
    assert shared.run_time.tolist() == [3600.0, 3600.0, 7200.0, 7200.0]
    assert shared.wait_time.tolist() == [3600.0] * 4


@pytest.mark.parametrize("text", ["0s", "UNLIMITED", "15", "often"])
def test_a_span_that_no_time_is_rounded_to_is_refused(text: str, log: Path, tmp_path: Path) -> None:
    done = run("anonymize", str(log), "-o", str(tmp_path / "o.csv"), "--round-times", text)
    assert isinstance(done.exception, BatchcastError)
    assert "accepted" in str(done.exception)


def test_the_key_is_made_once_for_its_owner_only_and_said(log: Path, tmp_path: Path) -> None:
    key, outs = tmp_path / "site.key", [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    first = run("anonymize", str(log), "-o", str(outs[0]), "--key", str(key))
    assert "a new key was created" in first.stderr
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    again = run("anonymize", str(log), "-o", str(outs[1]), "--key", str(key), "--json")
    assert "a new key" not in again.stderr
    one, other = (read_trace(out).nominal("user_id").decode() for out in outs)
    assert one == other
    assert key.read_text().strip() not in again.output + first.output
    document = json.loads(again.stdout)
    assert document["schema"] == "batchcast/anonymize/1"
    treated = {row["column"]: row["treatment"] for row in document["results"]}
    assert (treated["user_id"], treated["run_time"]) == ("replaced", "kept")
    key.chmod(0o644)
    assert "chmod 600" in run("anonymize", str(log), "-o", str(outs[1]), "--key", str(key)).stderr


def test_a_key_from_the_environment_and_moved_times(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    words = ["anonymize", str(log), "-o", str(out), "--key-env", "SITE_KEY", "--shift-times", "-7d"]
    done = run(*words, env={"SITE_KEY": "0123456789abcdef"})
    assert done.exit_code == 0, done.output
    assert (read_trace(out).submit_time - read_trace(log).submit_time == -7 * 86400.0).all()
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".key"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--key-env", "NO_SUCH"], "the variable NO_SUCH is not set"),
        (["--key", "k", "--key-env", "X"], "use one of them"),
        (["--shift-times", "soon"], r"--shift-times: 'soon' \(accepted: whole seconds"),
        (["--keep", "nothing"], "no column 'nothing'"),
    ],
)
def test_what_cannot_be_is_one_message(log: Path, tmp_path: Path, words, message, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BatchcastError, match=message):
        CliRunner().invoke(
            cli, ["anonymize", str(log), "-o", "out.csv", *words], standalone_mode=False, catch_exceptions=False
        )
    assert not (tmp_path / "out.csv").exists()


def test_the_log_itself_is_never_written_over(log: Path) -> None:
    before = log.read_bytes()
    assert "is the log itself" in str(run("anonymize", str(log), "-o", str(log)).exception)
    assert log.read_bytes() == before
