"""Tests predicted ends from distributions, speeds from a user's own jobs, and scripts translated for another
cluster."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import pytest

from batchcast.clusters.configured import Cluster, configured, translated
from batchcast.clusters.finish import COMONOTONE, combined, correction, ratio
from batchcast.clusters.offers import ranked
from batchcast.formats.slurm.sbatch import Request
from batchcast.store.ledger import Offer

SHARES = [(k + 0.5) / 20 for k in range(20)]


@pytest.mark.parametrize("together", [0.0, 1.0])
def test_nine_of_ten_jobs_end_by_the_90_percent_time_under_the_dependence_that_is_assumed(together: float) -> None:
    """Waits and run times, independent or fully dependent: the sum of two 90 % times would cover 95 of 100 ends."""
    wait, run = NormalDist(5.0, 1.0), NormalDist(7.0, 0.7)
    waits, runs = ([math.exp(each.inv_cdf(share)) for share in SHARES] for each in (wait, run))
    end = combined(waits, runs) if together == 0.0 else combined(waits, runs, dependence=COMONOTONE)
    rng = random.Random(7)
    held = 0
    for _ in range(4000):
        first = rng.random()
        second = first if together else rng.random()
        held += math.exp(wait.inv_cdf(first)) + math.exp(run.inv_cdf(second)) <= end.quantile(0.9)
    assert 0.88 <= held / 4000 <= 0.92
    assert end.chance(end.quantile(0.9)) == pytest.approx(0.9, abs=0.03)


def test_ends_that_are_told_too_early_are_told_later_until_nine_of_ten_hold() -> None:
    """Jobs take twice their predicted time, so predictions are lengthened; a correct or too late prediction is not
    changed."""
    rng = random.Random(3)
    spans = [math.exp(rng.gauss(0.0, 0.5)) for _ in range(2000)]
    told = math.exp(NormalDist(0.0, 0.5).inv_cdf(0.9))
    for slower, low, high in ((2.0, 0.87, 0.93), (1.0, 0.88, 0.95), (0.3, 0.99, 1.0)):
        lateness = [slower * span / told for span in spans]
        held = [one <= correction(lateness[:k], 0.9) for k, one in enumerate(lateness) if k >= 30]
        assert low <= sum(held) / len(held) <= high, slower


def test_a_wait_that_nobody_can_bound_leaves_no_chance_beyond_what_is_known() -> None:
    end = combined([10.0, math.inf], [5.0])
    assert (end.chance(1e9), end.quantile(0.9)) == (0.5, math.inf)


def test_the_ratio_of_two_clusters_holds_its_interval_over_many_users() -> None:
    """Names differ in their speed ratio, and jobs of a name in their run time: nine of ten intervals contain the true
    value."""
    rng = random.Random(3)
    truth, held = math.log(0.6), 0
    for _ in range(400):
        runs: list[dict[str, list[float]]] = [{}, {}]
        for name in "abcd":
            level, own = rng.gauss(6, 1), rng.gauss(0, 0.15)
            for there, of in enumerate(runs):
                logs = [level + there * (truth + own) + rng.gauss(0, 0.3) for _ in range(6)]
                mean = sum(logs) / 6
                of[name] = [6, mean, sum((x - mean) ** 2 for x in logs) / 6]
        low, high = ratio(*runs).interval
        held += low <= 0.6 <= high
    assert 0.83 <= held / 400 <= 0.97


def test_an_operators_figure_comes_before_jobs_and_no_evidence_is_said() -> None:
    mine = {"relax": [9.0, 5.0, 0.1]}
    by_figure = ratio(mine, mine, 1.0, 2.0)
    assert by_figure.value == pytest.approx(0.5)
    assert "figures" in by_figure.basis
    assert "no job of yours ran on both" in ratio(mine, {"other": [9.0, 5.0, 0.1]}).basis


def test_a_deadline_that_is_met_or_missed_everywhere_leaves_the_earliest_end_as_the_best() -> None:
    def offer(name: str, chance: float, end: float, hours: float) -> Offer:
        return Offer(cluster=name, chance_done_by=chance, expected_end_s=end, core_hours=hours)

    for chance in (1.0, 0.0):
        rows = [offer("cheap", chance, 7200.0, 1.0), offer("early", chance, 600.0, 1.1)]
        assert [row.cluster for row in ranked(rows, True)] == ["early", "cheap"]
    rows = [offer("late", 0.2, 600.0, 1.0), offer("sure", 0.9, 900.0, 1.0), offer("likely", 0.7, 500.0, 1.0)]
    assert [row.cluster for row in ranked(rows, True)] == ["sure", "likely", "late"]


def test_gpu_types_and_full_nodes_are_written_as_the_other_cluster_has_them() -> None:
    home = Cluster(name="a", store="x", cores_per_node=64)
    there = Cluster(name="b", store="x", cores_per_node=128, translate={"gpu": {"a100": "h100"}})
    asked = {"nodes": "4", "ntasks-per-node": "64", "gpus-per-node": "a100:2", "gres": "gpu:v100:1"}
    new, notes = translated(Request(asked), home, there)
    assert new.options == {"nodes": "2", "ntasks-per-node": "128", "gpus-per-node": "h100:2", "gres": "gpu:v100:1"}
    assert notes == ["b: no translation of GPU type 'v100': requested without a change"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('submit = "qsub"', "has no word sbatch"),
        ('service = "/s.sock"', "give store = PATH or service = ADDRESS"),
        ('bandwidth = { home = "fast" }', "an amount per second"),
        ('translate = { queue = { a = "b" } }', "accepted: partition, qos, account, constraint, gpu"),
        ("pateince_s = 3", "pateince_s"),
    ],
)
def test_a_wrong_table_is_named_and_leaves_the_other_clusters(tmp_path: object, line: str, words: str) -> None:
    path = f"{tmp_path}/batchcast.toml"
    good = '[[cluster]]\nname = "alpha"\nstore = "a.db"\n'
    with open(path, "w") as file:
        file.write(f'{good}[[cluster]]\nname = "beta"\nstore = "b.db"\n{line}\n')
    known = configured({"BATCHCAST_CONFIG": path})
    assert [one.name for one in known.clusters] == ["alpha"]
    (problem,) = known.problems
    assert problem.startswith("beta: left out: ")
    assert words in problem
