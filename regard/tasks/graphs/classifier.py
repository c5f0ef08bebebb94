"""A trained graph attention network in use: the classes of nodes, scores, and where a node looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import config
from regard.attention.masks import Mask
from regard.checkpoint import Checkpoint
from regard.interpret.trace import Trace
from regard.metrics.calibration import probabilities
from regard.metrics.scores import Scores
from regard.models.gat import GAT, Features
from regard.tasks.graphs import files as graphs
from regard.tasks.graphs.files import GraphConfig
from regard.tasks.graphs.graph import NodeGraph, revived
from regard.tasks.inputs import NODE, InputKind, Inputs, list_inputs
from regard.tasks.supervised.calibration import measure_calibration
from regard.tasks.supervised.evaluation import ClassifierResults, score_classifier
from regard.tasks.supervised.prediction import Prediction
from regard.tasks.trained import DirectAnswers, NoOptions, chosen, described
from regard.tasks.trained import revived as awake

Control = Literal["equal", "none"]
CONTROLS: tuple[Control, ...] = ("equal", "none")
UNLEARNT = {"equal": "accuracy, equal weights", "none": "accuracy, no neighbours"}
GRAPH, TENSORS = "graph.json", "graph.safetensors"


@dataclass(frozen=True)
class Reading:
    """A graph as a model reads it, on its device."""

    features: Features
    mask: Mask


@dataclass(frozen=True, kw_only=True)
class NodePrediction(Prediction):
    """The class of a node."""

    node: str

    @property
    def subject(self) -> dict[str, Any]:
        """The name of the node."""
        return {"node": self.node}


class NodeClassifier(DirectAnswers):
    """Says of which class a node is."""

    task: ClassVar[str] = "node-classification"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier of nodes"
    input_kind: ClassVar[InputKind] = NODE
    Options: ClassVar[type] = NoOptions
    __repr__ = described

    def __init__(self, model: GAT, graph: NodeGraph, name: str = "classifier", data: Any = None) -> None:
        self.model, self.graph, self.name, self.data = model, graph, name, data or {}
        self._read: tuple[torch.device, Reading] | None = None

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> NodeClassifier:
        """The one a checkpoint directory holds, with its graph."""
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        return cls(awake(checkpoint, device), stored(checkpoint), name, checkpoint.config.get("data"))

    @property
    def inputs(self) -> Inputs:
        """Nodes of the graph, by their names."""
        return Inputs(kind=self.input_kind, parse=self.parse, option="--node NAME", example=self.graph.name(0))

    def parse(self, text: str) -> str:
        """An input is the name of a node."""
        return text.strip()

    def answer(self, inputs: Sequence[str], **options: Any) -> list[NodePrediction]:
        """The class of each node."""
        chosen(self, options)
        return self.classify(inputs)

    def classify(self, nodes: str | int | Sequence[str | int]) -> list[NodePrediction]:
        """The class of each node, by their names."""
        listed = list_inputs(nodes, NODE, verb=self.verb)
        numbers = [self.graph.number(str(node)) for node in listed]
        return self.verdicts(numbers, self.logits()[numbers].numpy())

    def evaluate(self, *files: str | Path, name: str | None = None) -> Scores:
        """Scores on the test nodes of a graph, or on all labelled ones where it names none; without a file, its own."""
        judge = self if not files else self.reader(*files)
        graph = judge.graph
        some = graph.parts["test"] if graph.parts["test"].size else np.flatnonzero(graph.labels >= 0)
        if not files and not graph.parts["test"].size:
            some = graph.parts["valid"]
        found = judge.measured(some)
        controls = {kind: other.measured(some).labels.accuracy for kind, other in judge.controls().items()}
        return _scores(name or self.name, self.task, graph, some, found, controls)

    def controls(self) -> dict[str, NodeClassifier]:
        """The same weights without what answers may be owed to: learnt scores of edges (equal), all edges (none)."""
        lesser: dict[str, tuple[Control, ...]] = {"graph": CONTROLS, "equal": CONTROLS[1:], "none": ()}
        return {attention: self._controlled(attention) for attention in lesser[self.model.config.attention]}

    def reader(self, *files: str | Path) -> NodeClassifier:
        """The same model over another graph."""
        own = {**self.data, "scale": self.graph.scaled, "directed": self.graph.directed}
        train = {name: value for name, value in vars(graphs.sides([str(file) for file in files])).items() if value}
        how = config.build(GraphConfig, {**own, "train": train}, where="data")
        return NodeClassifier(self.model, graphs.read(how, self.graph), self.name, self.data)

    def look(self, given: str, **options: Any) -> Trace:
        """Classify a node and keep where it looked, and where those looked that it looked at."""
        from regard.tasks.graphs.looking import traced

        chosen(self, options)
        return traced(self, self.graph.number(str(given)))

    def reading(self, device: torch.device) -> Reading:
        """The graph on a device; brought there once."""
        if self._read is None or self._read[0] != device:
            features = self.graph.features.tensors().to(device)
            mask = self.graph.mask(alone=self.model.config.attention == "none")
            self._read = device, Reading(features, moved(mask, device))
        return self._read[1]

    @torch.no_grad()
    def logits(self) -> Float[Tensor, "node classes"]:
        """How well each class fits each node."""
        reading = self.reading(self.runner.device)
        return self.runner(reading.features, reading.mask).float().cpu()

    def measured(self, some: Int[np.ndarray, "some"]) -> ClassifierResults:
        """Answers to some nodes against what is known of them."""
        return ClassifierResults.compare(self.logits().numpy()[some], self.graph.labels[some], self.graph.classes)

    def _controlled(self, attention: Control) -> NodeClassifier:
        with torch.device("meta"):  # a shell for weights that are there: nothing is drawn
            shell = GAT(replace(self.model.config, attention=attention))
        kept = self.model.state_dict()
        shell.load_state_dict({name: kept[name] for name in shell.state_dict()}, assign=True)
        return NodeClassifier(shell.eval(), self.graph, self.name, self.data)

    def verdicts(self, numbers: Sequence[int], logits: Float[np.ndarray, "node classes"]) -> list[NodePrediction]:
        """Answers in words."""
        rows = zip(numbers, probabilities(logits, 1.0).tolist(), strict=True)
        return [NodePrediction.rank(self.graph.classes, row, node=self.graph.name(number)) for number, row in rows]


def stored(checkpoint: Checkpoint) -> NodeGraph:
    """The graph that lies beside the weights of a model."""
    return revived(checkpoint.json(GRAPH), checkpoint.finite_tensors(TENSORS))


def moved(mask: Mask, device: torch.device) -> Mask:
    """The same edges on a device."""
    where: Any = mask.where
    parts = {name: part.to(device) for name, part in vars(where).items() if isinstance(part, Tensor)}
    return Mask(where=replace(where, **parts))


def _scores(
    name: str,
    task: str,
    graph: NodeGraph,
    some: Int[np.ndarray, "some"],
    found: ClassifierResults,
    controls: dict[str, float],
) -> Scores:
    scored = score_classifier(name, task, found, [graph.name(node) for node in some.tolist()], unit="node")
    error = measure_calibration(found.logits, found.truth, 1.0)["before"]
    unlearnt = {UNLEARNT[kind]: f"{accuracy:.2%}" for kind, accuracy in controls.items()}
    part = "test" if np.array_equal(some, graph.parts["test"]) else "labelled"
    return replace(
        scored,
        measures={**scored.measures, "calibration error": f"{error:.2%}", **unlearnt},
        details={
            **found.metrics,
            "controls": controls,
            "labels": scored.details["labels"],
            "calibration": error,
            "part": part,
        },
    )
