# SPDX-License-Identifier: Apache-2.0
"""The public conformance suite: checks for any predictor, scheduler or queue order, which batchcast's own methods pass.

>>> from batchcast import testing
>>> from batchcast.predict.runtime.baselines import Last2
>>> len(testing.check_predictor(lambda trace: Last2())) > 5
True
"""

from .logs import odd_logs, small_log
from .policy import check_order, check_policy
from .predictor import check_predictor, check_wait_predictor

__all__ = ["check_order", "check_policy", "check_predictor", "check_wait_predictor", "odd_logs", "small_log"]
