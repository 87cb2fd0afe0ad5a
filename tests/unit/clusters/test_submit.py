"""Tests `submit`: whatever is killed at any instant, one job is submitted, and no second one if the outcome is
unknown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from batchcast.clusters.configured import Cluster
from batchcast.clusters.submit import Sent, forget, look_up, submit
from batchcast.errors import BatchcastError, NoAnswer, Unreachable
from batchcast.store.ledger import CHOSEN, MARK, SUBMITTED, Entry, Ledger, Offer

SBATCH = """#!/bin/sh
# a slurmctld that takes the job, and a client that may be stopped before or after, or lose the answer
for word; do case "$word" in --comment=*) comment=${word#--comment=};; -M*) ;; esac; done
[ -e "$LAB/reject" ] && { echo "sbatch: error: Batch job submission failed: Invalid qos" >&2; exit 1; }
[ -e "$LAB/before" ] && { echo $$ > "$LAB/at"; read line < "$LAB/go"; }
id=$(( $(wc -l < "$LAB/queue") + 1 ))
echo "$id=$comment" >> "$LAB/queue"
[ -e "$LAB/lost" ] && { echo "sbatch: error: Socket timed out on send/recv operation" >&2; exit 1; }
[ -e "$LAB/after" ] && { echo $$ > "$LAB/at"; read line < "$LAB/go"; }
echo "$id;beta"
"""
SQUEUE = '#!/bin/sh\n[ -e "$LAB/away" ] && { echo "Unable to contact" >&2; exit 1; }\ncat "$LAB/queue"\n'
SACCT = "#!/bin/sh\nexit 0\n"
SCONTROL = '#!/bin/sh\necho "AccountingStoreFlags    = (null)"\n'
OFFERS = [
    Offer(cluster="beta", command="sbatch --partition=main", likely_end_s=9.0, by_90_end_s=9.0),
    Offer(cluster="alpha", command="sbatch --partition=main", likely_end_s=19.0, by_90_end_s=19.0),
]
TOLD: list[str] = []
"""The commands that were announced."""
CLUSTERS = {name: Cluster(name=name, store="x") for name in ("alpha", "beta")}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with Slurm's commands, a queue, and a script."""
    for name, text in {"sbatch": SBATCH, "squeue": SQUEUE, "sacct": SACCT, "scontrol": SCONTROL}.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "queue").touch()
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 1 --comment=mine\nsleep 1\n")
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "at")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("LAB", str(tmp_path))
    return tmp_path


def queue(lab: Path) -> list[str]:
    return (lab / "queue").read_text().splitlines()


def send(lab: Path, now: float = 1000.0, key: str | None = None) -> Sent:
    with Ledger(lab / "ledger.db") as ledger:
        return submit(ledger, CLUSTERS, OFFERS, str(lab / "job.sh"), [], now, TOLD.append, key)


def test_the_choice_is_written_down_and_the_job_carries_its_token_beside_its_own_comment(lab: Path) -> None:
    sent = send(lab)
    assert (sent.entry.cluster, sent.entry.job_id, sent.again) == ("beta", "1", False)
    assert queue(lab) == [f"1=mine {MARK}{sent.entry.token}"]
    with Ledger(lab / "ledger.db") as ledger:
        (entry,) = ledger.entries()
    assert (entry.state, entry.offers[0].cluster, entry.offers[1].cluster) == (SUBMITTED, "beta", "alpha")
    assert send(lab, 2000.0).entry.job_id == "2", "the same script may be submitted again on purpose"


def in_a_process(lab: Path, now: float) -> subprocess.Popen[bytes]:
    """Submit in a separate process that can be killed."""
    code = (
        "import sys; from pathlib import Path; sys.path[:0] = [sys.argv[1]]; import test_submit as t; "
        "t.send(Path(sys.argv[2]), float(sys.argv[3]))"
    )
    here = str(Path(__file__).parent)
    return subprocess.Popen([sys.executable, "-c", code, here, str(lab), str(now)], stdout=subprocess.PIPE)


def reached(lab: Path) -> int:
    """Wait until an sbatch has reached the point where it stops, and return its process id."""
    return int((lab / "at").read_text())


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_while_sbatch_runs_the_next_try_waits_for_it_and_finds_its_job(lab: Path, moment: str) -> None:
    """sbatch survives the kill: until it has finished, batchcast must not conclude that there is no job."""
    (lab / moment).touch()
    first = in_a_process(lab, 1000.0)
    reached(lab)
    first.send_signal(signal.SIGKILL)
    first.wait()
    (lab / moment).unlink()
    second = in_a_process(lab, 1010.0)
    (lab / "go").write_text("\n")  # the first sbatch continues, whoever waits for it
    assert second.wait(60) == 0
    assert len(queue(lab)) == 1
    assert send(lab, 3000.0).again is False, "an answered entry is closed: the next call is a new submission"


def test_killed_together_with_sbatch_before_it_reached_the_controller_it_is_submitted_once_later(lab: Path) -> None:
    (lab / "before").touch()
    first = in_a_process(lab, 1000.0)
    client = reached(lab)
    first.send_signal(signal.SIGKILL)
    first.wait()
    os.kill(client, signal.SIGKILL)
    (lab / "before").unlink()
    with pytest.raises(Unreachable, match="may not be complete yet") as early:
        send(lab, 1010.0)
    assert "in 50 s" in early.value.hint
    assert send(lab, 1100.0).entry.job_id == "1"
    assert len(queue(lab)) == 1


def test_a_lost_answer_is_no_reason_to_submit_again(lab: Path) -> None:
    (lab / "lost").touch()
    with pytest.raises(Unreachable, match="may be in the queue nevertheless"):
        send(lab)
    (lab / "lost").unlink()
    sent = send(lab, 1005.0)
    assert (sent.again, sent.entry.job_id, len(queue(lab))) == (True, "1", 1)


def test_while_the_queue_cannot_be_asked_nothing_is_submitted(lab: Path) -> None:
    (lab / "lost").touch()
    with pytest.raises(Unreachable):
        send(lab)
    (lab / "lost").unlink()
    (lab / "away").touch()
    with pytest.raises(Unreachable, match="does not report whether an earlier attempt is in its queue"):
        send(lab, 1100.0)
    assert len(queue(lab)) == 1


def test_what_only_accounting_could_know_is_left_to_the_user_with_a_way_out(lab: Path) -> None:
    """An hour later squeue no longer shows the ended job, and this site's accounting stores no comments."""
    with Ledger(lab / "ledger.db") as ledger:
        entry = Entry("t1", None, 1000.0, "d", "job.sh", "beta", ["sbatch"], OFFERS)
        ledger.add(entry)
        with pytest.raises(Unreachable, match="keeps no comments") as unknown:
            look_up(entry, CLUSTERS["beta"], 4600.0)
        assert "forget t1" in unknown.value.hint
        with pytest.raises(BatchcastError, match="open: t1"):
            forget(ledger, "t2")
        forget(ledger, "t1")
        assert [one.state for one in ledger.entries() if one.state == CHOSEN] == []


def test_a_cluster_that_rejects_the_job_costs_nothing_but_its_turn(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab / "reject").touch()
    with pytest.raises(NoAnswer, match=r"beta rejected .* Invalid qos; alpha rejected"):
        send(lab)
    (lab / "reject").unlink()
    assert send(lab).entry.job_id == "1"


def test_one_key_is_one_job_however_often_a_program_asks(lab: Path) -> None:
    first, again = send(lab, key="run-1"), send(lab, 9999.0, key="run-1")
    assert (first.again, again.again, again.entry.job_id, len(queue(lab))) == (False, True, "1", 1)
