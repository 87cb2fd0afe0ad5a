# SPDX-License-Identifier: Apache-2.0
"""Tests that the example notebook runs from a clean kernel and that its pictures are not empty."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "study.ipynb"
pytestmark = pytest.mark.long


def test_the_notebook_runs_and_draws_its_five_pictures(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
    image = pytest.importorskip("matplotlib.image", reason="matplotlib draws the pictures")
    import nbformat

    book = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)  # the repository contains no pictures of the notebook
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
    drawn = [out["data"]["image/png"] for out in outputs if "image/png" in out.get("data", {})]
    assert len(drawn) == 5
    for picture in drawn:
        pixels = image.imread(io.BytesIO(base64.b64decode(picture)))
        assert (pixels[..., :3].min(axis=2) < 0.9).mean() > 0.005  # more bytes than an empty frame has
    assert "easy, Half" in outputs[-1]["text"]
    assert not [out for out in outputs if out.output_type == "error"]
