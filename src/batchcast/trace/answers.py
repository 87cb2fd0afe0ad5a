"""Every job's answer as a folder of Parquet files, written piece by piece: whole or not there at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from ..errors import InputError, UsageError
from ..table.arrow import arrow
from .whole_file import beside


class Answers:
    """A context in which tables are added under names: `OUT/predictor=last_2/part-000.parquet`, as hive does.

    `keys` name the levels of the folder. The folder takes its place when the block ends well, else it is removed.
    Raises UsageError where something lies in that place already.
    """

    def __init__(self, path: str | Path, keys: Sequence[str]) -> None:
        self.place = Path(path)
        self.keys = keys
        self.parts: Counter[str] = Counter()
        self._open = ExitStack()
        if self.place.exists():
            raise UsageError(f"{self.place}: something is there already", hint="a folder that is not there yet")

    def __enter__(self) -> Self:
        arrow()
        self.under = self._open.enter_context(beside(self.place))
        try:
            self.under.mkdir(parents=True)
        except OSError as error:
            raise InputError(f"{self.place}: cannot be written ({error.strerror or error})") from None
        return self

    def add(self, names: Sequence[str], columns: Mapping[str, Any]) -> None:
        """One more file of arrays (n,) under these values of the keys."""
        pa, pq = arrow()
        name = "/".join(f"{key}={quote(value, safe='')}" for key, value in zip(self.keys, names))
        try:
            (self.under / name).mkdir(parents=True, exist_ok=True)
            file = self.under / name / f"part-{self.parts[name]:05d}.parquet"
            pq.write_table(pa.table(dict(columns)), file, compression="zstd")
        except OSError as error:
            raise InputError(f"{self.place}: cannot be written ({error.strerror or error})") from None
        self.parts[name] += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open:
            if kind is None:
                self.under.rename(self.place)
