# SPDX-License-Identifier: Apache-2.0
"""Compiled for `ibl`: a whole log at once, and the search for weights; similar instances are stored together.

The instances of a log in order of learning are cut into chunks, each chunk into groups and those into leaves of alike
instances; of each group and leaf the least and the most of every attribute is known. No instance is nearer than the
box around its leaf, to the last bit: both distances are the same sums in the same order, and rounding keeps which is
larger. So what lies farther than the k nearest found is passed over, and the answers are those of `ibl_nearest.answer`,
which looks at every instance.

Rows of SIDE values lie behind each other with steps that the compiler knows, and a name differs or not without a
branch: only then does it weigh eight instances at a time, three times as fast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...compiled import by_address, inlined, inner, kernel
from .ibl_attributes import NAMES, NUMBERS, Attributes
from .ibl_nearest import MOST, Room, Weights, blank_room, bound_of, weighted_median

SIDE = 16  # instances of a leaf, leaves of a group
GROUP = SIDE * SIDE
CHUNK = 2048  # instances, a power of two times GROUP
COUNT, NAMED = len(NUMBERS), len(NAMES)
LATEST = 2**31 - 1
LARGEST = 2**63 - 1


@by_address
class Cells(NamedTuple):
    """Instances, (leaves, attributes * SIDE), their places in the order of learning (-1: none), and waits by place.

    Then what holds each leaf, (groups, attributes * 2 * SIDE), and each group, (groups / SIDE, the same); and room to
    work in: distances of groups, of leaves and of instances (these as bits too), the keys of the nearest, and the
    attributes of the job asked about.
    """

    numbers: np.ndarray
    names: np.ndarray
    place: np.ndarray
    wait: np.ndarray
    leaf_box: np.ndarray
    leaf_names: np.ndarray
    group_box: np.ndarray
    group_names: np.ndarray
    group: np.ndarray
    leaf: np.ndarray
    apart: np.ndarray
    bits: np.ndarray
    key: np.ndarray
    value: np.ndarray
    name: np.ndarray


class TrainingPart(NamedTuple):
    """What a log teaches: attributes of all jobs, waits by job, jobs in order of learning, how many each job knows."""

    attributes: Attributes
    wait: np.ndarray
    learned: np.ndarray
    known: np.ndarray


def cells_of(training: TrainingPart, weights: Weights, most: int = MOST) -> Cells:
    """The learned instances in leaves that are narrow where these weights are large; right for any weights.

    Each chunk is halved along the attribute that parts it most, each half anew, all chunks at once: O(n log(CHUNK)).
    `most` are the nearest that are asked for.
    """
    numbers, names = (a[:, training.learned] for a in training.attributes)
    n = numbers.shape[1]
    chunks = 2 * max(-(-n // (2 * CHUNK)), 1)  # whole cells of groups
    scaled = np.concatenate([numbers * np.sqrt(weights[0])[:, None], names])
    cells = np.arange(chunks * CHUNK).reshape(chunks, CHUNK)
    while cells.shape[1] > SIDE:
        inside = np.minimum(cells, n - 1)
        kinds = np.minimum((np.diff(np.sort(names[:, inside])) != 0).sum(axis=2), 2)
        spread = np.concatenate([scaled[:COUNT, inside].var(axis=2), weights[1][:, None] * kinds / 8.0])
        order = np.argsort(scaled[spread.argmax(axis=0)[:, None], inside], axis=1, kind="stable")
        cells = np.take_along_axis(cells, order, axis=1).reshape(-1, cells.shape[1] // 2)
    inside, apart = np.minimum(cells, n - 1), np.zeros(SIDE, np.float32)
    boxes = [part for values in (numbers, names) for part in _boxes(values[:, inside])]
    return Cells(
        numbers=numbers[:, inside].transpose(1, 0, 2).reshape(len(cells), -1),
        names=names[:, inside].transpose(1, 0, 2).reshape(len(cells), -1),
        place=np.where(cells < n, cells, -1),
        wait=training.wait[training.learned],
        **{"leaf_box": boxes[0], "leaf_names": boxes[2], "group_box": boxes[1], "group_names": boxes[3]},
        group=np.zeros(len(cells) // SIDE, np.float32),
        leaf=np.zeros(SIDE, np.float32),
        apart=apart,
        bits=apart.view(np.int32),
        key=np.zeros(most, np.int64),
        value=np.zeros(COUNT, np.float32),
        name=np.zeros(NAMED, np.int32),
    )


def _boxes(values: np.ndarray) -> list[np.ndarray]:
    """Of (attributes, leaves, SIDE) the boxes of leaves and of groups: (.., attributes * 2 * SIDE), least and most."""
    held = [values.min(axis=2), values.max(axis=2)]
    made = []
    for _ in range(2):
        both = np.stack([part.reshape(len(values), -1, SIDE) for part in held], axis=2)
        made.append(both.transpose(1, 0, 2, 3).reshape(both.shape[1], -1))
        held = [both[:, :, 0].min(axis=2), both[:, :, 1].max(axis=2)]
    return made


@inner
def to_boxes(
    box: np.ndarray, names: np.ndarray, cells: Cells, number_weights: np.ndarray, name_weights: np.ndarray,
    into: np.ndarray,
) -> None:  # fmt: skip
    """How near to the job asked about what lies in each of SIDE boxes can be at all."""
    value, name = cells.value, cells.name
    for j in range(SIDE):
        d = np.float32(0.0)
        for f in range(COUNT):
            below, above = box[2 * f * SIDE + j] - value[f], value[f] - box[(2 * f + 1) * SIDE + j]
            apart = below if below > above else above
            apart = apart if apart > np.float32(0.0) else np.float32(0.0)
            d += number_weights[f] * apart * apart
        for f in range(NAMED):
            least, most = names[2 * f * SIDE + j], names[(2 * f + 1) * SIDE + j]
            d += name_weights[f] * np.float32((name[f] < least) | (name[f] > most) | (name[f] <= 0))
        into[j] = d


@inner
def to_instances(
    numbers: np.ndarray, names: np.ndarray, cells: Cells, number_weights: np.ndarray, name_weights: np.ndarray,
    limit: float,
) -> int:  # fmt: skip
    """How far the instances of a leaf are from the job asked about; returns how many are not farther than the limit."""
    value, name, into = cells.value, cells.name, cells.apart
    hits: int = 0
    for j in range(SIDE):
        d = np.float32(0.0)
        for f in range(COUNT):
            apart = numbers[f * SIDE + j] - value[f]
            d += number_weights[f] * apart * apart
        for f in range(NAMED):
            d += name_weights[f] * np.float32((names[f * SIDE + j] != name[f]) | (name[f] <= 0))
        into[j] = d
    for j in range(SIDE):
        hits += 1 if into[j] <= limit else 0
    return hits


@inner
def take_in(cells: Cells, leaf: int, low: int, high: int, k: int, count: int) -> int:
    """Put the instances of a leaf with places in [low, high) among the k nearest; returns how many there are then.

    A key is the distance's bits (they ascend as distances do) above the place's, so that the later learned is first
    among equals.
    """
    keys, bits, places = cells.key, cells.bits, cells.place[leaf]
    last = keys[k - 1] if count == k else LARGEST
    for j in range(SIDE):
        at = places[j]
        key = (np.int64(bits[j]) << 32) | (LATEST - at)
        if key < last and low <= at < high:
            place = k - 1 if count == k else count
            while place > 0 and keys[place - 1] > key:
                keys[place] = keys[place - 1]
                place -= 1
            keys[place] = key
            count = min(count + 1, k)
            if count == k:
                last = keys[k - 1]
    return count


@inner
def nearest_in(
    cells: Cells, number_weights: np.ndarray, name_weights: np.ndarray, low: int, high: int, k: int, room: Room
) -> int:
    """The k nearest instances with places in [low, high); returns how many. The nearest groups are opened first."""
    first, end = low // CHUNK * (CHUNK // GROUP), ((high - 1) // CHUNK + 1) * (CHUNK // GROUP)
    group, count = cells.group, 0
    limit: Any = np.float32(np.inf)
    for c in range(first // SIDE, (end - 1) // SIDE + 1):
        to_boxes(cells.group_box[c], cells.group_names[c], cells, number_weights, name_weights,
                 group[c * SIDE : c * SIDE + SIDE])  # fmt: skip
    while True:
        g = first
        for j in range(first + 1, end):
            if group[j] < group[g]:
                g = j
        if group[g] == np.inf or group[g] > limit:
            break
        group[g] = np.inf
        to_boxes(cells.leaf_box[g], cells.leaf_names[g], cells, number_weights, name_weights, cells.leaf)
        for j in range(SIDE):
            if cells.leaf[j] <= limit:
                leaf = g * SIDE + j
                numbers, names = cells.numbers[leaf], cells.names[leaf]
                if to_instances(numbers, names, cells, number_weights, name_weights, limit):
                    count = take_in(cells, leaf, low, high, k, count)
                    limit = distance(cells, k - 1) if count == k else limit
    for a in range(count):
        room.near[a], room.near_apart[a] = LATEST - (cells.key[a] & LATEST), distance(cells, a)
    return count


@inlined
def distance(cells: Cells, a: int) -> float:
    """How far the a-th nearest is."""
    cells.bits[0] = cells.key[a] >> 32
    apart: float = cells.apart[0]
    return apart


@kernel
def answer_from_cells(
    cells: Cells,
    attributes: Attributes,
    known: np.ndarray,
    ask: np.ndarray,
    first_tuned: int,
    weights: Weights,
    tuned: Weights,
    window: int,
    level: float,
    wide: int,
    room: Room,
    points: np.ndarray,
    bounds: np.ndarray,
) -> None:
    """Answers for the jobs asked for, as `ibl_nearest.answer_log` gives: `tuned` from job `first_tuned` on."""
    for i in range(len(known)):
        if ask[i] and known[i] > 0:
            for f in range(COUNT):
                cells.value[f] = attributes.numbers[f, i]
            for f in range(NAMED):
                cells.name[f] = attributes.names[f, i]
            number_weights, name_weights, k = tuned if i >= first_tuned else weights
            low = max(known[i] - window, 0)
            count = nearest_in(cells, number_weights, name_weights, low, known[i], max(k, wide), room)
            points[i] = weighted_median(cells.wait, room, min(k, count))
            bounds[i] = bound_of(cells.wait, room, min(wide, count), level, points[i])


def search_weights(
    training: TrainingPart, start: Weights, window: int, queries: np.ndarray, sweeps: int
) -> tuple[Weights, float]:
    """Coordinate search: each weight in turn to the best of 0, a quarter, itself, four times, while it helps.

    `queries` (n,) bool are the jobs asked, all with known waits; the loss is the mean of |ln((p + 60)/(w + 60))|.
    Deterministic. Returns the weights and their loss.
    """
    truth = np.log(training.wait[queries] + 60.0)
    room, cells = blank_room(0, 0), cells_of(training, start)
    points, bounds = np.zeros(len(queries)), np.zeros(len(queries))

    def loss(weights: Weights) -> float:
        answer_from_cells(
            *(cells, training.attributes, training.known, queries, 0, weights, weights, window, 0.95, 0),
            *(room, points, bounds),
        )
        return float(np.mean(np.abs(np.log(points[queries] + 60.0) - truth)))

    best, least = start, loss(start)
    for _ in range(sweeps):
        before = least
        for k in (1, 3, 5, 9, 15, 25):
            trial = (best[0], best[1], k)
            if k != best[2] and (error := loss(trial)) < least:
                best, least = trial, error
        for part in (0, 1):
            for f in range(len((best[0], best[1])[part])):
                here = (best[0], best[1])[part][f]
                for value in (0.0, here / 4, here * 4) if here > 0 else (0.05, 1.0):
                    changed = [best[0].copy(), best[1].copy()]
                    changed[part][f] = value
                    trial = (changed[0], changed[1], best[2])
                    if (error := loss(trial)) < least:
                        best, least = trial, error
        if least > before * 0.998:
            break
    return best, least
