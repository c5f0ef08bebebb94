"""What requests, answers and errors look like, for /openapi.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

Schema = dict[str, Any]
JSON, JSON_LINES, EVENTS = "application/json", "application/jsonl", "text/event-stream"
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
STATUS: Schema = {"type": "object", "required": ["status"], "properties": {"status": TEXT}}


def optional(schema: Schema) -> Schema:
    """Return the schema of a member that may be null, which is as if it was left out."""
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def object_of(*required: str, **properties: Schema) -> Schema:
    """Return the schema of an object that may have more members than are described."""
    return {"type": "object", "required": list(required), "properties": properties}


def closed_object(*required: str, **properties: Schema) -> Schema:
    """Return the schema of an object without any other members."""
    return {**object_of(*required, **properties), "additionalProperties": False}


USAGE = object_of("prompt_tokens", "total_tokens", prompt_tokens=COUNT, completion_tokens=COUNT, total_tokens=COUNT)
MODEL = object_of("id", "object", id=TEXT, object={"const": "model"}, created=COUNT, owned_by=TEXT)
CHOICE = object_of("index", "finish_reason", index=COUNT, finish_reason={"enum": ["stop", "length"]})
COMPLETION = object_of(
    *("id", "object", "created", "model", "choices", "usage"),
    id=TEXT,
    object={"enum": ["text_completion", "chat.completion"]},
    created=COUNT,
    model=TEXT,
    choices=list_of(CHOICE),
    usage=USAGE,
)
EMBEDDING = object_of("index", "embedding", index=COUNT, embedding={"anyOf": [TEXT, list_of(NUMBER)]})
EMBEDDINGS = object_of("data", "model", "usage", data=list_of(EMBEDDING), model=TEXT, usage=USAGE)
ANSWERS = object_of("model", "answers", model=TEXT, answers=list_of({"type": "object"}))
JOB = object_of(
    *("id", "status", "total", "finished"),
    id=TEXT,
    status={"enum": ["queued", "running", "finished", "cancelled"]},
    total=COUNT,
    finished=COUNT,
)
OPENAI_ERROR = object_of(
    "error", error=object_of("message", "type", "param", "code", message={"type": "string", "minLength": 1}, type=TEXT)
)
LIBRETRANSLATE_ERROR = object_of("error", error={"type": "string", "minLength": 1})
DESCRIPTIONS = {"4XX": "The request was refused.", "5XX": "The server could not answer, or not in time."}


def describe_request(schemas: list[Schema]) -> Schema:
    """Return the part of an OpenAPI document that describes a body of JSON."""
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


def describe_answer(schema: Schema, *, status: int = 200, media: str = JSON) -> dict[int | str, dict[str, Any]]:
    """Return what a route answers with this status; describe_api adds the errors."""
    return {status: {"description": "The answer.", "content": {media: {"schema": schema}}}}


def describe_api(app: FastAPI) -> Schema:
    """Return the OpenAPI document of an application, every error of it in the envelope of its route."""
    document = app.openapi()
    for path, methods in document["paths"].items():
        envelope = OPENAI_ERROR if path.startswith("/v1/") else LIBRETRANSLATE_ERROR
        content = {JSON: {"schema": envelope}}
        for operation in methods.values():
            responses = operation["responses"]
            responses.pop("422", None)  # FastAPI's own, of parameters that it would check
            responses |= {status: {"description": text, "content": content} for status, text in DESCRIPTIONS.items()}
    document.get("components", {}).pop("schemas", None)
    return document
