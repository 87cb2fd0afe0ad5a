# SPDX-License-Identifier: Apache-2.0
"""Pages and terminal tables: `page(title, sections, provenance)` returns one self-contained HTML page.

Sections consist of the block types in `blocks`; `figures` builds the plots as plain values.
"""

from __future__ import annotations

from .blocks import Block, Callout, Figure, Section, Table, TableColumn, page

__all__ = ["Block", "Callout", "Figure", "Section", "Table", "TableColumn", "page"]
