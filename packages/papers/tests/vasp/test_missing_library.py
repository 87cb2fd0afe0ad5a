"""Tests what a method says whose library of the system is missing."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_missing_library_of_the_system_names_its_package(tmp_path: Path) -> None:
    """LightGBM from PyPI needs the system library libgomp, which a machine without a compiler may lack."""
    (tmp_path / "lightgbm.py").write_text(
        "raise OSError('libgomp.so.1: cannot open shared object file: No such file or directory')\n"
    )
    jobs = "\n".join(f"{k} {60 * k} 5 {50 + k % 7} 4 -1 -1 4 600 -1 1 {k % 3} 1 1 1 1 -1 -1" for k in range(1, 80))
    (tmp_path / "log.swf").write_text(jobs + "\n")
    words = ["runtime", str(tmp_path / "log.swf"), "--predictor", "boosted:min_jobs=20,refit_every_jobs=20"]
    words[-1] += ",features=procs+req_time"
    code = "from batchcast.cli.main import entry; entry()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "a library of the system is missing: libgomp.so.1" in done.stderr
    assert "libgomp1" in done.stderr.partition("try: ")[2]
