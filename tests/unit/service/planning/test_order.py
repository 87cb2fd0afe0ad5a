"""Tests the live order on a scripted Slurm: recorded before the call, read back, restored, and others' factors
unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st
from sqlalchemy import delete, func, insert, select, update
from tests.scripted_slurm import Job, Site

from batchcast.cli.main import cli
from batchcast.errors import BatchcastError
from batchcast.planning.order import OVERRUNS_EVERY_S
from batchcast.planning.record import CycleOutcome
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.service import batch_system
from batchcast.service.planning.checkup import ground_findings, standing_findings
from batchcast.slurm.transport import Answer
from batchcast.store import clock_jobs, planned
from batchcast.store.reader import Reader
from batchcast.store.schema import forecasts, jobs


def site(tmp_path: Path, *jobs: Job, **settings: Any) -> Site:
    return Site(tmp_path, *(jobs or (Job("1", 120), Job("2", 10))), **{"plan": "order", **settings})


def look(one: Site) -> CycleOutcome:
    one.slurm.time += 30.0
    return one.planner.cycle("c")


def factors(one: Site) -> dict[str, int]:
    return {i: job.factor for i, job in one.slurm.jobs.items()}


def predict(one: Site, job_id: str, point: float, upper: float = 0.0) -> None:
    """Replace the run-time prediction of a job: its point and its 90 % quantile, seconds."""
    said = {"point_s": point, "levels": "[0.5, 0.9]", "quantiles_s": f"[{point}, {upper or point}]"}
    with one.store.begin() as connection:
        of_job = forecasts.c.row == select(jobs.c.row).where(jobs.c.job_id == job_id).scalar_subquery()
        connection.execute(update(forecasts).where(of_job).values(**said))


def remember(one: Site, **values: Any) -> None:
    with one.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **values)


def record(one: Site) -> dict[str, planned.Standing]:
    with one.store.begin() as connection:
        return planned.order_of(clock_jobs.read_meta(connection, "c"))


def test_the_shorter_job_gets_the_higher_factor_and_limits_stay(tmp_path: Path) -> None:
    one = site(tmp_path)
    done = look(one)
    now = factors(one)
    assert now["2"] > now["1"] > 0  # predicted to take 15 min, cut by the limit of 10 min
    assert (done.ordered, done.placed, done.problems) == (2, 2, [])
    assert [job.limit for job in one.slurm.jobs.values()] == [120, 10]
    calls = len(one.slurm.commands)
    assert look(one).placed == 2
    assert len(one.slurm.commands) == calls  # nothing changed: no call


def test_a_job_counts_as_an_eighth_of_its_limit_at_least_whatever_was_taught(tmp_path: Path) -> None:
    """All three jobs are predicted to take 15 min. A user who submits short jobs so that the predictor learns a short
    run time gains little for the long job."""
    one = site(tmp_path, Job("1", 2400), Job("2", 60), Job("3", 480))
    look(one)
    now = factors(one)
    assert now["2"] > now["3"] > now["1"] > 0


def test_without_a_forecast_that_rests_on_anything_the_limit_counts(tmp_path: Path) -> None:
    one = site(tmp_path, Job("1", 120), Job("2", 60))
    look(one)
    before = factors(one)
    with one.store.begin() as connection:
        connection.execute(update(forecasts).values(grounds="no_history"))
    look(one)
    now = factors(one)
    assert before["1"] > now["1"] > 0
    assert now["2"] < before["2"]


def ran(
    one: Site, user: str, elapsed: float, predicted: float, *, limit: float = 28_800.0, running: bool = False,
    kind: Mapping[str, str] = {},
) -> None:  # fmt: skip
    """Store a job of a user that started, how long it ran, and what was predicted when it was submitted."""
    with one.store.begin() as connection:
        number = connection.scalar(select(func.max(jobs.c.row))) + 1
        now = one.slurm.time
        values = {
            "row": number, "cluster": "c", "job_id": f"9{number}", "submit_time": now - elapsed - 10.0, "user_id": user,
            "start_time": now - elapsed, "end_time": None if running else now, "open": int(running), "state": "x",
            "first_seen": 0.0, "req_procs": 8.0, "req_time": limit, **kind,
        }  # fmt: skip
        connection.execute(insert(jobs).values(**values))
        said = Prediction(predicted, (0.5, 0.9), (predicted, predicted), "like jobs", Grounds.CLASS)
        shared = {"kind": "runtime", "moment": "submit", "method": "kernel", "as_of": now, "issued_at": now}
        clock_jobs.issue(connection, [{"row": number, **shared, "prediction": said}])


@pytest.mark.parametrize("changed", [{"app_id": "c2"}, {"job_name": "other"}], ids=["command", "name"])
def test_a_new_name_or_a_changed_command_starts_from_the_time_limit(tmp_path: Path, changed: dict[str, str]) -> None:
    """All jobs are predicted to take 15 min. Eve's job 1 is like the ended jobs; job 2 has another command or name."""
    one, kind = site(tmp_path, Job("1", 600), Job("2", 600), Job("3", 600)), {"job_name": "w_1", "app_id": "c1"}
    belongs_to(one, job1="eve", job2="eve", job3="ada")
    with one.store.begin() as connection:
        for job_id, own in (("1", {**kind, "job_name": "w_2"}), ("2", kind | changed), ("3", kind)):
            connection.execute(update(jobs).where(jobs.c.job_id == job_id).values(**own))
    ran(one, "eve", 60.0, 60.0, kind=kind)
    ran(one, "ada", 60.0, 60.0, kind=kind, running=True)  # a running job does not count as history
    look(one)
    before = factors(one)
    assert before["1"] > before["2"] == before["3"] > 0
    with Reader(str(tmp_path / "s.db")) as reader:
        whys = {step["job_id"]: step["why"] for step in reader.ask("plan_changes", cluster="c", since=0.0)
                if step["what"] == "order sets"}  # fmt: skip
    assert "no job of this user with this name and command has ended" in whys["2"]
    assert "forecast" in whys["1"]
    ran(one, "eve", 60.0, 60.0, kind=kind | changed)
    one.slurm.time += OVERRUNS_EVERY_S
    look(one)
    assert factors(one)["2"] == before["1"]


def belongs_to(one: Site, **users: str) -> None:
    """Give waiting jobs a user: job1="eve"."""
    with one.store.begin() as connection:
        for name, user in users.items():
            connection.execute(update(jobs).where(jobs.c.job_id == name.removeprefix("job")).values(user_id=user))


@pytest.mark.parametrize("running", [False, True])
def test_a_user_whose_jobs_run_past_their_predictions_is_ordered_by_time_limits(tmp_path: Path, running: bool) -> None:
    """After a hundred short jobs of Eve, the predictor predicts 15 min for her jobs. Then her long job runs much
    longer, while Ada's jobs end as predicted."""
    one = site(tmp_path, Job("1", 600), Job("2", 120), Job("3", 600))
    belongs_to(one, job1="eve", job2="ada", job3="ada")
    for _ in range(100):
        ran(one, "eve", 60.0, 60.0)
    ran(one, "ada", 60.0, 60.0)
    look(one)
    before = factors(one)
    assert before["1"] == before["3"]
    ran(one, "eve", 18_000.0, 60.0, running=running)
    ran(one, "ada", 3000.0, 6000.0, running=running)
    one.slurm.time += OVERRUNS_EVERY_S
    look(one)
    now = factors(one)
    assert now["1"] < before["1"]
    assert now["3"] == before["3"]
    with Reader(str(tmp_path / "s.db")) as reader:
        whys = [step["why"] for step in reader.ask("plan_changes", cluster="c", since=0.0) if step["job_id"] == "1"]
    assert any("jobs of this user ran longer than predicted" in why for why in whys)


def test_what_ran_past_its_prediction_is_forgotten_after_two_weeks(tmp_path: Path) -> None:
    one = site(tmp_path, Job("1", 600))
    belongs_to(one, job1="eve")
    ran(one, "eve", 9000.0, 60.0)
    look(one)
    by_limit = factors(one)["1"]
    one.settings = one.settings.replaced(plan_lag_s=1e9)
    one.restarted()
    one.slurm.time += 15 * 86_400.0
    look(one)
    assert factors(one)["1"] != by_limit


def test_by_limits_the_shorter_limit_goes_first_and_no_prediction_counts(tmp_path: Path) -> None:
    one = site(tmp_path, Job("1", 90), Job("2", 60), plan_order_by="limits")
    predict(one, "2", 3600.0)  # job 1 is predicted to take 15 min: by predictions it would go first
    look(one)
    by_limits = factors(one)
    assert by_limits["2"] > by_limits["1"] > 0
    with one.store.begin() as connection:
        connection.execute(delete(forecasts))
    done = look(one)
    # In the order by predictions, every factor would be restored.
    assert (done.placed, done.problems, factors(one)) == (2, [], by_limits)


def test_the_order_goes_by_the_upper_quantile_and_not_by_the_point(tmp_path: Path) -> None:
    one = site(tmp_path, Job("1", 120), Job("2", 120))
    predict(one, "1", 60.0, 7000.0)
    look(one)
    assert factors(one)["2"] > factors(one)["1"]  # its point prediction is the shortest, but its 90 % quantile is 2 h


def test_jobs_of_one_level_share_a_call(tmp_path: Path) -> None:
    one = site(tmp_path, *(Job(str(k), 120) for k in range(1, 61)))
    assert look(one).ordered == 60
    assert len(one.slurm.commands) == 1


def test_somebody_elses_factor_is_never_touched(tmp_path: Path) -> None:
    one = site(tmp_path)
    one.slurm.jobs["1"].factor = 77
    look(one)
    assert factors(one)["1"] == 77
    one.slurm.jobs["2"].factor = 5  # an operator replaces our factor
    assert look(one).placed == 0
    assert factors(one) == {"1": 77, "2": 5}


def test_off_gives_everything_back_that_of_held_jobs_too(tmp_path: Path) -> None:
    one = site(tmp_path)
    look(one)
    one.slurm.jobs["1"].held = True
    with one.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **{planned.SWITCH: {"by": "root", "at": 0.0}})
    done = look(one)
    assert factors(one) == {"1": 0, "2": 0}
    assert (done.placed, done.problems) == (0, [])
    assert record(one).keys() == {"2"}  # the store keeps the former factor as long as the job waits


def test_off_counts_what_stands_while_slurmctld_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression from a stopped slurmctld in the lab: `plan --off` reported that no factor was left."""
    one = site(tmp_path)
    look(one)
    with one.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **{planned.SWITCH: {"by": "root", "at": 0.0}})

    def silent(*_: object) -> None:
        raise BatchcastError("scontrol gave no answer within 5 s")

    with monkeypatch.context() as patched:
        patched.setattr("batchcast.service.planning.order.limits.look", silent)
        done = look(one)
        assert done.placed == 2
        assert done.problems == ["the order: scontrol gave no answer within 5 s"]
    assert look(one).placed == 0


def test_a_factor_that_a_killed_slurmctld_brings_back_is_ours_and_goes_back_again(tmp_path: Path) -> None:
    one = site(tmp_path)
    look(one)
    before = factors(one)["2"]
    with one.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **{planned.SWITCH: {"by": "root", "at": 0.0}})
    look(one)
    assert factors(one)["2"] == 0
    one.slurm.jobs["2"].factor = before
    assert look(one).problems == []
    assert factors(one)["2"] == 0
    one.slurm.jobs["2"].factor = 7
    look(one)
    assert factors(one)["2"] == 7


def test_a_job_whose_opt_in_ends_has_its_own_priority_again(tmp_path: Path) -> None:
    one = site(tmp_path, plan_partitions="", plan_qos="")
    one.slurm.jobs["1"].comment = one.slurm.jobs["2"].comment = "batchcast"
    look(one)
    one.slurm.jobs["1"].comment = ""
    look(one)
    assert factors(one)["1"] == 0
    assert factors(one)["2"] > 0


def test_killed_right_before_the_call_the_next_look_goes_on(tmp_path: Path) -> None:
    one = site(tmp_path)

    def dies() -> None:
        raise KeyboardInterrupt

    one.slurm.before_update = dies
    with pytest.raises(KeyboardInterrupt):
        look(one)
    assert record(one).keys() == {"1", "2"}  # the store has the factor before scontrol is called
    one.slurm.before_update = lambda: None
    one.restarted()
    assert look(one).placed == 2


def test_a_refusal_is_one_sentence_and_changes_nothing(tmp_path: Path) -> None:
    one = site(tmp_path)
    one.slurm.refuses = True
    done = look(one)
    assert factors(one) == {"1": 0, "2": 0}
    assert "Access/permission denied" in done.problems[0]
    calls = len(one.slurm.commands)
    look(one)
    assert len(one.slurm.commands) == calls  # no new attempt before an hour has passed
    one.slurm.refuses, one.slurm.time = False, one.slurm.time + 3600.0
    assert look(one).placed == 2


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("PriorityType = priority/basic\n", "needs priority/multifactor"),
        (
            "PriorityType = priority/multifactor\nPrioritySiteFactorPlugin = site_factor/own\n",
            "sets the factors itself",
        ),
        ("PriorityType = priority/multifactor\nPriorityWeightQOS = 1000\n", "the priorities of QOS differ by 500"),
    ],
)
def test_a_site_that_cannot_be_ordered_is_told_why(tmp_path: Path, config: str, said: str) -> None:
    one = site(tmp_path)
    one.slurm.priority, one.slurm.qos = config, "0\n50\n100\n"
    done = look(one)
    assert said in done.problems[0]
    assert factors(one) == {"1": 0, "2": 0}


def test_both_orders_and_plans(tmp_path: Path) -> None:
    one = site(tmp_path, Job("1", 120), plan="both")
    done = look(one)
    assert (done.planned, done.ordered, done.placed) == (1, 1, 1)
    assert one.slurm.jobs["1"].limit < 120


def test_so_many_calls_a_look_and_the_rest_at_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchcast.service.planning.order.MOST_CALLS", 2)
    one = site(tmp_path, Job("1", 1), Job("2", 4), Job("3", 15))
    assert look(one).placed == 2
    assert factors(one)["3"] == 0  # the longest job gets its factor in the next cycle
    assert look(one).placed == 3


@pytest.mark.parametrize(("config", "state"), [("priority/multifactor", "ok"), ("priority/basic", "failed")])
def test_doctor_says_whether_priorities_may_be_ordered(tmp_path: Path, config: str, state: str) -> None:
    one = site(tmp_path)
    one.slurm.priority = f"PriorityType = {config}\n"
    scheduler = type("Scheduler", (), {"transport": one.slurm, "now": one.slurm.now, "admin_level": lambda *_: "x"})()
    found = {row["check"]: row for row in ground_findings(scheduler, one.settings)}
    assert found["priorities"]["state"] == state
    assert "what accounting counts" not in found  # the order touches no limit


@pytest.mark.parametrize(
    ("scheduler", "age", "state", "said"),
    [
        ("bf_interval=60", 0, "ok", "for every waiting job"),
        ("bf_continue,bf_min_prio_reserve=10000", 20_000, "ok", "for jobs past the age"),
        ("bf_min_prio_reserve=10001", 20_000, "warning", "above plan_band"),
        ("bf_min_prio_reserve=10000", 500, "warning", "for no job while batchcast does not run"),
    ],
)
def test_doctor_says_for_whom_slurm_reserves_processors(
    tmp_path: Path, scheduler: str, age: int, state: str, said: str
) -> None:
    one = site(tmp_path)
    more = f"PriorityWeightAge = {age}\nSchedulerParameters = {scheduler}\n"
    one.slurm.priority = f"PriorityType = priority/multifactor\n{more}"
    slurm = type("Scheduler", (), {"transport": one.slurm, "now": one.slurm.now, "admin_level": lambda *_: "x"})()
    found = {row["check"]: row for row in ground_findings(slurm, one.settings)}["reserved processors"]
    assert found["state"] == state
    assert said in found["found"]


@pytest.mark.parametrize(("age", "said"), [(10_000, "as much as 56 min of waiting"), (0, ""), (100, "")])
def test_doctor_says_how_much_of_the_order_age_undoes(tmp_path: Path, age: int, said: str) -> None:
    one = site(tmp_path)
    more = f"PriorityWeightAge = {age}\nPriorityMaxAge = 2-00:00:00\n"
    one.slurm.priority = f"PriorityType = priority/multifactor\n{more}"
    slurm = type("Scheduler", (), {"transport": one.slurm, "now": one.slurm.now, "admin_level": lambda *_: "x"})()
    found = {row["check"]: row for row in ground_findings(slurm, one.settings)}["priorities"]
    assert ("of waiting" in found["found"]) == bool(said)
    assert said in found["found"]


def test_a_restarted_collector_goes_on_with_the_age_and_the_overruns(tmp_path: Path) -> None:
    """The waits were estimated in a queue of long jobs, which are now short: a new process would estimate an hour."""
    one = site(tmp_path, *(Job(str(k), 2400) for k in range(1, 9)), history_every_s=30.0)
    remember(one, total_procs=8.0)
    belongs_to(one, job1="ada")
    for job_id in one.slurm.jobs:
        predict(one, job_id, 100_000.0)
    look(one)
    ran(one, "ada", 9000.0, 600.0, running=True)
    for job_id in one.slurm.jobs:
        predict(one, job_id, 60.0)
    look(one)
    before = one.planner.orderer.state()
    assert before["overrun"]["users"] == []
    one.restarted()
    look(one)
    assert one.planner.orderer.state() == before
    remember(one, plan_order_state={"age": "damaged"})
    one.restarted()
    look(one)
    anew = one.planner.orderer.state()
    assert anew["age"]["waiting"]["1"][2] < before["age"]["waiting"]["1"][2]
    assert anew["overrun"]["users"] == ["ada"], "half an hour too early"


def test_a_preview_says_what_a_look_would_set_and_sets_nothing(tmp_path: Path) -> None:
    one = site(tmp_path)
    said, why = one.planner.orderer.preview("c")
    assert (factors(one), record(one), why) == ({"1": 0, "2": 0}, {}, "")
    look(one)
    assert factors(one) == said
    one.slurm.priority = "PriorityType = priority/basic\n"
    assert "needs priority/multifactor" in one.planner.orderer.preview("c")[1]


def test_off_works_whatever_else_is_wrong_in_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = site(tmp_path)
    look(one)
    config = tmp_path / "wrong.toml"
    config.write_text(f'store = "{tmp_path / "s.db"}"\nplan = "ordre"\nplan_band = 100\n')
    monkeypatch.setenv("BATCHCAST_CONFIG", str(config))
    monkeypatch.setattr(batch_system, "open_scheduler", lambda settings: (SimpleNamespace(transport=one.slurm), ""))
    refused = CliRunner().invoke(cli, ["plan", "--on"])
    assert "plan = 'ordre'" in str(refused.exception)
    done = CliRunner().invoke(cli, ["plan", "--off"])
    assert done.exit_code == 0, done.exception
    assert "2 priorities restored" in done.output
    assert "ignored:" in done.output
    assert "plan_band = 100 is not an accepted value" in done.output
    assert factors(one) == {"1": 0, "2": 0}


def test_plan_counts_no_place_that_was_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression on a real Slurm: after `plan --off`, the collector computed queue positions as long as the jobs
    waited."""
    one = site(tmp_path)
    look(one)
    config = tmp_path / "right.toml"
    config.write_text(f'store = "{tmp_path / "s.db"}"\nplan = "order"\n')
    monkeypatch.setenv("BATCHCAST_CONFIG", str(config))
    monkeypatch.setattr(batch_system, "open_scheduler", lambda settings: (SimpleNamespace(transport=one.slurm), ""))
    assert "2 with a planned priority" in CliRunner().invoke(cli, ["plan"]).output
    assert CliRunner().invoke(cli, ["plan", "--off"]).exit_code == 0
    assert "0 with a planned priority" in CliRunner().invoke(cli, ["plan"]).output


@st.composite
def mixed_queues(draw: st.DrawFn) -> list[Job]:
    """Jobs of two accounts in three QOS and three partitions, whose QOS decides most of their own priorities."""
    some = []
    for k in range(1, draw(st.integers(1, 14)) + 1):
        qos, weight = draw(st.sampled_from([("high", 20_000), ("normal", 0), ("scavenger", 0)]))
        partition = draw(st.sampled_from(["main", "short", "main,short"]))
        own, limit = weight + draw(st.integers(1, 1500)), draw(st.sampled_from([1, 10, 120, 2880]))
        account = draw(st.sampled_from(["a", "b"]))
        some.append(Job(str(k), limit, own=own, account=account, qos=qos, partition=partition))
    return some


@pytest.mark.long
@rules(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mixed_queues(), st.sampled_from(["account", "user"]), st.sampled_from([128, 1000, 10_000]))
def test_within_an_account_priorities_stay_in_their_qos_and_partition(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[Job], within: str, band: int
) -> None:
    """Regression: a job of a high QOS fell from 20,170 to 1, because its priority was redistributed within its
    account."""
    one = Site(
        tmp_path_factory.mktemp("site"), *jobs, plan="order", plan_within=within, plan_band=band, plan_partitions="",
        plan_qos="high,normal,scavenger",
    )  # fmt: skip
    for _ in range(3):
        one.slurm.jobs[jobs[0].job_id].own += 100  # Slurm's own priority grows with the job's age
        look(one)
        parties: dict[tuple[str, ...], list[Job]] = {}
        for job in one.slurm.jobs.values():
            assert job.own - band <= job.priority <= job.own + band
            assert job.own + job.factor >= 1
            parties.setdefault((job.account, job.qos, job.partition), []).append(job)
        for party in parties.values():
            before, after = (sorted((of(job) for job in party), reverse=True) for of in (own_of, priority_of))
            assert all(now <= was for now, was in zip(after, before))
            if len(party) == 1:
                assert party[0].factor == 0


def own_of(job: Job) -> int:
    return job.own


def priority_of(job: Job) -> int:
    return job.priority


def urgent_and_small(tmp_path: Path, **settings: object) -> Site:
    """The account of the operator's day: one urgent job of a high QOS with much work, and small normal ones."""
    urgent = Job("319", 2880, own=20_170, account="a", qos="high")
    small = (Job(str(k), k, own=100 + 30 * k, account="a") for k in range(1, 9))
    return site(tmp_path, urgent, *small, plan_within="account", **settings)


def test_an_urgent_job_keeps_its_priority_beside_small_ones_of_its_account(tmp_path: Path) -> None:
    one = urgent_and_small(tmp_path)
    look(one)
    assert one.slurm.jobs["319"].priority == 20_170
    assert any(job.factor for job in one.slurm.jobs.values())  # small jobs still change places with each other


def test_doctor_and_the_dry_run_say_the_most_that_a_job_would_lose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = urgent_and_small(tmp_path)
    with one.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", live_since=0.0)
    lost, loser = min((factor, name) for name, factor in one.planner.orderer.preview("c")[0].items())
    assert lost < 0
    said = f"the lowest factor would be {lost:+d}, of job {loser}"
    slurm = type("Scheduler", (), {"transport": one.slurm, "now": one.slurm.now, "admin_level": lambda *_: "x"})()
    settings = one.settings.replaced(store=str(tmp_path / "s.db"), cluster="c")
    found = {row["check"]: row for row in ground_findings(slurm, settings)}["order now"]
    assert said in found["found"]
    assert found["state"] == "ok"
    config = tmp_path / "right.toml"
    config.write_text(
        f'store = "{tmp_path / "s.db"}"\nplan = "order"\nplan_partitions = "main"\nplan_within = "account"\n'
    )
    monkeypatch.setenv("BATCHCAST_CONFIG", str(config))
    monkeypatch.setattr(
        batch_system, "open_scheduler", lambda settings: (SimpleNamespace(transport=one.slurm, now=one.slurm.now), "")
    )
    ran = CliRunner().invoke(cli, ["plan", "--dry-run"])
    assert said in ran.output + ran.stderr, ran.exception


def test_after_off_nothing_is_asked_or_written_any_more(tmp_path: Path) -> None:
    """Regression: a factor of 0 was set again 82 times, hours after `plan --off`, with three times as many calls a
    cycle."""
    one = site(tmp_path, Job("1", 120), Job("2", 10), Job("3", 30))
    look(one)
    with one.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **{planned.SWITCH: {"by": "root", "at": 0.0}})
    look(one)
    look(one)
    one.slurm.jobs["1"].state = "RUNNING"
    one.slurm.jobs["2"].held = True
    written = len(one.slurm.commands)
    for _ in range(25):
        look(one)
    assert len(one.slurm.commands) == written
    assert record(one) == {}
    asked: list[object] = []
    one.slurm.ask = asked.append
    look(one)
    assert asked == []


def test_that_the_watchdog_stopped_planning_is_said_by_plan_doctor_and_the_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = site(tmp_path, plan_lag_s=60.0)
    look(one)
    one.slurm.time += 100.0
    assert "planning stops for an hour: the last cycle was 130 s ago" in look(one).problems
    monkeypatch.setattr("time.time", lambda: one.slurm.time)
    said = "planning is stopped by the watchdog until"
    with Reader(str(tmp_path / "s.db")) as reader:
        found = {row["check"]: row for row in standing_findings(reader, "c", one.settings, one.slurm.time)}
    assert (found["watchdog"]["state"], said in found["watchdog"]["found"]) == ("failed", True)
    config = tmp_path / "right.toml"
    config.write_text(f'store = "{tmp_path / "s.db"}"\nplan = "order"\nplan_partitions = "main"\n')
    monkeypatch.setenv("BATCHCAST_CONFIG", str(config))
    opened = SimpleNamespace(transport=one.slurm, now=one.slurm.now)
    monkeypatch.setattr(batch_system, "open_scheduler", lambda settings: (opened, ""))
    for words in (["plan"], ["plan", "--dry-run"]):
        assert said in CliRunner().invoke(cli, words).stderr


def questions(one: Site) -> list[str]:
    """Run a cycle of a collector that knows when slurmctld started; return its calls to slurmctld."""
    one.slurm.time += 30.0
    answer, asked = one.slurm.ask, []

    def ask(command: Sequence[str]) -> Answer:
        asked.append(" ".join(command))
        return answer(command)

    one.slurm.ask = ask
    done = one.planner.cycle("c", booted=one.slurm.booted)
    one.slurm.ask = answer
    assert done.problems == []
    return asked


def switched_off(one: Site) -> None:
    with one.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **{planned.SWITCH: {"by": "root", "at": 0.0}})


@pytest.mark.parametrize("plan", ["limits", "order", "both"])
def test_after_off_two_cycles_give_back_and_check_and_the_third_asks_nothing(tmp_path: Path, plan: str) -> None:
    """Regression on a real Slurm: 7.6 calls a cycle hours after `plan --off`, instead of 3.4 before planning."""
    one = site(tmp_path, Job("1", 120), Job("2", 90), plan=plan, plan_lag_s=3600.0)
    assert questions(one)
    switched_off(one)
    assert questions(one)
    assert questions(one)
    assert [questions(one) for _ in range(3)] == [[], [], []]
    one.restarted()
    assert questions(one)  # a new process checks once
    assert questions(one) == []
    one.slurm.time += 600.0
    assert questions(one) == []
    with one.store.begin() as connection:
        assert (planned.entries(connection, "c"), planned.order_of(clock_jobs.read_meta(connection, "c"))) == ({}, {})


@pytest.mark.parametrize("plan", ["limits", "order"])
def test_off_looks_again_when_slurmctld_has_started_anew(tmp_path: Path, plan: str) -> None:
    """A killed slurmctld restores its saved state, in which the job may still be planned."""
    one = site(tmp_path, Job("1", 120), plan=plan)
    questions(one)
    job = one.slurm.jobs["1"]
    before = job.limit, job.factor
    switched_off(one)
    assert [bool(questions(one)) for _ in range(3)] == [True, True, False]
    job.limit, job.factor = before
    one.slurm.booted = int(one.slurm.time) + 20
    assert questions(one)
    assert (job.limit, job.factor) == (120, 0)


def test_a_held_job_whose_factor_went_back_gets_no_zero_over_zero_from_a_new_process(tmp_path: Path) -> None:
    one = site(tmp_path)
    look(one)
    switched_off(one)
    look(one)
    one.slurm.jobs["1"].held, one.slurm.jobs["2"].state = True, "RUNNING"
    written = len(one.slurm.commands)
    one.restarted()
    look(one)
    assert len(one.slurm.commands) == written


def test_off_in_the_middle_of_a_cycle_keeps_the_cycle_from_setting_factors(tmp_path: Path) -> None:
    """Regression in the lab: `plan --off` restored job 33's factor, and a cycle that had begun set it again a second
    later."""
    one = site(tmp_path)
    answer, asked = one.slurm.ask, []

    def ask(command: Sequence[str]) -> Answer:
        if not asked:  # an operator runs `plan --off` while the cycle reads the queue
            switched_off(one)
        asked.append(command)
        return answer(command)

    one.slurm.ask = ask
    look(one)
    assert factors(one) == {"1": 0, "2": 0}
    assert record(one) == {}
