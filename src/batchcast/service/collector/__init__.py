# SPDX-License-Identifier: Apache-2.0
"""The collector: reads the batch system in cycles, stores it, moves the live clock and issues forecasts."""
