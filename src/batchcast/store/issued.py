# SPDX-License-Identifier: Apache-2.0
"""An issued forecast as a row holds it, and back; without SQLAlchemy, since answers need it too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..predict.protocol import Grounds, Prediction

NOTHING, UNSTATED = str(Grounds.NO_HISTORY), str(Grounds.UNSTATED)


def as_values(prediction: Prediction) -> dict[str, Any]:
    """The columns of a forecast."""
    return {
        "point_s": float(prediction.point),
        "levels": json.dumps([float(x) for x in prediction.levels]),
        "quantiles_s": json.dumps([float(x) for x in prediction.quantiles]),
        "basis": prediction.basis,
        "grounds": str(prediction.grounds),
    }


FIELDS = ("as_of", "point_s", "levels", "quantiles_s", "basis", "grounds")


def newest(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of a job that waits, with its renewed forecast (`renewed_` before each name) in the other one's place.

    As it is where there is none, or it rests on nothing.

    >>> newest({"point_s": 60.0, "renewed_point_s": None})["point_s"]
    60.0
    """
    if row.get("renewed_point_s") is None or row["renewed_grounds"] == NOTHING:
        return row
    return {**row, **{name: row[f"renewed_{name}"] for name in FIELDS}}


def as_prediction(row: Mapping[str, Any]) -> Prediction:
    """The forecast in a row."""
    levels, quantiles = tuple(json.loads(row["levels"])), tuple(json.loads(row["quantiles_s"]))
    grounds = Grounds(row.get("grounds") or UNSTATED)
    return Prediction(row["point_s"], levels, quantiles, row.get("basis", ""), grounds)
