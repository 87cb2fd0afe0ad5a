"""Tests that the first pages agree on versions of Python and targets of make, and that their files parse."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_a_workflow_runs_targets_that_make_knows(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for job in workflow["jobs"].values():
        named = job.get("strategy", {}).get("matrix", {}).get("target", [])
        for step in job["steps"]:
            words = step.get("run", "").split()
            if words[:1] == ["make"]:
                asked = named if words[1].startswith("${{") else words[1:2]
                assert set(asked) <= set(targets)
                assert asked


def test_every_python_that_the_package_names_is_tested() -> None:
    classified = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if "Python :: 3." in c}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    weekly, on_push = re.findall(r"'(\[.*?\])'", workflow["jobs"]["tests"]["strategy"]["matrix"]["python"])
    assert set(json.loads(weekly)) == classified
    in_order = sorted(classified, key=lambda version: int(version.partition(".")[2]))
    assert json.loads(on_push) == [in_order[0], in_order[-1]], "a push runs the oldest and the newest"
    wheel = re.search(r"for version in ([\d. ]+);", (ROOT / "tools" / "wheel.sh").read_text())
    assert wheel is not None
    assert set(wheel[1].split()) == classified


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.name)
def test_issue_forms_parse(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.name != "config.yml":
        assert {"name", "description", "body"} <= set(form)
        assert all(item["attributes"]["label"] for item in form["body"])
