"""Tests Slurm's rules on examples worked out by hand: one small machine per rule, which job starts when (unit 10 s) and
where."""

from __future__ import annotations

from typing import Any

from batchcast.machines.machine import Limits, Machine, NodeGroup, Partition, Qos, Reservation
from batchcast.machines.request import NodeRequest
from batchcast.schedule.slurm.arrays import Phases
from batchcast.schedule.slurm.simulate import Lengths, Recorded, simulate_slurm

UNIT = 10.0
AT_ZERO = Recorded(phases=Phases(cycle=0.0, second=0.0))
FIFO = {"SchedulerType": "sched/builtin"}
BACKFILL = {"SchedulerType": "sched/backfill", "bf_interval": "10", "bf_resolution": "10"}


def machine(settings: dict[str, str], nodes: int = 1, cpus: int = 4, **more: object) -> Machine:
    names = tuple(f"n{k}" for k in range(nodes))
    parts = more.pop("partitions", (Partition("all", names, default=True),))
    return Machine((NodeGroup(names, cpus),), parts, settings=settings, **more)


def draw(site: Machine, picture: str, **fields: dict[str, Any]) -> str:
    """Return the same picture with the simulated bars: submit, tasks, run time, limit; `.` waiting, `#` running, `~`
    backfilled."""
    rows = [line.split("|")[0].split() for line in picture.strip().splitlines()]
    jobs = []
    for name, submit, tasks, run, limit in rows:
        times = (float(submit) * UNIT, float(run) * UNIT, float(limit) * UNIT)
        jobs.append(NodeRequest(name, *times, tasks=int(tasks), **fields.get(name, {})))
    made = simulate_slurm(site, jobs, recorded=AT_ZERO, batch_sched_delay=0.0)
    at = {r.key: (r.submit, t, t + r.run, b) for r, t, b in zip(made.requests, made.start, made.backfilled)}
    out = []
    for line in picture.strip().splitlines():
        submit, start, end, back = (x / UNIT for x in at[line.split()[0]])
        bar = " " * round(submit) + "." * round(start - submit) + ("~" if back else "#") * round(end - start)
        out.append(line.split("|")[0].strip() + " |" + bar)
    return "\n".join(out)


def agrees(site: Machine, picture: str, **fields: dict[str, Any]) -> None:
    wanted = "\n".join(line.split("|")[0].strip() + " |" + line.split("|")[1] for line in picture.strip().splitlines())
    assert draw(site, picture, **fields) == wanted


def test_a_blocked_partition_stops_the_main_loop():
    agrees(
        machine(FIFO),
        """
        a 0 3 4 4 |####
        b 1 4 2 2 | ...##
        c 2 1 1 1 |  ....#
        """,
    )


def test_another_partition_goes_on():
    parts = (Partition("left", ("n0",), default=True), Partition("right", ("n1",)))
    agrees(
        machine(FIFO, 2, partitions=parts),
        """
        a 0 4 4 4 |####
        b 1 4 2 2 | ...##
        c 2 4 1 1 |  #
        """,
        c={"partitions": ("right",)},
    )


def test_backfill_passes_where_it_delays_no_plan():
    agrees(
        machine(BACKFILL),
        """
        a 0 3 6 6 |######
        b 1 4 2 2 | .....##
        c 2 1 2 2 |  ~~
        d 2 1 2 9 |  ......##
        """,
    )


def test_a_throttled_array_runs_two_at_a_time():
    site = machine(FIFO)
    jobs = [NodeRequest("a", 0, 20, 60, tasks=1, array="a", task=k, throttle=2) for k in range(4)]
    made = simulate_slurm(site, jobs, recorded=Recorded(phases=Phases(second=0.0)), batch_sched_delay=0.0)
    assert made.start.tolist() == [0, 0, 20, 20]


def test_a_dependent_job_follows_and_one_after_a_failure_never_starts():
    site = machine(FIFO)
    jobs = [
        NodeRequest("a", 0, 20, 60, tasks=1, fails=True),
        NodeRequest("b", 1, 10, 60, tasks=1, depends=(("afterany", "a"),)),
        NodeRequest("c", 1, 10, 60, tasks=1, depends=(("afterok", "a"),)),
    ]
    made = simulate_slurm(site, jobs, recorded=Recorded(phases=Phases(second=0.0)), batch_sched_delay=0.0)
    assert made.starts() == {("a", -1): 0.0, ("b", -1): 20.0}


def test_nobody_runs_into_a_maintenance_window():
    site = machine(BACKFILL, reservations=(Reservation("maint", ("n0",), 30.0, 60.0, ("root",), flags=("MAINT",)),))
    agrees(
        site,
        """
        a 0 4 2 2 |##
        b 0 4 2 2 |......##
        """,
    )


def test_a_user_may_have_so_many_jobs_and_blocks_nobody():
    site = machine(
        {**FIFO, "AccountingStorageEnforce": "limits"}, qos=(Qos("normal", limits=Limits(max_jobs_per_user=1)),)
    )
    agrees(
        site,
        """
        a 0 1 3 3 |###
        b 0 1 2 2 |...##
        c 1 1 1 1 | #
        """,
        a={"user": "u"},
        b={"user": "u"},
        c={"user": "v"},
    )


def test_a_forecast_plans_and_ends_nothing():
    site = machine(BACKFILL)
    jobs = [
        NodeRequest("a", 0, 60, 600, tasks=3),
        NodeRequest("b", 10, 20, 600, tasks=4),
        NodeRequest("c", 20, 30, 600, tasks=1),
    ]
    late = simulate_slurm(site, jobs, recorded=AT_ZERO).starts()
    soon = simulate_slurm(site, jobs, recorded=AT_ZERO, lengths=Lengths(lambda r: r.run)).starts()
    assert late["c", -1] == 80  # the job's limit runs past the planned start of b, which waits for the limit of a
    assert soon["c", -1] == 20
    assert soon["b", -1] == 60


def test_jobs_that_have_their_limit_back_once_they_run_leave_more_room_before_them():
    site = machine(BACKFILL)
    jobs = [
        NodeRequest("a", 0, 60, 600, tasks=3),
        NodeRequest("b", 10, 20, 600, tasks=4),
        NodeRequest("c", 20, 50, 600, tasks=1),
    ]
    known, back = (
        simulate_slurm(site, jobs, recorded=AT_ZERO, lengths=Lengths(lambda r: r.run, restored)).starts()
        for restored in (False, True)
    )
    assert (known["b", -1], known["c", -1]) == (60, 80)  # job c would run past the end of job a
    assert (back["c", -1], back["b", -1]) == (20, 70)  # job a is planned with its limit of 600


def test_a_job_that_is_planned_late_fits_before_another_only_from_then_on():
    site = machine(BACKFILL)
    jobs = [
        NodeRequest("a", 0, 200, 600, tasks=3),
        NodeRequest("b", 10, 20, 600, tasks=4),
        NodeRequest("c", 20, 50, 900, tasks=1),
    ]
    starts = [
        simulate_slurm(site, jobs, recorded=AT_ZERO, lengths=Lengths(lambda r: r.run, True, late)).starts()["c", -1]
        for late in (0.0, 60.0, 1e6)
    ]
    # Slurm sees the end of the late job at once, in the cycle at 90 s, or never; then c starts after b.
    assert starts == [20, 90, 220]


def test_priority_by_tres_lets_the_job_with_more_processors_of_the_partition_first():
    by_tres = {"PriorityType": "priority/multifactor", "PriorityWeightTRES": "CPU=1000"}
    picture = """
        a 0 4 4 4 |####
        b 1 1 2 2 | ....##
        c 2 4 1 1 |  ..#
        """
    agrees(machine({**FIFO, **by_tres}), picture)
    agrees(
        machine(FIFO),
        """
        a 0 4 4 4 |####
        b 1 1 2 2 | ...##
        c 2 4 1 1 |  ....#
        """,
    )
