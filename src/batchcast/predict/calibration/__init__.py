# SPDX-License-Identifier: Apache-2.0
"""Calibrated quantiles: levels are moved online until the intended share of jobs stays below them."""
