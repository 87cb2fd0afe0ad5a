"""A run-time predictor of one's own: the user's last run time with a tenth on top, else the request."""

import batchcast
from batchcast import Prediction, testing
from batchcast.events.event import End


class LastPlus:
    def __init__(self):
        self.last = {}

    def predict(self, job, at):
        asked = job.req_time if 0 < job.req_time < float("inf") else 3600.0
        return Prediction(max(1.0, min(self.last.get(job.user_id, asked), asked)))

    def observe(self, event, at):
        if isinstance(event, End) and event.run_time == event.run_time:  # NaN: it never ran
            self.last[event.job.user_id] = 1.1 * event.run_time


print(testing.check_predictor(lambda trace: LastPlus()))
log = batchcast.read_trace(batchcast.demo_path())
for runtime in ("requested", LastPlus()):
    print(batchcast.simulate(log, batchcast.Policy(backfill_order="sjf"), runtime).measures()["mean_wait_s"])
