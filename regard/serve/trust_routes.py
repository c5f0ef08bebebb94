"""`/v1/trust`: how far the pictures of a model can be trusted, measured in the background."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.serve.api_schema import (
    COUNT,
    TEXT,
    closed_object,
    describe_answer,
    describe_request,
    list_of,
    object_of,
    optional,
)
from regard.serve.catalogue import ServedModel
from regard.serve.explaining import check_length
from regard.serve.http import json_response, read_object, state_of
from regard.serve.limits import Limits
from regard.serve.payload import check_members, list_texts, reads_pictures
from regard.serve.state import ServerState
from regard.serve.trust_jobs import TrustJob, check_kind
from regard.serve.verb_routes import prepare_inputs

MEMBERS = frozenset({"model", "verb", "to", "inputs"})
NUMBER = {"type": "number"}
FINDING = object_of(
    *("method", "check", "value", "controls", "examples", "lead", "low", "high", "better", "good", "verdict"),
    method=TEXT,
    check=TEXT,
    value=NUMBER,
    controls={"type": "object", "additionalProperties": NUMBER},
    examples=COUNT,
    lead={**NUMBER, "description": "By how much the value beats the best of its controls."},
    low={**NUMBER, "description": "Where the 95 % interval of the lead begins, over resampled inputs."},
    high=NUMBER,
    better={"enum": ["less", "more"]},
    good={**NUMBER, "description": "The lead from which it counts as good."},
    verdict={"enum": ["good", "weak", "unsure", "none"]},
)
GAP = object_of(
    *("method", "check", "reason"),
    method=TEXT,
    check=TEXT,
    reason={**TEXT, "description": "Why this cannot be measured, as one word."},
)
TRUST = object_of(
    *("id", "model", "digest", "status", "done", "total", "findings", "gaps", "current"),
    id=TEXT,
    model=TEXT,
    digest=TEXT,
    status={"enum": ["queued", "running", "finished", "cancelled", "failed"]},
    done=COUNT,
    total=COUNT,
    findings=list_of(FINDING),
    gaps=list_of(GAP),
    current={"type": "boolean"},
)
TRUSTS = object_of("jobs", jobs=list_of(TRUST))
SCHEMA = closed_object(model=optional(TEXT), verb=optional(TEXT), to=optional(TEXT), inputs={})
QUERY = [
    {"name": name, "in": "query", "required": False, "schema": TEXT, "description": description}
    for name, description in {
        "model": "One of the models that /v1/models lists.",
        "verb": "Which of its uses, of a model with several.",
        "to": "The language into which a translator is checked.",
    }.items()
]
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
    model = pick_model(state, payload.get("model"), payload.get("verb"))
    inputs = await read_examples(model, payload, state.limits) if "inputs" in payload else None
    job = await asyncio.to_thread(state.trust.submit, model, payload.get("to"), inputs)
    return json_response(describe_job(job, state), 202)


async def read_examples(model: ServedModel, payload: dict[str, Any], limits: Limits) -> list[Any]:
    """Return the inputs on which a model is checked; each may be as long as one that is explained."""
    inputs = await prepare_inputs(model, payload, limits)
    for item in list_texts(model.trained, inputs) if not reads_pictures(model.trained) else ():
        check_length(model, item, limits)
    return inputs


@router.get("", response_class=Response, responses=describe_answer(TRUSTS), openapi_extra={"parameters": QUERY})
async def list_checks(request: Request) -> Response:
    """List the checks of a model that are known, those that wait or run among them, the newest first."""
    state, query = state_of(request), request.query_params
    model = pick_model(state, query.get("model"), query.get("verb"))
    return json_response({"jobs": [describe_job(job, state) for job in state.trust.list_jobs(model, query.get("to"))]})


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


def pick_model(state: ServerState, name: Any, verb: Any) -> ServedModel:
    """Return the model of this name and verb, or the first, of which something can be checked."""
    able = [model for model in state.catalogue if check_kind(model) and verb in (None, model.verb)]
    return state.catalogue.choose(able, "be checked", name)


def describe_job(job: TrustJob, state: ServerState) -> dict[str, Any]:
    """Return how a job stands, and whether the version that it is of is still the one that answers."""
    model = next((model for model in state.catalogue if model.key == job.key), None)
    return {**job.plain(), "current": model is not None and model.trained is job.trained}
