"""`/v1/explain`: the trace of an answer as JSON, and its attention weights one by one as safetensors."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.config.schema import json_schema
from regard.serve.api_schema import TEXT, closed_object, describe_answer, describe_request, object_of, optional
from regard.serve.catalogue import ServedModel
from regard.serve.explaining import Explainer, check_length, read_look_options, take_one
from regard.serve.http import json_response, read_object, state_of, while_connected
from regard.serve.payload import input_schema, reads_pictures
from regard.serve.refusal import Refusal
from regard.serve.verb_routes import check_members, prepare_inputs

EXPLAIN_MEMBERS = frozenset({"model", "verb", "inputs", "options"})
SAFETENSORS = "application/octet-stream"
EXPLAINED = object_of(
    *("model", "trace", "tensors"),
    model=TEXT,
    trace={"type": "object"},
    tensors={"type": "object", "additionalProperties": optional(TEXT)},
)


def explain_router(explainer: Explainer) -> APIRouter:
    """Return the routes that explain the answers of these models."""
    router = APIRouter(prefix="/v1/explain")
    schemas = [describe_model(model) for model in explainer.models]
    router.add_api_route(
        "",
        explain,
        methods=["POST"],
        response_class=Response,
        responses=describe_answer(EXPLAINED),
        openapi_extra=describe_request(schemas or [{"type": "object"}]),
    )
    answers = describe_answer({}, media=SAFETENSORS)
    router.add_api_route("/{identifier}", show_tensor, response_class=Response, responses=answers)
    return router


def describe_model(model: ServedModel) -> dict[str, Any]:
    """Return the JSON schema of a request to explain an answer of a model."""
    schema, example = input_schema(model.trained)
    return closed_object(
        "inputs",
        model={**optional(TEXT), "description": "One of the models that /v1/models lists."},
        verb={**optional(TEXT), "description": "Which of its uses, of a model with several."},
        inputs={**schema, "examples": [example]},
        options=optional(json_schema(model.trained.LookOptions)),
    )


async def explain(request: Request) -> Response:
    """Answer one input, and return what the model read and wrote, and ids of the weights of its attentions."""
    state = state_of(request)
    explainer, limits = state.explainer, state.limits
    most = limits.picture_bytes if any(reads_pictures(model.trained) for model in explainer.models) else None
    payload = await read_object(request, limits, most)
    check_members(payload, EXPLAIN_MEMBERS)
    model = explainer.pick(payload.get("model"), payload.get("verb"))
    options = read_look_options(model, payload.get("options"), limits)
    check_length(model, payload.get("inputs"), limits)
    item = take_one(await while_connected(request, prepare_inputs(model, payload, limits)))
    trace = await while_connected(request, explainer.explain(model, item, options))
    tensors = await asyncio.to_thread(trace.tensors)
    ids = explainer.tensors.add(tensors)
    return json_response({"model": model.name, "trace": trace.plain(), "tensors": ids})


async def show_tensor(request: Request, identifier: str) -> Response:
    """Return one tensor of a trace."""
    from safetensors.torch import save

    entry = state_of(request).explainer.tensors.find(identifier)
    if entry is None:
        raise Refusal(404, "no such weights, or no longer: explain the input again", "not_found")
    name, tensor = entry
    body = await asyncio.to_thread(save, {name: tensor})
    return Response(body, media_type=SAFETENSORS)
