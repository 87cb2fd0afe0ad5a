"""Tests that compiled code finds a writable folder in any environment, and works without one."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import batchcast
from batchcast.compiled import place, reads
from batchcast.compiled.place import kernel_folder


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    kernel_folder.cache_clear()
    yield
    kernel_folder.cache_clear()


def test_a_home_that_cannot_be_used_costs_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are then in the temporary folder, where no other user can write."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    first = Path(kernel_folder())
    assert first.is_relative_to(tmp_path)
    assert first.parent.stat().st_mode & 0o077 == 0
    assert first.stat().st_mode & 0o077 == 0
    first.parent.chmod(0o777)  # another user might have created it
    kernel_folder.cache_clear()
    assert Path(kernel_folder()).parent != first.parent


def test_a_change_of_any_kernel_names_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = tmp_path / "batchcast"
    for name in ("compiled/place.py", "schedule/advance.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("one")
    monkeypatch.setattr(place, "__file__", str(root / "compiled/place.py"))
    before = place.fingerprint()
    assert place.fingerprint() == before
    (root / "schedule/advance.py").write_text("other")
    assert place.fingerprint() != before


def test_a_change_of_a_package_names_another_folder_for_its_kernels_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kernel of another package may call any function of this package, of which numba sees no change."""
    (tmp_path / "site_methods").mkdir()
    (tmp_path / "site_methods" / "rules.py").write_text("one")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own, added = kernel_folder(), kernel_folder("site_methods")
    assert own != added
    (tmp_path / "site_methods" / "rules.py").write_text("another")
    kernel_folder.cache_clear()
    assert kernel_folder() == own
    assert kernel_folder("site_methods") not in (own, added)


PACKAGE = Path(batchcast.__file__).parent
DECORATORS = {"kernel", "branching", "inner", "inlined", "allocating"}


def compiled_functions(file: Path) -> list[ast.FunctionDef]:
    if not re.search(rf"^\s*@({'|'.join(DECORATORS)})$", file.read_text(), re.MULTILINE):
        return []  # parsing all files would take seconds at every test collection
    functions = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)]
    return [f for f in functions if DECORATORS & {d.id for d in f.decorator_list if isinstance(d, ast.Name)}]


def sources(file: Path) -> dict[str, Path]:
    """Return the names that a module imports from other modules of the package, each with its file."""
    taken = {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for alias in node.names:
                places = (folder / f"{alias.name}.py", folder.with_suffix(".py"), folder / "__init__.py")
                taken[alias.asname or alias.name] = next(place for place in places if place.exists())
    return taken


@pytest.mark.parametrize("file", [f for f in PACKAGE.rglob("*.py") if compiled_functions(f)], ids=lambda f: f.stem)
def test_what_is_compiled_into_a_kernel_is_in_the_name_of_its_folder(file: Path) -> None:
    """Checks that the kernels' files and the files of all constants and functions in their bodies are listed."""
    lines = [line for function in compiled_functions(file) for line in function.body]
    bodies = {name.id for line in lines for name in ast.walk(line) if isinstance(name, ast.Name)}
    files = {file} | {place for name, place in sources(file).items() if name in bodies}
    rooms = [PACKAGE / room for room in place.KERNELS]
    assert {f for f in files if not {f, f.parent, f.parent.parent} & set(rooms)} == set()


LEVEL = """
from batchcast.predict.hazard.history_features import level_of
print(level_of(5.0, 31) > 0, level_of.stats.cache_path)
"""


def run(code: str, **environment: str) -> list[str]:
    there = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run([sys.executable, "-c", code], env=there | environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.long
def test_kernels_used_from_python_lie_in_the_folder_of_this_code(tmp_path: Path) -> None:
    done = run(LEVEL, XDG_CACHE_HOME=str(tmp_path))
    assert done[0] == "True"
    assert Path(done[1]).is_relative_to(tmp_path / "batchcast" / f"kernels-{place.fingerprint():08x}")
    assert run(LEVEL, NUMBA_CACHE_DIR=str(tmp_path / "own"))[1].startswith(str(tmp_path / "own"))


@pytest.mark.long
def test_kernels_compile_where_nothing_can_be_written() -> None:
    """If neither the home nor the temporary folder is writable, kernels are compiled at every start and not stored."""
    nowhere = "place.cache_home = place._private_home = lambda: place.Path('/dev/null')"
    code = f"from batchcast.compiled import place\n{nowhere}\n" + LEVEL.replace("stats", "_cache")
    assert run(code) == ["True", "None"]


def test_an_order_reads_the_time_only_where_the_compiler_must_touch_it() -> None:
    def by_size(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
        return procs * planned

    def late_riser(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
        return -planned if wait > 1e9 else planned

    def by_clock(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
        return planned if now == now else procs

    assert [reads(order, (0, 4)) for order in (by_size, late_riser, by_clock)] == [False, True, True]
    assert not reads(late_riser, (0, 1, 2))
