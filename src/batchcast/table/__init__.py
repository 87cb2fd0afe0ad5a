# SPDX-License-Identifier: Apache-2.0
"""A log as immutable columns, with conversions from and to arrays, data frames and Arrow."""

from .columns import LogInfo, Nominal, Values, log_order
from .trace import Trace, check_log

__all__ = ["LogInfo", "Nominal", "Trace", "Values", "check_log", "log_order"]
