# SPDX-License-Identifier: Apache-2.0
"""Prequential runs, comparisons and tables. `evaluation.evaluate` does all of it.

>>> import batchcast
>>> found = batchcast.evaluate(batchcast.read_trace(batchcast.demo_path()), predictor=["last_2"], policy=["easy"])
>>> found.validity.trusted, [row["predictor"] for row in found.schedule_rows()]
(True, ['requested', 'last_2', 'actual'])
"""
