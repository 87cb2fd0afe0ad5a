"""Check the dashboards against Grafana's own published types: python -m tools.check_dashboards. Needs npm.

Debian, PyPI and npm have no Grafana that could load them. `@grafana/schema` has the types with which Grafana's own code
is compiled. The TypeScript compiler checks each dashboard as a literal of `Dashboard`, so an unknown field, a missing
field or a word outside an enumeration is an error, and so are wrong options of a panel's kind.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .dashboards import DASHBOARDS, PLACE

PACKAGES = ("@grafana/schema@13.2.3", "typescript@5.9.3")
KINDS = {"timeseries": ("TimeSeries", "FieldConfig"), "stat": ("Stat", "")}
HEAD = """
type Json<T> = T extends string ? `${T}` : T extends (infer U)[] ? Json<U>[]
  : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
"""


def as_types(name: str, board: dict[str, Any]) -> str:
    """Return a dashboard as TypeScript that compiles if Grafana's schema allows it."""
    lines = [f"export const {name}: Json<Dashboard> = {json.dumps(board, indent=1)};"]
    for panel in board["panels"]:
        kind, field = KINDS[panel["type"]]
        where = f"{name}_{panel['id']}"
        lines.append(f"export const options_{where}: Json<Partial<{kind}.Options>> = {json.dumps(panel['options'])};")
        own = json.dumps(panel["fieldConfig"]["defaults"].get("custom", {}))
        lines.append(f"export const custom_{where}: {f'Json<Partial<{kind}.{field}>>' if field else '{}'} = {own};")
    return "\n".join(lines)


def checked() -> int:
    """Run the compiler, print its messages, and return its exit code."""
    if shutil.which("npm") is None:
        print("no npm here, which fetches Grafana's types", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as place:
        quiet = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
        subprocess.run(["npm", "install", *quiet, *PACKAGES], cwd=place, check=True)
        types = "@grafana/schema/dist/esm/raw/composable"
        parts = ["import type { Dashboard } from '@grafana/schema';"]
        for kind, (named, _) in KINDS.items():
            parts.append(f"import type * as {named} from '{types}/{kind}/panelcfg/x/{named}PanelCfg_types.gen';")
        parts.append(HEAD)
        parts += [as_types(name, json.loads((PLACE / f"{name}.json").read_text("utf-8"))) for name in DASHBOARDS]
        (Path(place) / "dashboards.ts").write_text("\n".join(parts), "utf-8")
        words = ("--noEmit", "--strict", "--moduleResolution", "bundler", "--module", "esnext", "--skipLibCheck")
        code = subprocess.run(["npx", "tsc", *words, "dashboards.ts"], cwd=place, check=False).returncode
    print(f"{', '.join(DASHBOARDS)}: {'as' if code == 0 else 'NOT as'} {PACKAGES[0]} has them")
    return code


if __name__ == "__main__":
    sys.exit(checked())
