# SPDX-License-Identifier: Apache-2.0
"""The collector: reads the batch system in cycles, stores jobs, advances the live clock, and issues predictions."""
