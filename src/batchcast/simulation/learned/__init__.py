# SPDX-License-Identifier: Apache-2.0
"""What a log implies of its machine: size and nodes, caps by user, outages, and jobs held for what no log says."""
