"""`/v1/run`: a run as it trains, and where its model looked at each evaluation."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from torch import Tensor

from regard.interpret.draw.view_data import make_view
from regard.interpret.items import Weights
from regard.interpret.small_traces import SmallTrace
from regard.interpret.trace import Trace
from regard.serve.api_schema import COUNT, TEXT, describe_answer, list_of, object_of
from regard.serve.http import json_response, state_of
from regard.serve.refusal import Refusal
from regard.serve.run_view import RunView

RUN = object_of(
    *("name", "task", "state", "curves", "samples", "traces"),
    name=TEXT,
    task=TEXT,
    state=object_of("state", "step", state=TEXT, step=COUNT),
    curves={"type": "object"},
    samples=list_of({"type": "object"}),
    traces=object_of("steps", "inputs", steps=list_of(COUNT), inputs=list_of(TEXT)),
)
VIEW = object_of("step", "number", "view", step=COUNT, number=COUNT, view={"type": "object"})
LONGEST_NUMBER = 12  # digits of a number in an address
router = APIRouter(prefix="/v1/run")


class InlineStore:
    """Puts the numbers of a view into it, as base64."""

    def add(self, name: str, values: Tensor, kind: str = "f4") -> dict[str, Any]:
        """Return a reference that holds the numbers of a tensor."""
        types = {"f4": torch.float32, "f2": torch.float16, "u1": torch.uint8}
        numbers: np.ndarray = values.detach().cpu().to(types[kind]).contiguous().numpy()
        data = base64.b64encode(numbers.astype(f"<{kind}").tobytes()).decode()
        return {"data": data, "type": kind, "shape": list(values.shape)}

    def add_heads(self, name: str, values: Tensor, kind: str = "f4") -> list[dict[str, Any]]:
        """Return a reference for each head."""
        return [self.add(name, head, kind) for head in values]


@router.get("", response_class=Response, responses=describe_answer(RUN))
async def show_run(request: Request) -> Response:
    """Show how a run stands: its state, settings, curves and samples."""
    return json_response(await asyncio.to_thread(_run_of(request).describe))


@router.get("/traces/{step}/{number}", response_class=Response, responses=describe_answer(VIEW))
async def show_trace(request: Request, step: str, number: str) -> Response:
    """Show where the model looked in one of the inputs at an evaluation."""
    run, place = _run_of(request), _read_number(number)
    trace = await asyncio.to_thread(run.read_trace, _read_number(step), place)
    view = await asyncio.to_thread(view_trace, trace, run)
    return json_response({"step": int(step), "number": place, "view": view})


def view_trace(trace: SmallTrace, run: RunView) -> dict[str, Any]:
    """Return a saved trace as the explorer draws it, with its numbers in it."""
    weights = [Weights(entry.name, entry.query, entry.key, entry.values, entry.visible) for entry in trace.weights]
    whole = Trace(run.name, "", trace.items, weights, trace.facts, pictures=trace.pictures)
    view = make_view(whole, InlineStore(), half=True)
    means = [entry.name for entry in trace.weights if entry.is_mean]
    return {**view, "first": 0, "facts": trace.facts, "means": means}


def _run_of(request: Request) -> RunView:
    run = state_of(request).run
    if run is None:
        raise Refusal(404, "this server shows no run: start it with --run FOLDER", "not_found")
    return run


def _read_number(text: str) -> int:
    """Return a number in an address."""
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise Refusal(404, "a step and a trace are numbers: see the list in /v1/run", "not_found")
    return int(text)
