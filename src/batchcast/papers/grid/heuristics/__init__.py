# SPDX-License-Identifier: Apache-2.0
"""Mapping heuristics, found as entry points `batchcast.heuristics`."""
