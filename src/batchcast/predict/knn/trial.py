"""A training set made ready to try parameters on: what would they have predicted, each job at its own instant?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .fitness import score, sweep
from .genetic import Gene
from .nearest import normalised
from .orders import Orders, neighbour_orders
from .store import Store

NOMINALS = ("user_id", "group_id", "queue_id", "app_id")
NUMBERS = ("procs", "req_time", "req_mem_kib")
USER = 0b0001
TEMPLATES = tuple(range(16))
RANGES = {"n": (100, 3000), "k": (1, 50), "alpha": (0.0, 2.0), "beta": (0.1, 2.0)}
GENES = (
    *(Gene("bit") for _ in NOMINALS),
    Gene("int", *RANGES["n"]),
    Gene("int", *RANGES["k"]),
    Gene("real", *RANGES["alpha"]),
    Gene("real", *RANGES["beta"]),
)


class Parameters(NamedTuple):
    """What the search settles: template (bits: user, group, queue, application), N, K, alpha, beta."""

    template: int
    n: int
    k: int
    alpha: float
    beta: float

    @classmethod
    def of(cls, genome: np.ndarray) -> Parameters:
        """From a genome (x1..x4, N, K, alpha, beta)."""
        template = sum(int(bit) << field for field, bit in enumerate(genome[:4]))
        return cls(template, int(genome[4]), int(genome[5]), float(genome[6]), float(genome[7]))

    def fields(self) -> tuple[str, ...]:
        """The template in words."""
        return tuple(name for field, name in enumerate(NOMINALS) if (self.template >> field) & 1)


class Trial(NamedTuple):
    """A training set made ready: orders per template and what each job knew at its submission."""

    orders: dict[int, Orders]
    done: np.ndarray
    run: np.ndarray
    total: np.ndarray
    limit: np.ndarray
    fallback: np.ndarray
    actual: np.ndarray

    @classmethod
    def of(cls, training: dict[str, np.ndarray], store: Store, low: np.ndarray, span: np.ndarray) -> Trial:
        """From the training jobs' columns, the finished jobs that may be looked at, and the batch's scaling."""
        finished = store.finished
        done = np.searchsorted(finished["place"], training["done"])
        orders = neighbour_orders(
            normalised(training["values"], low, span),
            training["codes"],
            done,
            normalised(finished["values"], low, span),
            finished["codes"].copy(),
            TEMPLATES,
            int(RANGES["k"][1]),
        )
        run, total = finished["run"].copy(), finished["total"].copy()
        return cls(orders, done, run, total, training["limit"], training["fallback"], training["run"])

    def estimates(self, chosen: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Est and std of every training job; std NaN where the limit was the only answer."""
        own, user = self.orders[chosen.template], self.orders[USER]
        return sweep(*own, *user, self.done, self.run, self.total, self.fallback, chosen.n, chosen.k)

    def score(self, chosen: Parameters, pu_weight: float) -> tuple[float, float, float]:
        """Fitness, MAE and PU on the training set."""
        mean, std = self.estimates(chosen)
        return score(mean, std, self.limit, self.actual, chosen.alpha, chosen.beta, pu_weight)
