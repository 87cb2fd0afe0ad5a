# SPDX-License-Identifier: Apache-2.0
"""Evaluates predictors and schedules on a log: replays, comparisons and tables. `evaluation.evaluate` runs the whole
evaluation.

>>> import batchcast
>>> found = batchcast.evaluate(batchcast.read_trace(batchcast.demo_path()), predictor=["last_2"], policy=["easy"])
>>> found.validity.trusted, [row["predictor"] for row in found.schedule_rows()]
(True, ['requested', 'last_2', 'actual'])
"""
