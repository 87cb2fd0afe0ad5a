"""Run the timings named on the command line, or all of them."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from benchmarks import speed

found = sorted(module.name for module in pkgutil.iter_modules(speed.__path__))
asked = sys.argv[1:] or found
if unknown := [name for name in asked if name not in found]:
    sys.exit(f"no benchmark {', '.join(unknown)} (accepted: {', '.join(found)})")
for name in asked:
    module = importlib.import_module(f"benchmarks.speed.{name}")
    print(f"\n== {name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
    module.run()
