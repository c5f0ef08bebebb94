"""The tools that `regard mcp` offers: one that answers for each model, others that search and explain where it can."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regard.config.schema import json_schema
from regard.interpret.draw import terminal
from regard.interpret.trace import Trace
from regard.serve.api_schema import closed_object, optional
from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.explaining import Explainer, check_length, read_look_options, take_one
from regard.serve.limits import Limits
from regard.serve.payload import input_schema, read_options, request_schema
from regard.serve.refusal import Refusal
from regard.serve.searching import EMBED, describe_search, find_texts
from regard.serve.verb_routes import prepare_inputs
from regard.serve.worker import Worker
from regard.serve.worker_group import WorkerGroup

MAX_NAME = 64  # letters of the name of a tool
Arguments = dict[str, Any]
NUMBERS = terminal.Style(numbers=True)


@dataclass(frozen=True)
class Result:
    """What a tool answers: as text, and as an object."""

    text: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool: how it is described to a client, and what it does."""

    name: str
    description: str
    schema: Mapping[str, Any]
    answer: Callable[[Arguments], Awaitable[Result]]

    def describe(self) -> dict[str, Any]:
        """Return the MCP description of the tool."""
        return {"name": self.name, "description": self.description, "inputSchema": self.schema}

    async def call(self, arguments: Arguments) -> Result:
        """Answer a call, unless it has arguments that would be ignored."""
        known = self.schema["properties"]
        if unknown := sorted(arguments.keys() - known):
            raise Refusal(422, f"unknown argument {unknown[0][:40]!r}: there is {', '.join(known)}")
        return await self.answer(arguments)


def make_tools(
    catalogue: Catalogue, worker: Worker | WorkerGroup, explainer: Explainer, limits: Limits
) -> Iterator[Tool]:
    """Yield the tools of all models."""
    for model in catalogue:
        yield make_answer_tool(model, worker, limits)
        if model.verb == EMBED:
            yield make_search_tool(model, worker, limits)
    for model in explainer.models:
        yield make_explain_tool(model, explainer, limits)


def make_answer_tool(model: ServedModel, worker: Worker | WorkerGroup, limits: Limits) -> Tool:
    """Return the tool that answers with a model."""

    async def answer(arguments: Arguments) -> Result:
        options = read_options(model.trained.Options, arguments.get("options"), limits)
        inputs = await prepare_inputs(model, arguments, limits)
        return to_json({"answers": [each.plain() for each in await worker.answer(model.key, inputs, options)]})

    schema = request_schema(model.trained)
    properties = {name: value for name, value in schema["properties"].items() if name != "model"}
    description = f"{model.verb.capitalize()} with {model.name}, {model.trained.kind} that runs on this machine."
    return Tool(make_name(model.verb, model), description, {**schema, "properties": properties}, answer)


def make_search_tool(model: ServedModel, worker: Worker | WorkerGroup, limits: Limits) -> Tool:
    """Return the tool that finds the texts that mean most nearly the same as a query."""

    async def search(arguments: Arguments) -> Result:
        return to_json({"answers": await find_texts(worker, model, arguments, limits)})

    schema = describe_search(model.trained.Options)
    properties = {name: value for name, value in schema["properties"].items() if name != "model"}
    description = f"Find which texts mean most nearly the same as a query, with {model.name} on this machine."
    return Tool(make_name("search", model), description, {**schema, "properties": properties}, search)


def make_explain_tool(model: ServedModel, explainer: Explainer, limits: Limits) -> Tool:
    """Return the tool that shows where a model looked while it answered."""

    async def explain(arguments: Arguments) -> Result:
        options = read_look_options(model, arguments.get("options"), limits)
        check_length(model, arguments.get("inputs"), limits)
        item = take_one(await prepare_inputs(model, arguments, limits))
        trace = await explainer.explain(model, item, options)
        return Result(show_trace(trace), {"trace": trace.plain()})

    schema, example = input_schema(model.trained)
    body = closed_object(
        "inputs", inputs={**schema, "examples": [example]}, options=optional(json_schema(model.trained.LookOptions))
    )
    description = f"Show where {model.name}, {model.trained.kind}, looked in one input: its attention, not its reasons."
    return Tool(make_name(f"explain_{model.verb}", model), description, body, explain)


def show_trace(trace: Trace) -> str:
    """Return the answer, and the attention that shows most as a table of percentages; pictures have no table."""
    answer = str(trace.facts.get("answer", ""))
    if trace.pictures:
        return answer or "Attention over a picture: see the trace."
    return f"{answer}\n\n{terminal.alignment(trace, style=NUMBERS)}".strip()


def to_json(content: Mapping[str, Any]) -> Result:
    """Return an object as a result, whose text is JSON."""
    return Result(json.dumps(content, ensure_ascii=False, allow_nan=False), content)


def make_name(verb: str, model: ServedModel) -> str:
    """Return the name of a tool, of letters that every client accepts."""
    letters = (letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in model.name)
    return f"{verb}_{''.join(letters)}"[:MAX_NAME]
