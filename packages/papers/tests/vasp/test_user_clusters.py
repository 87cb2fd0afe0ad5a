import numpy as np

from batchcast.events.recorded import replay
from batchcast.table import Trace
from batchcast_papers.vasp.methods import UserClusters


def test_a_new_user_who_submits_like_others_gets_their_run_times():
    """Two kinds of users: some submit many short small jobs, some few long wide jobs; after a refit a new user joins
    one kind."""
    rng = np.random.default_rng(1)
    rows = []
    for user in range(6):
        wide = user % 2 == 1
        gap, procs, run = (5000.0, 64, 9000.0) if wide else (60.0, 1, 30.0)
        for k in range(20):
            rows.append((k * gap + user, user, procs, run + rng.integers(5)))
    submit, user, procs, run = (np.array(c) for c in zip(*rows))
    trace = Trace.from_arrays(
        {"submit_time": submit, "user_id": user.astype(int), "req_procs": procs, "run_time": run, "wait_time": 0 * run}
    )
    method = UserClusters(clusters=2, every=10)
    answer = replay(trace, {"m": method})["m"].points[-10:]
    truth = trace.run_time[-10:]
    assert np.all(np.abs(answer - truth) < 0.2 * truth)
    assert method.trained
    assert method.trained[-1]["clusters"] == 2
