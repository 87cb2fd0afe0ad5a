"""Tests `batchcast wait LOG --new`: the predicted wait of one new job, without a store."""

import json

import pytest
from click.testing import CliRunner

from batchcast.cli.study.wait import command
from batchcast.errors import BatchcastError
from batchcast.trace import demo_path


def run(*words):
    result = CliRunner().invoke(command, [str(demo_path()), *words], obj={"color": "never", "debug": False})
    if isinstance(result.exception, BatchcastError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_method_answers_for_one_new_job():
    methods = "recent_wait,scheduler_replay"
    doc = json.loads(run("--new", "procs=4,request=2h,user=u1", "--predictor", methods, "--json"))
    rows = {row["predictor"]: row for row in doc["results"]}
    assert set(rows) == {"recent_wait", "scheduler_replay"}
    assert all(row["wait_s"] >= 1 for row in rows.values())
    assert all(row["basis"] for row in rows.values())


def test_an_earlier_instant_knows_less():
    late = json.loads(run("--new", "procs=4,request=2h", "--predictor", "recent_wait", "--json"))["results"][0]
    early = json.loads(run("--new", f"procs=4,request=2h,at={late['submit_s'] / 10}", "--predictor", "recent_wait",
                           "--json"))["results"][0]  # fmt: skip
    assert early["submit_s"] < late["submit_s"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("procs=4", "are needed"), ("procs=0,request=1h", "from 1"), ("procs=4,request=1h,cores=3", "cores"),
     ("procs=4,request=1h,at=-1e12", "before the log")],
)  # fmt: skip
def test_a_wrong_job_names_the_form(text, said):
    with pytest.raises(BatchcastError, match=said):
        run("--new", text)
