"""One boosted classifier of the hazard: in the bin that a waiting job has come to, does it start?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .bins import BINS, bin_of, passed

TREES, LEAVES, LEAST_ROWS, RATE = 150, 16, 200, 0.08
FEATURE_SHARE, ROW_SHARE = 0.5, 0.6
PASSED_SHARE = 0.2
"""Of the bins passed whole a sample teaches, each for its share: far fewer rows, the same in expectation."""
BLOCK = 4096


class Waits(NamedTuple):
    """What is known of submissions: seconds `waited`, whether the wait has `ended`, the `weight` of each."""

    waited: np.ndarray
    ended: np.ndarray
    weight: np.ndarray


class Hazard(NamedTuple):
    """A fitted model: the trees, and the log odds (33,) of each bin's base rate that they start from."""

    trees: Any
    start: np.ndarray

    def curves(self, features: np.ndarray) -> np.ndarray:
        """The chances (n, 33) of a wait up to the end of each bin, the last being 1. O(33 trees) a row."""
        out = np.ones((len(features), BINS))
        for low in range(0, len(features), BLOCK):
            part = features[low : low + BLOCK]
            rows = np.column_stack([np.repeat(part, BINS - 1, axis=0), np.tile(np.arange(BINS - 1), len(part))])
            raw = self.trees.predict(rows, raw_score=True, num_threads=1).reshape(len(part), BINS - 1)
            stays = 1.0 / (1.0 + np.exp(raw + self.start[: BINS - 1]))
            out[low : low + BLOCK, : BINS - 1] = 1.0 - np.cumprod(stays, axis=1)
        return out


def fit(features: np.ndarray, waits: Waits, seed: int = 0) -> Hazard | None:
    """Fit on submissions' features (n, f); None where fewer than two bins' outcomes are known.

    Each job is a row for every bin that it entered: 0 for those it passed whole, 1 for the one its wait ended in. A job
    that still waits has the bins it has passed, so censoring is exact. The trees are LightGBM's, one thread.
    """
    import lightgbm

    entered = np.where(waits.ended, bin_of(waits.waited) + 1, passed(waits.waited))
    entered = np.minimum(entered, BINS - 1)
    job = np.repeat(np.arange(len(entered)), entered)
    bins = np.arange(len(job)) - np.repeat(np.cumsum(entered) - entered, entered)
    happened = waits.ended & (bin_of(waits.waited) < BINS - 1)
    starts = happened[job] & (bins == entered[job] - 1)
    weight = waits.weight[job]
    drawn = np.random.default_rng(seed)
    kept = starts | (drawn.random(len(job)) < PASSED_SHARE)
    job, bins, starts, weight = (
        job[kept],
        bins[kept],
        starts[kept],
        (weight / np.where(starts, 1.0, PASSED_SHARE))[kept],
    )
    if not starts.any() or starts.all():
        return None
    ever = np.bincount(bins, weight, BINS)
    rate = (np.bincount(bins, weight * starts, BINS) + 0.5) / (ever + 1.0)
    base = np.log(rate / (1.0 - rate))
    rows = np.column_stack([features[job], bins.astype(np.float32)])
    data = lightgbm.Dataset(rows, starts.astype(float), weight=weight, init_score=base[bins], free_raw_data=True)
    settings = {
        **{"objective": "binary", "num_leaves": LEAVES, "learning_rate": RATE, "verbosity": -1},
        **{"min_data_in_leaf": min(LEAST_ROWS, max(len(rows) // 50, 5)), "num_threads": 1, "seed": seed},
        **{"feature_fraction": FEATURE_SHARE, "bagging_fraction": ROW_SHARE, "bagging_freq": 1},
        **{"deterministic": True, "force_row_wise": True, "max_bin": 127},
    }
    return Hazard(lightgbm.train(settings, data, num_boost_round=TREES), base)
