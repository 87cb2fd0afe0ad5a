# SPDX-License-Identifier: Apache-2.0
"""Derives a machine from a log: size and nodes, caps by user, outages, and jobs held for reasons not in the log."""
