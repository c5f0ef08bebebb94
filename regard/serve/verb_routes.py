"""`/v1/{verb}`: every task by one route, made from what its models read and from their options."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.serve.api_schema import ANSWERS, describe_answer, describe_request
from regard.serve.calls import DeadlineExceeded
from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.http import json_response, read_body, read_object, state_of, while_connected
from regard.serve.limits import Limits
from regard.serve.payload import check_members, read_inputs, read_options, reads_pictures, request_schema
from regard.serve.refusal import Refusal
from regard.serve.strict_json import parse_form

MEMBERS = frozenset({"model", "inputs", "options"})
DECODERS = ThreadPoolExecutor(2, "regard-decoder")  # that decode pictures, which bounds the memory for them


def verb_router(catalogue: Catalogue, limits: Limits) -> APIRouter:
    """Return a route for every verb of the models that are served."""
    router = APIRouter()
    for verb in catalogue.verbs:
        models = [model for model in catalogue if model.verb == verb]
        router.add_api_route(
            f"/v1/{verb}",
            make_endpoint(verb, limits),
            methods=["POST"],
            name=verb,
            summary=f"{verb.capitalize()}: {', '.join(dict.fromkeys(model.trained.kind for model in models))}",
            response_class=Response,
            openapi_extra=describe_request([request_schema(model.trained) for model in models]),
            responses=describe_answer(ANSWERS),
        )
    return router


def make_endpoint(verb: str, limits: Limits) -> Any:
    """Return the function behind the route of a verb."""

    async def answer(request: Request) -> Response:
        state = state_of(request)
        able = [model for model in state.catalogue if model.verb == verb]
        most = limits.picture_bytes if any(reads_pictures(model.trained) for model in able) else limits.body_bytes
        if request.headers.get("content-type", "").startswith("image/"):
            query = parse_form(request.url.query)
            payload: dict[str, Any] = {"inputs": await read_body(request, limits, most), **query}
        else:
            payload = await read_object(request, limits, most)
        check_members(payload, MEMBERS)
        model = state.catalogue.pick([verb], payload.get("model"))
        options = read_options(model.trained.Options, payload.get("options"), limits)
        inputs = await while_connected(request, prepare_inputs(model, payload, limits))
        answers = await while_connected(request, state.worker.answer(model.key, inputs, options))
        return json_response({"model": model.name, "answers": [item.plain() for item in answers]})

    return answer


async def prepare_inputs(model: ServedModel, payload: Mapping[str, Any], limits: Limits) -> list[Any]:
    """Return the inputs of a request; pictures are decoded beside the loop, two requests at a time."""
    if "inputs" not in payload:
        kind = model.trained.inputs.kind
        raise Refusal(422, f"inputs is missing: give {kind.singular} or a list of {kind.plural}", "invalid_input")
    if not reads_pictures(model.trained):
        if isinstance(payload["inputs"], bytes):
            raise Refusal(422, f"{model.name} reads {model.trained.inputs.kind.plural}, no pictures", "invalid_input")
        return read_inputs(model.trained, payload["inputs"], limits)
    read = functools.partial(read_inputs, model.trained, payload["inputs"], limits)
    try:
        async with asyncio.timeout(limits.deadline):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(DECODERS, contextvars.copy_context().run, read)
    except TimeoutError:
        raise DeadlineExceeded("the pictures were not decoded in time: send fewer, or try again later") from None
