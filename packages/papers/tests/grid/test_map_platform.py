"""Tests `batchcast grid map --jobs --platform`: the user's own jobs on the user's own resources, without a matrix."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import UsageError

PLATFORM = """
[units]
compute = 1.0
transfer = 1.0
[[resource]]
id = "fast"
speed = 100.0
bandwidth = 10.0
[resource.attributes]
procs = 4
[[resource]]
id = "slow"
speed = 50.0
bandwidth = 10.0
[resource.attributes]
procs = 64
"""
JOBS = """id,instructions,file_mb,arrival,deadline,min_procs
a,1000,0,0,100,1
b,1000,100,0,100,32
c,x,0,0,,1
d,10,0,5,,128
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "grid.toml").write_text(PLATFORM)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return tmp_path


def run(*words):
    result = CliRunner().invoke(cli, ["grid", "map", *map(str, words)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_each_job_goes_to_a_resource_that_can_hold_it(files):
    given = ("--jobs", files / "jobs.csv", "--platform", files / "grid.toml", "--heuristic", "emin_min")
    document = json.loads(run(*given, "--plan", files / "plan.csv", "--json"))
    (row,) = document["results"]
    assert (row["mapped"], row["in_time"]) == (2, 2)
    assert row["makespan"] == pytest.approx(30.0)  # b: 1000/50 of work and 100/10 of transfer
    assert row["lower_bound"] <= row["makespan"]
    plan = [line.split(",")[:2] for line in (files / "plan.csv").read_text().splitlines()[1:]]
    assert sorted(plan) == [["a", "fast"], ["b", "slow"]]
    assert any("job c left out: instructions" in note for note in document["warnings"])
    assert any("job d left out: no resource" in note for note in document["warnings"])


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "neither MATRIX nor --platform"), (("--platform", "grid.toml"), "goes with --jobs"),
     (("m.etc", "--platform", "grid.toml"), "MATRIX and --platform")],
)  # fmt: skip
def test_a_platform_goes_with_jobs_and_without_a_matrix(words, said):
    with pytest.raises(UsageError, match=said):
        run(*words)


PRICED = """
[[resource]]
id = "cloud"
speed = 100.0
bandwidth = 10.0
price = 5.0
[[resource]]
id = "own"
speed = 40.0
bandwidth = 10.0
"""
WEIGHTS = """id,instructions,arrival,deadline,cost_weight
hasty,1000,0,100,0
thrifty,1000,0,100,1
due,1000,0,20,1
strange,1000,0,100,2
"""


def test_a_job_goes_where_its_user_s_weights_of_time_and_cost_say(tmp_path):
    (tmp_path / "grid.toml").write_text(PRICED)
    (tmp_path / "jobs.csv").write_text(WEIGHTS)
    given = ("--jobs", tmp_path / "jobs.csv", "--platform", tmp_path / "grid.toml")
    words = ("--heuristic", "emin_min,by_preference", "--plan", tmp_path / "plan.csv", "--json")
    document = json.loads(run(*given, *words))
    assert document["warnings"] == ["job strange left out: cost_weight not between 0 and 1"]
    time, weighed = document["results"]
    where = dict(line.split(",")[:2] for line in (tmp_path / "plan.csv").read_text().splitlines()[1:])
    # `own` costs nothing, but it would end `due` after its deadline
    assert where == {"hasty": "cloud", "thrifty": "own", "due": "cloud"}
    assert (time["in_time"], weighed["in_time"]) == (2, 3)  # `emin_min` places `thrifty` before `due`
    assert weighed["cost"] == pytest.approx(2 * 10 * 5)


def test_weights_without_prices_are_mentioned(files):
    given = ("--jobs", files / "jobs.csv", "--platform", files / "grid.toml", "--heuristic", "by_preference")
    assert "no resource has a price" in json.loads(run(*given, "--json"))["warnings"][-1]
