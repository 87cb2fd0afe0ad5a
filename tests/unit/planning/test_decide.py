"""Tests planning under any sequence of events: no limit goes below what is covered, and each is restored or was changed
by somebody else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchcast.formats.slurm.plannable import Plannable
from batchcast.planning.decide import Action, decide, why_ineligible, without_token
from batchcast.planning.record import Entry, How, State, Terms, start_list
from batchcast.planning.update import is_done, stale, targets, update_of
from batchcast.units import parse_duration

MINUTE, GRACE = 60.0, 60.0


class Killed(Exception):
    """Stands for the death of the agent."""


@dataclass
class World:
    """A Slurm with a few jobs, the record on its disk, and an agent that may die between any two of its steps.

    `mine` is each user's limit as the user (or an operator) means it; `theirs` are jobs whose limit somebody changed.
    `saved` is the last state that slurmctld wrote; a killed slurmctld restarts with it. `unseen` is what --time-min
    does not cover: somebody changes a limit, and Slurm starts the job by our --time-min before the agent's next cycle,
    or the other way round. `listed` is the list that the script at a job's start (`at_start`) uses.
    """

    jobs: dict[str, Plannable] = field(default_factory=dict)
    mine: dict[str, float] = field(default_factory=dict)
    theirs: set[str] = field(default_factory=set)
    saved: dict[str, Plannable] = field(default_factory=dict)
    record: dict[str, Entry] = field(default_factory=dict)
    now: float = 1000.0
    booted: float = 0.0
    over: float = 30 * MINUTE
    outage: float = math.inf
    stopped: str = ""
    how: How = How.LIMIT
    unseen: set[str] = field(default_factory=set)
    forecast: float = 1.0
    left: float = math.inf
    at_start: bool = False
    listed: str = ""

    def step(self) -> None:
        """One step of the agent; the agent may die here."""
        self.left -= 1
        if self.left < 0:
            raise Killed

    def terms(self) -> Terms:
        return Terms(
            self.now, {"p": self.over}, {"p": 86400.0}, self.stopped, next_outage=self.outage, booted=self.booted,
            grace=GRACE, partitions=frozenset({"p"}), how=self.how, comments=True, at_start=self.at_start,
        )  # fmt: skip

    def cycle(self, dies_after: float = math.inf) -> None:
        """One cycle of the agent: each decision is recorded before it is carried out and after it was read back."""
        self.left = dies_after
        self.now += 100.0
        try:
            terms, shown = self.terms(), list(self.jobs.values())
            for action in decide(shown, self.record, terms, lambda _: self.forecast, lambda _: ""):
                name = action.job.job_id
                self.step()
                self.record[name] = action.entry
                if action.kind == "note":
                    continue
                self.step()
                if action.kind == "plan":
                    self.listed = start_list(self.record.values())
                    self.step()
                if not self.jobs[name].finished:
                    self.set_by_agent(name, action, terms)
                self.step()
                if is_done(self.jobs[name], action) and not self.jobs[name].finished:
                    self.record[name] = action.entry._replace(state=action.final_state, at=self.now)
            for job, comment in stale(list(self.jobs.values()), self.record, terms):
                self.step()
                self.jobs[job.job_id] = self.jobs[job.job_id]._replace(admin_comment=comment)
            self.listed = start_list(self.record.values())
        except Killed:
            pass

    def set_by_agent(self, name: str, action: Action, terms: Terms) -> None:
        update, job = update_of(action, terms), self.jobs[name]
        assert update.limit is not None or update.time_min is not None or update.admin_comment is not None
        if update.limit is not None and name not in self.unseen:
            assert name not in self.theirs or action.entry.how is How.TIME_MIN, "a change of somebody else's was undone"
            assert update.limit == self.mine[name] or action.kind == "plan"
        for planned in (update.limit, update.time_min or None):
            if planned is not None and name not in self.unseen:
                assert planned >= self.mine[name] - terms.over_time["p"], "below what OverTimeLimit covers"
                assert planned <= self.mine[name]
        changes: dict[str, Any] = {} if update.limit is None else {"limit": update.limit}
        if update.time_min is not None and job.waits:  # a running job keeps its own --time-min
            changes["time_min"] = update.time_min
        comment = job.admin_comment if update.admin_comment is None else update.admin_comment
        assert without_token(comment) == "nights"
        self.jobs[name] = job._replace(**changes, admin_comment=comment)

    def happen(self, what: str, name: str, much: float) -> None:
        """An event that the agent does not cause."""
        self.now += 70.0
        job = self.jobs.get(name)
        if what == "submit" and job is None:
            limit = 10 * MINUTE + much * MINUTE
            self.jobs[name] = Plannable(
                name, name, self.now, False, True, limit, partitions=("p",), admin_comment="nights"
            )
            self.mine[name] = limit
        elif what == "boot":
            self.booted = self.now
            self.jobs |= {
                n: self.jobs[n]._replace(limit=old.limit, time_min=old.time_min) for n, old in self.saved.items()
            }
        elif what == "save":
            self.saved = dict(self.jobs)
        elif what == "over":
            self.over = much * MINUTE
        elif what == "outage":
            self.outage = self.now + much * MINUTE
        elif what == "stop":
            self.stopped = "" if self.stopped else "switched off"
        elif what == "mode":
            self.how = How.TIME_MIN if self.how is How.LIMIT else How.LIMIT
        elif what == "forecast":
            self.forecast = much * MINUTE
        elif job is not None:
            self.jobs[name] = self.changed(what, job, much)
        if what in ("start", "end", "requeue", "change"):
            self.saved.pop(name, None)

    def changed(self, what: str, job: Plannable, much: float) -> Plannable:
        if what == "start" and job.waits:
            lowered = max(job.time_min, min(job.limit, much * MINUTE)) if job.time_min > 0 else job.limit
            if job.job_id in self.theirs and job.time_min > 0:
                self.unseen.add(job.job_id)
            return job._replace(waits=False, has_started=True, limit=self.given_back(job.job_id, lowered))
        if what == "end" and job.has_started:
            return job._replace(has_started=False, finished=True)
        if what == "requeue" and not job.waits:
            return job._replace(waits=True, has_started=False, finished=False, submit_time=self.now)
        entry = self.record.get(job.job_id)
        own = much * MINUTE + 17.0  # 17 s, so that it never equals a limit in an entry
        if what == "change" and not job.finished and (entry is None or own not in (entry.planned, entry.user_limit)):
            if entry is not None:
                self.theirs.add(job.job_id)
                surely = (
                    entry.state is State.RESTORED and self.booted < entry.at - GRACE and self.now - entry.at > GRACE
                )
                if job.has_started and job.time_min == entry.planned <= own < entry.user_limit and not surely:
                    self.unseen.add(job.job_id)  # the agent cannot distinguish this from a limit that Slurm lowered
            self.mine[job.job_id] = own
            return job._replace(limit=own)
        return job

    def given_back(self, name: str, limit: float) -> float:
        """Return the limit with which a job starts: its user's, if the planned limit in the list is still set.

        The list contains whole minutes only, as all limits of Slurm do.
        """
        rows = {row[0]: row[1:] for row in map(str.split, self.listed.splitlines())} if self.at_start else {}
        planned, minutes = rows.get(name, ("", "0"))
        if not planned or parse_duration(planned) != limit:
            return limit
        back = float(minutes) * MINUTE
        return self.mine[name] if abs(self.mine[name] - back) < MINUTE else back

    def check(self) -> None:
        """Check the state after a cycle without any disturbance."""
        for name, job in self.jobs.items():
            if name in self.unseen:
                continue
            entry = self.record.get(name)
            again = entry is not None and entry.submit_time != job.submit_time
            if (job.has_started or again) and not job.finished:
                assert job.limit == self.mine[name], "running on a planned limit"
            elif job.waits and name not in self.theirs:
                assert job.limit >= self.mine[name] - self.over, "OverTimeLimit was lowered"
                stands = job.limit != self.mine[name] or job.time_min > 0
                assert not stands or self.now + 60.0 + self.mine[name] <= self.outage
                assert job.time_min == 0 or job.time_min >= self.mine[name] - self.over

    def settle(self) -> None:
        """Switch planning off, without any disturbance."""
        self.stopped = "switched off"
        for _ in range(3):
            self.cycle()


EVENTS = (
    "submit", "start", "end", "requeue", "change", "boot", "save", "over", "outage", "stop", "forecast", "agent", "mode"
)  # fmt: skip


@pytest.mark.long
@settings(max_examples=250, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from((*EVENTS, *["agent"] * 6, "submit", "start", "save", "boot")),
            st.sampled_from("12"),
            st.integers(0, 60),
            st.sampled_from((math.inf, math.inf, 1.0, 2.0, 3.0, 5.0)),
        ),
        min_size=20,
        max_size=60,
    ),
    st.sampled_from(How),
    st.booleans(),
)
def test_no_sequence_of_events_leaves_a_job_below_what_is_covered(
    events: list[tuple[str, str, int, float]], how: How, at_start: bool
) -> None:
    world = World(how=how, at_start=at_start)
    for what, name, much, dies_after in events:
        if what == "agent":
            world.cycle(dies_after)
            if dies_after == math.inf:
                world.check()
        else:
            world.happen(what, name, float(much))
    world.settle()
    for name, job in world.jobs.items():
        if name in world.unseen:
            continue
        if not job.finished:
            assert job.limit == world.mine[name]
            assert job.time_min == 0 or job.has_started
            assert job.admin_comment == "nights"
        assert job.limit <= world.mine[name]


def asked(actions: list[Action]) -> list[tuple[float | None, str]]:
    return [(update.limit, name) for update, name, _ in targets(actions, TERMS)]


def waiting(**more: Any) -> Plannable:
    job = Plannable(
        "1", "1", 0.0, has_started=False, waits=True, limit=7200.0, partitions=("p",), user="ada", account="a"
    )
    return job._replace(**more)


TERMS = Terms(0.0, {"p": 1800.0, "q": 0.0}, {"p": 86400.0, "q": 86400.0}, partitions=frozenset({"p", "q"}))


@pytest.mark.parametrize(
    ("job", "terms", "why"),
    [
        (waiting(), TERMS, ""),
        (waiting(), TERMS._replace(partitions=frozenset()), "not opted in"),
        (waiting(comment="no-batchcast"), TERMS._replace(partitions=frozenset()), "not opted in"),
        (waiting(comment="a batchcast b"), TERMS._replace(partitions=frozenset()), ""),
        (waiting(qos="q1"), TERMS._replace(partitions=frozenset(), qos=frozenset({"q1"})), ""),
        (waiting(special="it is interactive"), TERMS, "it is interactive"),
        (waiting(time_min=600.0), TERMS, "it has a --time-min"),
        (waiting(comment="batchcast:start=x;"), TERMS._replace(partitions=frozenset()), "not opted in"),
        (waiting(limit=math.inf), TERMS, "it has no limit"),
        (waiting(limit=90000.0), TERMS, "above the maximum of partition p"),
        (waiting(), TERMS._replace(walls={("user", "a", "ada"): 3600.0}), "maximum of its association"),
        (waiting(reason="QOSMaxWallDurationPerJobLimit"), TERMS, "waits because of a resource limit"),
        (waiting(partitions=("p", "q")), TERMS, "OverTimeLimit is 0 in partition q"),
        (waiting(), TERMS._replace(next_outage=7000.0), "reaches into the next reservation"),
        (waiting(), TERMS._replace(percent=0.0), "arm without planning"),
        (waiting(), TERMS._replace(stopped="switched off"), "switched off"),
    ],
)
def test_who_is_never_touched_and_why(job: Plannable, terms: Terms, why: str) -> None:
    assert why in why_ineligible(job, terms)
    planned = decide([job], {}, terms, lambda _: 60.0, lambda _: "")
    assert bool(planned) == (why == "")


def test_a_forecast_is_planned_with_as_far_as_overtimelimit_covers() -> None:
    for needs, limit in ((60.0, 5400.0), (6001.0, 6060.0)):
        (action,) = decide([waiting()], {}, TERMS, lambda _, n=needs: n, lambda _: "")
        assert (action.kind, action.limit, action.entry.user_limit) == ("plan", limit, 7200.0)
    assert not decide([waiting()], {}, TERMS, lambda _: 7190.0, lambda _: "")
    assert not decide([waiting()], {}, TERMS, lambda _: "it has no forecast yet", lambda _: "")
    assert not decide([waiting()], {}, TERMS, lambda _: 60.0, lambda _: "its script contains --signal")


def test_tasks_of_an_array_that_wait_together_are_planned_together_or_not_at_all() -> None:
    tasks = [waiting(job_id=f"7_{k}", raw_id="7") for k in (1, 2, 3, 5)]
    needs = {"7_1": 60.0, "7_2": 6000.0, "7_3": 60.0, "7_5": 60.0}
    actions = decide(tasks, {}, TERMS, lambda j: needs[j.job_id], lambda _: "")
    assert [(limit, name) for limit, name in asked(actions)] == [(6000.0, "7_[1-3,5]")]
    running = [tasks[0]._replace(raw_id="8", waits=False, has_started=True, limit=6000.0), *tasks[1:]]
    record = {a.job.job_id: a.entry._replace(state=State.PLANNED) for a in actions}
    later = TERMS._replace(now=1000.0)
    back = decide(
        [running[0], *(t._replace(limit=6000.0) for t in tasks[1:])], record, later, lambda _: 1.0, lambda _: ""
    )
    assert [(limit, name) for limit, name in asked(back)] == [(7200.0, "7_1")]
    foreign = {"7_2": record["7_2"]._replace(state=State.FOREIGN)}
    assert decide(tasks, foreign, later, lambda _: 1.0, lambda _: "") == []
