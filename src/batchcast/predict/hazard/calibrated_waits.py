# SPDX-License-Identifier: Apache-2.0
"""Online calibration of wait predictions whose outcomes are known late: one record for each submission.

Each component (the model, the simulation, recent waits) predicts a curve: the probability that the wait has ended by
the end of each bin. The prediction is the mean of the components' curves, weighted by the components' CRPS of log(1 +
wait) so far. Two corrections follow: the probability transform of recent predictions, then one adaptive level for each
bound. Each range of predicted waits has its own levels, and so have predictions late in a burst, where only some
predictions count as evidence. The probability transform and the adaptive levels come from predict.calibration.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from ..calibration.keeper import GOLDEN, GRID, OnlineCalibration, Open, kept_chances, transform_curve
from .bins import BINS, ENDS_S, bin_of, quantiles, reached
from .model import ENDED, LEFT, SPOILED, Submissions

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
RECENT = 2000
EVERY = 25
STEPS = (0.0025, 0.0025, 0.001, 0.001, 0.001, 0.0025, 0.0025)
"""How far one outcome moves each level. The outer levels, which intervals use, move faster."""
REPAID = (1.5, 1.5, 1.0, 1.0, 1.0, 1.5, 1.5)
"""For each level, how far one missed bound shifts later levels, in STEPS, independent of its weight as evidence."""
MEMORY = 500.0
"""Number of outcomes over which a component's score is averaged; a component gets a weight after `LEAST` outcomes."""
LEAST = 20
SHARPNESS = 20.0
"""After MEMORY outcomes, the weight of a component is smaller by the factor e for each 1/20 by which its CRPS is
larger.
"""
EACH = 20
"""Number of predictions of a burst that count as evidence each time the burst doubles; the first 2 EACH predictions
of a burst all count (`Bursts`).
"""
DEEP_STEPS = tuple(40.0 * step for step in STEPS)
"""Step sizes of the levels for predictions deep in a burst, at the first outcome; later steps are smaller."""
USUAL_WEIGHT = 10.0
"""Weight of the levels of all predictions when they are averaged with the levels for bursts; the latter have the
number of observed doublings of bursts as weight.
"""
SPANS_S = (600.0, 3600.0, 14400.0, 86400.0)
"""Boundaries of predicted waits, in seconds; each range between them has its own levels."""
ALL, DEEP = len(SPANS_S) + 1, len(SPANS_S) + 2
"""Places of the levels for all ranges together and for predictions late in a burst; one place for each range is first.
"""
_WIDTHS = np.diff(np.log1p(np.append(ENDS_S, 4.0 * ENDS_S[-1])), prepend=0.0)
_LEVELS = np.array(LEVELS)
HALF = np.array([[0.5]])
NOTHING_KNOWN = np.linspace(0.2, 1.0, BINS)
_ENDS = np.concatenate([[0.0], _LEVELS, [1.0]])


def jitter(number: Any) -> Any:
    """Return the fraction of a second to subtract from a whole-second wait; evenly spread over [0, 1) by the number of
    the submission, an integer or an array.
    """
    return (0.5 + number * GOLDEN) % 1.0


def crps(curve: np.ndarray, wait: float) -> float:
    """Return the CRPS of log(1 + wait) of a wait distribution (33,): the integrated squared distance to the step at the
    true wait.

    >>> crps(np.ones(33), 0.0)
    0.0
    """
    at = int(bin_of(np.array([wait]))[0])
    low = np.concatenate([[0.0], curve[:-1]])
    middle = 0.5 * (low + curve)
    below, above = middle[:at], 1.0 - middle[at + 1 :]
    score = float((below * below * _WIDTHS[:at]).sum() + (above * above * _WIDTHS[at + 1 :]).sum())
    if at == 0:
        return score
    share = (math.log1p(wait) - math.log1p(ENDS_S[at - 1])) / _WIDTHS[at]
    share = min(max(share, 0.0), 1.0)
    return score + float(_WIDTHS[at] * (share * middle[at] ** 2 + (1.0 - share) * (1.0 - middle[at]) ** 2))


def span_of(seconds: float) -> int:
    """Return the number, 0 to 4, of the range that contains `seconds`; SPANS_S are the boundaries of the ranges.

    >>> span_of(60.0), span_of(600.0)
    (0, 1)
    """
    return int(np.searchsorted(SPANS_S, seconds, side="right"))


def as_kept(requested: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Correct predicted probabilities of any shape: the requested level `requested[k]` becomes LEVELS[k], the coverage
    that it reaches."""
    requested = np.concatenate([[0.0], np.clip(requested, 1e-4, 1.0 - 1e-4), [1.0]])
    requested = np.maximum.accumulate(requested + 1e-9 * np.arange(len(requested)))
    return np.asarray(np.interp(chances, requested / requested[-1], _ENDS))


class Pool:
    """Averages components with weights exp(-SHARPNESS x mean CRPS x number of outcomes / MEMORY).

    The average is the exponentially weighted average forecaster (Vovk 1990) with forgetting. Only components with at
    least LEAST outcomes have a weight; if there is no such component, the first component with a curve is used.
    `components` is the number of predicting components.

    >>> Pool(2).heaviest(np.stack([np.full((1, 33), np.nan), np.ones((1, 33))], axis=1)).tolist()
    [1]
    """

    def __init__(self, components: int) -> None:
        self.score = np.zeros(components)
        self.outcomes = np.zeros(components)

    def weights(self, curves: np.ndarray) -> np.ndarray:
        """Return weights (..., components) for predicted distributions (..., components, 33); 0 for components without
        a prediction."""
        known = ~np.isnan(curves[..., 0])
        first = np.cumsum(known, axis=-1) * known == 1
        tried = known & (self.outcomes >= LEAST)
        score = self.score / np.maximum(self.outcomes, 1e-9)
        sharp = SHARPNESS * self.outcomes.max() / MEMORY
        least = np.where(tried, score, np.inf).min(axis=-1, keepdims=True)
        weight = np.where(tried, np.exp(-sharp * np.clip(score - least, 0.0, None)), 0.0)
        none = ~tried.any(axis=-1, keepdims=True)
        return np.asarray(np.where(none, first, weight / np.where(none, 1.0, weight.sum(axis=-1, keepdims=True))))

    def heaviest(self, curves: np.ndarray) -> np.ndarray:
        """Return the component with the largest weight (...) for predicted distributions (..., components, 33); -1 if
        no component has a prediction."""
        weight = self.weights(curves)
        return np.asarray(np.where(weight.any(axis=-1), weight.argmax(axis=-1), -1))

    def mean(self, curves: np.ndarray) -> np.ndarray:
        """Return the weighted mean (..., 33) of the components' distributions (..., components, 33)."""
        weight = self.weights(curves)[..., None, :]
        mean = (weight @ np.where(weight.swapaxes(-1, -2) > 0.0, curves, 0.0))[..., 0, :]
        return np.asarray(np.where(weight[..., 0, :].any(axis=-1, keepdims=True), mean, NOTHING_KNOWN))

    def record_outcome(self, curves: np.ndarray, wait: float) -> None:
        """Score the components' distributions (components, 33) of a prediction whose job waited `wait` seconds."""
        for component, curve in enumerate(curves):
            if curve[0] == curve[0]:
                self.score[component] = (1.0 - 1.0 / MEMORY) * self.score[component] + crps(curve, wait)
                self.outcomes[component] = (1.0 - 1.0 / MEMORY) * self.outcomes[component] + 1.0


class LevelsBySpan:
    """Levels of wait bounds, learned separately for each range of times (SPANS_S): of predicted waits, or of waits so
    far. An owner's k-th prediction since the owner's latest known outcome moves the levels by 1 / k of a step, and the
    effect decays over MEMORY outcomes. Later levels are shifted until missed coverage is fully repaid, at the rates
    REPAID.

    Predictions late in a burst, where only some predictions count, have levels of their own, with one outcome for each
    doubling of the burst. The waits of jobs in short queues say little about how long the last tasks of a large array
    wait. Therefore the levels for bursts learn only from bursts, and are averaged with the levels of all predictions
    while few outcomes are known. The weight of a job is 1 / EACH, because EACH jobs count as evidence each time the
    burst's length doubles. Outcomes of bursts are few, so steps begin large and shrink with the square root of the
    number of outcomes (Angelopoulos, Barber & Bates, Online conformal prediction with decaying step sizes, ICML 2024,
    arXiv:2402.01139).

    >>> levels = LevelsBySpan()
    >>> curve = np.linspace(0.1, 1.0, 33)[None, :]
    >>> for number in range(40):
    ...     levels.issue(number, number, 0.0, 7200.0, CalibratedWaits.bounds(curve[0]))
    ...     levels.ended(number, 9e5)
    >>> late, as_before = levels.chances(np.repeat(curve, 2, axis=0), np.array([7200.0, 60.0]))
    >>> bool(late[20] < as_before[20]), bool(np.allclose(as_before, curve[0]))
    (True, True)
    """

    # `borrowed` is the weight of the levels learned from all ranges together, when they are averaged with the levels of
    # one range, whose weight is the number of outcomes in that range.

    def __init__(self, borrowed: float = 0.0) -> None:
        # one for each range, one for all ranges together (ALL), one for predictions late in a burst (DEEP)
        self.keepers = [OnlineCalibration(LEVELS, 0.005, 0.0, 0.0, MEMORY) for _ in range(ALL + 1)]
        for keeper in self.keepers:
            keeper.step, keeper.repaid = np.array(STEPS), np.array(REPAID)
        self.keepers.append(OnlineCalibration(LEVELS, 0.0, 0.0))
        self.keepers[DEEP].step, self.keepers[DEEP].repaid = np.array(DEEP_STEPS), np.zeros(len(LEVELS))
        self.borrowed, self.evidence = borrowed, np.zeros(len(self.keepers))

    def requested_levels(self, span: int) -> np.ndarray:
        """Return the levels (7,) used for predictions in a range."""
        if not self.borrowed:
            return self.keepers[span].requested_levels(None)
        return self._averaged(span, self.keepers[ALL].requested_levels(None), self.borrowed)

    def levels_in_bursts(self, usual_levels: np.ndarray) -> np.ndarray:
        """Return the levels (7,) for predictions late in a burst; `usual_levels` (7,) are the levels for other
        predictions."""
        return self._averaged(DEEP, usual_levels, USUAL_WEIGHT)

    def _averaged(self, place: int, usual_levels: np.ndarray, weight: float) -> np.ndarray:
        share = self.evidence[place] / (self.evidence[place] + weight)
        return np.asarray(share * self.keepers[place].requested_levels(None) + (1.0 - share) * usual_levels)

    def chances(self, curves: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """Return corrected wait distributions (n, 33); `seconds` (n,) determines the range whose levels correct each
        distribution."""
        out, spans = np.empty_like(curves), np.searchsorted(SPANS_S, seconds, side="right")
        for span in np.unique(spans).tolist():
            out[spans == span] = as_kept(self.requested_levels(span), curves[spans == span])
        return out

    def issue(self, number: int, owner: Hashable, now: float, seconds: float | None, bounds: np.ndarray) -> None:
        """Record prediction `number` of an owner, with bounds (7,) in seconds after `now`, in the range of `seconds`;
        None: late in a burst.
        """
        places = (DEEP,) if seconds is None else (span_of(seconds), ALL) if self.borrowed else (span_of(seconds),)
        for place in places:
            self.keepers[place].issue(number, owner, bounds, math.inf, weight=1.0 / EACH if place == DEEP else None)
            self.keepers[place].begin(number, now + 1.0)

    def ended(self, number: int, wait: float) -> None:
        """Record that the job of prediction `number` started `wait` seconds after the prediction."""
        for span, keeper in enumerate(self.keepers):
            if number in keeper.issued:
                self.evidence[span] += keeper.issued[number].weight
                keeper.resolve(number, wait - jitter(number))
        self.keepers[DEEP].step = np.array(DEEP_STEPS) / math.sqrt(max(self.evidence[DEEP], 1.0))

    def left(self, number: int) -> None:
        """Drop a prediction whose outcome will never be known."""
        for keeper in self.keepers:
            keeper.forget(number)

    def passes(self, now: float) -> None:
        """Count each bound as missed whose time has passed before `now` while the job still waits."""
        for keeper in self.keepers:
            keeper.waited(now)


class Bursts:
    """Decides which submissions of a burst of similar jobs count as evidence.

    >>> bursts = Bursts()
    >>> sum(bursts.counts(job, "ada") for job in range(1000))
    131
    >>> bursts.resolved(999, is_known=True)
    >>> bursts.counts(1000, "ada")
    True
    >>> bursts.is_deep("ada"), bursts.is_deep("bo")
    (False, False)
    """

    # `each` is the number of predictions that count as evidence each time the length of the burst doubles.
    #
    # A prediction is *blind* if it was made after the sender's latest prediction with a known outcome. The first `2
    # each` blind predictions all count, then every second prediction, from the `4 each`-th prediction on every fourth,
    # and so on. Of an array of 1,000 jobs, 131 count. The jobs that count are spread over the whole array, so they also
    # show how long the last tasks of the array wait. Whether a prediction counts is decided when the prediction is
    # made, so that no outcome affects its own weight. Each call costs O(1); memory grows with the number of predictions
    # without a known outcome.

    def __init__(self, each: int = EACH) -> None:
        self.each = each
        self.senders: dict[Hashable, Open] = {}
        self.predictions: dict[int, tuple[Hashable, int]] = {}

    def is_deep(self, sender: Hashable) -> bool:
        """Return whether the sender is so late in a burst that only some of its predictions count."""
        mine = self.senders.get(sender)
        return mine is not None and mine.blind() >= 2 * self.each

    def counts(self, row: int, sender: Hashable) -> bool:
        """Record a prediction for job `row`, and return whether the prediction counts as evidence."""
        mine = self.senders.setdefault(sender, Open())
        mine.unresolved += 1
        mine.issued += 1
        self.predictions[row] = sender, mine.issued
        return mine.issued % (1 << (mine.blind() // (2 * self.each)).bit_length()) == 0

    def resolved(self, row: int, is_known: bool) -> None:
        """Record that a job no longer waits; `is_known` says whether its wait can be learned."""
        if row not in self.predictions:
            return
        sender, number = self.predictions.pop(row)
        mine = self.senders[sender]
        mine.unresolved -= 1
        if is_known:
            mine.last_resolved = max(mine.last_resolved, number)
        if not mine.unresolved:
            del self.senders[sender]


class CalibratedWaits:
    """Stores recent submissions with their component curves and outcomes, and computes the probability transform and
    the levels from them. The first of `components` is used until outcomes are known.

    >>> calibration = CalibratedWaits(("simulation",))
    >>> curve = np.linspace(0.1, 1.0, 33)[None, :]
    >>> calibration.issue(0, 'ada', 0.0, curve, calibration.chances(curve)); calibration.ended(0, 30.0)
    >>> int(calibration.pool.heaviest(curve))
    0
    """

    def __init__(self, components: tuple[str, ...]) -> None:
        # the features of a submission are the curves of all components, then their weighted mean
        self.recent, self.count = Submissions(RECENT, (len(components) + 1) * BINS, np.float64), 0
        self.levels = LevelsBySpan()
        self.pool = Pool(len(components))
        self.transform = GRID

    def chances(self, curves: np.ndarray, is_deep: bool = False) -> np.ndarray:
        """Return one job's predicted wait distribution (33,) from the components' `curves` (components, 33): averaged,
        then corrected twice.

        `is_deep` says whether the prediction is made late in a burst, where only some predictions count as evidence.
        """
        curve = kept_chances(self.transform, self.pool.mean(curves))
        requested = self.levels.requested_levels(span_of(float(quantiles(curve[None, :], HALF)[0, 0])))
        return as_kept(self.levels.levels_in_bursts(requested) if is_deep else requested, curve)

    @staticmethod
    def bounds(chances: np.ndarray) -> np.ndarray:
        """Return the waits (..., 7) at LEVELS of wait distributions (..., 33)."""
        many = np.atleast_2d(chances)
        return quantiles(many, np.tile(_LEVELS, (len(many), 1))).reshape(*chances.shape[:-1], len(LEVELS))

    def issue(
        self,
        number: int,
        sender: Hashable,
        now: float,
        curves: np.ndarray,
        chances: np.ndarray,
        is_deep: bool = False,
    ) -> None:
        """Record submission `number` of a sender with its curves (components, 33), NaN if missing, and its predicted
        probabilities `chances`."""
        raw = self.pool.mean(curves)
        self.recent.add(number, now, np.append(curves, raw))
        median = None if is_deep else float(quantiles(kept_chances(self.transform, raw)[None, :], HALF)[0, 0])
        self.levels.issue(number, sender, now, median, self.bounds(chances))
        self.count += 1
        if self.count % EVERY == 0:
            self._renew(now)

    def passes(self, now: float) -> None:
        """Count each bound as missed whose time has passed before `now` while the job still waits."""
        self.levels.passes(now)

    def ended(self, number: int, wait: float) -> None:
        """Record that the job of submission `number` started after `wait` seconds."""
        self.levels.ended(number, wait)
        curves = self.recent.resolved(number, wait, ENDED)
        if curves is not None:
            self.pool.record_outcome(curves.reshape(-1, BINS)[:-1], wait)

    def left(self, number: int, wait: float, spoiled: bool) -> None:
        """Record that a job left the queue unstarted after `wait` seconds (censored); if `spoiled`, do not learn from
        this wait."""
        self.levels.left(number)
        self.recent.resolved(number, wait, SPOILED if spoiled else LEFT)

    def _renew(self, now: float) -> None:
        """Compute the probability transform of recent predictions from the outcomes known now."""
        places, waited = self.recent.outcomes(now)
        curves, ended = self.recent.features[:, -BINS:][places], self.recent.fate[places] == ENDED
        high = reached(curves, waited)
        low = np.where(ended, reached(curves, waited - 1.0), high)
        spread = jitter(self.recent.number[places])
        self.transform = transform_curve(low + (1.0 - spread) * (high - low), ended)
