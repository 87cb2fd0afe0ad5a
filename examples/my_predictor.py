"""A run-time predictor of your own: the user's last run time plus a tenth, else the request."""

import batchcast
from batchcast import testing
from batchcast.events.event import End


class LastPlus:
    def __init__(self):
        self.last = {}

    def predict(self, job, at):
        asked = job.req_time if 0 < job.req_time < float("inf") else 3600.0
        return max(1.0, min(self.last.get(job.user_id, asked), asked))

    def observe(self, event, at):
        if isinstance(event, End) and event.run_time == event.run_time:  # NaN: it never ran
            self.last[event.job.user_id] = 1.1 * event.run_time


print(testing.check_predictor(LastPlus))
log = batchcast.read_trace(batchcast.demo_path())
for predictor in ("requested", LastPlus):
    print(batchcast.simulate(log, "easy-sjbf", predictor).measures()["mean_wait_s"])
