"""What rows of steps cost accounting, on the lab: python benchmarks/service/accounting_steps.py [JOBS]

sacct is called with them and without.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "slurm" / "lab"), str(ROOT)]
JOBS = int(sys.argv[1]) if len(sys.argv) > 1 else 150
ROUNDS = 5


def main() -> None:
    """Jobs of a batch step and two more, 150 by default; CPU of slurmdbd and time of the client, a call."""
    from slurm_lab import Lab

    from batchcast.formats.slurm import squeue

    conf = {"JobAcctGatherType": "jobacct_gather/linux", "JobAcctGatherFrequency": "task=1"}
    with Lab(nodes=2, cpus=8, conf=conf) as lab:
        who = ("--uid=daemon", "--gid=daemon", "--chdir=/tmp", "-o", "/dev/null")
        lab.run("sbatch", *who, "-n1", "-a", f"1-{JOBS}", "--wrap", "srun true; srun true")
        lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split(), "ended jobs", 600)
        stat = Path(f"/proc/{lab.pid_file('slurmdbd').read_text().strip()}/stat")
        span = (f"--starttime=uts{lab.now() - 86400:.0f}", f"--endtime=uts{lab.now():.0f}")
        asked = ("sacct", "--allusers", "--duplicates", "--parsable", "--noheader", "--delimiter=@@", *span)
        ways = {
            "jobs alone": (*asked, "--allocations", "--format=" + ",".join(squeue.SACCT_FIELDS)),
            "with steps": (*asked, "--format=" + ",".join(squeue.FIELDS_WITH_STEPS)),
        }
        for name in [*ways] * 3:
            before, began = _cpu(stat), time.monotonic()
            for _ in range(ROUNDS):
                text = lab.run(*ways[name])
            wall, cpu = (time.monotonic() - began) / ROUNDS, (_cpu(stat) - before) / ROUNDS
            print(f"{name}: {text.count(chr(10))} rows, {wall:.2f} s, slurmdbd's CPU {cpu:.3f} s", flush=True)


def _cpu(stat: Path) -> float:
    fields = stat.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
