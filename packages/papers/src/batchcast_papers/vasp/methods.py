# SPDX-License-Identifier: Apache-2.0
"""The methods of Wu et al. 2019: single regressions, IRPA and BRBF on feature columns, and two baselines without them.

The methods on feature columns refit their models as jobs end, and predict jobs without features from past run times. An
`Encoder` converts the columns to numbers; the encoder is fitted to training rows only. Of the baselines, `parzen`
predicts the most likely run time, by a Gaussian kernel density of past run times of the same class; `user_clusters`
predicts one exponentially smoothed run time for all users with similar submissions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec.structs import replace

from batchcast.events.event import End, Event, Submit
from batchcast.events.state import SystemState
from batchcast.inputs.features import FEATURES
from batchcast.job import JobRequest
from batchcast.predict.fallback import LEVELS, LargestLimit
from batchcast.predict.gate import class_key, numbered_categories
from batchcast.predict.protocol import SHORTEST, Grounds, Prediction, at_least_a_second
from batchcast.predict.runtime.baselines import RecentMean
from batchcast_papers.learning import sample_quantiles

from .regressors import Kind, MixedBayes, PackedForest, RbfNetwork, Regressor, fit_regressor

VASP_FEATURES = ("core_num", *FEATURES)
DISCRETE = frozenset({"prec", "ichg", "isym", "lreal", "ispin", "istart"})
KEY = ("ispin", "isym", "lreal", "prec")
Row = tuple[Any, ...]
Encut = Literal["paper", "physics", "plain"]
ENCUT_POWER = {"paper": 3.0, "physics": 1.5, "plain": 1.0}


@dataclass(frozen=True, slots=True)
class Encoder:
    """Converts rows to numbers: scales continuous features and encodes discrete features, as fitted to training rows.

    Wu et al. 2019, section 2.1: ENCUT is cubed (`physics`: raised to the power 1.5, in proportion to the number of
    plane waves). Continuous features are scaled to [0, 1] by the extremes of the training rows; constant features
    become 0, and values of later rows may lie outside [0, 1]. Discrete features are one-hot (IRPA; a new category is
    all zeros) or numbered (BRBF; a new category has the number after the last). A column is discrete if it is one of
    the paper's discrete features or has text.
    """

    names: tuple[str, ...]
    powers: np.ndarray
    continuous: tuple[int, ...]
    low: np.ndarray
    span: np.ndarray
    categories: dict[int, dict[Any, int]]

    @classmethod
    def fit(cls, names: Sequence[str], rows: Sequence[Row], encut: Encut = "paper") -> Encoder:
        """Fit the encoder to training rows without unknown values. O(rows)."""
        columns = list(zip(*rows))
        is_discrete = [n in DISCRETE or any(isinstance(v, str) for v in c) for n, c in zip(names, columns)]
        continuous = tuple(k for k, discrete in enumerate(is_discrete) if not discrete)
        powers = np.array([ENCUT_POWER[encut] if names[k] == "encut" else 1.0 for k in continuous])
        values = _numbers(rows, continuous) ** powers
        low, high = values.min(axis=0), values.max(axis=0)
        categories = {k: numbered_categories(columns[k]) for k, discrete in enumerate(is_discrete) if discrete}
        return cls(tuple(names), powers, continuous, low, np.where(high > low, high - low, np.inf), categories)

    def covers(self, rows: Sequence[Row]) -> bool:
        """Return whether the values of other rows are in the fitted ranges, so that a warm start may use this
        encoder."""
        values = _numbers(rows, self.continuous) ** self.powers
        high = self.low + np.where(np.isinf(self.span), 0.0, self.span)
        return bool(((values >= self.low) & (values <= high)).all()) and all(
            row[k] in codes for row in rows for k, codes in self.categories.items()
        )

    def scaled(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the continuous features, (rows, continuous), float64."""
        return np.asarray((_numbers(rows, self.continuous) ** self.powers - self.low) / self.span)

    def codes(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the discrete features as numbers, (rows, discrete), int64."""
        coded = [[codes.get(row[k], len(codes)) for k, codes in self.categories.items()] for row in rows]
        return np.array(coded, dtype=np.int64).reshape(len(rows), len(self.categories))

    def one_hot(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the continuous features followed by the one-hot discrete features, (rows, features), float64."""
        codes = self.codes(rows)
        blocks = [codes[:, k, None] == np.arange(len(known)) for k, known in enumerate(self.categories.values())]
        return np.hstack([self.scaled(rows), *blocks])


def _numbers(rows: Sequence[Row], columns: Sequence[int]) -> np.ndarray:
    """Return the numeric columns of the rows, (rows, columns), float64."""
    return np.array([[row[k] for k in columns] for row in rows], dtype=float)


ERRORS_KEPT = 300
ERRORS_NEEDED = 20


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureMethod:
    """Base class of methods that predict run times from feature columns by a model, which is refitted as jobs end.

    The model is refitted after every `refit_every_jobs` ended jobs. At the beginning the model is refitted whenever its
    training jobs have doubled since `min_jobs`: at 50, 100, 200, 400, then every 500 jobs. The model learns only from
    End events, that is, from jobs that finished before the refit. Training rows are the last `window` jobs in order of
    submission (the paper's order by job id). A job falls back to the history predictor (`recent_mean`), with the reason
    as basis, if a feature is unknown (inputs missing or unreadable), if the job continues an earlier run (`istart`
    above 0: the paper omits these jobs, because inputs do not show how much work is left), or before the first fit.
    Predictions are clipped to the range of the training jobs' run times and to the limit. Quantiles are the point times
    the ratios of actual to predicted run time of the last 300 jobs that ended after a training; quantiles exist as soon
    as 20 jobs have ended after a training. A prediction costs one prediction of the model; memory is one row per job;
    `trained` lists the refits. With `train_when_asked` the model is also trained on all finished jobs before a
    prediction, which is useful for a single prediction after a whole log.

    A subclass sets `model_name`. The method `fit_rows(rows, log_run)` of a subclass fits the model to rows in order of
    submission and their log10 run times; a second call starts a new fit or continues the last fit. The method
    `predict_row(row)` returns log10 of the predicted run time in seconds.
    """

    levels = LEVELS
    falls_back_to = "recent_mean"
    model_name: ClassVar[str]

    encut: Encut = "paper"
    features: tuple[str, ...] = VASP_FEATURES
    also: tuple[str, ...] = ()
    refit_every_jobs: int = 500
    window: int = 10000
    min_jobs: int = 50
    warm_start: bool = False
    seed: int = 0
    train_when_asked: bool = False

    def __post_init__(self) -> None:
        features = self.features + self.also
        if not features:
            raise ValueError("at least one feature column is needed")
        if min(self.refit_every_jobs, self.window, self.min_jobs) < 1:
            raise ValueError("refit_every_jobs, window and min_jobs are at least 1")
        self.encoder: Encoder
        self.columns = features
        self.uses = tuple("procs" if name == "core_num" else name for name in features)  # the paper's name
        self.min_jobs = max(self.min_jobs, 5)
        self.most_new = self.refit_every_jobs
        self.refit_every_jobs = min(self.most_new, self.min_jobs)  # number of submissions between two calls of `refit`
        self.new = 0
        self.istart = features.index("istart") if "istart" in features else -1
        self.history = RecentMean()
        self.learnt: list[tuple[float, int, Row, float]] = []
        self.errors: deque[float] = deque(maxlen=ERRORS_KEPT)
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict by the model or, with the reason as `basis`, by the history predictor (`recent_mean`)."""
        row = class_key(job, self.uses)
        if self.train_when_asked and self.new and len(self.learnt) >= self.min_jobs:
            self._train(at.now)
        reason = self._unusable(row, job.extra.get("input_files"))
        if not reason and not self.trained:
            reason = f"{self.model_name} is not trained yet ({len(self.learnt)} finished jobs with features)"
        if reason:
            fallback = self.history.predict(job, at)
            return replace(fallback, basis=f"{reason}: {fallback.basis}", grounds=Grounds.FALLBACK)
        log_run = self._log_run(row)
        point = at_least_a_second(10.0**log_run, job.req_time)
        basis = f"{self.model_name} on {self.trained[-1]['training_jobs']} finished jobs"
        if len(self.errors) < ERRORS_NEEDED:
            return Prediction(point, basis=basis, grounds=Grounds.MODEL)
        quantiles = sample_quantiles([10.0 ** (log_run + error) for error in self.errors], job.req_time)
        return Prediction(point, LEVELS, quantiles, basis, Grounds.MODEL)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the features and the run time of an ended job, and the model's error on this job."""
        self.history.observe(event, at)
        if isinstance(event, End) and event.run_time > 0:
            job, row = event.job, class_key(event.job, self.uses)
            if not self._unusable(row):
                log_run = math.log10(event.run_time)
                if self.trained:
                    self.errors.append(log_run - self._log_run(row))
                self.learnt.append((job.submit_time, job.row, row, log_run))
                self.new += 1

    def refit(self, now: float) -> None:
        """Train on the last `window` ended jobs if enough jobs have ended since the last training."""
        taught = self.trained[-1]["training_jobs"] if self.trained else self.min_jobs
        if len(self.learnt) >= self.min_jobs and self.new >= min(self.most_new, taught):
            self._train(now)

    def fit_rows(self, rows: list[Row], log_run: np.ndarray) -> None:
        """Fit the model to rows in order of submission and their log10 run times."""
        raise NotImplementedError

    def predict_row(self, row: Row) -> float:
        """Return the predicted log10 seconds of a row."""
        raise NotImplementedError

    def encode(self, rows: list[Row]) -> bool:
        """Fit a new encoder to the rows, unless a warm start continues; return whether the last fit continues."""
        goes_on = self.warm_start and hasattr(self, "encoder") and self.encoder.covers(rows)
        if not goes_on:
            self.encoder = Encoder.fit(self.columns, rows, self.encut)
        return goes_on

    def _train(self, now: float) -> None:
        """Train on the last `window` ended jobs."""
        self.new = 0
        self.learnt = sorted(self.learnt, key=lambda job: job[:2])[-self.window :]
        log_run = np.array([job[3] for job in self.learnt])
        self.fit_rows([job[2] for job in self.learnt], log_run)
        self.low, self.high = float(log_run.min()), float(log_run.max())
        self.trained.append({"now": now, "training_jobs": len(self.learnt)})

    def _log_run(self, row: Row) -> float:
        """Return the model's predicted log10 seconds, clipped to the range of the training jobs."""
        return float(min(max(self.predict_row(row), self.low), self.high))

    def _unusable(self, row: Row, inputs: Any = None) -> str:
        """Return the reason why the model cannot predict a row; empty if the model can. `inputs` is the status of the
        input files."""
        missing = [name for name, value in zip(self.uses, row) if value in (None, math.inf, -math.inf)]
        if missing:
            shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            reason = f"{shown} unknown" if inputs in (None, "read") else f"inputs {inputs}"
            return f"no readable features ({reason})"
        istart = row[self.istart] if self.istart >= 0 else 0
        return "continues a former run (istart above 0)" if not isinstance(istart, str) and istart > 0 else ""


WARM: tuple[Kind, ...] = ("forest", "boosted")
SUB_MODELS: tuple[Kind, ...] = ("forest", "svr", "bayesian_ridge")
FIRST = 0.6
"""Share of the rows, in order of submission, on which the first layer of IRPA and of BRBF's general model is trained.
"""


@dataclass(eq=False, repr=False)
class Regression(FeatureMethod):
    """Predicts run times by a regression of log10 run time on feature columns, which is refitted as jobs finish.

    Parameters
    ----------
    kind
        `forest`: random forest regression; `svr`: support vector regression; `bayesian_ridge`: Bayesian ridge
        regression; `boosted`: gradient-boosted trees.
    encut
        Transformation of the plane-wave cutoff ENCUT: `paper` cubes it, `physics` takes the power 1.5, `plain` none.
    features, also
        Columns that are known at submission; columns in `also` are added to `features`.
    refit_every_jobs
        Number of ended jobs between two fits, at least 1; at the beginning, fits follow after fewer jobs.
    window
        Number of last ended jobs on which the model is trained, at least 1.
    min_jobs
        Number of ended jobs before the first fit, at least 1.
    warm_start
        Whether a fit continues from the last fit; only `forest` and `boosted` can continue.
    seed
        Random seed of the models.
    train_when_asked
        Whether the model is also trained on all ended jobs before each prediction.

    Raises
    ------
    ValueError
        If a parameter is below 1, if there is no feature, or for a warm start of a model that cannot continue.

    Notes
    -----
    The kinds `forest`, `svr` and `bayesian_ridge` are the baselines RFR, SVR and BRR of Wu et al. 2019, computed by
    scikit-learn. The kind `boosted` is LightGBM, a modern baseline that is not in the paper. The settings of the models
    are the libraries' defaults, with one exception in `fit_regressor`.

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.
    Breiman, Random forests, 2001, doi:10.1023/A:1010933404324.
    Smola, Schölkopf, A tutorial on support vector regression, 2004, doi:10.1023/B:STCO.0000035301.49549.88.
    MacKay, Bayesian interpolation, 1992, doi:10.1162/neco.1992.4.3.415.
    Friedman, Greedy function approximation: a gradient boosting machine, 2001, doi:10.1214/aos/1013203451.

    Examples
    --------
    >>> Regression("forest", window=1000).uses[:3]
    ('procs', 'kpoints', 'volume')
    """

    kind: Kind

    def __post_init__(self) -> None:
        self.model_name: str = self.kind  # type: ignore[misc]
        if self.warm_start and self.kind not in WARM:
            raise ValueError(f"{self.kind} has no warm start (accepted: {', '.join(WARM)})")
        super().__post_init__()

    def fit_rows(self, rows: list[Row], log_run: np.ndarray) -> None:
        """Fit to all rows; continue the last fit (warm start) only if the last encoder covers the rows."""
        before = self.regressor if self.encode(rows) else None
        self.regressor: Regressor = fit_regressor(self.kind, self.encoder.one_hot(rows), log_run, self.seed, before)

    def predict_row(self, row: Row) -> float:
        """Return the predicted log10 seconds of a row."""
        return self.regressor.predict_row(self.encoder.one_hot([row])[0])


def _with(kind: Kind, words: str) -> partial[Regression]:
    """Return `Regression` of one kind as a method of its own, with its description."""
    maker = partial(Regression, kind)
    maker.__doc__ = f"{words}\n\nSee `Regression` for parameters and sources."
    return maker


forest = _with("forest", "Random forest regression (RFR) on a job's feature columns (scikit-learn).")
svr = _with("svr", "Support vector regression (SVR) on a job's feature columns (scikit-learn).")
bayesian_ridge = _with("bayesian_ridge", "Bayesian ridge regression (BRR) on a job's feature columns (scikit-learn).")
boosted = _with("boosted", "Gradient-boosted trees on a job's feature columns (LightGBM).")


@dataclass(eq=False, repr=False)
class Irpa(FeatureMethod):
    """Predicts run times from a job's feature columns by IRPA (Wu et al. 2019, section 3.1).

    Parameters
    ----------
    upper
        The classifier that gives the weights: `bayes`, or `forest` as in the conference version.
    mean
        Scale on which the predictions of sub-models are compared and averaged: `log10` or `seconds`.
    sub_models
        `first`: the sub-models stay as trained on the first 60 % of the rows, as in the paper; `all`: they are trained
        again on all rows.
    encut
        Transformation of the plane-wave cutoff ENCUT: `paper` cubes it, `physics` takes the power 1.5, `plain` none.
    features, also
        Columns that are known at submission; columns in `also` are added to `features`.
    refit_every_jobs
        Number of ended jobs between two fits, at least 1; at the beginning, fits follow after fewer jobs.
    window
        Number of last ended jobs on which the model is trained, at least 1.
    min_jobs
        Number of ended jobs before the first fit, at least 1.
    warm_start
        Whether a fit continues from the last fit.
    seed
        Random seed of the models.
    train_when_asked
        Whether the model is also trained on all ended jobs before each prediction.

    Raises
    ------
    ValueError
        If a parameter is below 1, or there is no feature.

    Notes
    -----
    IRPA has two layers: sub-models (forest, support vector machine, Bayesian ridge) trained on the first 60 % of the
    rows, and a classifier of the best sub-model, trained on the other 40 %. Each row of the last 40 % gives [pv1, pv2,
    pv3, label], where label is the sub-model whose prediction is nearest to the run time. For a new job, the classifier
    converts the three predictions to weights pb, and the prediction is PV = sum_i pb_i pv_i (eq. 5).

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.

    Examples
    --------
    >>> Irpa(upper="forest").uses[:3]
    ('procs', 'kpoints', 'volume')
    """

    model_name = "irpa"

    upper: Literal["bayes", "forest"] = "bayes"
    mean: Literal["log10", "seconds"] = "log10"
    sub_models: Literal["first", "all"] = "first"

    def fit_rows(self, rows: list[Row], log_run: np.ndarray) -> None:
        """Fit the sub-models and the classifier, from rows in order of submission."""
        before = {r.kind: r for r in self.below} if self.encode(rows) else {}
        x, seed = self.encoder.one_hot(rows), self.seed
        cut = int(FIRST * len(rows))
        self.below: list[Regressor] = [
            fit_regressor(k, x[:cut], log_run[:cut], seed, before.get(k)) for k in SUB_MODELS
        ]
        values = np.column_stack([r.predict(x[cut:]) for r in self.below])
        truth = log_run[cut:, None]
        error = np.abs(values - truth) if self.mean == "log10" else np.abs(10**values - 10**truth)
        self.classes, codes = np.unique(error.argmin(axis=1), return_inverse=True)
        if self.upper == "bayes":
            # with less smoothing, weights become 0 or 1 by chance if sub-models give constant predictions on the later
            # rows
            without = np.zeros((len(codes), 0), dtype=int)
            self.classifier: MixedBayes | PackedForest = MixedBayes.fit(without, values, codes, (), smoothing=1e-6)
        else:
            from sklearn.ensemble import RandomForestClassifier

            forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=5, random_state=seed, n_jobs=1)
            self.classifier = PackedForest.of(forest.fit(values, codes))
        if self.sub_models == "all":
            self.below = [fit_regressor(k, x, log_run, seed, before.get(k)) for k in SUB_MODELS]

    def predict_row(self, row: Row) -> float:
        """Return log10 of the predicted run time PV in seconds."""
        x = self.encoder.one_hot([row])[0]
        values = np.array([r.predict_row(x) for r in self.below])
        weights = np.zeros(len(SUB_MODELS))  # a sub-model whose prediction was never the nearest has the weight 0
        weights[self.classes] = self.classifier.predict(values)
        return float(weights @ values if self.mean == "log10" else np.log10(weights @ 10**values))


@dataclass(eq=False, repr=False)
class Brbf(FeatureMethod):
    """Predicts run times from a job's feature columns by BRBF networks (Wu et al. 2019, section 3.2).

    Parameters
    ----------
    key_min
        Number of training rows above which a key has its own network.
    ranges
        Number of run-time classes in the general model.
    centres
        Maximum number of centres of a radial basis network.
    ridge, floor
        Ridge penalty and minimum spread of the networks (see `RbfNetwork`); by default they are chosen from the
        training rows at every fit.
    encut
        Transformation of the plane-wave cutoff ENCUT: `paper` cubes it, `physics` takes the power 1.5, `plain` none.
    features, also
        Columns that are known at submission; columns in `also` are added to `features`.
    refit_every_jobs
        Number of ended jobs between two fits, at least 1; at the beginning, fits follow after fewer jobs.
    window
        Number of last ended jobs on which the model is trained, at least 1. The default window is larger than of the
        paper's training set (80 % of 16,700 jobs), so that frequent keys reach `key_min`.
    min_jobs
        Number of ended jobs before the first fit, at least 1.
    warm_start
        Whether a fit continues from the last fit.
    seed
        Random seed of the models.
    train_when_asked
        Whether the model is also trained on all ended jobs before each prediction.

    Raises
    ------
    ValueError
        If a parameter is below 1, or there is no feature.

    Notes
    -----
    A key is (ISPIN, ISYM, LREAL, PREC). A key with more than `key_min` training rows has its own network on the
    continuous features. The general model predicts the other jobs. The general model divides run times into `ranges`
    classes, trains naive Bayes on the first 60 % of the rows, and trains a network from the class probabilities to
    log10 run time on the last 40 %. The run-time classes have equal numbers of rows (the paper says only that they
    follow the distribution of run times).

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.

    Examples
    --------
    >>> Brbf(key_min=500).uses[:3]
    ('procs', 'kpoints', 'volume')
    """

    model_name = "brbf"

    key_min: int = 3000
    ranges: int = 56
    centres: int = 56
    ridge: float | None = None
    floor: float | None = None
    window: int = field(default=20000, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.key = [self.columns.index(name) for name in KEY if name in self.columns]
        self.networks: dict[Row, RbfNetwork] = {}

    def fit_rows(self, rows: list[Row], log_run: np.ndarray) -> None:
        """Fit the networks of frequent keys and the general model, from rows in order of submission."""
        goes_on = self.encode(rows)
        values, codes = self.encoder.scaled(rows), self.encoder.codes(rows)
        of_key: dict[Row, list[int]] = {}
        for k, row in enumerate(rows):
            of_key.setdefault(self._key(row), []).append(k)
        self.networks = {
            key: self._network(values[members], log_run[members], self.networks.get(key) if goes_on else None)
            for key, members in of_key.items()
            if len(members) > self.key_min and values.shape[1]
        }
        cut, ranges = int(FIRST * len(rows)), self.ranges
        edges = np.unique(np.quantile(log_run[:cut], np.arange(1, ranges) / ranges))
        label = np.unique(np.searchsorted(edges, log_run[:cut], side="right"), return_inverse=True)[1]
        sizes = tuple(len(known) for known in self.encoder.categories.values())
        self.bayes = MixedBayes.fit(codes[:cut], values[:cut], label, sizes)
        inputs = self.bayes.probabilities(codes[cut:], values[cut:])
        self.general: RbfNetwork = self._network(inputs, log_run[cut:], self.general if goes_on else None)

    def predict_row(self, row: Row) -> float:
        """Return the predicted log10 seconds, from the network of the row's key, else from the general network."""
        values = self.encoder.scaled([row])
        network = self.networks.get(self._key(row))
        if network is not None:
            return float(network.predict(values)[0])
        return float(self.general.predict(self.bayes.probabilities(self.encoder.codes([row]), values))[0])

    def has_network(self, row: Row) -> bool:
        """Return whether the row's key has its own network."""
        return self._key(row) in self.networks

    def _key(self, row: Row) -> Row:
        """Return a row's key: its values of ISPIN, ISYM, LREAL and PREC."""
        return tuple(row[k] for k in self.key)

    def _network(self, x: np.ndarray, y: np.ndarray, before: RbfNetwork | None) -> RbfNetwork:
        """Fit a network with the settings of this method; `before` gives the initial centres."""
        return RbfNetwork.fit(x, y, self.centres, self.ridge, self.floor, self.seed, before)


NARROWEST = 0.02
STEPS = 8


@dataclass(eq=False, repr=False)
class Parzen:
    """Predicts the most likely (or mean) run time of finished jobs with equal `keys`, by a density of log10 run times.

    Parameters
    ----------
    keys
        Columns known at submission; jobs with equal values in these columns form a class. An unknown value counts as a
        value of its own.
    window
        Number of last finished jobs of a class from which the density is computed, at least 1; `none` uses all jobs.
    statistic
        `mode` predicts the density's highest point; `mean` predicts 10^(mean of the logs).

    Raises
    ------
    ValueError
        For a `window` below 1.

    Notes
    -----
    The baseline "PDR" of Wu et al. 2019, whose details are not public: this method is a similar baseline, not a
    reproduction. Bandwidth: The bandwidth follows Silverman's rule 0.9 min(std, IQR/1.34) n^(-1/5), at least 0.02
    decades. If the class has no finished jobs, the user's last `window` jobs are used, then the last jobs of all users,
    then the time limit. Quantiles are order statistics of the run times; the point prediction is between one second and
    the time limit. A prediction takes O(window^2) time for the mode and O(window) for the mean.

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.
    Silverman, Density estimation for statistics and data analysis, 1986, doi:10.1201/9781315140919.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 6000.0, float("nan"), user_id="ada"), SystemState()
    >>> method = Parzen()
    >>> for run in (100.0, 100.0, 100.0, 4000.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> round(method.predict(job, state).point)
    100
    """

    levels = LEVELS

    keys: tuple[str, ...] = ("user_id", "procs")
    window: int | None = 100
    statistic: Literal["mode", "mean"] = "mode"

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError("window is at least 1 job, or none")
        self.uses = self.keys
        self.limits = LargestLimit()
        self.runs: dict[tuple[str, Any], deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the mode or mean of the run times in the job's class, else of the user's jobs, else of all users'
        jobs."""
        for group, grounds in self._groups(job):
            if runs := self.runs.get(group):
                logs = np.log10(np.maximum(runs, SHORTEST))
                value = density_mode(logs) if self.statistic == "mode" else float(logs.mean())
                point = at_least_a_second(10.0**value, job.req_time)
                quantiles = sample_quantiles(runs, job.req_time)
                basis = f"{self.statistic} of the density of {len(runs)}, {group[0]}"
                return Prediction(point, LEVELS, quantiles, basis, grounds)
        return self.limits.forecast(job)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the last run times of each class, of each user and of all users."""
        if isinstance(event, End):
            for group, _ in self._groups(event.job):
                self.runs.setdefault(group, deque(maxlen=self.window)).append(event.run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def _groups(self, job: JobRequest) -> list[tuple[tuple[str, Any], Grounds]]:
        """Return the groups of finished jobs that can predict a job, best first: the job's class, the user's jobs, all
        jobs."""
        groups: list[tuple[tuple[str, Any], Grounds]]
        groups = [((f"same {', '.join(self.keys)}", class_key(job, self.keys)), Grounds.CLASS)]
        groups += [] if job.user_id is None else [(("same user", job.user_id), Grounds.OWN_HISTORY)]
        return [*groups, (("all users", None), Grounds.EVERYONE)]


def bandwidth(values: np.ndarray) -> float:
    """Return Silverman's bandwidth, 0.9 min(std, IQR/1.34) n^(-1/5), with a minimum in case all values are equal."""
    low, high = np.percentile(values, (25, 75))
    spreads = [s for s in (float(values.std()), float(high - low) / 1.34) if s > 0]
    return max(0.9 * min(spreads, default=0.0) * float(len(values) ** -0.2), NARROWEST)


def density_mode(values: np.ndarray) -> float:
    """Return the position of the maximum of the Gaussian kernel density of `values` (n,), n >= 1.

    The mean-shift algorithm climbs from the densest sample (the first sample wins a tie); the density rises at every
    step. O(n^2).

    >>> round(density_mode(np.array([1.0, 1.0, 1.1, 5.0])), 1)
    1.0
    """
    width = bandwidth(values)
    names, counts = np.unique(values, return_counts=True)
    weights = np.exp(-0.5 * ((names[:, None] - names[None, :]) / width) ** 2) * counts
    at = float(names[int(np.argmax(weights.sum(axis=1)))])
    for _ in range(STEPS):
        near = np.exp(-0.5 * ((names - at) / width) ** 2) * counts
        at = float((near * names).sum() / near.sum())
    return at


RUNS_KEPT = 50


@dataclass(slots=True)
class Behaviour:
    """The submissions of one user (or key): running sums of inter-arrival times, job sizes and repeated requests."""

    jobs: int = 0
    last: float = math.nan
    log_gap: float = 0.0
    log_size: float = 0.0
    previous: tuple[Any, ...] = ()
    repeats: int = 0

    def submitted(self, job: JobRequest) -> None:
        """Add a submission."""
        request = class_key(job, ("procs", "req_time", "app_id", "job_name"))
        if self.jobs:
            self.log_gap += math.log1p(max(job.submit_time - self.last, 0.0))
            self.repeats += request == self.previous
        self.log_size += math.log2(job.procs) if job.procs > 0 and job.procs < math.inf else 0.0
        self.jobs += 1
        self.last, self.previous = job.submit_time, request

    def features(self) -> tuple[float, float, float]:
        """Return mean log inter-arrival time, mean log2 processors, and the share of repeated requests."""
        gaps = max(self.jobs - 1, 1)
        return self.log_gap / gaps, self.log_size / self.jobs, self.repeats / gaps


@dataclass(eq=False, repr=False)
class UserClusters:
    """Predicts the exponentially smoothed run time of the user's cluster of users with similar submissions.

    Parameters
    ----------
    keys
        Columns known at submission that identify a user.
    clusters
        Maximum number of clusters, at least 1.
    smoothing
        Weight of the newest run time, in (0, 1].
    every
        Number of submissions between two clusterings, at least 1.
    memory
        Number of finished jobs from which smoothed run times are computed again, at least 1.
    seed
        Random seed of k-means.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The baseline "UBCETE" of Wu et al. 2019, whose details are not public: this method is a similar baseline, not a
    reproduction. All users so far are clustered by k-means (scikit-learn) on standardised features: mean log
    inter-arrival time, mean log2 processors, and share of repeated requests. The number of clusters k is `clusters`, or
    the number of distinct users if that is smaller. The smoothed value of a cluster, s = smoothing * R + (1 -
    smoothing) * s, is computed again from the last `memory` finished jobs at each clustering, and then updated at each
    End. For a user without a cluster, the user's own smoothed value is predicted, else the smoothed value of all users,
    else the time limit. Predicted quantiles are quantiles of the cluster's last 50 run times. The point prediction is
    between one second and the time limit. A prediction costs O(1); a refit costs O(users * clusters + memory), and
    `trained` lists the refits.

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = UserClusters(smoothing=0.5)
    >>> for run in (10.0, 20.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    15.0
    """

    levels = LEVELS

    keys: tuple[str, ...] = ("user_id",)
    clusters: int = 8
    smoothing: float = 0.3
    every: int = 1000
    memory: int = 20000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clusters < 1 or self.every < 1 or self.memory < 1 or not 0 < self.smoothing <= 1:
            raise ValueError("clusters, every and memory are at least 1, smoothing is in (0, 1]")
        self.uses = (*self.keys, "procs")
        self.refit_every_jobs = self.every
        self.limits = LargestLimit()
        self.behaviours: dict[tuple[Any, ...], Behaviour] = {}
        self.finished: deque[tuple[tuple[Any, ...], float]] = deque(maxlen=self.memory)
        self.cluster_of: dict[tuple[Any, ...], int] = {}
        self.smooth: dict[Any, float] = {}
        self.recent: dict[Any, deque[float]] = {}
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the smoothed run time of the user's cluster."""
        key = class_key(job, self.keys)
        cluster: Any = self.cluster_of.get(key, key)
        grounds = Grounds.CLASS if key in self.cluster_of else Grounds.OWN_HISTORY
        basis = f"cluster of users who submit alike ({cluster})" if key in self.cluster_of else "same user, no cluster"
        if cluster not in self.smooth:
            cluster, basis, grounds = None, "all users", Grounds.EVERYONE
        if cluster not in self.smooth:
            return self.limits.forecast(job)
        point = at_least_a_second(self.smooth[cluster], job.req_time)
        quantiles = sample_quantiles(self.recent[cluster], job.req_time)
        return Prediction(point, LEVELS, quantiles, "smoothed: " + basis, grounds)

    def observe(self, event: Event, at: SystemState) -> None:
        """Add a submission to its user's sums, and an ended job to the smoothed values of its cluster and of all
        users."""
        if isinstance(event, End):
            key, run = class_key(event.job, self.keys), event.run_time
            self.finished.append((key, run))
            self._learn(key, run)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)
            self.behaviours.setdefault(class_key(event.job, self.keys), Behaviour()).submitted(event.job)

    def refit(self, now: float) -> None:
        """Cluster the users again, and compute the smoothed values of the clusters again."""
        from sklearn.cluster import KMeans

        if not self.behaviours:
            return
        names = list(self.behaviours)
        table = np.array([self.behaviours[name].features() for name in names])
        spread = table.std(axis=0)
        table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        k = min(self.clusters, len(np.unique(table, axis=0)))
        labels = KMeans(k, n_init=4, random_state=self.seed).fit_predict(table)
        self.cluster_of = {name: int(label) for name, label in zip(names, labels)}
        self.smooth, self.recent = {}, {}
        for key, run in self.finished:
            self._learn(key, run)
        self.trained.append({"now": now, "users": len(names), "clusters": k, "jobs": len(self.finished)})

    def _learn(self, key: tuple[Any, ...], run: float) -> None:
        """Update the smoothed run times of the key's cluster and of all users."""
        for cluster in (self.cluster_of.get(key, key), None):
            before = self.smooth.get(cluster, run)
            self.smooth[cluster] = self.smoothing * run + (1.0 - self.smoothing) * before
            self.recent.setdefault(cluster, deque(maxlen=RUNS_KEPT)).append(run)
