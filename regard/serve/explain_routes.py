"""`/v1/explain`: the trace of an answer as JSON, and its attention weights one by one as safetensors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import APIRouter, Request, Response
from torch import Tensor

from regard.config.schema import json_schema
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
from regard.serve.explaining import Explainer, check_length, read_look_options, take_one
from regard.serve.http import json_response, read_object, state_of, while_connected
from regard.serve.payload import check_members, input_schema, reads_pictures
from regard.serve.refusal import Refusal
from regard.serve.verb_routes import prepare_inputs
from regard.serve.views import KeptView, view_steps, view_trace

EXPLAIN_MEMBERS = frozenset({"model", "verb", "inputs", "options", "view"})
STEPS_MEMBERS = frozenset({"attention"})
SAFETENSORS = "application/octet-stream"
PAGE = "text/html"
MOST_NAMES = 50  # of attentions in a message
EXPLAINED = object_of(
    *("model", "trace", "tensors"),
    model=TEXT,
    trace={"type": "object"},
    tensors={"type": "object", "additionalProperties": optional(TEXT)},
    view={"type": "object"},
)
STEPS = object_of(
    *("steps", "predictions", "predicted"),
    steps={"type": "object"},
    predictions=list_of({"type": "object"}),
    predicted=TEXT,
)
HEAD = {"name": "head", "in": "query", "required": False, "schema": COUNT, "description": "One head of the weights."}

BESIDE = {
    "name": "beside",
    "in": "query",
    "required": False,
    "schema": TEXT,
    "description": "The id of another view, of another picture, whose maps stand beside those of the first.",
}


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
    router.add_api_route(
        "/{identifier}",
        show_tensor,
        response_class=Response,
        responses=answers,
        openapi_extra={"parameters": [HEAD]},
    )
    views = describe_answer({"type": "object"})
    router.add_api_route("/{identifier}/view", show_view, response_class=Response, responses=views)
    pages = describe_answer({}, media=PAGE)
    router.add_api_route(
        "/{identifier}/page",
        show_page,
        response_class=Response,
        responses=pages,
        openapi_extra={"parameters": [BESIDE]},
    )
    router.add_api_route(
        "/{identifier}/steps",
        show_steps,
        methods=["POST"],
        response_class=Response,
        responses=describe_answer(STEPS),
        openapi_extra=describe_request([closed_object("attention", attention=TEXT)]),
    )
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
        view={**optional({"type": "boolean"}), "description": "Whether to answer what the explorer draws, too."},
    )


async def explain(request: Request) -> Response:
    """Answer one input, and return what the model read and wrote, and ids of the weights of its attentions."""
    state = state_of(request)
    explainer, limits = state.explainer, state.limits
    most = limits.picture_bytes if any(reads_pictures(model.trained) for model in explainer.models) else None
    payload = await read_object(request, limits, most)
    check_members(payload, EXPLAIN_MEMBERS)
    is_viewed = payload.get("view")
    if not isinstance(is_viewed, bool | None):
        raise Refusal(422, "view must be true or false", "invalid_input")
    model = explainer.pick(payload.get("model"), payload.get("verb"))
    options = read_look_options(model, payload.get("options"), limits)
    check_length(model, payload.get("inputs"), limits)
    item = take_one(await while_connected(request, prepare_inputs(model, payload, limits)))
    trace = await while_connected(request, explainer.explain(model, item, options))
    tensors = await asyncio.to_thread(trace.tensors)
    ids = explainer.tensors.add(tensors)
    answer = {"model": model.name, "trace": trace.plain(), "tensors": ids}
    if is_viewed:
        view, store = await asyncio.to_thread(view_trace, trace)
        store.settle(ids)
        answer["view"] = explainer.views.add(model, trace, view)
    return json_response(answer)


async def show_tensor(request: Request, identifier: str) -> Response:
    """Return one tensor of a trace, or one head of it."""
    from safetensors.torch import save

    entry = state_of(request).explainer.tensors.find(identifier)
    if entry is None:
        raise Refusal(404, "no such weights, or no longer: explain the input again", "not_found")
    name, tensor = entry
    head = request.query_params.get("head")
    if head is not None:
        tensor = tensor[read_head(head, len(tensor))].contiguous()
    body = await asyncio.to_thread(save, {name: tensor})
    return Response(body, media_type=SAFETENSORS)


async def show_view(request: Request, identifier: str) -> Response:
    """Return what the explorer draws of an answer that was explained with `view`."""
    return Response(find_view(request, identifier).body, media_type="application/json")


async def show_page(request: Request, identifier: str) -> Response:
    """Return an answer that was explained with `view` as a page of its own, which opens from disk.

    `beside` names another such answer, about another picture, whose maps stand beside those of the first.
    """
    from regard.interpret.draw.page import render_view

    explainer, explained = state_of(request).explainer, find_view(request, identifier)
    view, weights = read_view(request, explained)
    other = request.query_params.get("beside")
    beside = read_view(request, find_view(request, other)) if other is not None else None
    steps = None
    if view["stepped"]:
        steps = await while_connected(request, explainer.run(explained.model, lambda _: explained.trace.steps()))
    body = await asyncio.to_thread(lambda: render_view(view, weights, steps=steps, beside=beside).encode())
    headers = {"Content-Disposition": 'attachment; filename="regard.html"'}
    return Response(body, media_type=PAGE, headers=headers)


async def show_steps(request: Request, identifier: str) -> Response:
    """Return the vectors of one attention and what the model predicted, by reading the explained answer again."""
    state = state_of(request)
    explainer = state.explainer
    payload = await read_object(request, state.limits)
    check_members(payload, STEPS_MEMBERS)
    stored = find_view(request, identifier)
    name = payload.get("attention")
    names = [attention.name for attention in stored.trace.weights]
    if name not in names:
        raise Refusal(422, f"attention must be one of {', '.join(names[:MOST_NAMES])}", "invalid_input")
    steps = await while_connected(request, explainer.run(stored.model, lambda _: stored.trace.steps([name])))
    if steps is None:
        raise Refusal(422, f"{stored.model.name} has no steps to show", "invalid_input")
    view, store = await asyncio.to_thread(view_steps, steps)
    store.settle(explainer.tensors.add(store.tensors))
    return json_response(view)


def read_view(request: Request, explained: KeptView) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a view and the weights of its attentions, and refuse if these are no longer kept."""
    view, weights = json.loads(explained.body), dict[str, Tensor]()
    for attention in view["attentions"]:
        entry = state_of(request).explainer.tensors.find(attention["heads"][0]["id"] or "")
        if entry is None:
            raise Refusal(404, "no such weights, or no longer: explain the input again", "not_found")
        weights[attention["name"]] = entry[1]
    return view, weights


def find_view(request: Request, identifier: str) -> KeptView:
    """Return a view that is kept, and refuse if there is none."""
    stored = state_of(request).explainer.views.find(identifier)
    if stored is None:
        raise Refusal(404, "no such answer, or no longer: explain the input again", "not_found")
    return stored


def read_head(text: str, heads: int) -> int:
    """Return the number of a head."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < heads):
        raise Refusal(422, f"head must be a number from 0 to {heads - 1}", "invalid_input")
    return int(text)
