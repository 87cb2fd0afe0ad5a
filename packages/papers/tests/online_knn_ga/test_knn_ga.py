"""Tests knn_ga against its slow reference version, job by job and genome by genome, under both protocols."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import knn as naive

from batchcast.events.driver import Cadence
from batchcast.events.event import End, Submit
from batchcast.events.recorded import events, replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.table import Trace
from batchcast_papers.online_knn_ga.genetic import Gene, minimise
from batchcast_papers.online_knn_ga.methods import NOMINALS, NUMBERS, KnnGa, Parameters

H, T1, T2 = 8, 6, 4
TRIED = (Parameters(5, 3, 1, 0.5, 0.7), Parameters(0, 5, 3, 1.5, 1.2), Parameters(10, 2, 9, 0.0, 2.0))


@st.composite
def logs(draw):
    n = draw(st.integers(1, 36))
    few = st.sampled_from

    def column(values):
        return draw(st.lists(few(values), min_size=n, max_size=n))

    return Trace.from_arrays(
        {
            "submit_time": np.cumsum(column([0.0, 1.0, 5.0])),
            "wait_time": np.array(column([0.0, 2.0, 9.0])),
            "run_time": np.array(column([0.0, 1.0, 3.5, 40.0, 41.0, math.nan])),
            "user_id": column(["ada", "bob", None]),
            "group_id": column(["x", "y"]),
            "app_id": column([None, 3]),
            "req_procs": np.array(column([1.0, 2.0, 16.0])),
            "req_time": np.array(column([10.0, 30.0, 60.0, math.nan, math.inf])),
            "req_mem_kib": np.array(column([math.nan, 5.0])),
        }
    )


def bits(template):
    return tuple((template >> field) & 1 for field in range(4))


def told(trace, protocol, method):
    """Run the method and its reference version side by side; yields (job, prediction, finished jobs so far,
    request)."""
    state, cadence = SystemState(), Cadence(method)
    finished, requests, numbers = [], [], {}
    for event in events(trace, protocol):
        if isinstance(event, Submit):
            cadence.submitted(event.time)
            job = event.job
            asked = {
                "nominals": tuple(getattr(job, name) for name in NOMINALS),
                "numbers": tuple(v if math.isfinite(v) else math.nan for v in (getattr(job, name) for name in NUMBERS)),
                "limit": job.req_time if math.isfinite(job.req_time) else math.nan,
            }
            largest = max((r["limit"] for r in requests if r["limit"] > 0), default=86400.0)
            asked["fallback"] = largest if math.isnan(asked["limit"]) else asked["limit"]
            asked["known"] = len(finished)
            yield job, method.predict(job, state), finished, asked, requests
            numbers[job.row] = len(requests)
            requests.append(asked)
        state.apply(event)
        method.observe(event, state)
        if isinstance(event, End):
            asked = requests[numbers[event.job.row]]
            asked["run"] = event.run_time
            finished.append(naive.Done(numbers[event.job.row], asked["nominals"], asked["numbers"], event.run_time))


@settings(max_examples=20)
@given(logs(), st.sampled_from(["honest", "paper"]))
def test_every_prediction_and_every_fitness_equals_the_naive_twin(trace, protocol):
    method = KnnGa(h=H, t1=T1, t2=T2, population=4, generations=3)
    seen = -1
    for job, answer, finished, asked, requests in told(trace, protocol, method):
        batch = method.batch
        assert batch == max((len(requests) - H - T1) // T2, -1)
        oldest = max(batch, 0) * T2
        history = requests[oldest : oldest + H] if batch >= 0 else requests
        scale = naive.scale_of([r["numbers"] for r in history])
        p = method.parameters
        chosen = (bits(p.template), p.n, p.k, p.alpha, p.beta)
        keys = ("nominals", "numbers", "limit", "fallback")
        expected = naive.predict(finished, *(asked[key] for key in keys), scale, chosen, oldest)
        assert math.isclose(answer.point, expected, rel_tol=1e-9), job
        if batch > seen:
            seen = batch
            training = [r for r in requests[oldest + H : oldest + H + T1] if "run" in r]
            trial = method.trial(50)
            assert len(trial.jobs["run"]) == len(training)
            for genome in (
                Parameters(5, 3, 1, 0.5, 0.7),
                Parameters(0, 5, 3, 1.5, 1.2),
                Parameters(10, 2, 9, 0.0, 2.0),
            ):
                if training:
                    key = (bits(genome.template), *genome[1:])
                    pairs = [
                        (naive.predict(finished[: r["known"]], *(r[k] for k in keys), scale, key, oldest), r["run"])
                        for r in training
                    ]
                    assert math.isclose(trial.score(genome, 1.0)[0], naive.fitness(pairs), rel_tol=1e-9)


def test_parameters_are_written_down_with_their_cost_and_depend_on_the_seed_only():
    rng = np.random.default_rng(3)
    n = 60
    trace = Trace.from_arrays(
        {
            "submit_time": np.arange(n) * 10.0,
            "wait_time": np.zeros(n),
            "run_time": rng.integers(1, 100, n).astype(float),
            "user_id": rng.integers(0, 3, n),
            "req_time": np.full(n, 200.0),
            "req_procs": rng.integers(1, 9, n),
        }
    )
    one, same, other = (KnnGa(h=20, t1=10, t2=10, population=6, generations=4, seed=seed) for seed in (1, 1, 2))
    answers = replay(trace, {"one": one, "same": same, "other": other})
    assert [row["first_job"] for row in one.trained] == [30, 40, 50]
    assert all(0 < row["evaluations"] <= 24 for row in one.trained)
    assert one.trained == same.trained != other.trained
    np.testing.assert_array_equal(answers["one"].points, answers["same"].points)


def test_linear_and_svr_stay_inside_their_neighbours_and_under_the_cap():
    n = 120
    procs = np.tile([1.0, 2.0, 4.0, 8.0], n // 4)
    trace = Trace.from_arrays(
        {
            "submit_time": np.arange(n) * 1000.0,
            "wait_time": np.zeros(n),
            "run_time": procs * 50.0,
            "user_id": np.ones(n, int),
            "req_time": np.full(n, 1000.0),
            "req_procs": procs,
        }
    )
    for model in ("linear", "svr"):
        points = replay(trace, {"m": KnnGa(h=40, t1=20, t2=20, generations=5, local_model=model)})["m"].points
        assert np.all((points >= 1) & (points <= 1000))
        assert np.abs(points - trace.run_time)[60:].mean() < 20


def test_the_genetic_search_finds_the_enumerated_optimum_on_a_small_log():
    from itertools import product

    from batchcast.testing import small_log
    from batchcast_papers.online_knn_ga.genetic import Gene, minimise

    method = KnnGa(h=60, t1=80, t2=200, population=3, generations=1)
    replay(small_log(150), {"it": method})
    trial = method.trial(50)
    assert len(trial.jobs["run"]) > 50

    def fitness(genome):
        template = sum(int(bit) << field for field, bit in enumerate(genome[:4]))
        return trial.score(Parameters(template, int(genome[4]), int(genome[5]), 0.5, 1.0), 1.0)[0]

    every = [np.array(g, float) for g in product((0, 1), (0, 1), (0, 1), (0, 1), range(1, 41), range(1, 9))]
    genes = (*(Gene("bit") for _ in range(4)), Gene("int", 1, 40), Gene("int", 1, 8))
    found = minimise(genes, fitness, np.random.default_rng(0), population=50, generations=100)
    assert found.fitness == min(map(fitness, every))
    assert found.evaluations < len(every)


def test_without_generations_the_windows_move_on_and_the_first_rule_stays():
    log = Trace.from_arrays(
        {
            "submit_time": np.arange(40) * 100.0,
            "wait_time": np.zeros(40),
            "run_time": np.where(np.arange(40) < 2, 9.0, 50.0),
            "user_id": ["ada"] * 2 + ["bob"] * 37 + ["ada"],
        }
    )
    method = KnnGa(H, T1, T2, generations=0)
    points = replay(log, {"it": method})["it"].points
    assert not method.trained
    assert points[39] == 50.0  # ada's two jobs lie before the HistSet, so the mean of all users is predicted
    assert replay(log, {"it": KnnGa(h=10**6)})["it"].points[39] == 9.0


def test_a_basis_says_that_nothing_was_searched_yet() -> None:
    method = KnnGa(h=1, t1=1, t2=1, population=3, generations=2)
    job, state = request("ada"), SystemState()
    method.observe(Submit(0.0, job), state)
    method.observe(End(9.0, job, 9.0, 0.0), state)
    assert method.predict(job, state).basis.endswith("not trained before 2 submissions")
    method.trained.append({})
    assert "not trained" not in method.predict(job, state).basis


def request(user: str) -> JobRequest:
    return JobRequest(0, 1, 0.0, 1.0, 600.0, math.nan, user_id=user)


def hourly(n, **columns):
    """A log of one user's jobs whose run time follows from the name; each job ends before the next one begins."""
    kind = np.arange(n) % 2
    given = {"submit_time": np.arange(n) * 3600.0, "wait_time": np.zeros(n), "run_time": 100.0 + 900.0 * kind,
             "user_id": ["ada"] * n, "req_time": np.full(n, 3600.0), "req_procs": np.full(n, 4.0)}  # fmt: skip
    names = {name: [values[k] for k in kind.tolist()] for name, values in columns.items()}
    return Trace.from_arrays({**given, **names})


def test_windows_grow_from_the_first_search_until_they_are_full():
    method = KnnGa(h=30, t1=10, t2=20, first=9, population=6, generations=3)
    replay(hourly(100), {"it": method})
    assert [row["batch"] for row in method.trained] == [-3, -2, -1, 0, 1, 2]
    assert [row["first_job"] for row in method.trained] == [9, 18, 36, 40, 60, 80]
    assert method.trained[0]["training_jobs"] == 3  # a third of the first nine jobs


def test_growing_windows_change_nothing_once_the_full_ones_have_begun():
    grown, full = (KnnGa(h=30, t1=10, t2=20, first=first, population=6, generations=3) for first in (9, 0))
    answers = replay(hourly(100, job_name=["relax", "static"]), {"grown": grown, "full": full})
    np.testing.assert_array_equal(answers["grown"].points[40:], answers["full"].points[40:])
    assert grown.trained[3:] == full.trained


def test_a_slurm_log_is_parted_by_its_own_columns_and_the_answer_names_them():
    names = {"account": ["phys", "chem"], "partition_id": ["short", "long"], "job_name": ["relax", "static"]}
    method = KnnGa(h=30, t1=10, t2=20, first=9, population=12, generations=6)
    answers = replay(hourly(100, **names), {"it": method})["it"]
    np.testing.assert_allclose(answers.points[60:], 100.0 + 900.0 * (np.arange(60, 100) % 2))
    found = set(method.trained[-1]["template"].split("+"))
    assert found & {"account", "partition_id", "job_name"}
    assert not found & {"group_id", "queue_id", "app_id"}
    assert found & set(answers.basis[-1].replace(",", "").split())
    plain = replay(hourly(100), {"it": KnnGa(h=30, t1=10, t2=20, first=9, population=12, generations=6)})["it"]
    assert abs(plain.points[60:] - answers.points[60:]).mean() > 400.0  # without names, no field separates the jobs


def test_a_range_widens_while_the_best_genome_lies_at_its_end():
    """The best K is 170 and the range ends at 50, so the search must widen the range to 100 and then to 200."""
    rounds = []

    def fitness(genes):
        rounds.append([gene.high for gene in genes[4:]])
        return lambda genome: (abs(genome[5] - 170.0) + abs(genome[4] - 1000.0) / 1e6, 0.0, 0.0)

    found = {}
    for widen in (0, 1, 5):
        method = KnnGa(widen=widen, population=40, generations=60)
        method.batch = 0
        genes = (*[Gene("bit")] * 4, *method.ranges())
        found[widen] = method.searched(0.0, genes, fitness, 1).best[5]
    assert found[0] == 50.0
    assert 90.0 < found[1] <= 100.0
    assert abs(found[5] - 170.0) < 10.0
    assert all(ends[0] == 3000 for ends in rounds)  # a range is not widened if the best value lies inside it


def test_wider_searches_are_tried_on_orders_that_reach_far_enough():
    method = KnnGa(h=60, t1=30, t2=30, first=0, most_k=2, widen=3, pu_weight=0.0, population=40, generations=20)
    rng = np.random.default_rng(0)
    log = hourly(180)
    replay(log.with_columns({"run_time": rng.uniform(100.0, 3000.0, 180)}), {"it": method})
    chosen = method.trained[-1]
    assert chosen["k"] > 2
    trial = method.trial(64)
    assert trial.score(method.parameters, 0.0)[0] == pytest.approx(chosen["fitness"])


def test_a_search_ends_early_with_patience():
    found = [minimise([Gene("int", 0, 3)], lambda g: float(g[0]), np.random.default_rng(0), generations=100,
                      patience=patience) for patience in (0, 2)]  # fmt: skip
    assert found[0].best.tolist() == found[1].best.tolist() == [0.0]
    rounds = []
    minimise([Gene("real", 0, 1)], lambda g: rounds.append(0) or 0.0, np.random.default_rng(0), population=10,
             generations=100, patience=2)  # fmt: skip
    assert len(rounds) <= 30  # three rounds of ten, not a hundred rounds
