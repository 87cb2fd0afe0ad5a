"""Runs the public conformance suite on every registered heuristic and on the second readings of the paper."""

import pytest

from batchcast.broker.testing import CHECKS, check_heuristic, no_job_is_lost
from batchcast.predict.registry import available, make

SETTINGS = {"search": "search:kicks=60", "exact": "exact:seconds=0.3,kicks=60"}
MORE = ("ebest:reading=job", "esufferage:lone=last,urgent=0", "emin_min:urgent=0.9", "asjs:compute=0.3,urgent=0")
SPECS = [SETTINGS.get(name, name) for name in available("heuristic")] + list(MORE)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("spec", SPECS)
def test_passes(spec, check):
    if spec.startswith("exact") and check is no_job_is_lost:
        pytest.skip("exact takes up to its time limit at each of hundreds of mapping events")
    check(lambda: make("heuristic", spec))


def test_the_suite_catches_a_heuristic_that_ends_jobs_late():
    class Late:
        deadlines = True

        def assign(self, batch):
            return make("heuristic", "mct").assign(batch)

    with pytest.raises(AssertionError, match="planned to end"):
        check_heuristic(Late)
