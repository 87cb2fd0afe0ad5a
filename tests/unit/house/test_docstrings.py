"""Tests that docstrings of the public reference have numpydoc's sections, and that other docstrings have none."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import typing
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest

import batchcast
from batchcast.plug_ins import GROUPS
from batchcast.predict.registry import available, load

ROOT = Path(__file__).parents[3]
PAPERS = [ROOT / "packages" / "papers" / "src"] if find_spec("batchcast_papers") else []
SOURCES = [ROOT / "src", *PAPERS]
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


RECEIVED = [
    "job.JobRequest",
    "events.state.SystemState",
    "events.event",
    "trace.input_files.InputFiles",
    "predict.adapters.RiverRuntime",
]
"""What a predictor or a reader of input files receives or implements, and the wrapper of a river model."""
TITLE = re.compile(
    r"^ *(Parameters|Returns|Yields|Raises|Notes|See Also|References|Examples|Attributes|Methods)\n *---+$", re.M
)


THIRD_PERSON = re.compile(
    r"(Returns|Yields|Raises|Reads|Writes|Adds|Removes|Drops|Makes|Stores|Counts|Converts|Checks) "
)


def public_names() -> set[tuple[str, str]]:
    """Return module and qualified name of every function and class in the public reference.

    These are: what `batchcast` exports, what its functions return, what a predictor receives, what a page documents
    with `:::`, what the pages on Python and plug-ins import or name by its path, and every registered method.
    """
    exported = [getattr(batchcast, name) for name in batchcast.__all__]
    named = {f"batchcast.{name}" for name in RECEIVED}
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        named |= set(re.findall(r"^::: ([\w.]+)", text, re.M))
        if page.name in ("python.md", "plug-ins.md"):
            named |= {path for path in re.findall(r"`(batchcast\w*\.[\w.]+)`", text) if "predictors" not in path}
            for module, names in re.findall(r"^from (batchcast[\w.]*) import ([\w, ]+)$", text, re.M):
                named |= {f"{module}.{name.strip()}" for name in names.split(",")}
    named -= {"batchcast.heuristics", "batchcast.commands", "batchcast.input_files"}  # entry points
    found = {pair for what in [*exported, *map(resolve_name, named)] for pair in _public_in(what)}
    for function in filter(inspect.isfunction, exported):
        for returned in _classes(typing.get_type_hints(function).get("return")):
            found |= _public_in(returned)
    for kind, name in METHODS:
        factory = load(kind, name)
        maker = getattr(factory, "func", factory)
        found.add((maker.__module__, maker.__qualname__))
    return found


def _public_in(what: Any) -> set[tuple[str, str]]:
    if isinstance(what, ModuleType):
        own = [value for value in vars(what).values() if getattr(value, "__module__", None) == what.__name__]
        return {pair for value in own for pair in _public_in(value) if not pair[1].startswith("_")}
    if not inspect.isclass(what):
        return {(what.__module__, what.__qualname__)} if hasattr(what, "__qualname__") else set()
    bases = [base for base in what.__mro__ if base.__module__.startswith("batchcast")]
    members = {
        (b.__module__, f"{b.__qualname__}.{name}")
        for b in bases
        for name in vars(b)
        if name[0] != "_" or name[-1] == "_"
    }
    return members | {(b.__module__, b.__qualname__) for b in bases}


def _classes(hint: Any) -> Iterator[Any]:
    if inspect.isclass(hint) and hint.__module__.startswith("batchcast"):
        yield hint
    for inner in typing.get_args(hint):
        yield from _classes(inner)


def documented(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield qualified name and docstring of every function and class below a node."""
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{prefix}.{child.name}" if prefix else child.name
            yield name, ast.get_docstring(child) or ""
        yield from documented(child, name)


def test_only_the_public_reference_has_sections() -> None:
    public, wrong = public_names(), []
    for root, path in [(folder, path) for folder in SOURCES for path in sorted(folder.rglob("*.py"))]:
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if module == "batchcast.client" or module.startswith("batchcast.testing"):
            continue  # public as a whole
        for name, text in documented(ast.parse(path.read_text(encoding="utf-8"))):
            if TITLE.search(text) and (module, name) not in public:
                wrong.append(f"{module}.{name}")
    advice = (
        "sections of numpydoc are for the public reference. Write one sentence that makes sense alone, put units "
        "and shapes into this sentence, and write the reason as a comment at the top of the body; or document the "
        "name in docs/reference/python.md or plug-ins.md"
    )
    assert not wrong, f"{advice}: {', '.join(wrong)}"


def test_docstrings_of_functions_are_imperative() -> None:
    paths = [path for folder in SOURCES for path in folder.rglob("*.py")]
    texts = ((path, *pair) for path in paths for pair in documented(ast.parse(path.read_text(encoding="utf-8"))))
    functions = [(path, name, text) for path, name, text in texts if re.search(r"(^|\.)_*[a-z]\w*$", name)]
    wrong = [f"{path.name}: {name}" for path, name, text in functions if THIRD_PERSON.match(text)]
    assert not wrong, f"write 'Return ...', not 'Returns ...': {', '.join(wrong)}"
