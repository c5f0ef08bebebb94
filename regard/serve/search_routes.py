"""`/v1/search`: which of some texts mean most nearly the same as a query, by the model that embeds."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from regard.serve.api_schema import COUNT, NUMBER, TEXT, describe_answer, describe_request, list_of, object_of
from regard.serve.catalogue import Catalogue
from regard.serve.http import json_response, read_object, state_of, while_connected
from regard.serve.payload import check_members
from regard.serve.searching import EMBED, SEARCH_MEMBERS, describe_search, find_texts

HIT = object_of("line", "score", "text", line=COUNT, score=NUMBER, text=TEXT)
FOUND = object_of(
    "model", "answers", model=TEXT, answers=list_of(object_of("query", "hits", query=TEXT, hits=list_of(HIT)))
)


def search_router(catalogue: Catalogue) -> APIRouter:
    """Return the route that searches texts."""
    router = APIRouter()
    schemas = [describe_search(model.trained.Options) for model in catalogue if model.verb == EMBED]
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
    payload = await read_object(request, state.limits)
    check_members(payload, SEARCH_MEMBERS)
    model = state.catalogue.pick([EMBED], payload.get("model"))
    answers = await while_connected(request, find_texts(state.worker, model, payload, state.limits))
    return json_response({"model": model.name, "answers": answers})
