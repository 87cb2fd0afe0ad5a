"""Verbs for users of a cluster."""
