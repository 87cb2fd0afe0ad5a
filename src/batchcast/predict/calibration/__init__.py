# SPDX-License-Identifier: Apache-2.0
"""Quantiles that keep what they promise: levels moved online, one event at a time or a whole log at once."""
