"""Mapping heuristics, one file each, found as entry points `batchcast.heuristics`."""
