"""Tests EASY on schedules worked out by hand, with the traps that other simulators fell into."""

from __future__ import annotations

from batchcast import Prediction
from batchcast.simulation import Policy
from tests.golden.gantt import agrees

EASY, SJBF, NONE = Policy(), Policy(backfill_order="sjf"), Policy(backfill="none")


def test_without_backfilling_nobody_passes_a_waiting_head():
    agrees(
        """
        0 3 4 4 |####
        0 4 2 2 |....##
        1 1 1 1 | .....#
        """,
        4,
        NONE,
    )


def test_a_short_narrow_job_passes_without_delaying_the_head():
    agrees(
        """
        0 3 4 4 |####
        0 4 2 2 |....##
        1 1 3 3 | ~~~
        """,
        4,
        EASY,
    )


def test_a_reservation_is_honoured_and_not_only_computed():
    agrees(
        """
        0 3 4 4 |####
        0 4 2 2 |....##
        1 1 4 4 | .....####
        """,
        4,
        EASY,
    )


def test_a_queued_job_is_tested_with_its_plan_not_its_true_run_time():
    agrees(  # the third job would end in time, but its requested time is longer than the gap
        """
        0 3 4 4 |####
        0 4 2 2 |....##
        1 1 1 9 | .....#
        """,
        4,
        EASY,
    )


def test_the_shadow_time_comes_from_planned_ends_not_from_limits():
    # planned with true run times, the head's reservation is at 4, so the third job (3 long) fits and the fourth does
    # not
    agrees(
        """
        0 3 4 9 |####
        0 4 2 9 |....##
        1 1 3 9 | ~~~
        1 1 4 9 | .....####
        """,
        4,
        EASY,
        "actual",
    )


def test_extra_processors_let_a_long_narrow_job_pass():
    agrees(  # 4 of 5 processors go to the head at 4, so one is extra, for a job of any length
        """
        0 3 4 4 |####
        0 4 2 2 |....##
        1 1 9 9 | ~~~~~~~~~
        1 1 9 9 | .....#########
        """,
        5,
        EASY,
    )


def test_the_shadow_time_moves_when_a_backfilled_job_ends_early():
    # the third job ends at 3, not at 8 as planned; from then on the head is reserved 6 processors, and the last job
    # must wait
    agrees(
        """
        0 1 6 6 |######
        0 2 2 8 |##
        0 4 1 1 |......#
        1 1 2 7 | ~~
        4 1 3 3 |    ...###
        """,
        4,
        EASY,
    )


def test_candidates_may_go_shortest_planned_first():
    agrees(
        """
        0 3 6 6 |######
        0 4 1 1 |......#
        1 1 4 4 | ......####
        1 1 2 2 | ~~
        """,
        4,
        SJBF,
    )
    agrees(
        """
        0 3 6 6 |######
        0 4 1 1 |......#
        1 1 4 4 | ~~~~
        1 1 2 2 | ......##
        """,
        4,
        EASY,
    )


def test_a_job_is_killed_at_its_request_unless_told_otherwise():
    agrees(
        """
        0 4 2 2 |##
        0 4 1 1 |..#
        """,
        4,
        EASY,
    )
    agrees(
        """
        0 4 3 2 |##
        0 4 1 1 |..#
        """,
        4,
        EASY,
    )
    agrees(
        """
        0 4 3 2 |###
        0 4 1 1 |...#
        """,
        4,
        Policy(kill=False),
    )


def test_zero_length_jobs_end_in_a_further_round_of_their_instant():
    agrees(
        """
        0 4 2 2 |##
        0 4 0 1 |..
        0 4 0 1 |..
        0 4 1 1 |..#
        """,
        4,
        EASY,
    )


def test_who_waited_longer_than_first_after_goes_before_shorter_jobs():
    # at 2 the second job has waited 2 and the third passes it; at 4 the second has waited 4 and goes before the fourth
    agrees(
        """
        0 2 2 2 |##
        0 2 5 5 |....#####
        1 2 2 2 | .##
        3 2 1 1 |   ......#
        """,
        2,
        Policy(order="sjf", backfill_order="sjf", running_ends="requested", first_after=30.0),
    )


def test_who_waits_longer_than_easy_would_let_him_goes_before_shorter_jobs():
    agrees(  # EASY with requests starts the second job at 2, so from 2 on that job is due and goes before the fourth
        """
        0 2 2 2 |##
        0 2 5 5 |....#####
        1 2 2 2 | .##
        3 2 1 1 |   ......#
        """,
        2,
        Policy(order="sjf", backfill_order="sjf", running_ends="requested", due_after=10.0),
    )


def test_nobody_passes_by_a_forecast_who_has_waited_longer_than_first_after():
    jobs = """
        0 3 4 9 |####
        1 4 2 2 | {}##
        3 1 3 9 |   {}
        """
    # the third job fits by its true run time, not by its limit
    ages = {float("inf"): (".....", "~~~"), 10.0: ("...", "...###")}
    for age, bars in ages.items():
        policy = Policy(order="sjf", backfill_order="sjf", running_ends="requested", first_after=age)
        agrees(jobs.format(*bars), 4, policy, "actual")


def test_a_shadow_that_ends_jobs_at_their_forecasts_has_the_next_one_due_earlier():
    jobs = """
        0 2 1 1 |#
        0 2 4 9 |....####
        0 2 5 5 |........{}
        1 2 3 3 | ###
        2 2 3 3 |  ......{}
        """
    # the second job is due as in the example above; while it waits, the shadow run expects its end at 10 by its limit
    # and at 5 by its prediction, so the third job is due at 11 or at 6; at 8 the second job has ended
    for ends, bars in {"requested": ("...#####", "###"), "planned": ("#####", ".....###")}.items():
        policy = Policy(order="sjf", backfill_order="sjf", running_ends="requested", due_after=10.0, due_ends=ends)
        agrees(jobs.format(*bars), 2, policy, "actual")


def test_who_passes_a_reserved_job_by_a_forecast_spends_its_budget_of_risk():
    jobs = """
        0 3 4 9 |####
        1 4 2 2 | {}##
        3 1 3 9 |   {}
        4 1 3 9 |    {}
        """
    # the third and the fourth job run beyond 9, when the second must be able to start, each with probability 1 %
    budgets = {0.0: ("...", "...###", "..###"), 0.015: (".....", "~~~", "....###"), 0.03: ("......", "~~~", "~~~")}
    for budget, bars in budgets.items():
        policy = Policy(
            order="sjf", backfill_order="sjf", running_ends="requested", first_after=5.0, risk_budget=budget
        )
        agrees(jobs.format(*bars), 4, policy, NearlySure())


class NearlySure:
    """Every job runs half a minute, and with probability 99 % at most 40 s."""

    def predict(self, job, at):
        return Prediction(30.0, (0.5, 0.99), (30.0, 40.0))

    def observe(self, event, at): ...
