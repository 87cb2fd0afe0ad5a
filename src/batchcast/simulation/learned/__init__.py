# SPDX-License-Identifier: Apache-2.0
"""Learns a machine from a log: size and nodes, limits on each user's use (caps), outages, and jobs that waited for
reasons not in the log."""
