"""A queue order of your own: narrow and short jobs first, but a day of waiting outweighs everything."""

import batchcast
from batchcast import testing


def my_order(now, submit, procs, planned, wait):
    return procs * planned / 3600.0 - (wait / 86400.0) ** 3 * 1000.0


if __name__ == "__main__":
    print(testing.check_order(my_order))
    log = batchcast.read_trace(batchcast.demo_path())
    for order in ("fcfs", "saf", my_order):
        measures = batchcast.simulate(log, batchcast.Policy(order), "requested").measures()
        print(measures["mean_wait_s"], measures["max_wait_s"])
