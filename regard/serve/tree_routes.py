"""`/v1/tree`: the beam search for one answer as a tree, from a beginning that may be forced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.config.schema import json_schema
from regard.serve.api_schema import TEXT, closed_object, describe_answer, describe_request, object_of, optional
from regard.serve.catalogue import ServedModel
from regard.serve.explaining import TREE, Explainer, check_length, take_one
from regard.serve.http import json_response, read_object, state_of, while_connected
from regard.serve.limits import Limits
from regard.serve.payload import check_members, input_schema, lower_settings, read_options, reads_pictures
from regard.serve.state import ServerState
from regard.serve.verb_routes import prepare_inputs

MEMBERS = frozenset({"model", "verb", "inputs", "options"})
NUMBER, COUNT, FLAG = {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
NODE = object_of(
    *("step", "parent", "token", "text", "log_probability", "total", "fate"),
    step={**COUNT, "description": "Number of tokens; the root has 0."},
    parent={**COUNT, "description": "Place of the parent among the nodes; -1 for the root."},
    token={**COUNT, "description": "Id of the token, by which it can be forced."},
    text=TEXT,
    log_probability=NUMBER,
    total={**NUMBER, "description": "Log-probability of all tokens."},
    fate={"enum": ["kept", "pruned", "ended"]},
    normalized={**NUMBER, "description": "Score by which answers are ranked."},
    is_best=FLAG,
)
SEARCHED = object_of(
    *("format", "model", "text", "answer", "search", "end", "prefix", "answers", "nodes"),
    format={"const": 1},
    model=TEXT,
    text=TEXT,
    answer=TEXT,
    search={"type": "object"},
    end=COUNT,
    prefix={"type": "array", "items": COUNT},
    answers={"type": "array", "items": COUNT},
    nodes={"type": "array", "items": NODE},
)
ANSWER = object_of("model", "tree", model=TEXT, tree=SEARCHED)


def tree_router(explainer: Explainer) -> APIRouter:
    """Return the route that shows the searches of these models."""
    router = APIRouter()
    schemas = [describe_model(model) for model in list_searching(explainer)]
    router.add_api_route(
        "/v1/tree",
        show_tree,
        methods=["POST"],
        response_class=Response,
        responses=describe_answer(ANSWER),
        openapi_extra=describe_request(schemas or [{"type": "object"}]),
    )
    return router


def list_searching(explainer: Explainer) -> list[ServedModel]:
    """Return the models whose searches can be shown."""
    return explainer.searching


def describe_model(model: ServedModel) -> dict[str, Any]:
    """Return the JSON schema of a request for the search of a model."""
    schema, example = input_schema(model.trained)
    return closed_object(
        "inputs",
        model={**optional(TEXT), "description": "One of the models that /v1/models lists."},
        verb={**optional(TEXT), "description": "Which of its uses, of a model with several."},
        inputs={**schema, "examples": [example]},
        options=optional(json_schema(model.trained.extras[TREE].Options)),
    )


async def show_tree(request: Request) -> Response:
    """Answer one input, and return the search for the answer; it ends when nobody waits for it any more."""
    state = state_of(request)
    explainer, limits = state.explainer, state.limits
    able = list_searching(explainer)
    most = limits.picture_bytes if any(reads_pictures(model.trained) for model in able) else None
    payload = await read_object(request, limits, most)
    check_members(payload, MEMBERS)
    model = _pick(state, able, payload)
    options = read_tree_options(model, payload.get("options"), limits)
    check_length(model, payload.get("inputs"), limits)
    item = take_one(await prepare_inputs(model, payload, limits))
    work = explainer.run(model, lambda trained: trained.extras[TREE].call(item, **options))
    tree = await while_connected(request, work)
    return json_response({"model": model.name, "tree": tree.plain()})


def read_tree_options(model: ServedModel, value: Any, limits: Limits) -> dict[str, Any]:
    """Return the options of a search; nothing is written that is longer than what may be explained.

    A search that is wider by the model's own settings than the server allows is as wide as it allows.
    """
    extra, limits = model.trained.extras[TREE], replace(limits, new_tokens=limits.explain_tokens)
    return {**lower_settings(extra.own, limits), **read_options(extra.Options, value, limits)}


def _pick(state: ServerState, able: list[ServedModel], payload: Mapping[str, Any]) -> ServedModel:
    """Return the model that a request names, or the first that searches."""
    verb = payload.get("verb")
    chosen = [model for model in able if verb is None or model.verb == verb]
    return state.catalogue.choose(chosen, "be shown searching", payload.get("model"))
