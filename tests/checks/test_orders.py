"""Runs the public conformance suite on every built-in queue order, and on a function of the user's own."""

import pytest
from tests.naive.orders import odd

from batchcast.schedule.orders import NAMES
from batchcast.testing.policy import ORDER_CHECKS

ORDERS = [*NAMES, *(f"{name}:on=requested,ageing=0.5" for name in NAMES if name != "fcfs"), odd]


@pytest.mark.parametrize("check", ORDER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: getattr(order, "__name__", order))
def test_passes(order, check):
    check(order)


def test_an_order_without_an_answer_is_told_so():
    def careless(now, submit, procs, planned, wait):
        return 1.0 / wait

    with pytest.raises(AssertionError, match=r"waited 0 s: .*zero"):
        ORDER_CHECKS[0](careless)
