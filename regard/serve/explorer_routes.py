"""`/v1/explorer`: what the explorer must know of a server: its models, their forms and abilities, and its limits."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from regard import __version__
from regard.config.schema import json_schema
from regard.serve.api_schema import TEXT, describe_answer, list_of, object_of, optional
from regard.serve.catalogue import ServedModel
from regard.serve.completions import WRITING_VERBS
from regard.serve.explaining import TREE
from regard.serve.http import compress_response, json_response, state_of
from regard.serve.payload import input_schema
from regard.serve.state import ServerState
from regard.serve.tree_routes import list_searching
from regard.serve.trust_jobs import check_kind, needs_inputs

ANYTHING = {"type": "object"}
FLAG = {"type": "boolean"}
MODEL = object_of(
    *(
        "name",
        "verb",
        "kind",
        "task",
        "languages",
        "reads",
        "inputs",
        "example",
        "options",
        "look",
        "tree",
        "together",
        "streams",
        "trust",
        "can",
    ),
    name=TEXT,
    verb=TEXT,
    kind=TEXT,
    task=TEXT,
    languages=list_of(TEXT),
    reads=TEXT,
    inputs=ANYTHING,
    example={},
    options=ANYTHING,
    look=optional(ANYTHING),
    tree=optional(ANYTHING),
    together={
        **FLAG,
        "description": "Whether all inputs of a request form one sequence, such as the frames of a film.",
    },
    streams=FLAG,
    trust=optional(ANYTHING),
    can=list_of(TEXT),
)
EXPLORER = object_of(
    *("models", "limits", "run", "version"),
    models=list_of(MODEL),
    limits=ANYTHING,
    run=optional(ANYTHING),
    version=TEXT,
)
router = APIRouter(prefix="/v1")


@router.get("/explorer", response_class=Response, responses=describe_answer(EXPLORER))
async def show_models(request: Request) -> Response:
    """List the models with their forms and abilities, the limits, and the run that is served, if any."""
    state = state_of(request)
    models = [describe_model(model, list_abilities(model, state)) for model in state.catalogue]
    run = None if state.run is None else await asyncio.to_thread(state.run.summary)
    answer = json_response({"models": models, "limits": asdict(state.limits), "run": run, "version": __version__})
    return compress_response(request, answer)


def describe_model(model: ServedModel, abilities: list[str]) -> dict[str, Any]:
    """Return what forms and screens need to know of a model."""
    trained = model.trained
    schema, example = input_schema(trained)
    return {
        "name": model.name,
        "verb": model.verb,
        "kind": trained.kind,
        "task": trained.task,
        "languages": model.targets,
        "reads": trained.inputs.kind.name,
        "inputs": schema,
        "example": example,
        "options": json_schema(trained.Options),
        "look": json_schema(trained.LookOptions) if "explain" in abilities else None,
        "tree": json_schema(trained.extras[TREE].Options) if TREE in abilities else None,
        "together": trained.inputs.together,
        "streams": model.verb in WRITING_VERBS,
        "trust": {"inputs": needs_inputs(model)} if "trust" in abilities else None,
        "can": abilities,
    }


def list_abilities(model: ServedModel, state: ServerState) -> list[str]:
    """Return what the explorer can do with a model beyond answering."""
    explained = {other.key for other in state.explainer.models}
    searching = {other.key for other in list_searching(state.explainer)}
    abilities = {
        "explain": model.key in explained,
        TREE: model.key in searching,
        "trust": check_kind(model) is not None,
    }
    return [name for name, is_able in abilities.items() if is_able]
