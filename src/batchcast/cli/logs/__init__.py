"""Verbs that turn logs into other logs."""
