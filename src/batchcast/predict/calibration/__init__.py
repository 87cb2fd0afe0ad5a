"""Promised levels kept by moving the level that is asked: for run times and waits alike."""
