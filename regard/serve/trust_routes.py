"""`/v1/trust`: how far the pictures of a model can be trusted, measured in the background."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.serve.api_schema import COUNT, TEXT, closed_object, describe_answer, describe_request, list_of, object_of
from regard.serve.http import json_response, read_object, state_of
from regard.serve.payload import check_members, reads_pictures
from regard.serve.state import ServerState
from regard.serve.trust import TrustJob, check_kind
from regard.serve.verb_routes import prepare_inputs

MEMBERS = frozenset({"model", "verb", "to", "inputs"})
TRUST = object_of(
    *("id", "model", "digest", "status", "done", "total", "findings", "current"),
    id=TEXT,
    model=TEXT,
    digest=TEXT,
    status={"enum": ["queued", "running", "finished", "cancelled", "failed"]},
    done=COUNT,
    total=COUNT,
    findings=list_of({"type": "object"}),
    current={"type": "boolean"},
)
SCHEMA = closed_object(model=TEXT, verb=TEXT, to=TEXT, inputs={})
router = APIRouter(prefix="/v1/trust")


@router.post(
    "",
    response_class=Response,
    status_code=202,
    responses=describe_answer(TRUST, status=202),
    openapi_extra=describe_request([SCHEMA]),
)
async def begin_check(request: Request) -> Response:
    """Begin to check a model, or return what is known of its checkpoint."""
    state = state_of(request)
    payload = await read_object(request, state.limits, state.limits.picture_bytes)
    check_members(payload, MEMBERS)
    verb = payload.get("verb")
    able = [model for model in state.catalogue if check_kind(model) and verb in (None, model.verb)]
    model = state.catalogue.choose(able, "be checked", payload.get("model"))
    pictures = None
    if reads_pictures(model.trained) and "inputs" in payload:
        pictures = await prepare_inputs(model, payload, state.limits)
    job = await asyncio.to_thread(state.trust.submit, model, payload.get("to"), pictures)
    return json_response(describe_job(job, state), 202)


@router.get("/{identifier}", response_class=Response, responses=describe_answer(TRUST))
async def show_check(request: Request, identifier: str) -> Response:
    """Show how far a check is, and what it found."""
    state = state_of(request)
    return json_response(describe_job(state.trust.find(identifier), state))


@router.delete("/{identifier}", response_class=Response, responses=describe_answer(TRUST))
async def cancel_check(request: Request, identifier: str) -> Response:
    """Call a check off."""
    state = state_of(request)
    return json_response(describe_job(state.trust.cancel(identifier), state))


def describe_job(job: TrustJob, state: ServerState) -> dict[str, Any]:
    """Return how a job stands, and whether the version that it is of is still the one that answers."""
    model = next((model for model in state.catalogue if model.key == job.key), None)
    return {**job.plain(), "current": model is not None and model.trained is job.trained}
