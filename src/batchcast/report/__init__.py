# SPDX-License-Identifier: Apache-2.0
"""Pages and terminal tables: `page(title, sections, provenance)` makes one self-contained HTML file.

Sections are made of the blocks in `blocks`; `figures` builds the plots as plain values.
"""

from __future__ import annotations

from .blocks import Block, Callout, Figure, Section, Table, TableColumn, page

__all__ = ["Block", "Callout", "Figure", "Section", "Table", "TableColumn", "page"]
