"""Tests that the recipes in contrib/packages equal the output of `python -m tools.packages` and list every
dependency."""

from __future__ import annotations

import ast

import pytest
from tools.packages import EASYBUILD_SOURCES, EXTRAS, PLACE, core, extra, recipes


@pytest.mark.parametrize("name", recipes())
def test_recipes_are_current(name: str) -> None:
    assert (PLACE / name).read_text() == recipes()[name], "make packages"


def test_nothing_lies_beside_them_that_nobody_makes() -> None:
    assert {str(path.relative_to(PLACE)) for path in PLACE.rglob("*") if path.is_file()} == set(recipes())


def test_every_dependency_is_named() -> None:
    made = recipes()
    spack, conda = made["spack/package.py"], made["conda/recipe.yaml"]
    ast.parse(spack)
    for name, bounds in [*core(), *(one for each in EXTRAS for one in extra(each))]:
        low = bounds.removeprefix(">=")
        assert f'"py-{name}@{low}:"' in spack or name == "psycopg"
        assert any(line.endswith(f"{bounds}") and name.replace("-", "_") in line.replace("-", "_")
                   for line in conda.splitlines()), name  # fmt: skip


def test_easybuild_has_all_that_the_core_needs() -> None:
    brought = {"click", "jinja2", "rich", "numpy", "numba"}  # by its modules
    assert {name for name, _ in core()} == brought | set(EASYBUILD_SOURCES)
