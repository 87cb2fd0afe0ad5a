"""The machine: its size, its partitions, and the free processors over time."""
