# SPDX-License-Identifier: Apache-2.0
"""Predictors of run time and queue wait. All predictors follow one protocol (`Predictor`)."""

from __future__ import annotations

from collections.abc import Mapping

OWN: Mapping[str, Mapping[str, str]] = {
    "runtime": {
        "actual": "runtime.baselines:Actual",
        "calibrated": "runtime.calibrated:Calibrated",
        "kernel": "runtime.kernel:Kernel",
        "largest_recent": "runtime.baselines:LargestRecent",
        "last_2": "runtime.baselines:Last2",
        "recent_mean": "runtime.baselines:RecentMean",
        "requested": "runtime.baselines:Requested",
        "soft_walltime": "runtime.baselines:SoftWalltime",
    },
    "wait": {
        "forecast": "wait.forecast:Forecast",
        "recent_wait": "wait.recent_wait:RecentWait",
        "scheduler_replay": "wait.scheduler_replay:SchedulerReplay",
    },
}
"""The predictors of this package. They are listed here because reading the entry points of every installed package is
slow.
"""
