"""Verbs that study a log."""
