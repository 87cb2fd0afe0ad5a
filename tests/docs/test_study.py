"""Tests that the code of docs/start/study.md runs, prints what the page shows, and draws pictures that are not
empty."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "start" / "study.md"
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """Return each piece of code with the output that the page shows for it, or with an empty string."""
    found: list[tuple[str, str]] = []
    for kind, body in BLOCK.findall(text):
        if kind == "python":
            found.append((body, ""))
        else:
            found[-1] = (found[-1][0], found[-1][1] + body)
    return found


@pytest.mark.long
def test_the_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws the pictures")
    import matplotlib.figure
    import matplotlib.image

    drawn: list[Any] = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))
    )
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("study")  # pickle finds the page's classes by this module name
    monkeypatch.setitem(sys.modules, "study", module)
    told = blocks(PAGE.read_text(encoding="utf-8"))
    assert len(told) >= 8
    for code, shown in told:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(PAGE), "exec"), vars(module))
        said = out.getvalue()
        assert said == shown, f"{code}\nprinted\n{said}\nand the page says\n{shown}"
    assert (tmp_path / "report" / "index.html").is_file()
    assert len(list(tmp_path.glob("*.pdf"))) == len(drawn) == 5
    for k, figure in enumerate(drawn):
        save(figure, tmp_path / f"{k}.png")
        pixels = matplotlib.image.imread(tmp_path / f"{k}.png")
        assert (pixels[..., :3].min(axis=2) < 0.9).mean() > 0.005  # more bytes than an empty frame has


def test_code_and_what_it_prints_are_told_apart() -> None:
    assert blocks("```python\na\n```\n```text\n1\n```\n```python\nb\n```\n") == [("a\n", "1\n"), ("b\n", "")]
