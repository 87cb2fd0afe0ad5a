# SPDX-License-Identifier: Apache-2.0
"""Tests that `walltime`, `start --test` and `report` suggest the same limit from one store at one moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchcast.cli.users import report as report_verb
from batchcast.formats.sighting import Sighting
from batchcast.service.answers import questions
from batchcast.service.answers.advice import RISK, service_parameters
from batchcast.service.answers.disclosure import Viewer, Whose
from batchcast.service.answers.forecaster import read_request
from batchcast.service.answers.script import answer_options
from batchcast.service.http.api import ENDPOINTS, Question
from batchcast.service.settings import load

from .test_collector import Job, Script, collect, step


class TwoSizes(Script):
    """All jobs share a name and a limit of six hours; every second job has four processors and runs longer."""

    def _seen(self, j: Job) -> Sighting:
        seen = super()._seen(j)
        procs = 4.0 if int(j.job_id) % 2 else 1.0
        asked = {**seen.requested, "job_name": "relax", "req_procs": procs, "req_nodes": 1.0, "req_time": 21600.0}
        return seen._replace(requested=asked, allocated={"alloc_procs": procs})


@pytest.mark.long
@pytest.mark.parametrize("limits", ["", None])
def test_three_verbs_advise_one_limit(tmp_path: Path, limits: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "store": str(tmp_path / "s.db"),
        "history_days": 0.1,
        "runtime": "recent_mean",
        "wait": "recent_wait:need=1",
    }
    settings = load(given if limits is None else {**given, "limits": limits}, {})
    starts = [(k, 1000.0 + 40 * k) for k in range(1, 61)]
    script = TwoSizes([Job(str(k), at, at, at + (1000.0 if k % 2 else 100.0)) for k, at in starts])
    step(script, collect(script, settings), *range(1000, 4600, 60))
    path, now, ada = tmp_path / "job.sh", script.time, Viewer("ada")
    path.write_text("#!/bin/sh\n#SBATCH -J relax -p main -n 1 -N 1 -t 6:00:00\nsrun x\n")
    walltime = questions.walltime(settings, str(path), None, "ada", ada, RISK, now).results[0]["limit_s"]
    test = answer_options(settings, read_request(str(path)), ada, now).results[0]["advised_limit_s"]
    (report,) = questions.report(settings, Whose("ada"), 0.0, 1e12, ada, now).settings["advice"]
    assert (walltime, test, report["advised"]) == (walltime,) * 3
    asked = service_parameters(str(path), None)
    question = Question(settings, {k: [v] for k, v in asked.items()}, ada, now)
    answer = ENDPOINTS["/v1/walltime"].answer(question)
    assert answer is not None
    assert answer.results[0]["limit_s"] == walltime, "a user whose store is closed is told the same limit"
    monkeypatch.setattr(report_verb, "myself", lambda: ada)
    monkeypatch.setattr(report_verb.time, "time", lambda: now)
    pooled = {**report, "advised": 1200.0, "advice": "the limit of all sizes together"}
    (each,) = report_verb._with_limits_of_walltime(settings, [pooled])
    assert (each["advised"], each["advice"]) == (walltime, report["advice"])
    assert walltime < 1000.0, "the job has one processor: those of four say nothing of it"
    assert "--time=00:05:00 is advised for a job of 1 processors" in report["advice"]


def test_who_may_not_read_the_clock_asks_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: on an open site, users can read the store but not the learned state, so the command line had to learn
    again from the whole history."""
    from batchcast.service.answers import fallback
    from batchcast.service.answers.answer import Answer

    store = tmp_path / "s.db"
    store.touch()
    (tmp_path / "s.db.c.clock").touch()
    (tmp_path / "s.db.c.clock").chmod(0o600)
    settings = load({"store": str(store), "listen": str(tmp_path / "api.sock")}, {})
    monkeypatch.setattr(fallback.os, "access", lambda path, _: not str(path).endswith(".clock"))
    of_service, here = Answer({}, {}, [], [{"by": "service"}]), Answer({}, {}, [], [{"by": "store"}])
    monkeypatch.setattr(fallback, "ask_service", lambda *_: of_service)
    for verb, by in (("walltime", "service"), ("report", "service"), ("test", "service"), ("start", "store")):
        assert fallback.answer_or_ask_service(settings, verb, {}, lambda: here).results == [{"by": by}]
