"""Tests which parts of a request dumps of real formats contain, and their effect on a machine with nodes."""

from __future__ import annotations

from dataclasses import replace

from batchcast.formats.pbs.accounting import read as read_pbs
from batchcast.formats.slurm.sacct import read_sacct
from batchcast.machines.machine import Machine, NodeGroup, Partition
from batchcast.machines.request import NodeRequest
from batchcast.simulation.on_nodes import REFUSED, requests_of, simulate_on
from batchcast.table import Trace

NAMES = ("n1", "n2")
MACHINE = Machine(
    (NodeGroup(("n1",), 4, features=("old",)), NodeGroup(("n2",), 4, features=("new",))),
    (Partition("all", NAMES, default=True), Partition("more", NAMES)),
    settings={"SchedulerType": "sched/backfill"},
    licenses={"matlab": 2.0},
)
HEADER = "JobID|User|Partition|Submit|Eligible|Start|End|State|TimelimitRaw|ReqCPUS|Constraints|Reservation|SubmitLine"


def sacct(*rows: str, header: str = HEADER) -> Trace:
    return read_sacct(["\n".join([header, *rows]).encode()])


def request(submit_line: str, job: str = "5", eligible: int = 100) -> NodeRequest:
    first = "4|a|all|50|50|60|90|COMPLETED|10|1|||sbatch first.sh"
    row = f"{job}|a|all|100|{eligible}|400|500|COMPLETED|10|4|||{submit_line}"
    return requests_of(sacct(first, row), MACHINE)[0][1]


def test_the_command_of_submission_completes_the_request() -> None:
    made = request(
        "sbatch -p more,all -C new --exclusive --nice=7 -L matlab:2,other -c2 --reservation=maint x.sh -C old"
    )
    assert (made.partitions, made.features, made.exclusive, made.nice) == (("more", "all"), ("new",), True, 7)
    assert (made.licenses, made.cpus_per_task, made.tasks, made.reservation) == ({"matlab": 2}, 2, 2, "maint")


def test_whole_nodes_share_the_memory_that_was_asked_for() -> None:
    row = "5|a|all|100|100|400|500|COMPLETED|10|1|||sbatch --exclusive --mem=0 x.sh|cpu=1,mem=8000M,node=1"
    trace = sacct(row, header=f"{HEADER}|ReqTRES")
    site = replace(MACHINE, nodes=tuple(replace(group, memory_mib=8000.0) for group in MACHINE.nodes))
    assert requests_of(trace, site)[0][0].mem_per_node == 8000.0
    assert len(simulate_on(site, trace).start_time) == 1


def test_what_the_machine_does_not_have_and_choices_are_passed_over() -> None:
    made = request("sbatch -C 'new|old' -L other -p nowhere,elsewhere x.sh")
    assert (made.features, made.licenses, made.partitions) == ((), {}, ("all",))


def test_a_job_waits_for_those_it_names_and_else_until_it_was_eligible() -> None:
    after = request("sbatch -d afterok:4 x.sh", eligible=300)
    assert (after.depends, after.begin) == ((("afterok", "0"),), -float("inf"))
    assert request("sbatch -d afterok:99 x.sh", eligible=300).begin == 300
    assert request("sbatch -H x.sh", eligible=300).begin == 300
    assert request("sbatch -d singleton x.sh").singleton


def test_an_array_runs_as_many_tasks_as_its_throttle_lets_it() -> None:
    rows = [
        f"7_{k}|a|all|0|{100 * k}|{100 * k}|{100 * k + 100}|COMPLETED|10|1|||sbatch -a 0-3%1 x.sh" for k in range(4)
    ]
    assert simulate_on(MACHINE, sacct(*rows)).start_time.tolist() == [0.0, 100.0, 200.0, 300.0]


def test_columns_of_their_own_say_it_without_a_command() -> None:
    row = "5|a|all|100|100|400|500|COMPLETED|10|4|new|maint"
    made = requests_of(sacct(row, header=HEADER.removesuffix("|SubmitLine")), MACHINE)[0][0]
    assert (made.features, made.reservation) == (("new",), "maint")


def test_pbs_tells_whole_nodes_and_what_a_job_waits_for() -> None:
    stamp = "04/01/2024 00:00:00"
    common = "user=a queue=all start=300 end=400 Resource_List.ncpus=1 Exit_status=0"
    lines = [
        f"{stamp};E;4.srv;{common} ctime=50 etime=50",
        f"{stamp};E;5.srv;{common} ctime=100 etime=350 depend=afterok:4.srv@srv Resource_List.place=scatter:excl",
    ]
    trace = read_pbs(["\n".join(lines).encode()])
    made = requests_of(trace, MACHINE)[0][1]
    assert (made.depends, made.exclusive) == ((("afterok", "0"),), True)


def test_the_note_says_what_the_log_does_not_tell() -> None:
    trace = sacct("5|a|all|100|100|400|500|COMPLETED|10|4|||sbatch --exclusive x.sh")
    note = simulate_on(MACHINE, trace).notes[0]
    assert "The log has whole nodes. The log has no dependencies, array throttles, features" in note
    bare = Trace.from_arrays({"submit_time": [0.0], "run_time": [10.0], "req_procs": [1.0]})
    assert (
        "holds and begin times, so the simulation ignores them"
        in simulate_on(replace(MACHINE, licenses={}), bare).notes[0]
    )


def test_a_job_that_its_nodes_could_never_hold_and_that_ended_as_it_came_was_refused() -> None:
    header = "JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|ReqCPUS|ReqNodes"
    trace = sacct(
        "1|a|all|100|100|100|FAILED|10|5|1",  # requests five processors on one node of four: rejected
        "2|a|all|100|100|160|COMPLETED|10|5|1",  # ran, so the request must have meant at least one node
        "3|a|all|100|130|130|FAILED|10|5|1",  # waited, so it was in the queue
        "4|a|all|100|100|100|FAILED|10|4|1",  # fits on the machine, and crashed at once
        header=header,
    )
    jobs, left = requests_of(trace, MACHINE)
    assert [job.key for job in jobs] == ["1", "2", "3"]
    assert left[REFUSED] == 1
    assert simulate_on(MACHINE, trace).left_out[REFUSED] == 1


def test_jobs_wait_for_the_type_of_gpu_that_they_name() -> None:
    """Two jobs for the only a100 run one after the other; a job that accepts any GPU runs on the v100 at once."""
    nodes = (NodeGroup(("g1",), 8, gres={"gpu:a100": 1}), NodeGroup(("g2",), 8, gres={"gpu:v100": 1}))
    site = Machine(nodes, (Partition("main", ("g1", "g2"), default=True),))
    asked = ("gres/gpu:a100=1,gres/gpu=1", "gres/gpu:a100=1,gres/gpu=1", "gres/gpu=1")
    lines = ["JobID|Submit|Start|End|State|ReqCPUS|Timelimit|ReqTRES"] + [
        f"{k}|1970-01-01T00:00:0{k}|1970-01-01T00:10:00|1970-01-01T00:11:40|COMPLETED|1|00:02:00|cpu=1,{tres}"
        for k, tres in enumerate(asked, 1)
    ]
    starts = simulate_on(site, read_sacct(["\n".join(lines).encode()])).start_time
    assert starts[1] - starts[0] == 100.0
    assert starts[2] - starts[0] < 60.0, "the next look of the backfill"
