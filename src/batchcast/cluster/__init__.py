# SPDX-License-Identifier: Apache-2.0
"""The machine: its size, its partitions, and the free processors over time."""
