"""The registered heuristics that decide at once: the broker's own, and those of installed packages."""

from batchcast.predict.registry import available, load

QUICK = [name for name in available("heuristic") if not getattr(load("heuristic", name), "slow", False)]
