"""Tests that every registered method survives a restart: it learns from a log, is saved, and is loaded in a new
process, where it predicts and learns on as it does in the old process.

Which methods there are, and which settings make a method learn from few jobs, comes from the registry and from the
names of the methods' settings. So methods of installed plug-ins are tested as well.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import ROOT

from batchcast.events.event import Event, Submit
from batchcast.events.live import LiveClock
from batchcast.events.recorded import events
from batchcast.predict.registry import available, load
from batchcast.service.answers import model_store
from batchcast.service.answers.model_store import Key, SavedClock, make_predictor
from batchcast.testing.logs import small_log

pytestmark = [pytest.mark.long, pytest.mark.lightgbm]
LEARNED, JOBS = 120, 160
SOON = {
    "every": 40, "refit_every_jobs": 40, "recluster": 40, "min_jobs": 20, "first": 20, "step": 10, "window": 80,
    "keep": 60, "train": 50, "wide": 10, "h": 40, "t1": 20, "t2": 20, "population": 4, "generations": 2, "sample": 10,
    "count": 3, "clusters": 3, "search": 1, "starts": 2, "sweeps": 1, "need": 1, "threshold": 100,
    "features": "procs+req_time+user_id",
}  # fmt: skip
"""Values of settings, by name, with which methods are fitted to the log of the test more than once."""


def spec(kind: str, name: str) -> str:
    """Return a method with those settings of `SOON` that it has; a switch keeps its default."""
    signature = inspect.signature(load(kind, name)).parameters
    chosen = {key: SOON[key] for key, of in signature.items() if key in SOON and "bool" not in str(of.annotation)}
    return ":".join(filter(None, (name, ",".join(f"{key}={value}" for key, value in chosen.items()))))


def needs_answers(kind: str, name: str) -> bool:
    """Return whether a method is an oracle, which is made with a log's answers and so predicts no live job."""
    return "answers" in inspect.signature(load(kind, name)).parameters


KEYS: list[Key] = [
    *(
        (kind, spec(kind, name))
        for kind in ("runtime", "wait")
        for name in available(kind)
        if not needs_answers(kind, name)
    ),
    ("memory", "largest_recent"),
    ("limit", "largest_recent"),
]
RESTARTED = f"""
import json, sys
from pathlib import Path
from tests.checks.test_kept_models import KEYS, answers, events_after
from batchcast.service.answers.model_store import load, make_predictor
clock = load(Path(sys.argv[1]), {{key: make_predictor(*key) for key in KEYS}}, "the store").clock
print(json.dumps(answers(clock, events_after({LEARNED}))))
"""


def events_until(row: int) -> Iterator[Event]:
    """Yield the log's events before the submission of the job in this row."""
    for event in events(small_log(JOBS)):
        if isinstance(event, Submit) and event.job.row == row:
            return
        yield event


def events_after(row: int) -> list[Event]:
    """Return the log's events from the submission of the job in this row on."""
    return list(events(small_log(JOBS)))[len(list(events_until(row))) :]


def answers(clock: LiveClock, later: list[Event]) -> dict[str, list[str]]:
    """Return each method's predictions of the jobs that these events submit, while it learns from the events."""
    said: dict[str, list[str]] = {" ".join(key): [] for key in KEYS}
    for event in later:
        for key, prediction in clock.tell(event).items():
            said[" ".join(key)].append(repr(prediction))
    return said


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The answers of the process that learned, and those of a new process that loaded what was saved."""
    path = tmp_path_factory.mktemp("kept") / "clock"
    clock = LiveClock({key: make_predictor(*key) for key in KEYS}, 64.0)
    for event in events_until(LEARNED):
        clock.tell(event)
    fitted = {" ".join(key): bool(each.trained) for key, each in clock.predictors.items() if hasattr(each, "trained")}
    assert [name for name, is_fitted in fitted.items() if not is_fitted] == []
    assert model_store.save(path, SavedClock(clock, 0.0, 0, 0.0, {}, "the store")) == ""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-P", "-c", RESTARTED, str(path)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return answers(clock, events_after(LEARNED)), json.loads(done.stdout)


@pytest.mark.parametrize("key", KEYS, ids=" ".join)
def test_goes_on_in_a_new_process(key: Key, both: tuple[dict[str, list[str]], dict[str, list[str]]]) -> None:
    before, after = both[0][" ".join(key)], both[1][" ".join(key)]
    assert len(before) == JOBS - LEARNED
    assert before[0] == after[0], "the same answer before and after"
    assert before == after, "and learning goes on equally"


def test_what_was_learned_changes_the_answers(both: tuple[dict[str, list[str]], dict[str, list[str]]]) -> None:
    """If a new clock answered the same, the test above would prove nothing."""
    clock = LiveClock({}, 64.0)
    for event in events_until(LEARNED):
        clock.tell(event)
    new = LiveClock({key: make_predictor(*key) for key in KEYS})
    new.state = clock.state
    unlearned = answers(new, events_after(LEARNED))
    same = {name for name, said in unlearned.items() if said == both[0][name]}
    assert same == {"runtime requested", "wait scheduler_replay", "memory largest_recent"}, "these learn nothing here"
