# SPDX-License-Identifier: Apache-2.0
"""Logs as CSV: somebody's own through a column map, and batchcast's."""
