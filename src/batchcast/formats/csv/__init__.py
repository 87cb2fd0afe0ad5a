"""Logs as CSV: somebody's own through a column map, and batchcast's."""
