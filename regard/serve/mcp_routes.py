"""`/mcp`: the Model Context Protocol over HTTP, each message a request of its own that is answered with JSON."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from regard.serve.api_schema import TEXT, describe_answer, describe_request, object_of
from regard.serve.http import json_response, parse_beside, read_body, state_of, while_connected
from regard.serve.mcp import VERSIONS, Malformed, parse_message, respond
from regard.serve.mcp_tools import make_tools
from regard.serve.payload import reads_pictures
from regard.serve.refusal import Refusal

VERSION_HEADER = "mcp-protocol-version"
MESSAGE = object_of(
    *("jsonrpc", "method"),
    jsonrpc={"const": "2.0"},
    method=TEXT,
    id={"anyOf": [TEXT, {"type": "integer"}]},
    params={"type": "object"},
)
REPLY = object_of("jsonrpc", "id", jsonrpc={"const": "2.0"}, result={"type": "object"}, error={"type": "object"})
router = APIRouter()


@router.post(
    "/mcp",
    response_class=Response,
    responses={**describe_answer(REPLY), 202: {"description": "A notification was received."}},
    openapi_extra=describe_request([MESSAGE]),
)
async def receive_message(request: Request) -> Response:
    """Answer one message of an assistant; nothing is kept from one to the next."""
    state = state_of(request)
    version = request.headers.get(VERSION_HEADER, VERSIONS[0])
    if version not in VERSIONS:
        raise Refusal(400, f"this version of the protocol is not spoken: there is {', '.join(VERSIONS)}")
    limits = state.limits
    takes_pictures = any(reads_pictures(model.trained) for model in state.catalogue)
    body = await read_body(request, limits, limits.picture_bytes if takes_pictures else limits.body_bytes)
    try:
        message = await parse_beside(lambda data: parse_message(data, limits), body)
    except Malformed as error:
        if error.identifier is None or error.breaks_protocol:
            raise Refusal(400, str(error)) from None
        return json_response(error.reply)
    if message.identifier is None:
        return Response(status_code=202)
    tools = {tool.name: tool for tool in make_tools(state.catalogue, state.worker, state.explainer, limits)}
    return json_response(await while_connected(request, respond(message, tools)))
