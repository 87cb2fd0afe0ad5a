"""The units a site installs: nobody else reads what they write, and one place says where the store is."""

from __future__ import annotations

from pathlib import Path

import pytest

UNITS = Path(__file__).parents[3] / "contrib" / "systemd"


@pytest.mark.parametrize("name", ["collect", "export", "serve"])
def test_units_write_for_nobody_else_and_name_no_store(name: str) -> None:
    lines = (UNITS / f"batchcast-{name}.service").read_text().splitlines()
    assert "UMask=0077" in lines
    assert not [line for line in lines if "BATCHCAST_STORE" in line or "BATCHCAST_LISTEN" in line]


def test_every_line_of_the_settings_file_is_accepted(tmp_path: Path) -> None:
    from batchcast.service.settings import load

    text = (UNITS.parent / "batchcast.toml").read_text().splitlines()
    path = tmp_path / "b.toml"
    path.write_text("\n".join(line.removeprefix("# ") for line in text if line.startswith("# ") and " = " in line))
    given = load({}, {"BATCHCAST_CONFIG": str(path)})
    built_in = load({}, {"BATCHCAST_CONFIG": "/dev/null", "HOME": str(tmp_path)})
    named = [name for name, place in given.source.items() if place == str(path)]
    assert len(named) > 10
    assert all(given[name] == built_in[name] for name in named if name != "store"), "every line is a default"
