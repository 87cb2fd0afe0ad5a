"""Opens logs: read, write, select, clean."""
