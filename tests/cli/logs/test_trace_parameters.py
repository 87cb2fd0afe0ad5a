"""Tests `runtime --trace-parameters`: a file lists the parameters that each training chose."""

from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.testing import small_log
from batchcast.trace.write import write_trace


def test_an_unwritable_file_is_one_message(tmp_path):
    log = tmp_path / "log.swf"
    write_trace(small_log(30), log)
    done = CliRunner().invoke(cli, ["runtime", str(log), "--trace-parameters", str(tmp_path / "no" / "f.csv")])
    assert done.exit_code != 0
    assert "cannot be written" in str(done.exception)
