"""Tests that docstrings of public classes and methods have numpydoc's sections, which the field's tools render."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import pytest

import batchcast
from batchcast.predict.registry import GROUPS, available, load

METHODS = [(kind, name) for kind in GROUPS for name in available(kind)]
WITHOUT_SOURCE = {"actual", "requested", "recent_wait", "largest_recent", "deadline_search", "exact"}
"""Docstrings of other packages as a reference, and conventions of this project."""
PUBLIC = {
    "Policy": {"Parameters", "Raises", "References", "Examples"},
    "Prediction": {"Parameters"},
    "SklearnRuntime": {"Parameters", "Raises", "References", "Examples"},
    "Trace": {"Parameters", "Raises", "Examples"},
    "evaluate": {"Parameters", "Returns", "Raises", "Examples"},
    "from_arrow": {"Parameters", "Returns", "Raises", "Examples"},
    "read_trace": {"Parameters", "Returns", "Raises", "Examples"},
    "replay": {"Parameters", "Returns", "Raises", "Examples"},
    "simulate": {"Parameters", "Returns", "Raises", "Examples"},
    "to_arrow": {"Parameters", "Returns", "Raises", "Examples"},
    "write_report": {"Parameters", "Returns", "Raises", "Examples"},
}


def sections(what: Any) -> dict[str, list[str]]:
    """Return the lines of each section of a docstring, by its underlined title."""
    lines = inspect.cleandoc(what.__doc__ or "").splitlines()
    found: dict[str, list[str]] = {}
    title = ""
    for line, below in zip(lines, [*lines[1:], ""]):
        if below and set(below) == {"-"} and len(below) == len(line):
            title = line
            found[title] = []
        elif title and set(line) != {"-"}:
            found[title].append(line)
    return found


def described(section: list[str]) -> list[str]:
    """Return the unindented names of a section: `a, b` are two."""
    return [name.strip() for line in section if line and not line[0].isspace() for name in line.split(",")]


@pytest.mark.parametrize(("kind", "name"), METHODS)
def test_a_method_describes_every_parameter_and_its_source(kind: str, name: str) -> None:
    factory = load(kind, name)
    maker = factory.func if isinstance(factory, functools.partial) else factory
    found, takes = sections(maker), inspect.signature(maker).parameters
    assert sorted(described(found.get("Parameters", []))) == sorted(takes)
    assert "Examples" in found
    if name not in WITHOUT_SOURCE:
        assert re.search(r"\b(19|20)\d\d\b", " ".join(found.get("References", []))), "no source with its year"


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names_have_their_sections(name: str) -> None:
    what = getattr(batchcast, name)
    found = sections(what)
    assert PUBLIC[name] <= set(found), sorted(found)
    assert described(found["Parameters"]) == list(inspect.signature(what).parameters)
