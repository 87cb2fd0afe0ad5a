import numpy as np

from batchcast.events.recorded import replay
from batchcast.table import Trace
from batchcast_papers.su.methods import Su


def named_log(n=240):
    """Jobs of one user with two families of names and very different run times; no name occurs twice."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, n)
    names = [f"wing_{k:03d}" if kind else f"turbulence-model-{k:03d}" for k, kind in enumerate(kinds)]
    run = np.where(kinds, 60.0, 7200.0) * rng.uniform(0.9, 1.1, n)
    return Trace.from_arrays(
        {
            "submit_time": np.arange(n) * 10000.0,
            "wait_time": np.zeros(n),
            "run_time": run,
            "req_procs": np.full(n, 16.0),
            "user_id": ["ada"] * n,
            "job_name": names,
        }
    )


def test_a_name_never_seen_gets_the_run_times_of_its_family():
    log = named_log()
    methods = {"su": Su(model="linear", every=40, starts=5), "without": Su(model="linear", every=40, clusters=False)}
    said = replay(log, methods)
    late = slice(160, None)
    errors = {name: np.abs(f.points - log.run_time)[late].mean() for name, f in said.items()}
    assert errors["su"] < 1500
    assert errors["without"] > 2000
    assert methods["su"].trained[-1]["clusters"] >= 2


def test_what_the_search_found_is_written_down():
    method = Su(model="linear", every=40, search=20, starts=5)
    replay(named_log(), {"it": method})
    assert [row["first_job"] for row in method.trained] == list(range(40, 240, 40))
    assert all(row["k"] in (5, 10, 20, 40) and 0.8 <= row["alpha"] <= 2.0 for row in method.trained)
    assert all(0 < row["evaluations"] <= 80 for row in method.trained)
