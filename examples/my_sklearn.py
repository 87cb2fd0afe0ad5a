"""Any scikit-learn regressor as a run-time predictor, beside the requests and the mean of similar jobs."""

from sklearn.ensemble import HistGradientBoostingRegressor

import batchcast
from batchcast import SklearnRuntime

FEATURES = ("user_id", "req_time", "procs", "app_id", "queue_id")


def boosted():
    """The predictor that `--predictor my_sklearn:boosted` names, in the folder of this file."""
    return SklearnRuntime(HistGradientBoostingRegressor(random_state=0), FEATURES, refit_every=500)


if __name__ == "__main__":
    log = batchcast.read_trace(batchcast.demo_path())
    ran = log.run_time == log.run_time
    for name, told in batchcast.replay(log, {"boosted": boosted()}).items():
        print(name, f"mean error {abs(told.points - log.run_time)[ran].mean():.0f} s, {len(log)} jobs")
    for name, told in batchcast.replay(log, ["requested", "recent_mean"]).items():
        print(name, f"mean error {abs(told.points - log.run_time)[ran].mean():.0f} s")
