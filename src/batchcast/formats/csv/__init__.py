# SPDX-License-Identifier: Apache-2.0
"""Logs in CSV: foreign files through a column map, and batchcast's own CSV."""
