# SPDX-License-Identifier: Apache-2.0
"""What the store or the service of a cluster predicts for a job, as checked names and numbers.

An answer of a service is data of another computer. It cannot contain a word of a command: the options of sbatch are
made here from a `Change` of the user's own request.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from ..client import Client, UnsafeAddressError
from ..document import plain
from ..errors import BatchcastError, Refused, Unreachable, UsageError
from ..formats.slurm.sbatch import Request
from ..service.answers.answer import Answer
from ..service.answers.fallback import KINDS
from ..service.answers.script import Change, Name
from .configured import Cluster

Text = Annotated[str, Meta(max_length=4000)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e11)]
"""A span, or an instant in epoch seconds."""
Spread = Annotated[list[Seconds | None], Meta(max_length=1000)]
"""Equally likely spans; None stands for an unknown or unbounded span."""
Moments = tuple[Annotated[float, Meta(ge=0.0, le=1e9)], Annotated[float, Meta(ge=-50.0, le=50.0)],
                Annotated[float, Meta(ge=0.0, le=1e4)]]  # fmt: skip
"""Number of completed jobs, and mean and variance of the logarithm of their run times (s)."""


class Predicted(Struct, frozen=True):
    """One way to submit the job: the change of the request, with equally likely waits and run times."""

    change: Change
    procs: Annotated[float, Meta(ge=0.0, le=1e9)]
    begin_s: Seconds
    waits_s: Spread
    runs_s: Spread
    limit_s: Seconds | None = None
    qos: Name | None = None  # Also the QOS that the job has without `--qos`
    basis: Text = ""


class Log(Struct, frozen=True):
    """The cluster, when its queue was read, and the user's run times there by job name."""

    cluster: Text = ""
    snapshot_s: Seconds | None = None
    own_runs: dict[Text, Moments] = {}


class Shown(Struct, frozen=True):
    """The settings of an answer: the time on the cluster's clock."""

    now_s: Seconds | None = None


class Prediction(Struct, frozen=True):
    """The prediction of a cluster: one row per way to submit the job, and warnings."""

    results: list[Predicted]
    log: Log
    settings: Shown
    warnings: Annotated[list[Text], Meta(max_length=100)] = []


class _Failure(Struct):
    """The document of an error."""

    error: Text
    hint: Text = msgspec.field(name="try", default="")
    exit_code: int = 1


def checked(answer: Answer) -> Prediction:
    """Return the answer from a store as a prediction."""
    try:
        return msgspec.convert(plain(answer._asdict()), Prediction)
    except msgspec.ValidationError as error:
        raise Unreachable(f"its store gives an answer that cannot be used: {error}") from None


def ask_service(cluster: Cluster, request: Request, any_size: bool) -> Prediction:
    """Return the prediction of a cluster's service; Unreachable without a usable answer, Refused if the token is
    wrong."""
    token, service = "", f"its service {cluster.service}"
    if cluster.token_file:
        try:
            token = Path(cluster.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Unreachable(f"its token file {cluster.token_file} cannot be read: {error.strerror}") from None
    given = {**request.heard, "spread": "yes", **({"any-size": "yes"} if any_size else {})}
    client = Client(cluster.service)
    client.token = token  # never $BATCHCAST_TOKEN, which is for another service
    try:
        status, body = client.get(f"/v1/where?{urlencode(given)}", "", time.monotonic() + cluster.patience_s)
        if status == 200:
            return msgspec.json.decode(body, type=Prediction)
        failure = msgspec.json.decode(body, type=_Failure) if status != 401 else None
    except TimeoutError:
        raise Unreachable(f"{service} did not answer within {cluster.patience_s:g} s (setting patience_s)") from None
    except UnsafeAddressError as error:
        raise UsageError(f"{service}: {error}") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Unreachable(f"{service} gives an answer that cannot be used: {error}") from None
    except (OSError, ValueError, IndexError) as error:
        raise Unreachable(f"{service} does not answer: {error}") from None
    if failure is None:
        where = cluster.token_file or "[[cluster]] has no token_file"
        raise Refused(f"its service rejects the token ({where}): it is wrong or expired; ask its operator for one")
    raise KINDS.get(failure.exit_code, BatchcastError)(failure.error, hint=failure.hint)
