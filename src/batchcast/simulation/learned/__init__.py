# SPDX-License-Identifier: Apache-2.0
"""Learns a machine from a log: size and nodes, caps of users, outages, and jobs held for reasons not in the log."""
