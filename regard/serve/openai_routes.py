"""The routes that OpenAI's clients know: models, completions, chat as a thin template over them, embeddings."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from regard.serve.api_schema import (
    COMPLETION,
    EMBEDDINGS,
    EVENTS,
    MODEL,
    NUMBER,
    TEXT,
    TEXTS,
    Schema,
    closed_object,
    describe_answer,
    describe_request,
    list_of,
    object_of,
    optional,
)
from regard.serve.completions import (
    IGNORED,
    NEUTRAL,
    STOPS,
    Choice,
    Completion,
    check_openai_members,
    read_chat,
    read_completion,
    read_texts,
    target_names,
)
from regard.serve.http import event, json_response, read_object, state_of, while_connected
from regard.serve.payload import check_characters
from regard.serve.refusal import Refusal, explain_error
from regard.serve.state import ServerState

EMBEDDING_MEMBERS = frozenset({"model", "input", "encoding_format", "dimensions", "user"})
DONE = b"data: [DONE]\n\n"
POSITIVE: Schema = optional({"type": "integer", "minimum": 1})
TRUTH: Schema = optional({"type": "boolean"})
WRITING: dict[str, Schema] = {
    **{name: {} for name in IGNORED},
    **{name: {"enum": [None] if value is None else [value, None]} for name, value in NEUTRAL.items()},
    "model": optional(TEXT),
    "max_tokens": POSITIVE,
    "n": POSITIVE,
    "beams": POSITIVE,
    "temperature": optional({**NUMBER, "minimum": 0}),
    "top_p": optional({**NUMBER, "exclusiveMinimum": 0, "maximum": 1}),
    "stream": TRUTH,
    "stream_options": optional({"type": "object"}),
    "stop": optional({"anyOf": [TEXT, {"type": "array", "items": {**TEXT, "minLength": 1}, "maxItems": STOPS}]}),
    "seed": optional({"type": "integer"}),
}
"""Members that completions and chats share."""
MESSAGE = object_of("role", "content", role=TEXT, content={"anyOf": [TEXT, list_of({"type": "object"})]})
COMPLETE_SCHEMA = closed_object("prompt", prompt=TEXTS, echo=TRUTH, **WRITING)
CHAT_SCHEMA = closed_object(
    "messages", messages={**list_of(MESSAGE), "minItems": 1}, max_completion_tokens=POSITIVE, **WRITING
)
EMBED_SCHEMA = closed_object(
    "input",
    input=TEXTS,
    model=optional(TEXT),
    encoding_format={"enum": ["float", "base64"]},
    dimensions=optional({"type": "integer"}),
    user={},
)
COMPLETED = describe_answer(COMPLETION)
COMPLETED[200]["content"][EVENTS] = {"schema": TEXT}

router = APIRouter(prefix="/v1")


@router.get("/models", response_class=Response, responses=describe_answer(object_of("data", data=list_of(MODEL))))
async def list_models(request: Request) -> Response:
    """List the models; those with several target languages once more for each."""
    state = state_of(request)
    return json_response({"object": "list", "data": _describe_models(state)})


@router.get("/models/{name:path}", response_class=Response, responses=describe_answer(MODEL))
async def show_model(request: Request, name: str) -> Response:
    """Show one model."""
    for model in _describe_models(state_of(request)):
        if model["id"] == name:
            return json_response(model)
    raise Refusal(404, "no such model: see /v1/models", "model_not_found")


@router.post(
    "/completions",
    response_class=Response,
    responses=COMPLETED,
    openapi_extra=describe_request([COMPLETE_SCHEMA]),
)
async def complete(request: Request) -> Response:
    """Continue prompts with a language model, or translate them."""
    state = state_of(request)
    completion = read_completion(await read_object(request, state.limits), state.catalogue, state.limits)
    return await _respond(request, state, completion)


@router.post(
    "/chat/completions",
    response_class=Response,
    responses=COMPLETED,
    openapi_extra=describe_request([CHAT_SCHEMA]),
)
async def chat(request: Request) -> Response:
    """Complete what a conversation says; none of the models is a chat model."""
    state = state_of(request)
    completion = read_chat(await read_object(request, state.limits), state.catalogue, state.limits)
    return await _respond(request, state, completion)


@router.post(
    "/embeddings",
    response_class=Response,
    responses=describe_answer(EMBEDDINGS),
    openapi_extra=describe_request([EMBED_SCHEMA]),
)
async def embed_texts(request: Request) -> Response:
    """Turn texts into vectors."""
    state = state_of(request)
    payload = await read_object(request, state.limits)
    check_openai_members(payload, EMBEDDING_MEMBERS)
    model = state.catalogue.pick(["embed"], payload.get("model"))
    texts = read_texts(payload.get("input"), "input", state.limits.inputs)
    check_characters(texts, state.limits)
    form = payload.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise Refusal(422, "encoding_format must be float or base64", "invalid_input")
    answers = await while_connected(request, state.worker.answer(model.key, texts, {}))
    vectors = [np.asarray(answer.vector, dtype="<f4") for answer in answers]
    if payload.get("dimensions") not in (None, len(vectors[0])):
        raise Refusal(422, f"dimensions must be {len(vectors[0])}, or left out", "invalid_input")
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(vector.tobytes()).decode() if form == "base64" else vector.tolist(),
        }
        for index, vector in enumerate(vectors)
    ]
    embedder: Any = model.trained
    tokens = sum(map(len, embedder.tokenizer.encode_many(texts)))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "model": model.name, "data": data, "usage": usage})


async def _respond(request: Request, state: ServerState, completion: Completion) -> Response:
    identifier, created = f"{completion.prefix}-{secrets.token_hex(12)}", int(time.time())
    head = {"id": identifier, "created": created, "model": completion.model_name}
    if completion.stream:
        pieces = _stream(state, completion)
        first = await while_connected(request, anext(pieces))  # so that a refusal has its status
        body = _write_events(pieces, first, {**head, "object": completion.chunk_object})
        return StreamingResponse(body, media_type=EVENTS, headers={"x-accel-buffering": "no"})
    choices = await while_connected(request, _answer_all(state, completion))
    return json_response({**head, "object": completion.object, **completion.describe(choices)})


async def _answer_all(state: ServerState, completion: Completion) -> list[Choice]:
    """Return the choices of all calls, computed concurrently; if one fails, all do."""
    answer = _answer_until_stop if completion.stops else _answer_whole
    try:
        async with asyncio.TaskGroup() as group:
            calls = (answer(state, completion, inputs, options) for inputs, options in completion.calls)
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def _answer_whole(
    state: ServerState, completion: Completion, inputs: list[str], options: dict[str, Any]
) -> Choice:
    """Return the choice of one call."""
    [answer] = await state.worker.answer(completion.key, inputs, options)
    _, choice = completion.read(answer.text, answer, completion.find_answer(inputs[0]))
    assert choice is not None
    return choice


async def _answer_until_stop(
    state: ServerState, completion: Completion, inputs: list[str], options: dict[str, Any]
) -> Choice:
    """Return the choice of one call, which is ended as soon as a stop text is written."""
    async with aclosing(_grow_choice(state, completion, inputs, options)) as texts:
        [choice] = [choice async for _, choice in texts if choice is not None]
    return choice


async def _grow_choice(
    state: ServerState, completion: Completion, inputs: list[str], options: dict[str, Any]
) -> AsyncGenerator[tuple[str, Choice | None], None]:
    """Yield the growing text of one call, and at its end or at a stop text the choice with it."""
    begin = completion.find_answer(inputs[0])
    async with aclosing(state.worker.stream(completion.key, inputs[0], options)) as texts:
        async for text, answer in texts:
            shown, choice = completion.read(text, answer, begin)
            yield shown, choice
            if choice is not None:
                return


async def _stream(state: ServerState, completion: Completion) -> AsyncGenerator[list[dict[str, Any]], None]:
    """Yield the chunks of all choices, a few at a time; the first once the model has begun to answer."""
    chunks = list(completion.opening())
    choices = []
    for index, (inputs, options) in enumerate(completion.calls):
        sent = ""
        async with aclosing(_grow_choice(state, completion, inputs, options)) as texts:
            async for shown, choice in texts:
                if len(shown) > len(sent) or choice is not None:
                    yield [*chunks, completion.chunk(index, shown[len(sent) :], choice)]
                    chunks, sent = [], shown
                if choice is not None:
                    choices.append(choice)
    if completion.include_usage:
        yield [{"choices": [], "usage": completion.usage(choices)}]


async def _write_events(
    pieces: AsyncGenerator[list[dict[str, Any]], None], first: list[dict[str, Any]], head: dict[str, Any]
) -> AsyncIterator[bytes]:
    """Yield server-sent events; an error ends the stream."""
    try:
        async with aclosing(pieces):
            for chunk in first:
                yield event({**head, **chunk})
            async for chunks in pieces:
                for chunk in chunks:
                    yield event({**head, **chunk})
    except Exception as error:
        refusal = explain_error(error)
        yield event(
            {"error": {"message": refusal.message, "type": "server_error", "param": None, "code": refusal.code}}
        )
    yield DONE


def _describe_models(state: ServerState) -> list[dict[str, Any]]:
    described: dict[str, dict[str, Any]] = {}
    for model in state.catalogue:
        facts = {
            "object": "model",
            "created": 0,
            "owned_by": "regard",
            "capabilities": {"chat": False},
            **model.plain(),
        }
        if model.name in described:
            described[model.name].setdefault("also", []).append(model.verb)
            continue
        for name in (model.name, *target_names(model)):
            described[name] = {"id": name, **facts}
    return list(described.values())
