# SPDX-License-Identifier: Apache-2.0
"""Mapping heuristics, registered as entry points of the group `batchcast.heuristics`."""
