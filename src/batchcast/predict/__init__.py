# SPDX-License-Identifier: Apache-2.0
"""Predictors of run time and wait behind one protocol."""

from __future__ import annotations

from collections.abc import Mapping

OWN: Mapping[str, Mapping[str, str]] = {
    "runtime": {
        "actual": "runtime.actual:Actual",
        "bayesian_ridge": "runtime.regression:bayesian_ridge",
        "boosted": "runtime.regression:boosted",
        "brbf": "runtime.brbf:Brbf",
        "calibrated": "runtime.calibrated:Calibrated",
        "forest": "runtime.regression:forest",
        "irpa": "runtime.irpa:Irpa",
        "kernel": "runtime.kernel:Kernel",
        "knn_ga": "runtime.knn_ga:KnnGa",
        "largest_recent": "runtime.largest_recent:LargestRecent",
        "last_2": "runtime.last_2:Last2",
        "minh_wolters": "runtime.minh_wolters:MinhWolters",
        "parzen": "runtime.parzen:Parzen",
        "plain_regression": "runtime.plain_regression:PlainRegression",
        "recent_mean": "runtime.recent_mean:RecentMean",
        "requested": "runtime.requested:Requested",
        "smith_templates": "runtime.smith_templates:SmithTemplates",
        "su": "runtime.su:Su",
        "svr": "runtime.regression:svr",
        "trip": "runtime.trip:Trip",
        "user_clusters": "runtime.user_clusters:UserClusters",
    },
    "wait": {
        "forecast": "wait.forecast:Forecast",
        "ibl": "wait.ibl:Ibl",
        "log_uniform": "wait.log_uniform:LogUniform",
        "pqstar": "wait.pqstar:PQStar",
        "qbets": "wait.qbets:Qbets",
        "recent_wait": "wait.recent_wait:RecentWait",
        "scheduler_replay": "wait.scheduler_replay:SchedulerReplay",
    },
}
"""The methods of this package; they are here, since reading the entry points of all that is installed takes long."""
