import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast.events.event import End
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast_papers.vasp.methods import Parzen, density_mode

NAN = float("nan")


def job(**fields):
    return JobRequest(0, 1, 0.0, fields.pop("procs", 1.0), fields.pop("req_time", NAN), NAN, **fields)


def test_finds_the_denser_of_two_modes_where_a_mean_would_fall_between():
    method, state = Parzen(keys=("user_id",)), SystemState()
    for run in [60.0] * 3 + [7000.0, 7100.0, 7200.0, 7300.0, 6900.0]:
        method.observe(End(0.0, job(user_id="ada"), run, 0.0), state)
    assert 6500 < method.predict(job(user_id="ada"), state).point < 7500


def test_keys_over_extra_columns_part_classes():
    method, state = Parzen(keys=("ispin", "prec")), SystemState()
    method.observe(End(0.0, job(extra={"ispin": 1, "prec": "high"}), 100.0, 0.0), state)
    method.observe(End(0.0, job(extra={"ispin": 2, "prec": "high"}), 900.0, 0.0), state)
    assert method.predict(job(extra={"ispin": 1, "prec": "high"}), state).point == 100.0
    assert round(method.predict(job(extra={"ispin": 2, "prec": "high"}), state).point) == 900


@given(st.lists(st.floats(0, 6), min_size=1, max_size=30))
def test_no_point_of_a_fine_grid_is_denser_than_the_mode(values):
    from batchcast_papers.vasp.methods import bandwidth

    logs = np.array(values)
    width = bandwidth(logs)

    def density(x):
        return np.exp(-0.5 * ((logs - x) / width) ** 2).sum()

    grid = max(density(x) for x in np.linspace(-1, 7, 801))
    assert density(density_mode(logs)) >= 0.8 * grid
