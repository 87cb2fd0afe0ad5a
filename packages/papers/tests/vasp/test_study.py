"""Tests the study on VASP runs: copies are removed first, no system is on both sides, and nothing comes from the test
set."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.errors import InputError
from batchcast_papers.vasp import study as vasp_study
from batchcast_papers.vasp.study import (
    NEEDED,
    differences_tables,
    distribution,
    facts,
    range_tables,
    read_runs,
    resampled,
    shares_table,
    study,
    system_split,
    time_split,
)

ROW = {
    "date": "2021.03.01  02:20:40", "elapsed_s": "3000.5", "cpu_s": "2990", "maxmem_kb": "1000", "cores": "32",
    "titel": "PAW_PBE H_h 06Feb2004;PAW_PBE C 08Apr2002", "zval": "1.000;4.000", "ions_per_type": "4   1",
    "nkpts": "1", "nbands": "38", "nelect": "8.0", "encut": "1000.0", "prec": "acc", "ispin": "1", "lhfcalc": "F",
    "lreal": "A", "nelm": "60", "ediff": "0.1E-06", "volume": "42875.0",
}  # fmt: skip


def write(path, rows):
    lines = [",".join(NEEDED), *(",".join(str({**ROW, **row}[name]) for name in NEEDED) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def runs(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for k in range(200):
        bands, system = int(rng.integers(10, 60)), k % 10
        rows.append({
            "date": f"2021.03.{1 + k // 20:02d}  {k % 20:02d}:00:00",
            "elapsed_s": 60.0 * bands * rng.uniform(0.95, 1.05),
            "nbands": bands, "ions_per_type": f"{system + 1} 1", "lhfcalc": "T" if k % 3 == 0 else "F",
        })  # fmt: skip
    return read_runs(write(tmp_path / "runs.csv", rows))


def test_copies_and_unfinished_runs_are_dropped_and_counted(tmp_path):
    later = {"date": "2021.03.02  02:20:40", "elapsed_s": "4000"}
    runs = read_runs(write(tmp_path / "r.csv", [later, {}, {}, {"cpu_s": "1"}, {"elapsed_s": ""}]))
    assert len(runs.trace) == 3
    assert list(runs.trace.info.dropped.values()) == [1, 1]
    assert runs.trace.run_time.tolist() == [3000.5, 3000.5, 4000.0]
    assert runs.system.tolist() == ["C1H4"] * 3
    assert runs.kind[0] == "PBE, ENCUT 1000 eV"


def test_features_follow_the_readers_rules(tmp_path):
    runs = read_runs(write(tmp_path / "r.csv", [{"lhfcalc": "T", "prec": "accura"}]))
    job = next(iter(runs.trace.requests()))
    assert (job.procs, job.extra["isym"], job.extra["prec"], job.extra["lreal"]) == (32.0, 3.0, "accurate", "auto")
    assert (job.extra["nelect"], job.extra["nions"], job.extra["ediffg"]) == (8.0, 5.0, pytest.approx(1e-6))


def test_broken_tables_are_named(tmp_path):
    with pytest.raises(InputError, match=r"r\.csv:3: a run that cannot be read"):
        read_runs(write(tmp_path / "r.csv", [{}, {"date": "yesterday"}]))
    (tmp_path / "x.csv").write_text("date,cores\n")
    with pytest.raises(InputError, match=r"x\.csv:1: no column elapsed_s"):
        read_runs(tmp_path / "x.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_runs(tmp_path / "none.csv")


def test_time_split_teaches_only_what_had_ended(runs):
    longer = runs.trace.run_time.copy()
    longer[[100, 158]] = 7 * 3600.0  # run 158 still runs when the test set begins
    split = time_split(runs._replace(trace=runs.trace.with_columns({"run_time": longer})))
    assert split.test.tolist() == list(range(160, 200))
    assert split.train.tolist() == [k for k in range(160) if k != 158]


def test_no_system_is_on_both_sides(runs):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        split = system_split(runs, rng)
        drawn = resampled(split, rng)
        assert not set(runs.system[drawn.train]) & set(runs.system[drawn.test])
        assert 0.1 <= len(split.test) / 200 <= 0.3
        assert len(split.train) + len(split.test) == 200


def test_study_gives_one_flat_object_a_split_and_method(runs):
    results = study(runs, ["bayesian_ridge", "recent_mean:fields=procs"], resamples=2)
    assert [(row["split"], row["predictor"].split(":")[0]) for row in results] == [
        ("time", "bayesian_ridge"), ("time", "recent_mean"),
        ("system", "bayesian_ridge"), ("system", "recent_mean")]  # fmt: skip
    assert results[0]["apa"] > 0.9 > results[1]["apa"]
    assert results[0]["apa_sd"] >= 0
    assert {"acc_0_30_min", "rec_over_180_min", "acc_under_60_min", "best_90_mre", "mae_s"} <= set(results[0])
    same = study(runs, ["bayesian_ridge"], resamples=2)[0]
    assert same["apa"] == results[0]["apa"]


def test_every_method_is_held_against_the_forest_over_systems_and_few_of_them_have_no_interval(runs):
    many = runs._replace(system=np.array([f"s{k % 60}" for k in range(200)]))
    results = study(many, ["forest", "bayesian_ridge", "recent_mean:fields=procs"], splits=("time",), resamples=1)
    forest, _, mean = results
    assert "against" not in forest
    assert mean["differences"]["apa"].value == pytest.approx(mean["apa"] - forest["apa"])
    assert mean["groups_of"] == "one system's runs"
    assert mean["differences"]["apa"].high < 0
    assert mean["differences"]["apa"].verdict == "behind"
    table = differences_tables(results, "split in time")[0]
    assert [row["name"] for row in table.rows] == ["bayesian_ridge (BRR)", "recent_mean:fields=procs"]
    assert "behind" in table.rows[1]["apa_words"]
    few = study(runs, ["forest", "bayesian_ridge"], splits=("time",), resamples=1)[1]
    assert few["differences"]["apa"].verdict == "unknown"
    assert differences_tables(study(runs, ["bayesian_ridge"], splits=("time",), resamples=1), "x") == []


def test_brbf_says_how_many_keys_have_a_network_and_how_much_they_answer(runs):
    split = time_split(runs)
    general = vasp_study.predict_split(runs.trace, split, "brbf")[1]
    by_key = vasp_study.predict_split(runs.trace, split, "brbf:key_min=1")[1]
    assert (general["key_networks"], general["by_key_network"]) == (0, 0.0)
    assert by_key["key_networks"] > 0
    assert by_key["by_key_network"] > 0.5
    assert np.isnan(vasp_study.predict_split(runs.trace, split, "bayesian_ridge")[1]["by_key_network"])


@pytest.mark.lightgbm
def test_tables_2_to_4_have_the_printed_figures_beside_ours(runs):
    rows = [row | {"name": row["predictor"]} for row in study(runs, ["bayesian_ridge", "boosted"], resamples=1)[:2]]
    precision, recall = range_tables(rows, "here")
    assert [row["name"] for row in precision.rows] == ["bayesian_ridge", "bayesian_ridge, printed", "boosted"]
    assert precision.rows[1]["acc_30_60_min"] == 0.099
    assert recall.rows[1]["rec_60_90_min"] == 0.211
    assert recall.rows[0]["rec_0_30_min"] == rows[0]["rec_0_30_min"]
    table = shares_table([{"data": name, **row} for name in ("first", "second") for row in distribution(runs)])
    over = next(row for row in table.rows if row["range"] == ">120")
    assert over["printed"] == 0.265
    assert over["ours"] == pytest.approx(float((runs.trace.run_time >= 7200).mean()))
    assert [row["printed"] for row in table.rows if row["data"] == "second, tested"] == [0.68, 0.75]


def test_the_test_rows_change_nothing_that_was_learnt(runs, monkeypatch):
    split = time_split(runs)
    before = vasp_study.predict_split(runs.trace, split, "forest")[0]
    poisoned = runs.trace.run_time.copy()
    poisoned[split.test] = 1.0
    trace = runs.trace.with_columns({"run_time": poisoned})
    assert vasp_study.predict_split(trace, split, "forest")[0].tolist() == before.tolist()


def test_a_method_that_is_not_there_is_said(runs, monkeypatch):
    monkeypatch.setattr(vasp_study, "available", lambda kind: {})
    assert study(runs, ["irpa"], resamples=1)[0] == {"predictor": "irpa", "split": "time", "note": "not installed yet"}


def test_distribution_and_facts(runs):
    rows = distribution(runs)
    assert sum(row["share_all"] for row in rows) == pytest.approx(1.0)
    known = facts(runs)
    assert known["keys"] == 2
    assert "nbands" not in known["constant_features"]
    assert "volume" in known["constant_features"]


@pytest.mark.shared
def test_the_shared_runs_are_those_the_paper_file_counts(shared):
    runs = read_runs(shared / "traces" / "vasp-klimes.csv.gz")
    assert len(runs.trace) == 3436
    assert sum(runs.trace.info.dropped.values()) == 5947 - 3436
    assert (runs.trace.run_time.min(), runs.trace.run_time.max()) == (pytest.approx(930.456), pytest.approx(84959.709))
    assert facts(runs)["keys"] == 4
