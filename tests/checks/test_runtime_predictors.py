"""Runs the public conformance suite on every registered run-time predictor, with settings small enough to be
trained."""

import numpy as np
import pytest

from batchcast.predict.registry import available, make, parse_spec
from batchcast.testing.logs import odd_logs, small_log
from batchcast.testing.predictor import CHECKS, check_predictor, future_is_hidden

LEARNERS = ("irpa", "brbf", "forest", "svr", "bayesian_ridge", "boosted")
TRAINED = {
    "knn_ga": "knn_ga:h=40,t1=20,t2=20,population=6,generations=3",
    "minh_wolters": "minh_wolters:h=40,t1=20,t2=20,population=4,generations=2,sample=10",
    "smith_templates": "smith_templates:h=40,t1=20,t2=20,population=4,generations=2",
    "trip": "trip:count=3,window=20,every=20,trust=0.5",
    "plain_regression": "plain_regression:every=40,window=60",
    "su": "su:every=40,search=3,starts=2",
    "user_clusters": "user_clusters:every=40,clusters=3",
    **{name: f"{name}:features=procs+req_time+user_id,refit_every_jobs=40,min_jobs=20" for name in LEARNERS},
}
MORE = (
    "last_2:need=2,round=down",
    "knn_ga:h=40,t1=20,t2=20,population=4,generations=2,local_model=linear,warm_start=yes",
    "plain_regression:model=linear,every=40",
    "minh_wolters:h=40,t1=20,t2=20,population=4,generations=2,sample=10,apart=yes",
    "parzen:keys=app_id+queue_id,statistic=mean,window=none",
    "irpa",  # these logs have no VASP features, so `irpa` predicts from job history
    "irpa:features=core_num+app_id+user_id,refit_every_jobs=40,min_jobs=20,warm_start=yes,mean=seconds,sub_models=all",
    "brbf:features=core_num+app_id+user_id,refit_every_jobs=40,min_jobs=20,warm_start=yes,key_min=10",
)
SLOW = (
    "su:model=forest,every=20,search=2,starts=2",
    "su:model=linear,every=20,search=10,objective=mae,starts=2",
    "su:model=linear,clusters=no,every=20",
    "plain_regression:model=forest,every=20",
    "irpa:features=core_num+app_id+user_id,refit_every_jobs=20,min_jobs=10,upper=forest",
    "boosted:features=core_num+app_id,refit_every_jobs=10,min_jobs=10,warm_start=yes",
)
JOBS = 110
"""Settings that refit the trained methods every 40 jobs, so that the suite's log causes two refits."""
SPECS = [TRAINED.get(name, name) for name in available("runtime")]
SPECS += [spec for spec in MORE if parse_spec(spec)[0] in available("runtime")]  # the papers may not be installed


def maker(spec):
    return lambda trace: make("runtime", spec, answers=trace.run_time)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("spec", SPECS)
def test_passes(spec, check):
    if check is future_is_hidden and getattr(maker(spec)(small_log(5)), "is_oracle", False):
        pytest.skip(f"{spec} is the oracle: it was constructed with the answers and says so in its name")
    check(maker(spec), small_log(JOBS))


UNTRAINED = ("irpa",)


@pytest.mark.parametrize(
    "spec", [spec for spec in SPECS if spec not in UNTRAINED and hasattr(maker(spec)(small_log(5)), "refit")]
)
def test_small_settings_do_reach_training(spec):
    """Without a refit the suite would test only the fallback of an untrained method."""
    from batchcast.events.recorded import replay

    method = maker(spec)(small_log(JOBS))
    replay(small_log(JOBS), {"method": method})
    assert method.trained


@pytest.mark.slow
@pytest.mark.parametrize("spec", [spec for spec in SLOW if parse_spec(spec)[0] in available("runtime")])
def test_the_costly_variants_pass_on_a_short_log(spec):
    """Exclude forests from this test: each prediction takes tens of milliseconds."""
    check_predictor(maker(spec), small_log(40))


@pytest.mark.parametrize("spec", SPECS)
def test_every_answer_without_much_to_go_by_says_what_it_rests_on(spec):
    """In a log of one job that never ends and has only times, `basis` must name the fallback."""
    from batchcast.events.recorded import replay

    odd = odd_logs()
    for name in ("one job", "no history: nothing ever ends", "missing fields"):
        told = replay(odd[name], {"it": maker(spec)(odd[name])}, ask=np.ones(len(odd[name]), bool))["it"]
        assert all(told.basis), f"{spec}, {name}: no word on what the forecast rests on"
        assert "unstated" not in told.grounds, f"{spec}, {name}: no grounds that code may ask"
