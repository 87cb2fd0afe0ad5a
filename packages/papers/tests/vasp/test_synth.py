"""Tests that synthetic VASP jobs resemble the paper's jobs: enough keys for a network, many users, jobs in every
bin."""

import numpy as np

from batchcast_papers.vasp.methods import KEY
from batchcast_papers.vasp.synthetic import draw_vasp_log


def test_the_paper_s_scale_has_three_large_keys_many_users_and_every_bin():
    log = draw_vasp_log(np.random.default_rng(0))
    teaching = log.take(np.arange(int(0.8 * len(log))))
    columns = [teaching.nominal(name).codes if name in ("prec", "lreal") else teaching.number(name) for name in KEY]
    counts = np.unique(np.column_stack(columns), axis=0, return_counts=True)[1]
    assert (counts > 3000).sum() >= 2
    assert len(np.unique(log.nominal("user_id").codes)) > 50
    shares = np.histogram(log.run_time / 60.0, [0, 30, 60, 90, 120, np.inf])[0] / len(log)
    np.testing.assert_allclose(shares, [0.557, 0.096, 0.049, 0.033, 0.265], atol=0.002)


def test_the_same_seed_gives_the_same_jobs():
    one, other = (draw_vasp_log(np.random.default_rng(3), 300, shares="second") for _ in range(2))
    assert one.run_time.tolist() == other.run_time.tolist()
    assert abs(float((one.run_time <= 3600).mean()) - 0.68) < 0.01
