"""Tests `batchcast vasp` and `batchcast reproduce vasp` as a user sees them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import InputError, NoAnswer, UsageError
from batchcast.table import LogInfo, Trace
from batchcast.trace import read_trace, write_parquet

POTCAR = (
    "  PAW_PBE Fe 06Sep2000\n   8.0\n   TITEL  = PAW_PBE Fe 06Sep2000\n   LULTRA =        F\n"
    "   POMASS =   55.8; ZVAL   =    8.000\n   ENMAX  =  267.882; ENMIN  =  200.911 eV\n 0.25E+02\n End of Dataset\n"
)


def run(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def write(here, encut=300, atoms=1, kpoints=2):
    here.mkdir(parents=True)
    (here / "INCAR").write_text(f"ENCUT = {encut}\n")
    positions = "0 0 0\n" * atoms
    (here / "POSCAR").write_text(f"iron\n1\n5 0 0\n0 5 0\n0 0 {5 * atoms}\nFe\n{atoms}\nDirect\n{positions}")
    (here / "KPOINTS").write_text(f"mesh\n0\nGamma\n{kpoints} {kpoints} {kpoints}\n")
    (here / "POTCAR").write_text(POTCAR)
    return here


@pytest.fixture
def tree(tmp_path):
    """A history of sixty runs, two without a directory; the run time follows from the inputs."""
    rng = np.random.default_rng(0)
    rows = []
    for k in range(60):
        encut, atoms, kpoints = rng.choice([300, 500]), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        work_dir = f"/scratch/u{k % 3}/run{k}"
        if k not in (7, 40):
            write(tmp_path / "root" / work_dir.lstrip("/"), encut, atoms, kpoints)
        rows.append((600.0 * k, 0.0, (encut / 100) ** 1.5 * atoms * kpoints**3, 8.0, f"u{k % 3}", work_dir, 7200.0))
    names = ("submit_time", "wait_time", "run_time", "req_procs", "user_id", "work_dir", "req_time")
    log = Trace.from_arrays(dict(zip(names, zip(*rows))), LogInfo(unix_start=1.6e9, max_procs=64.0))
    write_parquet(log, tmp_path / "jobs.log")
    return tmp_path


def test_features_prints_every_feature_with_its_origin(tmp_path):
    result = run("vasp", "features", write(tmp_path / "run"))
    assert "encut" in result.stdout
    assert "default" in result.stdout
    document = json.loads(run("vasp", "features", tmp_path / "run", "--json").stdout)
    assert document["schema"] == "batchcast/vasp-features/1"
    assert document["results"] == [
        {"kpoints": 8.0, "volume": 125.0, "prec": "normal", "ichg": 2.0, "isym": 2.0, "lreal": "false", "ispin": 1.0,
         "istart": 0.0, "nelmin": 2.0, "nelm": 60.0, "ediff": 1e-4, "ediffg": 1e-3, "encut": 300.0, "nbands": 8.0,
         "nions": 1.0, "nelect": 8.0}
    ]  # fmt: skip
    assert "encut" not in document["settings"]["defaulted"]
    assert "nbands" in document["settings"]["defaulted"]


def test_features_of_a_broken_directory_name_file_line_and_tag(tmp_path):
    here = write(tmp_path / "run")
    (here / "INCAR").write_text("NELM = 40\nISPIN = both\n")
    with pytest.raises(InputError, match=r"run/INCAR:2: ISPIN cannot be read: 'both'"):
        run("vasp", "features", here)


@pytest.mark.lightgbm
def test_collect_makes_a_log_that_irpa_uses_like_any_other_predictor(tree):
    output = tree / "jobs.parquet"
    result = run("vasp", "collect", "--log", tree / "jobs.log", "--root", tree / "root", "-o", output, "--json")
    document = json.loads(result.stdout)
    assert document["results"] == [
        {"inputs": "read", "jobs": 58, "directories": 58},
        {"inputs": "vanished", "jobs": 2, "directories": 2},
    ]
    assert sorted(path.name for path in tree.iterdir()) == ["jobs.log", "jobs.parquet", "root"]
    assert read_trace(output).info.max_procs == 64.0
    specs = "requested,recent_mean,irpa:refit_every_jobs=30,min_jobs=20,boosted:refit_every_jobs=30,min_jobs=20"
    figures = json.loads(run("runtime", output, "--predictor", specs, "--json").stdout)["results"]
    apa = {row["predictor"].split(":")[0]: row["apa"] for row in figures}
    assert apa["irpa"] > apa["recent_mean"] > apa["requested"]


def test_collect_twice_keeps_what_has_gone(tree):
    import shutil

    output, given = tree / "jobs.parquet", ("--log", tree / "jobs.log", "--root", tree / "root")
    run("vasp", "collect", *given, "-o", output)
    shutil.rmtree(tree / "root" / "scratch" / "u1")
    document = json.loads(run("vasp", "collect", *given, "-o", output, "--json").stdout)
    assert document["results"][0] == {"inputs": "read", "jobs": 58, "directories": 40}
    assert any("keep the features of an earlier collect" in warning for warning in document["warnings"])


def test_collect_says_what_is_wrong_with_its_options(tree):
    with pytest.raises(UsageError, match=r"--root .*nowhere: is not a directory"):
        run("vasp", "collect", "--log", tree / "jobs.log", "--root", tree / "nowhere", "-o", tree / "x")
    with pytest.raises(UsageError, match=r"--output .*/x: there is no directory .*nowhere"):
        run("vasp", "collect", "--log", tree / "jobs.log", "--root", tree, "-o", tree / "nowhere" / "x")


def test_reproduce_lists_the_paper_and_refuses_unknown_methods(tmp_path):
    assert "vasp" in run("reproduce", "--help").stdout
    with pytest.raises(InputError, match="cannot be read"):
        run("reproduce", "vasp", "--data", tmp_path / "none.csv")


@pytest.mark.shared
@pytest.mark.long
def test_reproduce_on_the_shared_runs(shared, tmp_path):
    data, page = shared / "traces" / "vasp-klimes.csv.gz", tmp_path / "page.html"
    words = ("--data", data, "--resamples", 1, "--predictor", "bayesian_ridge,brbf", "-o", page, "--json")
    document = json.loads(run("reproduce", "vasp", *words).stdout)
    assert document["log"]["jobs"] == 3436
    real = [row for row in document["results"] if "data" not in row]
    assert [(row["split"], row["predictor"]) for row in real] == [
        ("time", "bayesian_ridge"), ("time", "brbf"), ("system", "bayesian_ridge"), ("system", "brbf")]  # fmt: skip
    assert all(0.4 < row["apa"] < 1 for row in real)
    assert {row["data"] for row in document["results"] if row not in real} == {"first", "second"}
    html = page.read_text()
    for title in (
        "Figure 1",
        "Figures 6 and 7",
        "Figures 8 and 9",
        "Table 2",
        "Table 3",
        "Table 4",
        "Table 5",
    ):
        assert title in html
    with pytest.raises(UsageError, match="did you mean irpa"):
        run("reproduce", "vasp", "--data", data, "--predictor", "irp")


@pytest.mark.parametrize("name", ["jobs.parquet", "jobs.csv", "jobs.csv.gz"])
def test_other_data_than_finished_runs_says_what_is_accepted(tmp_path, name):
    path = tmp_path / name
    if name == "jobs.parquet":
        write_parquet(Trace.from_arrays({"submit_time": [0.0], "run_time": [9.0]}), path)
    else:
        path.write_bytes(b"\x1f\x8b\x08\x00broken" if name.endswith("gz") else b"a,b\n\xff,1\n" * 3)
    with pytest.raises((InputError, NoAnswer), match=r"titel|cannot be read|no features of input files"):
        run("reproduce", "vasp", "--data", path, "--synthetic", 0)


def test_tags_become_columns_that_predictors_and_estimate_use(tree):
    """Relaxations run twenty times as long as static runs of the same inputs; only NSW distinguishes them."""
    log = read_trace(tree / "jobs.log", format="parquet")
    relaxes = np.arange(len(log)) % 2 == 1
    write_parquet(log.with_columns({"run_time": log.run_time * np.where(relaxes, 20.0, 1.0)}), tree / "jobs.log")
    for k, work_dir in enumerate(log.nominal("work_dir").decode()):
        incar = tree / "root" / work_dir.lstrip("/") / "INCAR"
        if k % 2 and incar.exists():
            incar.write_text(incar.read_text() + "NSW = 40\nMETAGGA = SCAN\n")
    output = tree / "jobs.parquet"
    given = ("--log", tree / "jobs.log", "--root", tree / "root", "-o", output)
    run("vasp", "collect", *given, "--tags", "nsw,METAGGA")
    collected = read_trace(output)
    assert set(np.unique(collected.number("incar_nsw"))) >= {0.0, 40.0}
    assert set(filter(None, collected.nominal("incar_metagga").decode())) == {"absent", "scan"}
    words = ("vasp", "estimate", "--history", output, "--procs", 8, "--json", "--predictor")
    new = write(tree / "new")
    (new / "INCAR").write_text("ENCUT = 300\nNSW = 40\n")
    spec = "forest:min_jobs=20,also=incar_nsw"
    relax = json.loads(run(*words, spec, new).stdout)["results"][0]["run_s"]
    (new / "INCAR").write_text("ENCUT = 300\n")
    static = json.loads(run(*words, spec, new).stdout)["results"][0]["run_s"]
    assert relax > 4 * static
    run("vasp", "collect", *given, "--tags", "all")
    assert {"incar_nsw", "incar_encut"} <= set(read_trace(output).names)


def test_reproduce_prints_the_tables_of_ones_own_jobs(tree):
    output = tree / "jobs.parquet"
    run("vasp", "collect", "--log", tree / "jobs.log", "--root", tree / "root", "-o", output)
    words = ("reproduce", "vasp", "--data", output, "--predictor", "forest,bayesian_ridge", "--resamples", 1)
    document = json.loads(run(*words, "--json").stdout)
    assert document["log"]["jobs"] == 58
    assert {(row["predictor"], row["split"]) for row in document["results"]} == {
        ("forest", "time"), ("bayesian_ridge", "time")}  # fmt: skip
    page = tree / "own.html"
    printed = run(*words, "-o", page).stdout
    assert "MRE printed" not in printed
    assert "58 of 60 jobs are used" in printed
    assert "Table 5: jobs.parquet" in page.read_text()
