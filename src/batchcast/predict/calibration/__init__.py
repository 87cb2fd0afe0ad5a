# SPDX-License-Identifier: Apache-2.0
"""Calibrated quantiles: levels are adjusted online until each quantile covers the intended share of jobs."""
