# SPDX-License-Identifier: Apache-2.0
"""The routes of the web pages. Each route computes its data for the viewer in a work queue, and renders a template."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import cache, partial
from importlib.resources import files
from pkgutil import resolve_name
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ...errors import BatchcastError, NoAnswer, UsageError
from ...predict.protocol import method_name
from ..answers.disclosure import Viewer
from ..http.api import status_of
from ..http.work_queue import while_asked
from ..settings import Settings
from .jobs import FIELDS, MOST_CHARACTERS, my_jobs, request_of_form, request_of_job, try_script
from .texts import LANGUAGES, Language, capitalized, choose_language, language_of, span

STREAM_S, STREAMS_EACH = 1800.0, 6
LOOK_S = 1.0
VIEWS = (("", "My jobs"), ("script", "Try a script"), ("accuracy", "Can I believe it?"), ("cluster", "The cluster"),
          ("operators", "For operators"))  # fmt: skip


def routes() -> list[BaseRoute]:
    """Return the routes of all pages and of their assets."""
    assets = StaticFiles(directory=str(files("batchcast.service.page").joinpath("assets")))
    vendored = StaticFiles(directory=str(files("batchcast.vendored").joinpath("browser")))
    return [
        Route("/", partial(_my_jobs, name="mine.html.j2"), methods=["GET"]),
        Route("/jobs", partial(_my_jobs, name="jobs.html.j2"), methods=["GET"]),
        Route("/jobs/stream", _stream, methods=["GET"]),
        Route("/script", script, methods=["GET", "POST"]),
        *(Route(f"/{name}", partial(_cached, name=name), methods=["GET"]) for name in _FIGURES),
        Mount("/assets/vendor", app=vendored, name="vendored"),
        Mount("/assets", app=assets, name="assets"),
    ]


@cache
def _templates(language: str) -> Any:
    """Return the environment of the page templates in a language."""
    # One environment for each language: an overlay for each page would compile every template again, in the event loop.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment: Any = Environment(
        loader=PackageLoader("batchcast.service.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    texts = language_of(language)
    environment.install_gettext_callables(texts.say, texts.many, newstyle=True)
    return environment


def words(request: Request) -> Language:
    """Return the texts in the language of a request."""
    asked, stored = request.query_params.get("lang"), request.cookies.get("lang")
    return language_of(choose_language(asked, stored, request.headers.get("accept-language", "")))


def render(request: Request, name: str, status: int = 200, **values: Any) -> Response:
    """Return a page, rendered in the language of the request."""
    texts = words(request)
    response = Response(text_of(texts, name, request, **values), status, media_type="text/html; charset=utf-8")
    if request.query_params.get("lang") in LANGUAGES:
        response.set_cookie("lang", texts.language, max_age=31_536_000, samesite="lax", httponly=True)
    response.headers["Vary"] = "Accept-Language, Cookie"
    return response


def text_of(texts: Language, name: str, request: Request, **values: Any) -> str:
    """Return the text of a rendered template."""
    viewer: Viewer = request.state.viewer
    shown = {
        "w": texts, "span": span, "named": method_name, "begun": capitalized, "clock": texts.clock, "views": VIEWS,
        "languages": LANGUAGES, "viewer": viewer.name,
        "here": request.url.path.strip("/"), "query": dict(request.query_params), "now": time.time(),
        "stale": [], "cluster": "", "user": viewer.name or "",
        "plans": request.state.service.settings["plan"] not in ("off", "advise"),
    }  # fmt: skip
    return str(_templates(texts.language).get_template(name).render({**shown, **values}))


async def page(request: Request, name: str, data: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """Return a page with its data. An error is shown on the page, with a hint on what to try next."""
    try:
        return render(request, name, **await while_asked(request, data))
    except BatchcastError as error:
        title = dict(VIEWS).get(request.url.path.strip("/"), "My jobs")
        return render(request, "wrong.html.j2", _page_status(error), error=error, title=title)


def _page_status(error: BatchcastError) -> int:
    """Return the HTTP status of a page that shows an error. A page without data is a complete page."""
    return 200 if isinstance(error, NoAnswer) else status_of(error)


def _data(request: Request) -> Callable[[], dict[str, Any]]:
    """Return a function that computes the data of the page *My jobs*."""
    service, viewer = request.state.service, request.state.viewer
    user = request.query_params.get("user") or viewer.name
    if user is None:
        raise UsageError("whose jobs?", hint="?user=NAME")
    return lambda: my_jobs(service.settings, user, viewer, time.time(), service.queue_cache.records())


async def _my_jobs(request: Request, name: str) -> Response:
    """Return the page *My jobs* (`mine.html.j2`), or only the part of the page that changes (`jobs.html.j2`)."""
    if name == "mine.html.j2" and not (request.state.viewer.name or request.query_params.get("user")):
        return render(request, "who.html.j2")
    return await page(request, name, request.state.service.queues.quick.run(request.state.asker, _data(request)))


async def _stream(request: Request) -> Response:
    """Send the changing part of *My jobs* whenever the store has changed, and every minute, because the shown times
    change.
    """
    service = request.state.service
    ask, asker = _data(request), request.state.asker
    if service.streams[asker.counted] >= STREAMS_EACH:
        raise UsageError(f"{STREAMS_EACH} pages with live updates of one user are already open", hint="close some")
    await service.queues.quick.run(asker, ask)  # a viewer who must be refused is refused here, before the stream begins
    return StreamingResponse(_events(request, ask, asker), media_type="text/event-stream")


async def _events(request: Request, ask: Callable[[], dict[str, Any]], asker: Any) -> AsyncIterator[str]:
    """Yield the events of the stream. The stream also ends when the viewer's token is revoked or expires."""
    service, name = request.state.service, asker.counted
    service.streams[name] += 1
    until, last = time.monotonic() + STREAM_S, None
    try:
        yield "retry: 5000\n\n"
        while not service.admission.closing and time.monotonic() < until and not await request.is_disconnected():
            try:
                if not await service.is_still(request):
                    return
                mark = ((await service.queue_cache.queue()).version, time.time() // 60)
                if last is not None and mark != last:
                    data = await service.queues.quick.run(asker, ask)
                    text = text_of(words(request), "jobs.html.j2", request, **data)
                    yield "event: jobs\n" + "".join(f"data: {line}\n" for line in text.splitlines()) + "\n"
                last = mark
            except BatchcastError:
                last = None
            await asyncio.sleep(LOOK_S)
    finally:
        service.streams -= Counter([name])


CACHED_S = 120.0


async def script(request: Request) -> Response:
    """Show the page *Try a script*: the form, and below it the answer if the form is filled in."""
    service, form = request.state.service, await _form(request)
    shown: dict[str, Any] = {"form": form, "fields": FIELDS, "answer": None, "error": None, "most": MOST_CHARACTERS}
    job, status = request.query_params.get("job"), 200
    if job or any(value.strip() for value in form.values()):
        try:
            work = partial(_tried, service.settings, form, job, request.state.viewer)
            shown |= await while_asked(request, service.queues.heavy.run(request.state.asker, work))
        except BatchcastError as error:
            shown["error"], status = error, _page_status(error)
    return render(request, "script.html.j2", status, **shown)


def _tried(settings: Settings, form: dict[str, str], job: str | None, viewer: Viewer) -> dict[str, Any]:
    """Return the data of the page *Try a script*, and the script that the answer is about."""
    asked = request_of_job(settings, job, viewer) if job else request_of_form(form)
    if not asked.options:
        raise UsageError("no #SBATCH line, and no field filled in", hint="#SBATCH --ntasks=4 --time=1:00:00")
    text = form.get("script", "") or "".join(
        f"#SBATCH --{name}={value}\n" if value else f"#SBATCH --{name}\n" for name, value in asked.options.items()
    )
    return {**try_script(settings, asked, viewer, time.time()), "form": {**form, "script": text}}


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of the form as text. An uploaded file replaces the pasted script."""
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


_FIGURES = {
    "accuracy": "answers.accuracy:calibration",
    "cluster": "page.cluster:cluster_figures",
    "operators": "page.cluster:operator_figures",
}
"""The pages that need much history, and the functions that compute their figures; imported when a page is shown."""


async def _cached(request: Request, name: str) -> Response:
    """Return a page that needs much history. The page is computed at most once in two minutes, for all readers with the
    same rights.
    """
    service, sees_all = request.state.service, request.state.viewer.sees_all

    async def figures() -> dict[str, Any]:
        at, data = service.page_cache.get((name, sees_all), (-math.inf, {}))
        if time.monotonic() - at >= CACHED_S:
            work = resolve_name(f"batchcast.service.{_FIGURES[name]}")
            ask = partial(work, service.settings, Viewer(None, sees_all=sees_all), time.time())
            data = await service.queues.heavy.run(request.state.asker, ask)
            service.page_cache[name, sees_all] = time.monotonic(), data
        return dict(data)

    return await page(request, f"{name}.html.j2", figures())
