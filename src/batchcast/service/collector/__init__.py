# SPDX-License-Identifier: Apache-2.0
"""Reads the batch system in cycles, keeps what it saw, moves the live clock and issues forecasts."""
