"""Tests that `--json` gives the same machine as `-o` and `-P`, on dumps of one real Slurm 24.11 in both forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from batchcast.errors import InputError
from batchcast.formats.slurm.scontrol_json import UNTOLD
from batchcast.trace.machine_files import machine_of

FOLDER = Path(__file__).with_name("slurm-24.11")
TEXTS = {path.name: path.read_text() for path in FOLDER.iterdir()}
CONFIG = {"config.txt": TEXTS["config.txt"]}


def test_json_tells_the_machine_that_the_texts_tell() -> None:
    plain = machine_of({name: text for name, text in TEXTS.items() if name.endswith(".txt")}, "texts")
    packed = machine_of({name: text for name, text in TEXTS.items() if name.endswith(".json")} | CONFIG, "json")
    untold = {
        p.name: {k: getattr(p, k) for k in ("default", "least_loaded", "preempt", "preempt_mode")}
        for p in plain.partitions
    }
    assert packed.nodes == plain.nodes
    assert tuple(replace(p, **untold[p.name]) for p in packed.partitions) == plain.partitions
    assert packed.qos == plain.qos
    assert packed.reservations == plain.reservations
    assert packed.settings == plain.settings
    assert set(packed.left_out) - set(plain.left_out) == {UNTOLD}
    assert not set(plain.left_out) - set(packed.left_out)
    limits = {(a.account, a.user): (a.shares, a.limits) for a in plain.associations}
    assert {(a.account, a.user): (a.shares, a.limits) for a in packed.associations} == limits
    assert next(a.parent for a in packed.associations if a.account == "organic") == "chemistry"


def test_the_limits_are_those_that_were_set() -> None:
    packed = machine_of({name: text for name, text in TEXTS.items() if name.endswith(".json")}, "json")
    normal = next(q.limits for q in packed.qos if q.name == "normal")
    assert (normal.grp_jobs, normal.max_jobs_per_user, normal.max_jobs_per_account, normal.max_wall) == (7, 5, 6, 600)
    assert normal.max_tres_per_user == {"cpu": 4, "mem": 2048}
    games = next(a.limits for a in packed.associations if (a.account, a.user) == ("physics", "games"))
    assert (games.max_jobs, games.max_wall, games.max_tres) == (2, 1800, {"cpu": 3})


def test_where_both_are_there_the_text_is_read() -> None:
    assert machine_of(TEXTS, "both").partition("").name == "main"


@pytest.mark.parametrize(("text", "said"), [("{", "ends too early"), ('{"jobs": []}', "no list 'nodes'")])
def test_a_broken_dump_teaches(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        machine_of({**TEXTS, "node.txt": "", "node.json": text}, "dumps")
