"""Tests the structure of the package: no circle of imports, and no import from a lower room to a higher one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from tools.rooms import (
    ROOT,
    Graph,
    circles,
    code_lines,
    crowded,
    graph,
    in_words,
    layers_of,
    too_large,
    uphill,
)

PACKAGE = ROOT / "src" / "batchcast"
PUBLIC = "batchcast"
"""A module that imports the whole API for type checkers only; at run time a name's module is imported on first use."""


@cache
def ours(for_types: bool = False) -> Graph:
    """Return which modules of this package import which, read once."""
    return graph(PACKAGE, for_types=for_types)


def test_no_circle_of_imports() -> None:
    arrows = ours()
    assert not circles(arrows), "\n\n".join(in_words(circle, arrows) for circle in circles(arrows))


def test_no_circle_of_imports_for_types_either() -> None:
    arrows = ours(for_types=True) | {PUBLIC: {}}
    assert not circles(arrows), "\n\n".join(in_words(circle, arrows) for circle in circles(arrows))


def test_no_arrow_uphill() -> None:
    assert not uphill(ours(for_types=True) | {PUBLIC: {}}, layers_of(ROOT))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a top room and a low room, in order."""
    for name, text in {
        "__init__.py": "",
        "low/__init__.py": "",
        "low/one.py": "from ..low import two\n",
        "low/two.py": "import os\n",
        "top/__init__.py": "from ..low.one import two\n",
    }.items():
        path = tmp_path / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "pack"


LAYERS = ["pack.top", "pack.low"]


def test_a_house_in_order_has_no_finding(package: Path) -> None:
    arrows = graph(package)
    assert arrows["pack.low.one"] == {"pack.low.two": ["two"]}
    assert arrows["pack.top"] == {"pack.low.one": ["two"]}
    assert (circles(arrows), uphill(arrows, LAYERS), crowded(package)) == ([], [], {})


@pytest.mark.parametrize("text", ["from . import one", "def f():\n    from .one import two", "import pack.low.one"])
def test_a_circle_is_found_however_it_is_imported(package: Path, text: str) -> None:
    (package / "low" / "two.py").write_text(text)
    arrows = graph(package)
    assert circles(arrows) == [["pack.low.one", "pack.low.two"]]
    assert "pack.low.one takes two from pack.low.two" in in_words(circles(arrows)[0], arrows)


def test_an_import_for_types_counts_where_it_is_asked_for(package: Path) -> None:
    (package / "low" / "two.py").write_text("if TYPE_CHECKING:\n    from .one import two\n")
    assert not circles(graph(package))
    assert circles(graph(package, for_types=True))


def test_an_arrow_uphill_is_found_in_a_function_too(package: Path) -> None:
    (package / "low" / "two.py").write_text("def f():\n    from ..top import two\n")
    (finding,) = uphill(graph(package), LAYERS)
    assert finding == "pack.low.two takes two from pack.top, which is not below it"


def test_a_crowded_folder_is_found(package: Path) -> None:
    for k in range(20):
        (package / "low" / f"more{k}.py").write_text("")
    assert crowded(package) == {"pack/low": 23}


def test_large_functions_are_found_but_verbs_and_kernels(package: Path) -> None:
    many = ", ".join(f"a{k}" for k in range(9))
    text = f"@kernel\ndef one({many}): ...\n@click.command('x')\ndef two({many}): ...\ndef three({many}): ...\n"
    (package / "low" / "two.py").write_text(text)
    assert too_large(package) == ["pack.low.two.three: 9 arguments, 1 lines"]


def test_code_is_counted_without_blanks_comments_and_docstrings(package: Path) -> None:
    path = package / "low" / "two.py"
    path.write_text('"""What it is,\n\nand why."""\n\n# why\nx = (\n    1\n)\n')
    assert code_lines(path) == 3
