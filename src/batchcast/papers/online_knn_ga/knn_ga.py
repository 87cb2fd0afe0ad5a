# SPDX-License-Identifier: Apache-2.0
"""`knn_ga`: the K most similar of the last N finished jobs, predicts with all parameters tuned online by a genetic
algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LEVELS, sample_quantiles
from ...predict.protocol import Grounds, Prediction
from .genetic import INSTEAD, NOMINALS, NUMBERS, USER, Gene, Parameters, RangedMethod, Trial, fields_of
from .nearest import (
    LOCAL_MODELS,
    local_estimate,
    mean_and_std,
    mean_of_last,
    nearest,
    normal,
    normalised,
    planned,
    scaling,
)

UNTRAINED = Parameters(USER, 3000, 5, 0.0, 1.0)


@dataclass(eq=False, repr=False)
class KnnGa(RangedMethod):
    """Predicts the mean run time of the K nearest jobs under one template plus alpha standard deviations, at most beta
    times the time limit.

    Parameters
    ----------
    h, t1, t2
        Number of submissions in a batch's HistSet (history), TrainingSet and TestSet; the windows advance by t2.
    population
        Number of genomes of the genetic search, at least 3.
    generations
        Number of rounds of the search. With 0 there is no search: the windows advance, and all jobs are predicted with
        the parameters that apply before the first search.
    local_model
        `mean`, or `linear` or `svr`: a regression on the normalised numeric columns of the K neighbours.
    warm_start
        Whether the search of a batch begins with the population of the last batch.
    pu_weight
        Factor of (1 - PU)^2 in the fitness, where PU is the rate of underestimates.
    seed
        Random seed of the search, which is combined with the batch's number.
    first
        Number of submissions before the first search. Until there are h + t1 submissions, the windows grow, and the
        search is repeated whenever the number of submissions has doubled. If `first` is 0, there is no search before h
        + t1 submissions, as in the paper.
    patience
        The search ends after this number of rounds without a better genome; with 0 it never ends early.
    most_n, most_k, most_alpha, most_beta
        Upper ends of the searched ranges of N (from 100), K (from 1), alpha (from 0) and beta (from 0.1).
    widen
        Maximum number of times that a range is doubled if the best genome is at the range's upper end.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or for an unknown model.

    Notes
    -----
    Equations 2 to 7 of Xu et al. 2018. A template is a subset of {user, group, queue, application}. On a log without
    groups, queues or applications, accounts, partitions and job names replace them (`INSTEAD`). Among the last N
    finished jobs, the jobs with equal values in the template's fields are ranked by the distance of eq. 3 over
    processors, limit and memory; two unknown names count as equal. The numbers are min-max normalised over the batch's
    HistSet, without clipping. A numeric column adds 0 to the distance if the value is unknown for both jobs or the
    column is constant, and 1 if the value is unknown for one job. Ties go to the more recently completed job. Est2 =
    min(mean + alpha std, beta limit), without this cap if the job has no limit, and at least one second. If no job
    matches the template, the template {user} is used, then the mean of the last N jobs, then the time limit unchanged.

    Training: before the first job of a TestSet is submitted, `population` x `generations` genomes are tried on the
    finished jobs of the TrainingSet. A genome's predictions use only jobs that had finished at the predicted job's
    submission. Jobs submitted before the HistSet are ignored. Before the first training the template is {user} and K is
    5. A prediction costs O(N). A refit costs one sort of neighbours per template and distinct request, then about
    t1 * K steps per evaluation; `trained` records its result and its number of evaluations.

    Departures from the paper: the genetic operators are ours (see `genetic`), because the paper does not describe them.
    With a regression as `local_model`, the parameters are still searched with the mean. Quantiles are order statistics
    of the neighbours' run times.

    References
    ----------
    Xu, Xiong, Xiao, On-line prediction of application run time using schedule historical data, 2018,
    doi:10.3969/j.issn.1001-3695.2018.08.0624.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = KnnGa()
    >>> for run in (100.0, 200.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    150.0
    """

    uses = (*NOMINALS, *INSTEAD.values(), *NUMBERS)

    least_generations = 0

    local_model: Literal["mean", "linear", "svr"] = "mean"
    warm_start: bool = False
    pu_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_model not in LOCAL_MODELS:
            raise ValueError(f"local_model is one of {', '.join(LOCAL_MODELS)}")
        self.parameters = UNTRAINED
        self.low, self.span = np.zeros(len(NUMBERS)), np.zeros(len(NUMBERS))
        self.last_population: np.ndarray | None = None

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict from the neighbours that have finished before the submission."""
        store, chosen = self.store, self.parameters
        codes, values = store.code(job), store.value(job)
        low, span = (self.low, self.span) if self.is_scaled else store.scaling_so_far()
        query = np.array([normal(v, a, b) for v, a, b in zip(values, low, span)])
        finished = (store.finished["codes"], store.finished["values"])
        run, limit = store.finished["run"], store.limit(job)[0]
        own = (USER, "same user", Grounds.OWN_HISTORY)
        for template, words, kind in ((chosen.template, self._words(), Grounds.CLASS), own):
            near = nearest(*finished, codes, query, low, span, template, chosen.n, chosen.k)
            if len(near):
                basis, used, grounds = f"{len(near)} nearest, {words}", run[near], kind
                mean, std = mean_and_std(run, near)
                if self.local_model != "mean":
                    table = normalised(finished[1][near], low, span)
                    mean = local_estimate(self.local_model, table, used, query)
                break
        else:
            if not len(run):
                return store.limits.forecast(job)
            basis, used, grounds = "mean of all", run[-chosen.n :], Grounds.EVERYONE
            mean, std = mean_of_last(store.finished["total"], len(run), chosen.n), 0.0
        point = planned(mean, std, limit, chosen.alpha, chosen.beta)
        return Prediction(point, LEVELS, sample_quantiles(used.tolist(), limit), self.noting(basis), grounds)

    def renew(self, now: float) -> None:
        """Search the parameters for the present batch."""
        self.low, self.span = scaling(self.history())
        if not self.generations:
            return
        trial = self.trial(self.most_k)
        if not len(trial.actual):
            return

        def fitness(genes: tuple[Gene, ...]) -> Callable[[np.ndarray], float]:
            """Return a function that scores genomes of the given genes, on sorted neighbours up to the genes' largest
            K."""
            nonlocal trial
            most = int(genes[len(NOMINALS) + 1].high)
            trial = trial if most == self.most_k else self.trial(most)
            tried = trial
            return lambda genome: tried.score(Parameters.of(genome), self.pu_weight)[0]

        genes = (*(Gene("bit") for _ in NOMINALS), *self.ranges())
        search = self.widened(genes, fitness, start=self.last_population if self.warm_start else None)
        self.last_population = search.population
        self.parameters = chosen = Parameters.of(search.best)
        _, mae, pu = trial.score(chosen, self.pu_weight)
        self.note_best(now, search, len(trial.done), mae, pu)

    def trial(self, most: int) -> Trial:
        """Prepare the finished jobs of the batch's TrainingSet, to try parameters with K up to `most`."""
        return Trial.of(self.training(), self.store, self.low, self.span, most)

    def _words(self) -> str:
        columns = map(self.store.column_of, fields_of(self.parameters.template))
        return "same " + ", ".join(columns) if self.parameters.template else "any job"
