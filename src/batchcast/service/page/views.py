"""The pages about everybody, and the one about a script."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from ...errors import BatchcastError, UsageError
from ..access import Asker
from ..settings import Settings
from .routes import page, render
from .script import FIELDS, MOST_CHARACTERS, options_of, options_of_job, tried

CACHED_S = 120.0


async def script(request: Request) -> Response:
    """The form, and the answer under it once there is something to answer."""
    service = request.state.service
    viewer: Asker = service.viewer(request)
    form = await _form(request)
    shown: dict[str, Any] = {"form": form, "fields": FIELDS, "answer": None, "error": None, "most": MOST_CHARACTERS}
    job = request.query_params.get("job")
    if job or any(value.strip() for value in form.values()):
        try:
            work = partial(_tried, service.settings, form, job, viewer)
            shown |= await service.while_asked(request, service.queues.heavy.run(viewer.name or "", work))
        except BatchcastError as error:
            shown["error"] = error
    return render(request, "script.html.j2", **shown)


def _tried(settings: Settings, form: dict[str, str], job: str | None, viewer: Asker) -> dict[str, Any]:
    options = options_of_job(settings, job, viewer) if job else options_of(form)
    if not options:
        raise UsageError("no #SBATCH line, and no field filled in", hint="#SBATCH --ntasks=4 --time=1:00:00")
    text = form.get("script", "") or "".join(f"#SBATCH --{name}={value}\n" for name, value in options.items())
    return {**tried(settings, options, viewer, time.time()), "form": {**form, "script": text}}


async def _form(request: Request) -> dict[str, str]:
    """The fields as text; an uploaded file takes the place of the pasted script."""
    if request.method != "POST":
        return {}
    given: dict[str, str] = {}
    async with request.form(max_files=1, max_fields=20, max_part_size=MOST_CHARACTERS) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                text = (await value.read(MOST_CHARACTERS)).decode("utf-8", "replace")
                if text.strip():
                    given["script"] = text
            elif name in (*FIELDS, "script"):
                given.setdefault(name, value.replace("\0", ""))
    return given


async def _cached(request: Request, name: str, template: str, work: Callable[..., dict[str, Any]]) -> Response:
    """A page over much history: worked out once in two minutes for each kind of reader."""
    service = request.state.service
    viewer: Asker = service.viewer(request)
    key = (name, "all" if viewer.sees_all else "several")
    at, data = service.page_cache.get(key, (-1e300, None))
    if data is not None and time.monotonic() - at < CACHED_S:
        return render(request, template, **data)

    def keep(given: dict[str, Any]) -> None:
        service.page_cache[key] = (time.monotonic(), given)

    fresh = partial(work, service.settings, Asker(None, sees_all=viewer.sees_all), time.time())
    return await page(request, template, True, fresh, keep)


async def accuracy(request: Request) -> Response:
    """Can I believe it?"""
    from .belief import belief

    return await _cached(request, "accuracy", "accuracy.html.j2", belief)


async def cluster(request: Request) -> Response:
    """The cluster."""
    from .machine import machine

    return await _cached(request, "cluster", "cluster.html.j2", machine)


async def operators(request: Request) -> Response:
    """For operators."""
    from .operators import operators as figures

    return await _cached(request, "operators", "operators.html.j2", figures)
