"""Tests `batchcast runtime LOG --new`: the predicted run time of one new job, learned from the whole log."""

import json

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import UsageError

LOG = """id,submit_time,wait_time,run_time,req_procs,req_time,user_id,job_name
1,0,0,100,4,3600,ada,relax
2,10,0,300,4,3600,ada,static
3,20,0,500,4,3600,bob,relax
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(LOG.replace("id,", "job_id,", 1))
    return path


def run(*words):
    result = CliRunner().invoke(cli, ["runtime", *map(str, words)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_a_new_job_is_answered_from_all_jobs_that_have_ended(log):
    words = (log, "--predictor", "recent_mean:fields=job_name", "--json", "--new")
    (row,) = json.loads(run(*words, "procs=4,name=relax"))["results"]
    assert row["run_s"] == 300.0  # both jobs with that name have ended
    (early,) = json.loads(run(*words, "procs=4,name=relax,at=200"))["results"]
    assert early["run_s"] == 100.0  # at 200 s only the first job had ended
    assert "recent_mean" in run(log, "--new", "procs=4,user=ada,request=1h", "--predictor", "recent_mean")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--new", "request=1h"), "procs is needed"), (("--new", "procs=4,color=red"), "no key 'color'"),
     (("--new", "procs=4,req_nodes=many"), "a number"), (("--new", "procs=4", "--memory"), "leave out --memory")],
)  # fmt: skip
def test_a_wrong_job_says_what_is_accepted(log, words, said):
    with pytest.raises(UsageError, match=said):
        run(log, *words)
