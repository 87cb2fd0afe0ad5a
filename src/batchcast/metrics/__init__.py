"""Accuracy, waits and schedule quality: pure functions on arrays."""
