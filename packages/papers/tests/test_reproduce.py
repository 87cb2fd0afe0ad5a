"""Tests `batchcast reproduce`: its list of papers, and what it says without logs."""

from click.testing import CliRunner

from batchcast.cli.main import cli


def test_reproduce_lists_its_papers_and_says_where_logs_are_looked_for(tmp_path, monkeypatch):
    shown = CliRunner().invoke(cli, ["reproduce", "--help"]).output
    assert "online-knn-ga" in shown
    assert "su" in shown
    monkeypatch.delenv("BATCHCAST_SHARED", raising=False)
    monkeypatch.chdir(tmp_path)
    failed = CliRunner().invoke(cli, ["reproduce", "online-knn-ga"])
    assert "BATCHCAST_SHARED" in str(failed.exception)
    assert not list(tmp_path.iterdir())
