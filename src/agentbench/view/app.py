"""The HTTP application: addresses, the page, and server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from agentbench import __version__
from agentbench.contract.suite import DEMO, suite_folder
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, ContractError, InputError
from agentbench.core.text import printable
from agentbench.reports.html.bounded import bounded
from agentbench.reports.html.page import render_live
from agentbench.trace.json_safe import valid_utf8
from agentbench.view.actions import categories, decide, queue, record_adjudication
from agentbench.view.explorer import COLUMNS, EXPORTS, Explorer
from agentbench.view.index import Entry, RunIndex
from agentbench.view.live import AttemptFollow, RunWatch
from agentbench.view.pages import RunPages
from agentbench.view.pilots import pilots_json
from agentbench.view.roots import Roots
from agentbench.view.scenario import edit_scenario, save_scenario, scenario_json
from agentbench.view.security import MAX_ADDRESS, MAX_BODY, Guard
from agentbench.view.suites import suite_json, suites_json

SCRIPTS = (
    "live_source.js",
    "runs.js",
    "live_run.js",
    "explorer.js",
    "explorer_results.js",
    "queue.js",
    "suites.js",
    "scenario.js",
    "pilots.js",
)
TICK_SEC = 0.2
"""An event on disk is sent at most this much later, plus the time to read it."""
IDLE_TICK_SEC = 2.0
"""Pause between looks at a run that no process writes."""
HEARTBEAT_SEC = 15.0
MAX_STREAMS = 64
HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
API_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass
class View:
    """State that all endpoints of one server share."""

    guard: Guard
    index: RunIndex
    explorer: Explorer
    tasks_dir: Path
    pages: RunPages
    streams: int = 0
    stopping: bool = False

    @classmethod
    def over(cls, roots: Roots, guard: Guard, tasks_dir: Path) -> View:
        explorer = Explorer()
        index = RunIndex(roots, on_rows=explorer.put, on_removed=explorer.remove)
        return cls(guard, index, explorer, tasks_dir, RunPages())

    def close(self) -> None:
        self.stopping = True
        self.index.close()
        self.explorer.close()


def make_app(view: View) -> Guarded:
    """Return the application behind its guard."""
    routes = [
        Route("/", _page(view)),
        Route("/api/runs", _json(lambda _request: _runs(view))),
        Route("/api/run/{run}/page", _text(lambda request: view.pages.run_page(_entry(view, request)))),
        Route("/api/compare/{run}/{other}/page", _text(lambda request: _compare(view, request))),
        Route("/api/run/{run}/attempt/{attempt}", _text(lambda request: _attempt(view, request))),
        Route("/api/run/{run}/attempt/{attempt}/trace/{part:int}", _text(lambda request: _trace(view, request))),
        Route("/api/run/{run}/live", partial(_live, view)),
        Route("/api/run/{run}/follow/{attempt}", partial(_follow, view)),
        Route("/api/columns", _json(lambda _request: {"columns": dict(COLUMNS), "exports": list(EXPORTS)})),
        Route("/api/query", _post(lambda given: _query(view, given)), methods=["POST"]),
        Route("/api/export", partial(_export, view), methods=["POST"]),
        Route("/api/queue", _json(lambda request: queue(view.index, view.pages, request.query_params.get("run", "")))),
        Route("/api/categories", _json(lambda _request: categories())),
        Route("/api/suites", _json(lambda _request: suites_json(view.tasks_dir, view.explorer))),
        Route("/api/suite/{suite}", _json(lambda request: _suite(view, request))),
        Route("/api/suite/{suite}/scenario", _json(lambda request: _scenario(view, request))),
        Route("/api/scenario/preview", _post(lambda given: _preview(view, given)), methods=["POST"]),
        Route("/api/pilots", _json(lambda _request: pilots_json(view.index.pilots(), view.index.entries()))),
        Route("/api/actions/decide", _post(lambda given: _decide(view, given)), methods=["POST"]),
        Route("/api/actions/adjudicate", _post(lambda given: _adjudicate(view, given)), methods=["POST"]),
        Route("/api/actions/scenario", _post(lambda given: _save(view, given)), methods=["POST"]),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    return Guarded(app, view.guard)


class Guarded:
    """ASGI application that asks the guard before every request and adds the security headers to every answer."""

    def __init__(self, app: Starlette, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, query = Headers(scope=scope), scope["query_string"].decode("latin-1")
        opening = scope["path"] == "/" and scope["method"] == "GET" and self._guard.knows_token(query)
        response: Response | None = None
        if len(scope["raw_path"]) + len(query) > MAX_ADDRESS:
            response = _error(414, "the address is too long")
        elif refusal := self._guard.check(scope["method"], scope["path"], headers, opening=opening):
            response = _error(refusal.status, refusal.message)
        elif opening:
            response = Response(status_code=303, headers={"location": "/", "set-cookie": self._guard.set_cookie()})

        async def send_with_headers(message: Any) -> None:  # noqa: ANN401 - ASGI
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                own = {**HEADERS, "content-security-policy": API_POLICY}
                added = [(name.encode(), value.encode()) for name, value in own.items()]
                message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in given)]
            await send(message)

        await (response or self._app)(scope, receive, send_with_headers)


# --- answers --------------------------------------------------------------------------------------------------------------


def _page(view: View) -> Endpoint:
    async def endpoint(_request: Request) -> Response:
        script = "\n".join(
            files("agentbench.view").joinpath("assets", name).read_text(encoding="utf-8") for name in SCRIPTS
        )
        data: dict[str, Json] = {
            "title": "AgentBench view",
            "version": __version__,
            "live": True,
            "read_only": view.guard.read_only,
            "action": None if view.guard.read_only else view.guard.action_token,
            "roots": [str(path) for path in view.index.roots.paths],
        }
        text, policy = render_live(data, script)
        return Response(text, media_type="text/html", headers={"content-security-policy": policy})

    return endpoint


def _error(status: int, message: str, remedy: str = "", problems: tuple[str, ...] = ()) -> Response:
    value = {
        "error": printable(message),
        "remedy": printable(remedy),
        "problems": [printable(line) for line in problems],
    }
    return Response(json.dumps(value), status_code=status, media_type="application/json")


async def _answered(make: Callable[[], str]) -> Response:
    """Run a function in a thread and return its JSON, or its error."""
    try:
        return Response(await run_in_threadpool(make), media_type="application/json")
    except AgentBenchError as error:
        problems = error.problems if isinstance(error, ContractError) else ()
        return _error(400, error.message, error.remedy, problems)
    except (OSError, ValueError, RecursionError) as error:
        return _error(500, f"cannot read this run: {type(error).__name__}", "run `ab verify` to see what is wrong")


def _text(make: Callable[[Request], str]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return await _answered(lambda: make(request))

    return endpoint


def _json(make: Callable[[Request], Mapping[str, Json]]) -> Endpoint:
    return _text(lambda request: json.dumps(make(request), allow_nan=False, separators=(",", ":")))


def _post(make: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        given = await _body(request)
        if isinstance(given, Response):
            return given
        return await _answered(lambda: json.dumps(make(given), separators=(",", ":")))

    return endpoint


async def _body(request: Request) -> Mapping[str, Json] | Response:
    """Read the body of a request: an object of bounded size."""
    data = b""
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > MAX_BODY:
                return _error(413, f"expected a body of at most {MAX_BODY} bytes")
    except ClientDisconnect:
        return _error(408, "the body is not complete")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return _error(400, "the body is not JSON")
    return value if isinstance(value, dict) else _error(400, "the body is not an object")


# --- runs and attempts ----------------------------------------------------------------------------------------------------


def _entry(view: View, request: Request, name: str = "run") -> Entry:
    return view.index.entry(str(request.path_params[name]))


def _named(view: View, given: Mapping[str, Json]) -> Entry:
    return view.index.entry(str(given.get("run", "")))


def _runs(view: View) -> dict[str, Json]:
    entries = view.index.entries(wait=True)
    spent = view.index.spent_by_study()
    return {
        "runs": [
            {**entry.as_json(), **view.index.progress(entry), "study_spent": spent.get(entry.study, 0.0)}
            for entry in entries
        ],
        "pending": view.index.pending(),
        "pilots": len(view.index.pilots()),
    }


def _compare(view: View, request: Request) -> str:
    return view.pages.comparison_page(_entry(view, request), _entry(view, request, "other"))


def _attempt(view: View, request: Request) -> str:
    return view.pages.attempt(_entry(view, request), str(request.path_params["attempt"]))


def _trace(view: View, request: Request) -> str:
    parameters = request.path_params
    return view.pages.trace_part(_entry(view, request), str(parameters["attempt"]), int(parameters["part"]))


# --- explorer, tasks, actions ---------------------------------------------------------------------------------------------


def _sql(given: Mapping[str, Json]) -> str:
    sql = given.get("sql")
    if not isinstance(sql, str) or not sql.strip():
        raise InputError("sql: expected a statement")
    if not sql.isascii() and sql != valid_utf8(sql):
        raise InputError("sql: expected Unicode text")
    return sql


def _query(view: View, given: Mapping[str, Json]) -> Mapping[str, Json]:
    view.index.refresh()
    pending = view.index.pending()  # before the query: a run that is read meanwhile may be missing in the answer
    answer = view.explorer.ask(_sql(given)).as_json()
    names = {"altered": view.index.altered(), "not_sealed": view.index.unsealed()}
    return {**answer, **{mark: bounded(runs, text=300) for mark, runs in names.items()}, "pending": pending}


async def _export(view: View, request: Request) -> Response:
    given = await _body(request)
    if isinstance(given, Response):
        return given
    form = str(given.get("format", ""))
    try:
        data = await run_in_threadpool(lambda: view.explorer.export(_sql(given), form))
    except AgentBenchError as error:
        return _error(400, error.message, error.remedy)
    name = f'attachment; filename="attempts.{form}"'
    return Response(data, media_type=EXPORTS[form], headers={"content-disposition": name})


def _suite_folder(view: View, name: str) -> Path:
    """Return the folder of a suite.

    Raises:
        ContractError: there is no such suite.
        InputError: it is outside of the folder of suites.
    """
    folder = suite_folder(name, view.tasks_dir)
    if name != DEMO and not folder.resolve().is_relative_to(view.tasks_dir.resolve()):
        raise InputError(f"the suite {name} is a link to another folder", remedy="give its folder as --tasks-dir")
    return folder


def _suite(view: View, request: Request) -> Mapping[str, Json]:
    name = str(request.path_params["suite"])
    return suite_json(name, _suite_folder(view, name), view.explorer)


def _scenario(view: View, request: Request) -> Mapping[str, Json]:
    name = str(request.path_params["suite"])
    return scenario_json(name, _suite_folder(view, name))


def _preview(view: View, given: Mapping[str, Json]) -> Mapping[str, Json]:
    name = str(given.get("suite", ""))
    return edit_scenario(name, _suite_folder(view, name), given.get("scorers")).as_json()


def _save(view: View, given: Mapping[str, Json]) -> Mapping[str, Json]:
    name = str(given.get("suite", ""))
    edit = edit_scenario(name, _suite_folder(view, name), given.get("scorers"))
    save_scenario(edit, str(given.get("digest", "")))
    return {"done": f"{edit.path} written"}


def _decide(view: View, given: Mapping[str, Json]) -> Mapping[str, Json]:
    return decide(_named(view, given), given)


def _adjudicate(view: View, given: Mapping[str, Json]) -> Mapping[str, Json]:
    return record_adjudication(_named(view, given), view.pages, given)


# --- server-sent events ---------------------------------------------------------------------------------------------------


async def _live(view: View, request: Request) -> Response:
    """Send the state of a run, then every change of it."""
    watch = RunWatch(view.index, str(request.path_params["run"]))

    async def messages() -> AsyncIterator[str]:
        yield _message("snapshot", json.dumps(await run_in_threadpool(watch.snapshot)))
        quiet = time.monotonic()
        while not view.stopping:
            ended = await run_in_threadpool(lambda: watch.ended)
            await _pause(view, IDLE_TICK_SEC if ended else TICK_SEC)
            update = await run_in_threadpool(watch.update)
            if update is not None:
                yield _message("update", json.dumps(update))
                quiet = time.monotonic()
            elif time.monotonic() - quiet > HEARTBEAT_SEC:
                yield ": still here\n\n"
                quiet = time.monotonic()

    return await _stream(view, messages)


async def _follow(view: View, request: Request) -> Response:
    """Send the events of an attempt while it is made. `Last-Event-ID` is the offset behind the last event received."""
    given = request.headers.get("last-event-id", "0")
    offset = int(given) if given.isdecimal() and len(given) < 16 else 0
    follow = AttemptFollow(view.index, str(request.path_params["run"]), str(request.path_params["attempt"]), offset)

    async def messages() -> AsyncIterator[str]:
        checked = quiet = time.monotonic()
        while not view.stopping:
            if batch := await run_in_threadpool(follow.events):
                yield _message("events", batch[1], str(batch[0]))
                quiet = time.monotonic()
                continue
            if time.monotonic() - checked > 1:
                checked = time.monotonic()
                if await run_in_threadpool(follow.ended) and not (batch := await run_in_threadpool(follow.events)):
                    yield _message("end", "{}")
                    return
                if batch:
                    yield _message("events", batch[1], str(batch[0]))
            if time.monotonic() - quiet > HEARTBEAT_SEC:
                yield ": still here\n\n"
                quiet = time.monotonic()
            await _pause(view, TICK_SEC)

    return await _stream(view, messages)


async def _stream(view: View, messages: Callable[[], AsyncIterator[str]]) -> Response:
    if view.streams >= MAX_STREAMS:
        return _error(429, "too many live views are open; close some")

    async def counted() -> AsyncIterator[str]:
        view.streams += 1
        try:
            async for message in messages():
                yield message
        except AgentBenchError as error:
            yield _message("problem", json.dumps({"error": printable(error.message)}))
        finally:
            view.streams -= 1

    return StreamingResponse(counted(), media_type="text/event-stream")


async def _pause(view: View, seconds: float) -> None:
    """Wait, but not much longer than the server runs."""
    until = time.monotonic() + seconds
    while not view.stopping and (left := until - time.monotonic()) > 0:  # noqa: ASYNC110 - set by another thread
        await asyncio.sleep(min(left, 0.5))


def _message(event: str, data: str, identity: str = "") -> str:
    first = f"id: {identity}\n" if identity else ""
    return f"{first}event: {event}\ndata: {data}\n\n"
