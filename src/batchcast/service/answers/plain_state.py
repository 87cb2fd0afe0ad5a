# SPDX-License-Identifier: Apache-2.0
"""Converts the state of predictors to plain values (numbers, text, bytes, lists) and back.

A file of plain values contains no code: of an object's class only its index in `CLASSES`, a list in this module, is
stored. Functions are not stored either: a predictor is first created from the site's settings, and the file provides
only its data. A predictor that contains other objects, such as a scikit-learn model or an object of another package,
raises `NotPlain` and is not saved.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, partial
from importlib import import_module
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec
import numpy as np
from msgspec import msgpack

from ...machines.machine import Machine

_CLASSES = {
    "events.event": "Capacity Change End Overdue Requeue Start Submit Withdraw",
    "events.record": "Columns",
    "events.state": "Running SystemState",
    "job": "JobRequest",
    "predict.calibration.keeper": "OnlineCalibration Open _Bounds _Issued",
    "predict.conditional": "_Curve _Tail",
    "predict.fallback": "LargestLimit",
    "predict.gate": "Warming",
    "predict.hazard.bins": "WaitCurve",
    "predict.hazard.calibrated_waits": "Bursts CalibratedWaits LevelsBySpan Pool",
    "predict.hazard.components": "Lag RecentWaits",
    "predict.hazard.features": "Room",
    "predict.hazard.history_features": "WaitHistory",
    "predict.hazard.model": "Fitting Hazard Submissions Taught Trees Waits",
    "predict.hazard.renewal": "Expected Renewal Renewed Snapshot _Look",
    "papers.online_knn_ga.genetic": "Batches Evolved Gene Rows Store",
    "papers.online_knn_ga.nearest": "Linear Orders Scaled",
    "predict.namesakes": "Namesakes",
    "predict.peak_memory": "LateMemory PeakMemory",
    "predict.protocol": "Grounds Prediction",
    "predict.recommend": "Advice LimitAdvice",
    "predict.runtime.calibrated": "Calibrated",
    "predict.runtime.kernel": "Kernel RunTimes",
    "papers.online_knn_ga.methods": "Groups KnnGa MinhWolters Parameters SmithTemplates Template Trial",
    "predict.runtime.baselines": "LargestRecent Last2 RecentMean Requested SoftWalltime",
    "papers.su.methods": "Su TextClusters Tobit Trip",
    "papers.vasp.methods": "Behaviour Parzen UserClusters",
    "predict.similarity.coding": "Coded Coder",
    "predict.similarity.candidates": "Memory Options",
    "predict.wait.forecast": "Forecast Burst Components Log NodesComponent Seen",
    "predict.wait.forward": "ForwardPlans",
    "papers.quick_starters.ibl": "Ibl",
    "papers.quick_starters.ibl_kernel": "Attributes How Instances Room TrainingPart",
    "papers.quick_starters.pqstar": "PQStar",
    "papers.quick_starters.pqstar_kernel": "Histories Rules",
    "papers.quick_starters.bounds": "Group Learned LogUniform Qbets",
    "predict.wait.recent_wait": "QueuedByGroup RecentWait",
    "predict.wait.scheduler_replay": "Asked SchedulerReplay",
    "schedule.forward": "Forward",
}
CLASSES = tuple(f"{module}:{name}" for module, names in _CLASSES.items() for name in names.split())
"""All classes that saved predictors consist of; a file cannot name another class."""
CODE = (FunctionType, MethodType, BuiltinFunctionType, partial, attrgetter, type, Machine)
"""Attributes of these types are never stored, because a predictor that is created from the settings already has them.
"""
SCALARS = frozenset({type(None), bool, int, float, str, bytes})
REFERENCE, LIST, TUPLE, DICT, SET, FROZEN, DEQUE, BYTES, INTEGER, NUMBER, ARRAY, OBJECT, OWN = range(13)
FACTORIES: tuple[Any, ...] = (None, int, float, list, dict, set)  # of a defaultdict
DICTS: tuple[type, ...] = (dict, defaultdict, Counter, OrderedDict)


_DECODER = msgpack.Decoder(ext_hook=lambda _code, data: data)


def in_place(data: bytes) -> msgpack.Ext:
    """Wrap bytes so that `decoded` returns a view into its input, which avoids copying a large array twice."""
    return msgpack.Ext(0, data)


def decoded(body: bytes | memoryview) -> Any:
    """Return the plain values that msgpack encoded in these bytes."""
    return _DECODER.decode(body)


class NotPlain(TypeError):
    """A predictor contains something that cannot be stored as plain values."""


@cache
def _numbers() -> Mapping[str, int]:
    """Map each class in `CLASSES` to its index."""
    return {name: number for number, name in enumerate(CLASSES)}


@cache
def _class(number: int) -> Any:
    """Return the class with this index in `CLASSES`."""
    module, _, name = CLASSES[number].partition(":")
    return getattr(import_module(f"batchcast.{module}"), name)


class Writer:
    """Converts objects to plain values. An object with several references is stored once, so reading restores the
    sharing.
    """

    def __init__(self) -> None:
        self._met: list[Any] = []  # keeps objects alive, so that no other object gets the same id
        self._places: dict[int, int] = {}

    def plain(self, value: Any) -> Any:
        """Return the plain form of a value: itself, or a list that begins with its type."""
        kind = type(value)
        if kind in SCALARS:
            return value if kind is not int or -(2**63) <= value < 2**63 else [INTEGER, str(value)]
        if isinstance(value, np.generic):
            return [NUMBER, _plain_dtype(value.dtype), value.tobytes()]
        if id(value) in self._places:
            return [REFERENCE, self._places[id(value)]]
        self._places[id(value)] = len(self._met)
        self._met.append(value)
        return WRITERS.get(kind, Writer._object)(self, value)

    def _all(self, values: Iterable[Any]) -> list[Any]:
        """Return a flag and the plain forms of values. The flag is True if all values are already plain."""
        given = list(values)
        if all(type(one) in SCALARS and (type(one) is not int or -(2**63) <= one < 2**63) for one in given):
            return [True, given]
        return [False, [self.plain(one) for one in given]]

    def _dict(self, value: Any) -> list[Any]:
        made = FACTORIES.index(getattr(value, "default_factory", None))
        return [DICT, DICTS.index(type(value)), made, *self._all(value.keys()), *self._all(value.values())]

    def _array(self, value: np.ndarray) -> list[Any]:
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        whole = np.ascontiguousarray(value.T if turned else value)
        if value.dtype.hasobject:
            raise NotPlain("an array of objects")
        return [ARRAY, _plain_dtype(value.dtype), list(value.shape), turned, in_place(whole.tobytes())]

    def _object(self, value: Any) -> list[Any]:
        kind = type(value)
        number = _numbers().get(f"{kind.__module__.removeprefix('batchcast.')}:{kind.__qualname__}")
        if number is None or _class(number) is not kind:
            if callable(getattr(kind, "state", None)) and callable(getattr(kind, "restore", None)):
                return [OWN, self.plain(value.state())]
            raise NotPlain(f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(value, Enum):
            return [OBJECT, number, value.value]
        if isinstance(value, tuple):
            return [OBJECT, number, *self._all(value)]
        if isinstance(value, msgspec.Struct):
            return [OBJECT, number, *self._all(getattr(value, name) for name in kind.__struct_fields__)]
        state = value.__getstate__()
        if hasattr(kind, "__setstate__") and not isinstance(state, dict):
            return [OBJECT, number, self.plain(state)]
        return [OBJECT, number, {name: self.plain(of) for name, of in _attributes(state) if not isinstance(of, CODE)}]


def _attributes(state: Any) -> list[tuple[str, Any]]:
    """Return names and values of all attributes of an object, from its `__dict__` and its slots."""
    parts = state if isinstance(state, tuple) else (state,)
    return [item for part in parts if part for item in part.items()]


def _plain_dtype(dtype: np.dtype[Any]) -> Any:
    """Return a plain form of a dtype. Structured types keep their field offsets, because compiled kernels
    expect them.
    """
    if dtype.fields is None:
        return dtype.str
    fields = list(dtype.fields.values())
    formats = [[of[0].base.str, list(of[0].shape)] for of in fields]
    return [list(dtype.fields), formats, [of[1] for of in fields], dtype.itemsize, dtype.isalignedstruct]


def _read_dtype(plain: Any) -> np.dtype[Any]:
    """Return the dtype that `_plain_dtype` converted; ValueError if it contains objects."""
    if isinstance(plain, str):
        dtype: np.dtype[Any] = np.dtype(plain)
    else:
        names, formats, offsets, size, aligned = plain
        shaped = [(of, tuple(shape)) if shape else of for of, shape in formats]
        dtype = np.dtype({"names": names, "formats": shaped, "offsets": offsets, "itemsize": size}, align=aligned)
    if dtype.hasobject:
        raise ValueError("an array of objects")
    return dtype


WRITERS: dict[type, Callable[[Writer, Any], list[Any]]] = {
    tuple: lambda w, v: [TUPLE, *w._all(v)],
    list: lambda w, v: [LIST, *w._all(v)],
    **dict.fromkeys(DICTS, Writer._dict),
    deque: lambda w, v: [DEQUE, v.maxlen, *w._all(v)],
    np.ndarray: Writer._array,
    set: lambda w, v: [SET, *w._all(v)],
    frozenset: lambda w, v: [FROZEN, *w._all(v)],
    bytearray: lambda w, v: [BYTES, bytes(v)],
}


class Reader:
    """Creates objects from plain values; raises ValueError, TypeError or the like for values that no `Writer` wrote."""

    def __init__(self) -> None:
        self._made: list[Any] = []
        self._filled: set[int] = set()  # ids of objects created from the settings, whose attributes are set only once

    def read(self, plain: Any, fresh: Any = None) -> Any:
        """Return the object that a plain value stands for. If `fresh` is an object of the same class, created from the
        settings, its attributes are set in place.
        """
        if type(plain) is not list:
            return plain
        kind = plain[0]
        # TUPLE comes first because it is the most frequent type and takes half of the reading time
        if kind == TUPLE and plain[1]:
            values = tuple(plain[2])
            self._made.append(values)
            return values
        if kind == REFERENCE:
            return self._made[plain[1]]
        if kind == INTEGER:
            return int(plain[1])
        if kind == NUMBER:
            return np.frombuffer(plain[2], _read_dtype(plain[1]))[0]
        place = len(self._made)
        self._made.append(None)
        made = READERS[kind](self, plain, place, fresh)
        self._made[place] = made
        return made

    def _all(self, is_plain: bool, values: list[Any], fresh: Any = None) -> list[Any]:
        """Return values from a flag and their plain forms. `fresh` may be a list or tuple with the fresh objects."""
        if is_plain:
            return values
        if isinstance(fresh, list | tuple) and len(fresh) == len(values):
            return [self.read(one, old) for one, old in zip(values, fresh)]
        return [self.read(one) for one in values]

    def _grown(self, place: int, made: Any, add: Callable[[Any, list[Any]], None], *parts: Any) -> Any:
        """Fill an empty container. The container is registered first, because its values can refer to it."""
        self._made[place] = made
        add(made, self._all(*parts))
        return made

    def _dict(self, plain: list[Any], place: int, fresh: Any) -> Any:
        _, number, factory, keys_plain, keys, plain_values, values = plain
        kind = DICTS[number]
        made: Any = defaultdict(FACTORIES[factory]) if kind is defaultdict else kind()
        self._made[place] = made
        old = fresh if isinstance(fresh, dict) else {}
        for name, one in zip(self._all(keys_plain, keys), values):
            made[name] = one if plain_values else self.read(one, old.get(name))
        return made

    def _array(self, plain: list[Any], _place: int, _fresh: Any) -> np.ndarray:
        _, dtype, shape, turned, data = plain
        flat = np.frombuffer(data, _read_dtype(dtype)).copy()
        return flat.reshape(shape[::-1]).T if turned else flat.reshape(shape)

    def _object(self, plain: list[Any], place: int, fresh: Any) -> Any:
        kind, state = _class(plain[1]), plain[2:]
        if issubclass(kind, Enum):
            return kind(state[0])
        if issubclass(kind, tuple):
            return kind._make(self._all(*state))
        if issubclass(kind, msgspec.Struct):
            return kind(**dict(zip(kind.__struct_fields__, self._all(*state), strict=True)))
        made = fresh if type(fresh) is kind and id(fresh) not in self._filled else kind.__new__(kind)
        self._filled.add(id(fresh))
        self._made[place] = made
        if not isinstance(state[0], dict):
            made.__setstate__(self.read(state[0]))
            return made
        values = {name: self.read(of, getattr(made, name, None)) for name, of in state[0].items() if name[:2] != "__"}
        if hasattr(kind, "__setstate__"):
            code = {name: of for name, of in made.__dict__.items() if isinstance(of, CODE)}
            made.__setstate__(code | values)
            return made
        for name, of in values.items():
            object.__setattr__(made, name, of)
        return made

    def _own(self, plain: list[Any], _place: int, fresh: Any) -> Any:
        """Restore a predictor of another package by its own method `restore`."""
        fresh.restore(self.read(plain[1]))
        return fresh


READERS: dict[int, Callable[[Reader, list[Any], int, Any], Any]] = {
    LIST: lambda reader, plain, place, fresh: reader._grown(place, [], list.extend, *plain[1:], fresh),
    TUPLE: lambda reader, plain, place, fresh: tuple(reader._all(plain[1], plain[2], fresh)),
    DICT: Reader._dict,
    SET: lambda reader, plain, place, fresh: reader._grown(place, set(), set.update, *plain[1:]),
    FROZEN: lambda reader, plain, place, fresh: frozenset(reader._all(*plain[1:])),
    DEQUE: lambda reader, plain, place, fresh: reader._grown(place, deque(maxlen=plain[1]), deque.extend, *plain[2:]),
    BYTES: lambda reader, plain, place, fresh: bytearray(plain[1]),
    ARRAY: Reader._array,
    OBJECT: Reader._object,
    OWN: Reader._own,
}
"""The functions that read each type of plain value, except the types that `Reader.read` handles itself."""
