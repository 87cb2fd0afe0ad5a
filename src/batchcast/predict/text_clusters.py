"""Clusters of a user's job names: k-means on the rows of their edit-distance matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

TRIED = (2, 3, 4, 5, 6, 8, 10, 12, 15)


class TextClusters(NamedTuple):
    """A label per text, the k chosen, and what each tried k gave: SSE and Calinski-Harabasz score."""

    labels: dict[str, int]
    k: int
    tried: tuple[int, ...]
    sse: tuple[float, ...]
    score: tuple[float, ...]


def cluster_texts(counts: Mapping[str, int], most: int = 500, seed: int = 0) -> TextClusters:
    """Cluster texts that occurred `counts` times each by Levenshtein distance (rapidfuzz) and k-means++ (scikit-learn).

    Source: Wang et al. 2021, eqs. 1 to 3. A sample is a row of the distance matrix LD over all jobs; clustering the
    distinct texts with weight n_s and column s scaled by sqrt(n_s) gives the same sums of squares at bounded cost. k is
    the tried one (2, 3, ... 15, below the number of texts) with the largest Calinski-Harabasz score up to the elbow of
    SSE, ties to the smaller: the score alone goes on rising as names that differ in a number are parted. Below three
    texts each is its own cluster. At most the `most` most frequent texts are clustered (ties: the first seen), the
    rest join the nearest of them.
    O(most^2) distances and memory.

    >>> cluster_texts({"ada_wing": 3, "ada_mesh": 1}).labels
    {'ada_wing': 0, 'ada_mesh': 1}
    """
    texts = sorted(counts, key=lambda text: -counts[text])[:most]
    if len(texts) < 3:
        return TextClusters({text: label for label, text in enumerate(texts)}, len(texts), (), (), ())
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    weights = np.array([float(counts[text]) for text in texts])
    distances = cdist(texts, texts, scorer=Levenshtein.distance, dtype=np.float64) * np.sqrt(weights)
    labels, k, tried, sse, score = _best_of(distances, weights, seed)
    cluster_of = {text: int(label) for text, label in zip(texts, labels)}
    for text in counts:
        if text not in cluster_of:
            cluster_of[text] = cluster_of[nearest_text(text, texts)]
    return TextClusters(cluster_of, k, tried, sse, score)


def nearest_text(text: str, texts: list[str]) -> str:
    """The text at the smallest edit distance; ties: the first."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import extractOne

    return str(extractOne(text, texts, scorer=Levenshtein.distance)[0])


def _best_of(
    table: np.ndarray, weights: np.ndarray, seed: int
) -> tuple[np.ndarray, int, tuple[int, ...], tuple[float, ...], tuple[float, ...]]:
    from sklearn.cluster import KMeans

    n = float(weights.sum())
    centre = np.average(table, axis=0, weights=weights)
    total = float(weights @ ((table - centre) ** 2).sum(axis=1))
    tried = tuple(k for k in TRIED if k < len(np.unique(table, axis=0)))
    labels, sse, score = [np.zeros(len(table), dtype=int)], [], []
    for k in tried:
        fit = KMeans(k, n_init=2, random_state=seed).fit(table, sample_weight=weights)
        labels.append(fit.labels_)
        sse.append(float(fit.inertia_))
        score.append(calinski_harabasz(total, sse[-1], n, k))
    if not tried:
        return labels[0], 1, tried, (), ()
    until = tried.index(elbow((1, *tried), (total, *sse))) + 1
    best = int(np.argmax(score[:until]))
    return labels[best + 1], tried[best], tried, tuple(sse), tuple(score)


def elbow(ks: tuple[int, ...], sse: tuple[float, ...]) -> int:
    """The k (not the first) where SSE lies farthest below the line from its first to its last point; ties: the first.

    >>> elbow((1, 2, 3, 4), (100.0, 12.0, 10.0, 8.0))
    2
    """
    x, y = np.array(ks, float), np.array(sse)
    line = y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0])
    return ks[1 + int(np.argmax((line - y)[1:]))]


def calinski_harabasz(total: float, within: float, n: float, k: int) -> float:
    """tr(B)/tr(W) * (n - k)/(k - 1), eq. 3, from the total and the within-cluster sum of squares; infinite for W = 0.

    >>> calinski_harabasz(total=100.0, within=20.0, n=12.0, k=2)
    40.0
    """
    if within <= 0:
        return np.inf
    return (total - within) / within * (n - k) / (k - 1)
