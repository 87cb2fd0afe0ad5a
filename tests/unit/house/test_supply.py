"""Tests that the content of a build is listed, and that a list that does not match the installation is detected."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from tools import sbom

ROOT = Path(__file__).parent.parent.parent.parent


def installed(folder: Path, name: str, version: str) -> None:
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n"
    )


def wheel(path: Path, more: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("some_lib-1.0.dist-info/METADATA", f"Metadata-Version: 2.4\nName: Some.Lib\nVersion: 1.0\n{more}")
    return path


def test_a_package_that_was_added_replaced_or_removed_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, out = tmp_path / "site-packages", tmp_path / "list.json"
    for name in ("batchcast", "numpy", "click"):
        installed(there, name, "1.0")
    words = [str(out), str(there)]
    assert sbom.main(words) == 0
    listed = json.loads(out.read_text())
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.5")
    assert [one["purl"] for one in listed["components"]] == [
        "pkg:pypi/batchcast@1.0", "pkg:pypi/click@1.0", "pkg:pypi/numpy@1.0",
    ]  # fmt: skip
    assert sbom.main([*words, "--check"]) == 0
    (there / "numpy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.4\nName: numpy\nVersion: 1.1\n")
    installed(there, "stowaway", "6.6")
    capsys.readouterr()
    assert sbom.main([*words, "--check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "pkg:pypi/numpy@1.0: listed, not there",
        "pkg:pypi/numpy@1.1: there, not listed",
        "pkg:pypi/stowaway@6.6: there, not listed",
    ]


def test_a_wheel_of_the_same_name_with_other_content_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = wheel(tmp_path / "some_lib-1.0-py3-none-any.whl"), tmp_path / "list.json"
    assert sbom.main([str(out), str(path)]) == 0
    wheel(path, "Summary: another\n")
    assert sbom.main([str(out), str(path), "--check"]) == 1
    assert "pkg:pypi/some-lib@1.0: another file than the one listed" in capsys.readouterr().out


def test_a_folder_without_packages_is_no_empty_list(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds no installed package"):
        sbom.main([str(tmp_path / "list.json"), str(tmp_path)])


@pytest.mark.parametrize("name", ["debian/rules", "packages/rpm/batchcast.spec", "container/Containerfile"])
def test_packages_install_nothing_without_a_hash_but_our_own_wheel(name: str) -> None:
    text = (ROOT / "contrib" / name).read_text().replace("\\\n", " ")
    calls = [part for line in text.splitlines() for part in line.split("&&") if "pip install" in part]
    assert len(calls) == 2
    assert "--require-hashes" in calls[0]
    assert "--no-deps" in calls[1]
    assert "batchcast-" in calls[1] or "WHEEL" in calls[1]
