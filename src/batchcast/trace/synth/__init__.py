# SPDX-License-Identifier: Apache-2.0
"""Synthetic logs: published models of sizes, run times, arrivals and requests (`make_log`), and the demo's own site."""

from .log import Recipe, make_log
from .site import ROUND_LIMITS, Site, draw_arrivals, synthesize

__all__ = ["ROUND_LIMITS", "Recipe", "Site", "draw_arrivals", "make_log", "synthesize"]
