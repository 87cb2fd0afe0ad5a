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


def as_prediction(row: Mapping[str, Any]) -> Prediction:
    """The forecast in a row."""
    levels, quantiles = tuple(json.loads(row["levels"])), tuple(json.loads(row["quantiles_s"]))
    grounds = Grounds(row.get("grounds") or UNSTATED)
    return Prediction(row["point_s"], levels, quantiles, row.get("basis", ""), grounds)
