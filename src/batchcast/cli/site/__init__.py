"""Verbs that run a site."""
