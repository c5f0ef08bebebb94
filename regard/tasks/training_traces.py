"""Where a model looks while it is trained: the traces of a few held-out inputs, saved at every evaluation.

The model that is looked into is a copy, made from what a checkpoint of this step would hold: the model that is trained
is only read, and random states are as they were, so a run with traces ends with the same weights as one without.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard import checkpoint, config
from regard.checkpoint.unsaved import UnsavedCheckpoint
from regard.interpret.small_traces import SmallTrace, encode_traces, shrink_trace
from regard.tasks import FACES
from regard.training import resume
from regard.training.log import Log
from regard.training.run import Run
from regard.training.task import Task, TraceInput

FOLDER = "traces"
INPUTS = "inputs.json"
COUNT = 3
"""Inputs whose traces are saved."""
FREE_SECONDS = 10.0
"""Seconds of a process that traces may take in any case."""
SHARE = 0.01
"""Share of the time of a process that traces may take beyond that."""


class TraceRecorder:
    """Saves where a model looks, as `traces/step-N.safetensors` of a run; what goes wrong is noted once."""

    def __init__(self, task: Task, run: Run, log: Log, trained_class: Any) -> None:
        self.task, self.run, self.log, self.trained_class = task, run, log, trained_class
        self._inputs: list[TraceInput] | None = None
        self._notes: set[str] = set()
        self._began, self._spent = time.monotonic(), 0.0

    def record(self, step: int) -> None:
        """Save the traces of this step, unless this failed before or would take too much of the time."""
        if self._inputs == [] or self._spent > FREE_SECONDS + SHARE * (time.monotonic() - self._began):
            return
        began = time.monotonic()
        try:
            self._save(step)
        except Exception as error:  # a picture of the training is no reason to end it
            self._note(f"cannot save where the model looks: {' '.join(str(error).split()) or type(error).__name__}")
        self._spent += time.monotonic() - began

    def _save(self, step: int) -> None:
        weights = {name: tensor.clone() for name, tensor in resume.lasting(self.task.model).items()}
        device = next((tensor.device for tensor in weights.values()), torch.device("cpu"))
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), torch.autocast(device.type, enabled=False), torch.no_grad():
            self._save_traces(step, self._copy_model(step, weights, device))

    def _save_traces(self, step: int, trained: Any) -> None:
        if self._inputs is None:
            self._inputs = self.task.trace_inputs(COUNT) if trained.attention_names() else []
            if self._inputs:
                self._record_inputs(self._inputs)
        traces = [trace for item in self._inputs if (trace := self._trace(trained, item)) is not None]
        if traces:
            checkpoint.replace(self.run.folder / FOLDER / f"step-{step}.safetensors", encode_traces(traces))

    def _trace(self, trained: Any, item: TraceInput) -> SmallTrace | None:
        """Return the trace of one input; None if this input cannot be traced."""
        try:
            if item.reference is None:
                trace = trained.look(item.value, **item.options)
            else:
                trace = trained.extras["alignments"].call(**item.options).look(item.value, item.reference)
            return shrink_trace(replace(trace, facts={**trace.facts, "text": item.text}))
        except ValueError as error:
            self._note(f"cannot save where the model looks in {item.text[:40]!r}: {error}")
            return None

    def _copy_model(self, step: int, weights: Mapping[str, Tensor], device: torch.device) -> Any:
        """Return the trained model with these weights, as a checkpoint of this step would be loaded."""
        contents: Mapping[str, Any] = {**self.task.contents(), checkpoint.WEIGHTS: weights}
        saved = UnsavedCheckpoint.of(self.run.directory(step), contents, checkpoint.disk)
        return self.trained_class.load(saved, device=device)

    def _record_inputs(self, inputs: list[TraceInput]) -> None:
        listed = [
            {"text": item.text, "reference": item.reference, "options": config.plain(dict(item.options))}
            for item in inputs
        ]
        checkpoint.replace(self.run.folder / FOLDER / INPUTS, checkpoint.render(listed))

    def _note(self, text: str) -> None:
        if text not in self._notes and len(self._notes) < COUNT:
            self._notes.add(text)
            self.log.note(text)


def make_recorder(task: Task, run: Run, log: Log) -> TraceRecorder | None:
    """Return what records the traces of a run, if its settings ask for it and it is a task whose models can look."""
    trained_class = FACES.get(task.recipe.task)
    if not run.team.is_main or trained_class is None or not task.recipe.training.save_traces:
        return None
    return TraceRecorder(task, run, log, trained_class)
