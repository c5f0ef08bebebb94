"""`/v1/search`: which of some texts mean most nearly the same as a query, by the model that embeds."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from regard.config.schema import json_schema
from regard.serve.api_schema import (
    COUNT,
    NUMBER,
    TEXT,
    TEXTS,
    closed_object,
    describe_answer,
    describe_request,
    list_of,
    object_of,
    optional,
)
from regard.serve.catalogue import Catalogue
from regard.serve.http import json_response, read_object, state_of, while_connected
from regard.serve.payload import check_characters, read_options
from regard.serve.refusal import Refusal
from regard.serve.verb_routes import check_members
from regard.tasks.embedding.searching import search_texts

SEARCH_MEMBERS = frozenset({"model", "inputs", "texts", "top", "options"})
EMBED = "embed"  # the verb of the models that can search
TOP = 5  # texts found for a query, as `regard search` has it
HIT = object_of("line", "score", "text", line=COUNT, score=NUMBER, text=TEXT)
FOUND = object_of(
    "model", "answers", model=TEXT, answers=list_of(object_of("query", "hits", query=TEXT, hits=list_of(HIT)))
)


def search_router(catalogue: Catalogue) -> APIRouter:
    """Return the route that searches texts."""
    router = APIRouter()
    schemas = [_describe_body(model.trained.Options) for model in catalogue if model.verb == EMBED]
    router.add_api_route(
        "/v1/search",
        search,
        methods=["POST"],
        response_class=Response,
        responses=describe_answer(FOUND),
        openapi_extra=describe_request(schemas or [{"type": "object"}]),
    )
    return router


async def search(request: Request) -> Response:
    """Return for each query the texts with the largest cosine."""
    state = state_of(request)
    limits = state.limits
    payload = await read_object(request, limits)
    check_members(payload, SEARCH_MEMBERS)
    model = state.catalogue.pick([EMBED], payload.get("model"))
    options = read_options(model.trained.Options, payload.get("options"), limits)
    queries = _read_texts(payload, "inputs", limits.inputs)
    texts = _read_texts(payload, "texts", limits.search_texts)
    check_characters([queries, texts], limits)
    top = payload.get("top", TOP)
    if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= limits.search_texts:
        raise Refusal(422, f"top must be a whole number from 1 to {limits.search_texts:,}", "invalid_input")
    embedded = await while_connected(request, state.worker.answer(model.key, [*queries, *texts], options))
    vectors = np.stack([answer.vector for answer in embedded])
    found = [search_texts(texts, vectors[len(queries) :], vector, top) for vector in vectors[: len(queries)]]
    answers = [
        {"query": query, "hits": [hit.plain() for hit in hits]} for query, hits in zip(queries, found, strict=True)
    ]
    return json_response({"model": model.name, "answers": answers})


def _read_texts(payload: dict[str, Any], name: str, most: int) -> list[str]:
    value = payload.get(name)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise Refusal(422, f"{name} must be a text or a list of texts", "invalid_input")
    if len(texts) > most:
        raise Refusal(422, f"{len(texts):,} texts in {name}, at most {most:,} in a request", "too_many_inputs")
    return texts


def _describe_body(options_class: type) -> dict[str, Any]:
    return closed_object(
        *("inputs", "texts"),
        model={**optional(TEXT), "description": "One of the models that embed."},
        inputs={**TEXTS, "description": "What to look for."},
        texts={**TEXTS, "description": "Where to look."},
        top={"type": "integer", "minimum": 1, "default": TOP, "description": "Texts found for each query."},
        options=optional(json_schema(options_class)),
    )
