# SPDX-License-Identifier: Apache-2.0
"""A small genetic algorithm over bits, whole numbers and reals; it minimises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Gene(NamedTuple):
    """One gene: `bit`, `int` or `real`, in [low, high]."""

    kind: str
    low: float = 0.0
    high: float = 1.0


class Evolved(NamedTuple):
    """The best genome ever met, its fitness, the last population (best first) and how many fitnesses were computed."""

    best: np.ndarray
    fitness: float
    population: np.ndarray
    evaluations: int
    course: tuple[float, ...]


TOURNAMENT, CROSSOVER, ELITE, STEP = 3, 0.9, 2, 0.1


def minimise(
    genes: Sequence[Gene],
    fitness: Callable[[np.ndarray], float],
    rng: np.random.Generator,
    *,
    population: int = 50,
    generations: int = 100,
    start: np.ndarray | None = None,
) -> Evolved:
    """The best genome found in `generations` rounds of `population` genomes (the first round is random or `start`).

    Tournament of 3, uniform crossover with probability 0.9, each gene mutated with probability 1/L (a bit flips, a
    number takes a Gaussian step of a tenth of its range, rounded and clipped), the best 2 live on. A genome met before
    is not computed again. Ties go to the genome met first. O(population * generations) fitnesses.

    >>> found = minimise([Gene("int", 0, 100)], lambda g: abs(g[0] - 42), np.random.default_rng(0), generations=30)
    >>> float(found.best[0])
    42.0
    """
    low, high = np.array([g.low for g in genes]), np.array([g.high for g in genes])
    kinds = np.array([g.kind for g in genes])
    met: dict[bytes, float] = {}

    def scored(genomes: np.ndarray) -> np.ndarray:
        for genome in genomes:
            key = genome.tobytes()
            if key not in met:
                met[key] = float(fitness(genome))
        return np.array([met[genome.tobytes()] for genome in genomes])

    now = _random(kinds, low, high, population, rng)
    if start is not None:
        now[: len(start)] = start[:population]
    value = scored(now)
    course = []
    for _ in range(generations - 1):
        order = np.argsort(value, kind="stable")
        now, value = now[order], value[order]
        course.append(float(value[0]))
        children = _children(now, value, kinds, low, high, rng)
        keep = min(ELITE, population)
        now = np.concatenate([now[:keep], children[: population - keep]])
        value = np.concatenate([value[:keep], scored(now[keep:])])
    order = np.argsort(value, kind="stable")
    now, value = now[order], value[order]
    return Evolved(now[0].copy(), float(value[0]), now, len(met), (*course, float(value[0])))


def _random(kinds: np.ndarray, low: np.ndarray, high: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    drawn = low + (high - low) * rng.random((size, len(low)))
    whole = np.minimum(np.floor(low + (high - low + 1) * rng.random((size, len(low)))), high)
    return np.asarray(np.where(kinds == "real", drawn, whole))


def _children(
    now: np.ndarray, value: np.ndarray, kinds: np.ndarray, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """As many children as there are parents."""
    size, length = now.shape
    contest = rng.integers(size, size=(2, size, TOURNAMENT))
    winners = np.take_along_axis(contest, np.argmin(value[contest], axis=2)[..., None], axis=2)[..., 0]
    mother, father = now[winners[0]], now[winners[1]]
    crossed = (rng.random((size, 1)) < CROSSOVER) & (rng.random((size, length)) < 0.5)
    child = np.where(crossed, father, mother)
    mutated = rng.random((size, length)) < 1.0 / length
    step = child + STEP * (high - low) * rng.standard_normal((size, length))
    other = np.where(kinds == "bit", 1.0 - child, np.where(kinds == "int", np.rint(step), step))
    return np.asarray(np.where(mutated, np.clip(other, low, high), child))
