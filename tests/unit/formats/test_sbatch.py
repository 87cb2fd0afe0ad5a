"""Tests the reader of job commands: scripts with quotes, and submit commands that accounting stores without quotes."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.formats.slurm.sacct import read_sacct
from batchcast.formats.slurm.sbatch import Request, of_environment, parse_script, parse_submit_line

LINES: list[tuple[str, dict[str, str], str]] = [
    (
        "sbatch -n 4 --wrap=python3 -m train -C cfg.yaml -d data --exclusive --nice=7 -L en -p a,b",
        {"ntasks": "4"},
        "",
    ),
    ("sbatch -C amd --wrap=srun -C intel ./a.out", {"constraint": "amd"}, ""),
    ("sbatch -n 4 --wrap python3 -m train -C cfg.yaml", {"ntasks": "4"}, ""),
    ("sbatch -n 4 a.sh -C cfg.yaml", {"ntasks": "4"}, "a.sh -C cfg.yaml"),
    ("sbatch -n4 -pmain -HQ --exclusive -J 'my job' a.sh", {"ntasks": "4", "partition": "main", "hold": "",
     "quiet": "", "exclusive": "", "job-name": "my job"}, "a.sh"),
    ("sbatch --part=gpu --ntasks-per-n=4 --cpus-per-t 2 a.sh",
     {"partition": "gpu", "ntasks-per-node": "4", "cpus-per-task": "2"}, "a.sh"),
    ("sbatch --mail-type END --nice -N 2 a.sh", {"mail-type": "END", "nice": "", "nodes": "2"}, "a.sh"),
    ("sbatch -n 8 : -n 2 a.sh", {"hetjob": ""}, ""),
    ("sbatch --begin now+1hour --test-only", {"begin": "now+1hour", "test-only": ""}, ""),
    ("sbatch --comment='open a.sh -n 4", {"comment": "'open"}, "a.sh -n 4"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "options", "command"), LINES)
def test_a_submit_command_ends_at_the_script_and_at_wrap(line: str, options: dict[str, str], command: str) -> None:
    assert parse_submit_line(line) == Request(options, command)


SCRIPTS = [
    ("-N 2 --tasks-per-node=8 --cpus-per-task=1", 2.0, 16.0),
    ("--part=gpu --nodes=2 --ntasks-per-n=4 --cpus-per-t=2", 2.0, 16.0),
    ("-N 2-9 --ntasks-per-node=8", 2.0, 16.0),
    ("--comment 'a -n 9' -n 3", 1.0, 3.0),
]


@pytest.mark.parametrize(("options", "nodes", "procs"), SCRIPTS)
def test_a_script_is_sized_as_sbatch_sizes_it(options: str, nodes: float, procs: float) -> None:
    request = parse_script(f"#!/bin/bash\n#SBATCH {options}\nsrun x\n")
    assert (request.nodes, request.procs) == (nodes, procs)


def test_an_option_that_predictions_ignore_or_sbatch_lacks_is_named() -> None:
    request = parse_script("#!/bin/bash\n#SBATCH --bogus=1 --tim=90 --gres=gpu:1,shard:2 -o x.log --switch=1\n")
    assert request.not_heard == ["--bogus", "--tim", "--switches", "--gres=shard:2"]


def test_variables_of_sbatch_set_options() -> None:
    variables = {"SBATCH_MEM_PER_NODE": "4G", "SBATCH_GPUS_PER_NODE": "2", "SBATCH_NO_OPTION": "1", "PATH": "/bin"}
    assert of_environment(variables) == {"mem": "4G", "gpus-per-node": "2"}


def test_columns_of_a_dump_have_no_option_of_the_wrapped_command() -> None:
    wrapped = [line for line, _, _ in LINES[:3]] + ["sbatch -p main --wrap=python3 --wait-for-files /tmp/a /data/s1.fq"]
    rows = [f"{k}|2026-03-01T10:00:00|{line}" for k, line in enumerate(wrapped)]
    trace = read_sacct(["\n".join(["JobID|Submit|SubmitLine", *rows, ""]).encode()])
    assert trace.nominal("constraint").decode() == [None, "amd", None, None]
    for name in ("dependency", "licenses", "partition_list", "app_id", "exclusive", "nice"):
        assert name not in trace.names


def test_gpus_that_accounting_does_not_track_are_read_from_the_command() -> None:
    lines = [
        "sbatch --gpus 4 a.sh",
        "sbatch -N 2 --gres=gpu:a100:2 a.sh",
        "sbatch a.sh",
        "sbatch --gpus-per-node 2 a.sh",
    ]
    rows = [
        f"{k}|2026-03-01T10:00:00|{nodes}|billing=4,cpu=4|{line}" for k, (nodes, line) in enumerate(zip("1213", lines))
    ]
    header = "JobID|Submit|ReqNodes|ReqTRES|SubmitLine"
    trace = read_sacct(["\n".join([header, *rows, ""]).encode()])
    np.testing.assert_array_equal(trace.number("req_gpus"), [4, 4, np.nan, 6])
    assert trace.nominal("gpu_type").decode() == [None, "a100", None, None]
    tracked = read_sacct(
        ["\n".join([header, *rows, "9|2026-03-01T10:00:00|1|cpu=4,gres/gpu=1|sbatch b.sh", ""]).encode()]
    )
    assert tracked.number("req_gpus").tolist() == [4, 4, 0, 6, 1]
