"""PBS behind one transport."""
