"""Tests reasons, cancelled jobs and privacy as a real Slurm prints them, and the answers that follow. Real time."""

from __future__ import annotations

import re
import subprocess

import pytest
from follow import BATCHCAST, Follower, LabTransport, stored
from slurm_lab import USERS, Lab

from batchcast.formats.slurm.reasons import Rule, reason_name, rule
from batchcast.slurm.client import Slurm

pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.usefixtures("lab_possible")]
CONF = {"Licenses": "lic:2", "AccountingStorageEnforce": "limits,qos,associations"}


def test_every_reason_that_can_be_made_has_its_rule_and_arrays_their_tasks() -> None:
    with Lab(nodes=3, cpus=2, conf=CONF) as lab:
        follower = Follower(lab, str(lab.root / "store.db"), HISTORY_DAYS="0.02", WAIT="recent_wait:need=1")
        follower.run("collect", "--once")
        jobs = make_reasons(lab)
        wanted = {jobs[name]: kind for name, kind in WANTED.items()}
        settled(lab, wanted, 120)
        words = ("no answer until an administrator acts", "come first under this limit")
        lab.wait(lambda: all(w in _answers(follower, jobs) for w in words), f"answers with {words}")
        cancelled_together(lab, follower)


@pytest.mark.parametrize("beside", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_job_on_drained_nodes_has_no_answer_until_an_administrator_acts(beside: bool) -> None:
    """Tested without and with a reservation of other nodes. In the reason, Slurm 22.05 names the unavailable nodes,
    while 24.11 only states that nodes may be reserved."""
    with Lab(nodes=2, cpus=2) as lab:
        if beside:
            lab.run("scontrol", "create", "reservation", "reservationname=course", "starttime=now+2hours",
                    "duration=60", "nodes=n1", "users=root")  # fmt: skip
        follower = Follower(lab, str(lab.root / "store.db"), HISTORY_DAYS="0.02", WAIT="recent_wait:need=1")
        follower.run("collect", "--once")
        lab.submit("-n1", "-t5", seconds=0.1)
        lab.run("scontrol", "update", "nodename=n2", "state=drain", "reason=broken")
        jobs = {"drained": lab.submit("-n1", "-t5", "-w", "n2", seconds=1)}
        lab.wait(lambda: "ReqNodeNotAvail" in reasons(lab).get(jobs["drained"], ""), "Slurm's reason", 120)
        lab.wait(lambda: "no answer until an administrator acts" in _answers(follower, jobs), "that answer", 120)


@pytest.mark.slow
def test_jobs_that_take_the_advised_limit_start_before_the_maintenance() -> None:
    """The test follows the advice to a user literally, as that user: half of the jobs get the advised limit by the
    printed command, the other half are canceled and submitted again. Other jobs use a part of the machine meanwhile."""
    with Lab(nodes=2, cpus=4) as lab:
        follower = Follower(lab, str(lab.root / "store.db"), HISTORY_DAYS="0.02", WAIT="recent_wait:need=1")
        lab.run("scontrol", "create", "reservation", "reservationname=power", "starttime=now+3hours", "duration=60",
                "nodes=ALL", "flags=maint", "users=root")  # fmt: skip
        for _ in range(3):
            lab.submit("-n1", "-t", "20", seconds=20, user=USERS[1])
        sizes = [f"-n{1 + k % 4}" for k in range(20)]
        jobs = {str(k): lab.submit(size, "-t", "8:00:00", seconds=1) for k, size in enumerate(sizes)}
        lab.wait(lambda: all("maintenance" in reasons(lab).get(one, "") for one in jobs.values()), "the reason", 180)
        lab.wait(lambda: "can start before that" in _answers(follower, jobs), "the sentence", 60)
        told = _answers(follower, jobs)
        (limit,) = set(re.findall(r"a time limit of at most (\S+) the job can start", told))
        assert "scontrol update JobId=JOBID TimeLimit=LIMIT" in told
        for k, size in enumerate(sizes):
            if k % 2:
                lab.run("scontrol", "update", f"JobId={jobs[str(k)]}", f"TimeLimit={limit}", user=USERS[0])
            else:
                lab.run("scancel", jobs[str(k)], user=USERS[0])
                jobs[str(k)] = lab.submit(size, "-t", limit, seconds=1)

        def waiting() -> set[str]:
            return set(lab.run("squeue", "-h", "-t", "PD", "-o", "%i").split()) & set(jobs.values())

        lab.wait(lambda: len(waiting()) <= len(jobs) // 20, "95 % of them to start, hours before the maintenance", 300)


WANTED = {
    "drained": Rule.ADMIN,
    "array": Rule.LIMIT,
    "qos": Rule.LIMIT,
    "licence": Rule.LIMIT,
    "never": Rule.NEVER,
    "long": Rule.NEVER,
    "held": Rule.ELIGIBLE,
    "by an administrator": Rule.ADMIN,
    "later": Rule.ELIGIBLE,
    "reservation": Rule.RESERVATION,
}


def make_reasons(lab: Lab) -> dict[str, str]:
    """Return jobs that each wait for one thing, by that thing."""
    lab.run("scontrol", "update", "nodename=n3", "state=drain", "reason=broken")
    lab.run("sacctmgr", "-iQ", "add", "qos", "one", "set", "MaxJobsPerUser=1")
    lab.run("sacctmgr", "-iQ", "modify", "user", USERS[0], "set", "qos+=one")
    lab.run("scontrol", "create", "reservation", "reservationname=course", "starttime=now+2hours", "duration=60",
            "nodes=n2", f"users={USERS[0]}")  # fmt: skip
    lab.submit("-n1", "-t5", "-q", "one", seconds=600)
    lab.submit("-n1", "-t5", "-L", "lic:2", seconds=600)
    failed = lab.submit("-n1", "-t5", seconds=0.1)
    array = lab.submit("-n1", "-t5", "-a", "1-3%1", seconds=600)
    jobs = {
        "drained": lab.submit("-n1", "-t5", "-w", "n3", seconds=1),
        "array": f"{array}_2",
        "qos": lab.submit("-n1", "-t5", "-q", "one", seconds=1),
        "licence": lab.submit("-n1", "-t5", "-L", "lic:1", seconds=1),
        "never": lab.submit("-n1", "-t5", "-d", f"afternotok:{failed}", seconds=1),
        "long": lab.submit("-n1", "-t", "30-0", seconds=1),
        "held": lab.submit("-n1", "-t5", "-H", seconds=1),
        "later": lab.submit("-n1", "-t5", "--begin=now+1hour", seconds=1),
        "by an administrator": lab.submit("-n1", "-t5", "-H", seconds=1),
        "reservation": lab.submit("-n1", "-t5", "--reservation=course", seconds=1),
    }
    lab.run("scontrol", "hold", jobs["by an administrator"])
    return jobs


@pytest.mark.slow
def test_limits_partitions_and_maintenance_have_their_rules() -> None:
    with Lab(nodes=3, cpus=8, conf=CONF) as lab:
        follower = Follower(lab, str(lab.root / "store.db"), HISTORY_DAYS="0.02", WAIT="recent_wait:need=1")
        follower.run("collect", "--once")
        jobs = make_more_reasons(lab)
        wanted = {jobs[name]: kind for name, kind in ALSO_WANTED.items()}
        settled(lab, wanted, 60)
        assert {name: reason_name(reasons(lab)[jobs[name]]) for name in PRINTED} == PRINTED
        words = ("it cannot start as it is", "the reservations that scontrol shows", "come first under this limit")
        lab.wait(lambda: all(w in _answers(follower, jobs) for w in words), f"answers with {words}")


ALSO_WANTED = {
    "association": Rule.LIMIT,
    "account": Rule.LIMIT,
    "qos nodes": Rule.LIMIT,
    "qos job": Rule.NEVER,
    "qos minutes": Rule.ADMIN,
    "down": Rule.ADMIN,
    "inactive": Rule.ADMIN,
    "too many nodes": Rule.NEVER,
    "dependency": Rule.ELIGIBLE,
    "maintenance": Rule.RESERVATION,
    "machine": Rule.MACHINE,
}
PRINTED = {
    "association": "AssocMaxJobsLimit",
    "account": "AssocGrpCpuLimit",
    "qos nodes": "QOSGrpNodeLimit",
    "qos job": "QOSMaxCpuPerJobLimit",
    "down": "PartitionDown",
    "inactive": "PartitionInactive",
    "too many nodes": "PartitionNodeLimit",
    "dependency": "Dependency",
}


def make_more_reasons(lab: Lab) -> dict[str, str]:
    """Like `make_reasons`, for limits of associations and QOS, partitions, a maintenance, and the machine itself."""
    user, other = USERS
    for words in (
        ("modify", "user", other, "where", "account=physics", "set", "MaxJobs=1"),
        ("modify", "account", "chemistry", "set", "GrpTRES=cpu=1"),
        ("add", "qos", "nodes", "set", "GrpTRES=node=1"),
        ("add", "qos", "job", "set", "MaxTRESPerJob=cpu=1"),
        ("add", "qos", "minutes", "set", "GrpTRESMins=cpu=0"),
        ("modify", "user", user, "set", "qos+=nodes,job,minutes"),
    ):
        lab.run("sacctmgr", "-iQ", *words)
    for words in (("down", "nodes=n1", "state=down"), ("off", "nodes=n1"), ("small", "nodes=n1,n2", "maxnodes=1")):
        lab.run("scontrol", "create", f"partitionname={words[0]}", *words[1:])
    lab.run("scontrol", "create", "reservation", "reservationname=repair", "starttime=now", "duration=60", "nodes=n3",
            "flags=maint,ignore_jobs", "users=root")  # fmt: skip
    running = lab.submit("-n1", "-t5", seconds=600)
    for options in (("-A", "chemistry"), ("-q", "nodes", "-w", "n1")):
        lab.submit("-n1", "-t5", *options, seconds=600)
    lab.submit("-n1", "-t5", seconds=600, user=other)
    jobs = {
        "association": lab.submit("-n1", "-t5", seconds=1, user=other),
        "account": lab.submit("-n1", "-t5", "-A", "chemistry", seconds=1),
        "qos nodes": lab.submit("-n1", "-t5", "-q", "nodes", "-w", "n2", seconds=1),
        "qos job": lab.submit("-n2", "-t5", "-q", "job", seconds=1),
        "qos minutes": lab.submit("-n1", "-t50", "-q", "minutes", seconds=1),
        "down": lab.submit("-n1", "-t5", "-p", "down", seconds=1),
        "inactive": lab.submit("-n1", "-t5", "-p", "off", "-H", seconds=1),
        "too many nodes": lab.submit("-N2", "-t5", "-p", "small", seconds=1),
        "dependency": lab.submit("-n1", "-t5", "-d", f"afterok:{running}", seconds=1),
        "maintenance": lab.submit("-n1", "-t5", "-w", "n3", seconds=1),
        "machine": lab.submit("-N2", "--exclusive", "-t5", seconds=1),
    }
    lab.run("scontrol", "update", "partitionname=off", "state=inactive")
    lab.run("scontrol", "release", jobs["inactive"], check=False)
    return jobs


def reasons(lab: Lab) -> dict[str, str]:
    """Return each waiting job's reason, once Slurm has set a specific one."""
    jobs = Slurm(LabTransport(lab)).snapshot().jobs
    return {s.job_id: s.reason for s in jobs if s.state == "PENDING" and reason_name(s.reason) not in ("", "Priority")}


def rules(lab: Lab) -> dict[str, Rule]:
    return {job_id: rule(reason) for job_id, reason in reasons(lab).items()}


def settled(lab: Lab, wanted: dict[str, Rule], seconds: float) -> None:
    """Wait until each of these jobs has a reason handled by that rule."""
    try:
        lab.wait(lambda: wanted.items() <= rules(lab).items(), "these rules", seconds)
    except TimeoutError:
        now = reasons(lab)
        raise AssertionError({job: (now.get(job), kind) for job, kind in wanted.items()}) from None


def _answers(follower: Follower, jobs: dict[str, str]) -> str:
    """Return the answers to the user after one more cycle, once the store has each of these jobs."""
    follower.run("collect", "--once", "--quiet")
    if not {j["job_id"] for j in stored(follower.store)} >= set(jobs.values()):
        return ""
    return follower.run("start", "-u", USERS[0], check=False)


def cancelled_together(lab: Lab, follower: Follower) -> None:
    """Cancel irregular tasks of a held array, and a held job, while no collector runs, until slurmctld has purged
    them."""
    odd = [k for k in range(1, 200) if k % 3 or k % 7 == 0]
    array = lab.submit("-n1", "-t5", "-H", "-a", ",".join(map(str, odd)), seconds=1)
    held = lab.submit("-n1", "-t5", "-H", seconds=1)
    follower.run("collect", "--once", "--quiet")
    lab.run("scancel", array, held)
    lab.wait(lambda: _accounted(lab, array, held), "cancelled jobs in accounting")  # some seconds later
    lab.run("scontrol", "update", "nodename=n3", "state=resume")
    lab.stop("slurmctld")
    for path in (lab.root / "state").glob("job*"):  # slurmctld has purged the job, as it does after MinJobAge
        path.unlink() if path.is_file() else None
    lab.start_slurmctld()
    follower.run("collect", "--once", "--quiet")
    lab.wait(lambda: _ended(follower, held, array, odd), f"{len(odd)} tasks and a held job, cancelled", 60)


def _accounted(lab: Lab, array: str, held: str) -> bool:
    """Return whether accounting has both as cancelled, the array with its tasks."""
    rows = lab.run("sacct", "-aXnP", "-o", "jobid,state", "-j", f"{array},{held}").splitlines()
    return {row.partition("|")[0].partition("[")[0] for row in rows if "CANCELLED" in row} == {f"{array}_", held}


def _ended(follower: Follower, held: str, array: str, odd: list[int]) -> bool:
    follower.run("collect", "--once", "--quiet")
    gone = {j["job_id"] for j in stored(follower.store) if j["status"] == "cancelled"}
    return gone >= {held, *(f"{array}_{k}" for k in odd)}


def test_a_site_that_hides_jobs_is_noticed_and_doctor_fails_without_the_right_to_see() -> None:
    with Lab(nodes=2, cpus=2) as lab:
        follower = Follower(lab, str(lab.root / "store.db"), HISTORY_DAYS="0.02")
        follower.run("collect", "--once")
        assert "no: every user sees all jobs" in follower.run("doctor", check=False)
        lab.conf["PrivateData"] = "jobs"
        lab._write_configuration()
        lab.run("scontrol", "reconfigure")
        lab.submit("-n1", "-t5", seconds=600)
        lab.wait(lambda: lab.run("squeue", "-h", "-t", "R"), "a running job")
        follower.run("collect", "--once")
        assert "yes: users see their own" in follower.run("doctor", "--no-ask", check=False)
        blind = as_stranger(lab, follower, "doctor")
        assert "failed   sight" in blind
        assert "is in no association" in blind
        assert "sacctmgr add user nobody" in blind


def as_stranger(lab: Lab, follower: Follower, *words: str) -> str:
    """Run a verb as `nobody`, who collects into a separate store and whom accounting does not know."""
    place = lab.root / "stranger"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    env = {**follower.env, "BATCHCAST_STORE": str(place / "s.db"), "HOME": str(place)}
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *lab.place.rights]
    for verb in (("collect", "--once"), words):
        done = subprocess.run([*user, *BATCHCAST, *verb], env=env, capture_output=True, text=True, timeout=120,
                              check=False, cwd="/")  # fmt: skip
    return done.stdout + done.stderr
