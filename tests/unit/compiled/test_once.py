"""A kernel is compiled by one process of all that want it."""

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import sys
import numpy as np
from batchcast.predict.wait.log_uniform import fitted
print("ready", flush=True)
sys.stdin.readline()
fitted(np.array([4.0, 2.0, 1.0]), np.zeros(3), 0.5)
print(sum(fitted.stats.cache_misses.values()), sum(fitted.stats.cache_hits.values()), flush=True)
"""


def test_of_two_that_want_it_at_once_one_compiles_and_the_other_reads(tmp_path: Path) -> None:
    there = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"XDG_CACHE_HOME": str(tmp_path)}
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen([sys.executable, "-c", CODE], env=there, text=True, **pipe) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    ends = [one.communicate() for one in both]
    assert [words for _, words in ends] == ["", ""]
    assert sorted(counts.split() for counts, _ in ends) == [["0", "1"], ["1", "0"]]
