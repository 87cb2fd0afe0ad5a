"""Mapping heuristics, found as entry points `batchcast.heuristics`."""
