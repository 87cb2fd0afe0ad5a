"""Report on the structure of the package: `make house`, or `python -m tools.rooms [CHECKOUT]`.

It prints the rooms and their sizes, circles of imports, imports from a lower room to a higher one, the words of each
shelf of the docs, and whatever may be too large, with advice. Circles and imports uphill are tests too
(tests/unit/house/test_rooms.py); sizes are advice only, because a long file may hold one idea.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .figures.pages import BLOCK

MOST_THINGS, MOST_LINES, MOST_ARGUMENTS, MOST_FUNCTION_LINES, MOST_GUIDE_WORDS = 20, 600, 8, 60, 700
KERNELS = {"kernel", "inner", "inlined", "allocating"}
ROOT = Path(__file__).parent.parent
Graph = dict[str, dict[str, list[str]]]
"""Module -> module that it imports from -> imported names."""


class Module(NamedTuple):
    """A file of the package by its dotted name."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        """The package to which its relative imports refer."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@cache
def parsed(text: str) -> ast.Module:
    """Parse a source once, because several rules read each file."""
    return ast.parse(text)


def modules(package: Path) -> dict[str, Module]:
    """Return every Python file below the folder of a package, by name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path)
    return found


def graph(package: Path, *, for_types: bool = False) -> Graph:
    """Return which module imports which, with lazy imports, and those under `if TYPE_CHECKING:` if `for_types`."""
    files = modules(package)
    return {name: _imports(module, files, for_types) for name, module in files.items()}


def _imports(module: Module, files: Mapping[str, Module], for_types: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in _nodes(parsed(module.path.read_text(encoding="utf-8")), for_types):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
            targets = {f"{base}.{a.name}" if f"{base}.{a.name}" in files else base: a.name for a in node.names}
        elif isinstance(node, ast.Import):
            targets = {alias.name: alias.name for alias in node.names}
        else:
            continue
        for target, name in targets.items():
            if target in files and target != module.name:
                found.setdefault(target, []).append(name)
    return found


def _nodes(node: ast.AST, for_types: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not for_types and isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _nodes(child, for_types)


def circles(arrows: Graph) -> list[list[str]]:
    """Return the groups of modules that reach each other, sorted (Tarjan, SIAM Journal on Computing, 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in arrows[name]:
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in arrows:
        if name not in number:
            visit(name)
    return found


def in_words(circle: list[str], arrows: Graph) -> str:
    """Describe a circle with its imported names, one import per line."""
    ties = [(a, b, arrows[a][b]) for a in circle for b in circle if b in arrows[a]]
    return "\n".join(f"  {a} takes {', '.join(names)} from {b}" for a, b, names in ties)


def uphill(arrows: Graph, layers: list[str]) -> list[str]:
    """Describe imports from a lower room by a higher one or a neighbour; `layers` are from the top down."""
    floor = {room.strip(): k for k, line in enumerate(layers) for room in line.split("|")}

    def room_of(name: str) -> str:
        while name and name not in floor:
            name = name.rpartition(".")[0]
        return name

    found = []
    for a, targets in arrows.items():
        for b, names in targets.items():
            one, other = room_of(a), room_of(b)
            if one and other and one != other and floor[other] <= floor[one]:
                found.append(f"{a} takes {', '.join(names)} from {b}, which is not below it")
    return found


def layers_of(checkout: Path) -> list[str]:
    """Return the rooms from the top down, from the contract in pyproject.toml."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    return list(project["tool"]["importlinter"]["contracts"][0]["layers"])


def crowded(top: Path, rooms: Path | None = None) -> dict[str, int]:
    """Return folders with more than `MOST_THINGS` Python files and folders; of `rooms`, whose folders are rooms, only
    files count.
    """
    found = {}
    for folder in sorted({path.parent for path in top.rglob("*.py")}):
        files = len(list(folder.glob("*.py")))
        folders = len({path.parent for path in folder.glob("*/*.py")}) if folder != rooms else 0
        if files + folders > MOST_THINGS:
            found[folder.relative_to(top.parent).as_posix()] = files + folders
    return found


def crowded_in(checkout: Path) -> dict[str, int]:
    """Return crowded folders of the package, of the tests (whose `unit` has the package's rooms), and beside them."""
    package, tests = checkout / "src" / "batchcast", checkout / "tests"
    found = crowded(package, package) | crowded(tests, tests / "unit")
    for name in ("benchmarks", "tools", "examples"):
        found |= crowded(checkout / name)
    return found


class Lines(NamedTuple):
    """Numbers of lines: of code (without blanks, comments and docstrings), of docstrings, of comments, and of all."""

    code: int
    docstrings: int
    comments: int
    all: int

    @classmethod
    def of(cls, path: Path) -> Lines:
        """Count the lines of a file. A comment after code counts as code and as a comment."""
        text = path.read_text(encoding="utf-8")
        code: set[int] = set()
        comments = 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            comments += token.type == tokenize.COMMENT
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                code |= set(range(token.start[0], token.end[0] + 1)) if token.string else set()
        texts: set[int] = set()
        for node in ast.walk(parsed(text)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                texts |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return cls(len(code - texts), len(texts), comments, text.count("\n"))


def code_lines(path: Path) -> int:
    """Count lines of code, without blanks, comments and docstrings."""
    return Lines.of(path).code


def too_large(package: Path) -> list[str]:
    """Functions with more than `MOST_ARGUMENTS` or `MOST_FUNCTION_LINES`; kernels and verbs are left out."""
    found = []
    for module in modules(package).values():
        for node in ast.walk(parsed(module.path.read_text(encoding="utf-8"))):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            by = {ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in node.decorator_list}
            if by & (KERNELS | {"command", "group", "verb"}):
                continue
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([arg for arg in given if arg.arg not in ("self", "cls")])
            doc = node.body[0] if ast.get_docstring(node) else None
            lines = (node.end_lineno or 0) - node.lineno + 1
            lines -= (doc.end_lineno or 0) - doc.lineno + 1 if doc else 0
            if count > MOST_ARGUMENTS or lines > MOST_FUNCTION_LINES:
                found.append(f"{module.name}.{node.name}: {count} arguments, {lines} lines")
    return found


def main(checkout: Path) -> None:
    """Print the report."""
    package = checkout / "src" / "batchcast"
    files, arrows, typed = modules(package), graph(package), graph(package, for_types=True)
    rooms: dict[str, list[Path]] = {}
    for name, module in files.items():
        rooms.setdefault(name.split(".")[1] if module.path.parent != package else "(top)", []).append(module.path)
    print(f"{'room':<14}{'files':>7}" + "".join(f"{name:>11}" for name in Lines._fields))
    rows = [(room, len(paths), *map(sum, zip(*map(Lines.of, paths)))) for room, paths in rooms.items()]
    for row in [*sorted(rows), ("all", *map(sum, list(zip(*rows))[1:]))]:
        print(f"{row[0]:<14}{row[1]:>7,}" + "".join(f"{count:>11,}" for count in row[2:]))
    small = sum(code_lines(module.path) < MOST_FUNCTION_LINES for module in files.values())
    print(f"below {MOST_FUNCTION_LINES} lines of code: {small} files")
    print(f"circles: {len(circles(arrows))}, with imports for types {len(circles(typed))}")
    for circle in circles(typed):
        print(f"  {', '.join(circle)}")
    print(f"arrows uphill: {len(uphill(arrows, layers_of(checkout)))}")
    _advise(
        f"folders of more than {MOST_THINGS} Python files and folders",
        [f"{name}: {count}" for name, count in crowded_in(checkout).items()],
        "join files that are read together, or give a group of them a folder named by what it does",
    )
    _advise(
        f"files of more than {MOST_LINES} lines of code",
        [f"{name}: {code_lines(m.path)}" for name, m in files.items() if code_lines(m.path) > MOST_LINES],
        "split a file that holds two ideas; leave a file that holds one",
    )
    _advise(
        f"functions of more than {MOST_ARGUMENTS} arguments or {MOST_FUNCTION_LINES} lines",
        too_large(package),
        "pass what belongs together as one dataclass; move a step that has a name of its own into a function",
    )
    # a table between marks is written by `python -m tools.figures` and not by people
    pages = {path: BLOCK.sub("", path.read_text(encoding="utf-8")) for path in (checkout / "docs").rglob("*.md")}
    words = {path: len(text.split()) for path, text in pages.items()}
    shelves: dict[str, int] = {}
    for path, count in words.items():
        shelf = path.relative_to(checkout / "docs").parts[0]
        shelves[shelf] = shelves.get(shelf, 0) + count
    print(f"words of the docs: {sum(words.values()):,}: ", end="")
    print(", ".join(f"{shelf} {count:,}" for shelf, count in sorted(shelves.items())))
    _advise(
        f"guides of more than {MOST_GUIDE_WORDS} words",
        [
            f"{path.name}: {count}"
            for path, count in words.items()
            if path.parent.name == "guides" and count > MOST_GUIDE_WORDS
        ],
        "keep one task a guide; measurements belong in docs/evidence",
    )


def _advise(what: str, findings: list[str], advice: str) -> None:
    """Print one finding per line, and what to do about them."""
    print(f"{what}: {len(findings)}" + (f" ({advice})" if findings else ""))
    for line in findings:
        print(f"  {line}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
