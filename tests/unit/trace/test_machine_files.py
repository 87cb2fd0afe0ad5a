"""Tests a described machine from a file or a folder: a file that is no text is reported, or skipped among others."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchcast.errors import InputError
from batchcast.trace.machine_files import open_machine

NODE = "NodeName=n1 CPUTot=4 RealMemory=8000 Sockets=1 ThreadsPerCore=1 State=IDLE Weight=1 Gres=(null)\n"
PARTITION = "PartitionName=all Nodes=n1 Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP\n"


def test_a_file_that_is_no_text_is_an_error_that_names_it(tmp_path: Path) -> None:
    place = tmp_path / "machine.toml"
    place.write_bytes(b"name = \xff")
    with pytest.raises(InputError, match=r"machine\.toml: not text.*byte 7"):
        open_machine(place)


def test_a_picture_among_the_dumps_does_no_harm_and_a_broken_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "node.txt").write_text(NODE)
    (tmp_path / "partition.txt").write_text(PARTITION)
    (tmp_path / "plot.png").write_bytes(b"\x89PNG\xff")
    assert open_machine(tmp_path).cpus == 4
    (tmp_path / "qos.txt.xz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"qos\.txt\.xz: cannot be read"):
        open_machine(tmp_path)
