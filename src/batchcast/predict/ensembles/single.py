"""One regressor on its own as a model: the sub-models of IRPA and the boosted trees beside them."""

from __future__ import annotations

import numpy as np

from .encoding import Encoder, Encut, Row
from .regressors import Kind, Regressor, fit_regressor


class SingleModel:
    """A regressor on one-hot encoded features with log10 run time as target; see `regressors` for settings."""

    def __init__(self, kind: Kind, features: tuple[str, ...], encut: Encut, seed: int, warm_start: bool) -> None:
        self.name: str = kind
        self.kind: Kind = kind
        self.features = features
        self.encut: Encut = encut
        self.seed = seed
        self.warm_start = warm_start
        self.encoder: Encoder | None = None
        self.regressor: Regressor | None = None

    def fit(self, rows: list[Row], log_run: np.ndarray) -> None:
        """All rows; warm only while the former encoding covers them."""
        goes_on = self.warm_start and self.encoder is not None and self.encoder.covers(rows)
        if not goes_on:
            self.encoder = Encoder.fit(self.features, rows, self.encut)
        assert self.encoder is not None
        before = self.regressor if goes_on else None
        self.regressor = fit_regressor(self.kind, self.encoder.one_hot(rows), log_run, self.seed, before)

    def predict_row(self, row: Row) -> float:
        """log10 seconds."""
        assert self.encoder is not None
        assert self.regressor is not None
        return self.regressor.predict_row(self.encoder.one_hot([row])[0])
