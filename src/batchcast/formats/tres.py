"""Slurm's resource strings: `cpu=4,mem=16G,node=1,gres/gpu=2` and `gpu:a100:2`."""

from __future__ import annotations

import math
import re

_GRES = re.compile(r"(?:gres[:/])?gpu(?::[A-Za-z_][\w.-]*)?(?::(\d+))?(?:\(.*\))?", re.IGNORECASE)


def parse_tres(text: str) -> dict[str, str]:
    """Amounts by resource as text; empty for an unknown string.

    >>> parse_tres("cpu=4,mem=16G,gres/gpu:a100=2")
    {'cpu': '4', 'mem': '16G', 'gres/gpu:a100': '2'}
    """
    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def tres_gpus(text: str) -> float:
    """GPUs in a TRES string; 0 when it names none, NaN when it is empty.

    The plain `gres/gpu` counts all; where only typed ones (`gres/gpu:a100`) are given, they are added up.

    >>> tres_gpus("cpu=4,gres/gpu=3,gres/gpu:a100=2"), tres_gpus("cpu=4"), tres_gpus("")
    (3.0, 0.0, nan)
    """
    amounts = parse_tres(text)
    if not amounts:
        return math.nan
    if "gres/gpu" in amounts:
        return _amount(amounts["gres/gpu"])
    return sum((_amount(v) for k, v in amounts.items() if k.startswith("gres/gpu:")), 0.0)


def gres_gpus(text: str) -> float:
    """GPUs on each node in a GRES string (ReqGRES); 0 when it names none or is empty.

    >>> gres_gpus("gpu:a100:2,lustre"), gres_gpus("gpu"), gres_gpus("gres:gpu:4"), gres_gpus("")
    (2.0, 1.0, 4.0, 0.0)
    """
    matches = (_GRES.fullmatch(item.strip().removeprefix("PER_NODE:")) for item in re.split(r",(?![^(]*\))", text))
    return float(sum(int(match[1] or 1) for match in matches if match))


def _amount(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
