# SPDX-License-Identifier: Apache-2.0
"""Synthetic logs: published models of sizes, run times, arrivals and requests (`make_log`)."""

from .log import Recipe, make_log

__all__ = ["Recipe", "make_log"]
