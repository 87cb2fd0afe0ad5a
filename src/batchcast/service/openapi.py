"""The API's own description: OpenAPI 3.1, from the one table of questions."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import __version__
from ..document import dumps
from ..formats.sbatch import HEARD
from .api import PLACES

_MEANING = {
    "job": ("a job id: 42, 42_7, 42+1; several by commas", "42"),
    "user": ("a user's name; without one, whoever asks", "alice"),
    "name": ("a job name, * and ? stand for anything", "relax*"),
    "ntasks": ("processors, a number", "64"),
    "time": ("the limit, in minutes or as sbatch takes it", "120"),
    "risk": ("the accepted share of jobs cut off at the limit", "5%"),
    "account": ("an account", "physics"),
    "partition": ("a partition", "main"),
    "starttime": ("from when: a date, now-30days", "now-30days"),
    "endtime": ("until when", "now"),
    "by": ("the chance to be done by then decides: a time to come", "now+6hours"),
}
_WHAT = {
    "start": "When waiting jobs start: likely, by 90 %, why, and the track record of such answers",
    "test": "When a job that asks for this would start, if the viewer submitted it now",
    "where": "Every partition and a few sizes for such a job, the soonest done first",
    "hint": "What the last jobs like this one were advised, at once: for job_submit.lua",
    "walltime": "A time limit and a memory request for the next job like these, and why",
    "report": "What finished jobs asked for and used, and which flag to change",
    "accuracy": "Past forecasts against what happened, beside the scheduler's own",
    "health": "The state of store and collector",
}
_ERRORS = {
    "400": "no question",
    "401": "a token that is not valid",
    "403": "not for this person",
    "404": "nothing to answer from",
    "405": "not by this method",
    "429": "too many questions of one user",
    "503": "the store does not answer",
}


@cache
def description() -> str:
    """The document as JSON text."""
    return dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "batchcast", "version": __version__, "license": {"name": "Apache-2.0"}},
            "paths": {place: {"get": _operation(place, verb, names)} for place, (verb, names, _) in PLACES.items()},
            "security": [{}, {"token": []}],
            "components": {
                "schemas": {"Answer": _ANSWER, "Problem": _PROBLEM},
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _operation(place: str, verb: str, names: tuple[str, ...]) -> dict[str, Any]:
    def body(kind: str, name: str) -> dict[str, Any]:
        return {"content": {kind: {"schema": {"$ref": f"#/components/schemas/{name}"}}}}

    wrong = {code: {"description": what, **body("application/problem+json", "Problem")}
             for code, what in _ERRORS.items()}  # fmt: skip
    name = place.rpartition("/")[2]
    right = {"description": f"batchcast/{verb}/1", **body("application/json", "Answer")}
    return {
        "operationId": name,
        "summary": _WHAT[name],
        "parameters": [
            {"name": n, "in": "query", "required": False, "description": _meaning(n, name)[0],
             "schema": {"type": "string", "maxLength": 500, "examples": [_meaning(n, name)[1]]}}
            for n in names
        ],
        "responses": {"200": right, "304": {"description": "as before"}, **wrong},
    }  # fmt: skip


def _meaning(parameter: str, place: str) -> tuple[str, str]:
    """What a parameter means, with an example; those of a script are sbatch's own."""
    of_script = place in ("test", "where") and parameter in HEARD
    return (f"as sbatch's --{parameter}", "") if of_script else _MEANING[parameter]


_ANSWER = {
    "type": "object",
    "required": ["schema", "log", "settings", "warnings", "results"],
    "properties": {
        "schema": {"type": "string"},
        "log": {"type": "object"},
        "settings": {"type": "object"},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "results": {"type": "array", "items": {"type": "object"}},
    },
}
_PROBLEM = {
    "type": "object",
    "required": ["title", "status", "detail", "schema", "error", "try", "exit_code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "schema": {"const": "batchcast/error/1"},
        "error": {"type": "string"},
        "try": {"type": "string"},
        "exit_code": {"type": "integer"},
    },
}
