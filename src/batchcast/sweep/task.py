# SPDX-License-Identifier: Apache-2.0
"""A task.

One simulation, named by all that decides its result and by nothing else, the sources that compute it included.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from ..version import __version__
from .study import LogFile, Period, Study, setting

DECIDING = (
    *("cluster", "compiled", "events", "formats", "metrics", "predict", "schedule", "simulation", "table", "trace"),
    *("columns.py", "job.py", "units.py", "evaluation/differences.py", "evaluation/resampling.py", "sweep/work.py"),
)
"""What a task's result hangs on; an edit elsewhere (a page, the store, a verb) leaves finished results valid."""


@cache
def own_code(rooms: tuple[str, ...] = DECIDING) -> str:
    """The version and a digest of the deciding sources' bytes, in order of their names. About 20 ms, once a process.

    `rooms` are folders and files of the package.
    """
    root = Path(__file__).parent.parent
    content = hashlib.sha256()
    for room in rooms:
        place = root / room
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            content.update(f"{path.relative_to(root).as_posix()}\0".encode())
            content.update(path.read_bytes())
    return f"{__version__}+{content.hexdigest()[:16]}"


@cache
def code_of(predictor: str) -> str:
    """The same, with the source of a predictor of one's own (MODULE:CLASS) added.

    >>> code_of("requested") == own_code()
    True
    """
    module, colon, rest = predictor.partition(":")
    if not colon or not rest.partition(":")[0].isidentifier():
        return own_code()
    spec = importlib.util.find_spec(module)
    source = Path(spec.origin).read_bytes() if spec and spec.origin and spec.has_location else b""
    return f"{own_code()}+{hashlib.sha256(source).hexdigest()[:8]}"


@dataclass(frozen=True)
class Task:
    """One policy planned with one predictor on one replicate of one period of one log.

    `digest` is the SHA-256 of the log's file, `code` of what computes the result (`sweep.code`), `replicate` 0 the log
    as it is. Names of logs and periods, and where a file lies, are for people: they are not in the key.
    """

    log: LogFile
    digest: str
    period: Period
    replicate: int
    seed: int
    policy: str
    predictor: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""

    @cached_property
    def key(self) -> str:
        """32 hexadecimal digits of the task's content: who has a result under it needs no other."""
        log = {k: v for k, v in msgspec.to_builtins(self.log).items() if k not in ("path", "name")}
        content = {
            "log": log,
            "digest": self.digest,
            "period": [self.period.since, self.period.until],
            "draw": [self.seed, self.replicate] if self.replicate else None,
            "plan": [self.policy, self.predictor],
            "settings": dict(self.settings),
            "code": self.code,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """The task in words."""
        parts = (self.log.name, self.period.name, f"replicate {self.replicate}" if self.replicate else "", words_of(
            self.settings), f"{self.policy} with {self.predictor}")  # fmt: skip
        return ", ".join(filter(None, parts))


def words_of(settings: Mapping[str, Any]) -> str:
    """Settings in words, sorted by name; empty for none.

    >>> words_of({"wide": "cut", "total": 64.0})
    'total=64.0 wide=cut'
    """
    return " ".join(f"{key}={value}" for key, value in sorted(settings.items()))


def tasks_of(study: Study, folder: str | Path = ".") -> list[Task]:
    """The tasks of a study, in order: those that share a replicate stand together.

    `folder` is where relative paths of logs begin. Reads every log once, for its digest. InputError for one that is
    not there.
    """
    every = []
    chosen = [{k: setting(k, v) for k, v in {**study.settings, **dict(zip(study.vary, values))}.items()}
              for values in product(*study.vary.values())]  # fmt: skip
    draws = range(0 if study.itself else 1, study.replicates + 1)
    for log in study.log:
        place = str((Path(folder) / log.path).resolve())
        digest, here = digest_of(place), msgspec.structs.replace(log, path=place)
        codes = {predictor: code_of(predictor) for _, predictor in study.pairs}
        every += [
            Task(here, digest, period, replicate, study.seed, policy, predictor, settings, codes[predictor])
            for period, settings, replicate, (policy, predictor) in product(study.period, chosen, draws, study.pairs)
        ]
    return list({task.key: task for task in every}.values())


def digest_of(path: str) -> str:
    """SHA-256 of a file's bytes in hexadecimal digits; InputError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error})",
            hint="a log's path is meant from the folder of the study's file",
        ) from None
