"""Run the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

found = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("bench_"))
asked = [f"bench_{name.removeprefix('bench_')}" for name in sys.argv[1:]] or found
if unknown := [name for name in asked if name not in found]:
    sys.exit(f"no benchmark {', '.join(unknown)} (accepted: {', '.join(f.removeprefix('bench_') for f in found)})")
for name in asked:
    module = importlib.import_module(f"benchmarks.{name}")
    print(f"\n== {name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
    module.run()
