"""The application: all routes behind one gate."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from regard import __version__
from regard.serve import (
    explain_routes,
    explorer_routes,
    job_routes,
    libretranslate,
    mcp_routes,
    openai_routes,
    run_routes,
    trust_routes,
)
from regard.serve.access import LOCAL_NAMES, RateLimit
from regard.serve.api_schema import STATUS, describe_answer, describe_api
from regard.serve.explorer_page import make_route_pages, page_router
from regard.serve.gate import Gate
from regard.serve.http import json_response, state_of
from regard.serve.refusal import Refusal, explain_error, write_envelope
from regard.serve.search_routes import search_router
from regard.serve.state import ServerState
from regard.serve.tree_routes import tree_router
from regard.serve.verb_routes import verb_router

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
router = APIRouter()


@router.get("/livez", response_class=Response, responses=describe_answer(STATUS))
async def live(request: Request) -> Response:
    """Say that the process lives."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz", response_class=Response, responses={**describe_answer(STATUS), **describe_answer(STATUS, status=503)}
)
async def ready(request: Request) -> Response:
    """Say whether requests are welcome: not before the models are warm, and not while the server stops."""
    is_ready = state_of(request).is_ready
    return json_response({"status": "ready" if is_ready else "not ready"}, 200 if is_ready else 503)


@router.get("/metrics", response_class=Response)
async def show_metrics(request: Request) -> Response:
    """Show counters and gauges in the format of Prometheus."""
    state = state_of(request)
    gauges = {
        "regard_open_calls": state.worker.open_calls,
        "regard_open_explanations": state.explainer.open_calls,
        "regard_explain_bytes": state.explainer.tensors.bytes,
        "regard_draining": int(state.is_draining),
    }
    return Response(state.metrics.write(gauges, state.worker.count_rows()), media_type=PROMETHEUS_TEXT)


@router.get("/openapi.json", response_class=Response)
async def show_schema(request: Request) -> Response:
    """Show the schema of all routes."""
    return Response(request.app.state.schema, media_type="application/json")


def make_app(state: ServerState, *, hosts: tuple[str, ...] = LOCAL_NAMES, log: Any = None) -> Gate:
    """Return the application of a server; `hosts` are the accepted Host names, none for any."""
    app = FastAPI(
        title="Regard",
        version=__version__,
        description="Trained models as a service.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.server = state
    modules = (libretranslate, openai_routes, job_routes, mcp_routes, run_routes, trust_routes)
    for part in (router, page_router(), *(module.router for module in modules)):
        app.include_router(part)
    app.include_router(verb_router(state.catalogue, state.limits))
    app.include_router(search_router(state.catalogue))
    app.include_router(explain_routes.explain_router(state.explainer))
    app.include_router(tree_router(state.explainer))
    app.include_router(explorer_routes.router)
    app.add_exception_handler(HTTPException, answer_error)
    app.add_exception_handler(Refusal, answer_error)
    app.add_exception_handler(Exception, answer_error)
    schema = describe_api(app)
    app.state.schema = json.dumps(schema).encode()  # once: it is large, and nobody else is answered meanwhile
    app.state.route_pages = make_route_pages(schema, state.catalogue.verbs)
    routes = {path for path in schema["paths"] if "{" not in path}
    gate = Gate(app, state.keys, state.metrics, routes, RateLimit(state.limits.per_minute), state.memory, hosts)
    if log is not None:
        gate.log = log
    return gate


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the response to an error, in the format of its route."""
    refusal = _explain_missing(request, error) if isinstance(error, HTTPException) else explain_error(error)
    body = write_envelope(refusal, request.url.path)
    return Response(body, refusal.status, media_type="application/json", headers=dict(refusal.headers))


def _explain_missing(request: Request, error: HTTPException) -> Refusal:
    """Return the error for an unknown path or method."""
    if error.status_code == 405:
        return Refusal(405, "this route wants another method: see /docs", None, dict(error.headers or {}))
    if request.url.path.startswith("/v1/"):
        verbs = ", ".join(state_of(request).catalogue.verbs)
        return Refusal(404, f"no model here does that: there is {verbs or 'no model at all, see /docs'}", "not_found")
    return Refusal(error.status_code, "no such page: see /docs")
