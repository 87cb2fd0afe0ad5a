"""A wait predictor of a user that decides which jobs are quick starters, without a predicted wait."""

import numpy as np

from batchcast.predict.protocol import QuickMarks


class SmallJobsFirst:
    """Marks jobs on one processor as quick starters."""

    target, protocol, remark, search_s = "wait_time", "starts_first", "Small jobs count as quick.", 1.5

    def __init__(self, threshold: float = 60.0):
        self.threshold, self.is_small = threshold, {}

    def predict(self, job, at):
        self.is_small[job.row] = job.procs <= 1
        return self.threshold

    def observe(self, event, at):
        pass

    @property
    def marks(self):
        quick = np.array([self.is_small.get(row, False) for row in range(1 + max(self.is_small))])
        return QuickMarks(quick, np.zeros(len(quick), bool), np.zeros(len(quick)), has_waits=False)
