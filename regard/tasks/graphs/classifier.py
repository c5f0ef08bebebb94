"""A trained graph attention network in use: it classifies nodes, scores its answers and shows where a node looked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from regard.interpret.watch import watch
from regard.metrics.calibration import probabilities
from regard.metrics.scores import Scores
from regard.models.gat import GAT, Features
from regard.tasks.graphs import files as graphs
from regard.tasks.graphs.explain import describe_nodes, follow_edges
from regard.tasks.graphs.files import GraphConfig
from regard.tasks.graphs.graph import NodeGraph, restore_graph
from regard.tasks.graphs.input_graph import build_graph, describe_kind, parse_node
from regard.tasks.inputs import NODE, InputKind, Inputs, list_inputs
from regard.tasks.supervised.calibration import measure_calibration
from regard.tasks.supervised.evaluation import ClassifierResults, score_classifier
from regard.tasks.supervised.prediction import Prediction
from regard.tasks.trained import DirectAnswers, NoOptions, describe_model, load_model, resolve_options

Control = Literal["equal", "none"]
CONTROLS: tuple[Control, ...] = ("equal", "none")
CONTROL_MEASURES = {"equal": "accuracy, equal weights", "none": "accuracy, no neighbours"}
NodeInput = str | int | Mapping[str, Any]
GRAPH, TENSORS = "graph.json", "graph.safetensors"


@dataclass(frozen=True)
class GraphInputs:
    """The features and the mask of a graph on the device of a model."""

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
    """Classifies the nodes of a graph."""

    task: ClassVar[str] = "node-classification"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier of nodes"
    input_kind: ClassVar[InputKind] = NODE
    Options: ClassVar[type] = NoOptions
    __repr__ = describe_model

    def __init__(self, model: GAT, graph: NodeGraph, name: str = "classifier", data: Any = None) -> None:
        self.model, self.graph, self.name, self.data = model, graph, name, data or {}
        self._cached_inputs: tuple[torch.device, GraphInputs] | None = None

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> NodeClassifier:
        """Load the classifier of a checkpoint directory, with its graph."""
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        return cls(load_model(checkpoint, device), load_graph(checkpoint), name, checkpoint.config.get("data"))

    @property
    def inputs(self) -> Inputs:
        """Nodes of the graph, by their names, or graphs with one."""
        kind = describe_kind(self.graph)
        return Inputs(kind=kind, parse=self.parse, option="--node NAME", example=self.graph.name(0))

    def parse(self, text: str) -> Any:
        """Return the name of a node without surrounding spaces, or the graph of a JSON object."""
        return parse_node(text, self.graph)

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[NodePrediction]:
        """Return the class of each node."""
        resolve_options(self, options)
        return self.classify(inputs)

    def classify(self, nodes: NodeInput | Sequence[NodeInput]) -> list[NodePrediction]:
        """Return the class of each node: one of the graph by its name, or one of a graph in an object.

        Such an object has the name of the `node`, `edges` (pairs of names) and `features` by the name of each node.
        """
        items = list_inputs(nodes, self.inputs.kind, verb=self.verb)
        numbers = [self.graph.number(str(item)) for item in items if not isinstance(item, Mapping)]
        graphs_with_nodes = [build_graph(item, self.graph) for item in items if isinstance(item, Mapping)]
        answers = iter(self.predictions(numbers, self.logits()[numbers].numpy()) if numbers else [])
        elsewhere = (self.with_graph(graph).classify(node)[0] for node, graph in graphs_with_nodes)
        return [next(elsewhere if isinstance(item, Mapping) else answers) for item in items]

    def evaluate(self, *files: str | Path, name: str | None = None) -> Scores:
        """Score the test nodes of a graph, or all labelled ones where it marks none; without a file, its own."""
        classifier = self if not files else self.with_files(*files)
        graph = classifier.graph
        nodes = graph.parts["test"] if graph.parts["test"].size else np.flatnonzero(graph.labels >= 0)
        if not files and not graph.parts["test"].size:
            nodes = graph.parts["valid"]
        results = classifier.compare_with_labels(nodes)
        controls = {
            kind: control.compare_with_labels(nodes).labels.accuracy for kind, control in classifier.controls().items()
        }
        return _build_scores(name or self.name, self.task, graph, nodes, results, controls)

    def controls(self) -> dict[str, NodeClassifier]:
        """Return controls with the same weights, by name: uniform attention (equal), and no neighbours (none)."""
        weaker: dict[str, tuple[Control, ...]] = {"graph": CONTROLS, "gcn": CONTROLS, "equal": CONTROLS[1:], "none": ()}
        return {attention: self._with_attention(attention) for attention in weaker[self.model.config.attention]}

    def with_files(self, *files: str | Path) -> NodeClassifier:
        """Return a classifier with the same model over another graph."""
        settings = {**self.data, "scale": self.graph.scaled, "directed": self.graph.directed}
        train = {name: value for name, value in vars(graphs.graph_file([str(file) for file in files])).items() if value}
        graph_config = config.build(GraphConfig, {**settings, "train": train}, where="data")
        return NodeClassifier(self.model, graphs.read(graph_config, self.graph), self.name, self.data)

    def with_graph(self, graph: NodeGraph) -> NodeClassifier:
        """Return a classifier with the same model over another graph with the same features and classes."""
        classifier = NodeClassifier(self.model, graph, self.name, self.data)
        classifier._runner = self._runner
        return classifier

    def look(self, node: NodeInput, **options: Any) -> Trace:
        """Classify a node and keep the attention of it and of the nodes it looked at."""
        resolve_options(self, options)
        if isinstance(node, Mapping):
            name, graph = build_graph(node, self.graph)
            return self.with_graph(graph).look(name)
        number = self.graph.number(str(node))
        with watch(self.model) as record:
            logits = self.logits()
        [prediction] = self.predictions([number], logits[[number]].numpy())
        items, weights, nodes_shown = follow_edges(self.graph, record, number)
        facts = {
            "text": f"node {prediction.node}",
            "answer": f"{prediction.label} ({prediction.probability:.3f})",
            "answers": [[label, round(chance, 6)] for label, chance in prediction.all.items()],
            "controls": self._control_answers(prediction.node),
            "graph": describe_nodes(self.graph, nodes_shown, logits),
        }
        return Trace(self.name, self.task, items, weights, facts)

    def graph_inputs(self, device: torch.device) -> GraphInputs:
        """Return what the model reads of the graph, moved to the device once."""
        if self._cached_inputs is None or self._cached_inputs[0] != device:
            features = self.graph.features.to_tensor().to(device)
            mask = self.graph.mask(alone=self.model.config.attention == "none")
            self._cached_inputs = device, GraphInputs(features, move_mask(mask, device))
        return self._cached_inputs[1]

    @torch.no_grad()
    def logits(self) -> Float[Tensor, "node classes"]:
        """Return the logits of every class for every node."""
        inputs = self.graph_inputs(self.runner.device)
        return self.runner(inputs.features, inputs.mask).float().cpu()

    def compare_with_labels(self, nodes: Int[np.ndarray, "nodes"]) -> ClassifierResults:
        """Compare the answers to some nodes with their labels."""
        return ClassifierResults.compare(self.logits().numpy()[nodes], self.graph.labels[nodes], self.graph.classes)

    def _with_attention(self, attention: Control) -> NodeClassifier:
        with torch.device("meta"):  # a shell for weights that are there: nothing is drawn
            shell = GAT(replace(self.model.config, attention=attention))
        weights = self.model.state_dict()
        shell.load_state_dict({name: weights[name] for name in shell.state_dict()}, assign=True)
        return NodeClassifier(shell.eval(), self.graph, self.name, self.data)

    def _control_answers(self, node: str) -> dict[str, list[Any]]:
        """Return the predictions of both controls, with uniform attention and without neighbours."""
        answers: dict[str, list[Any]] = {}
        for control, classifier in self.controls().items():
            [prediction] = classifier.classify(node)
            answers[control] = [prediction.label, round(prediction.probability, 6)]
        return answers

    def predictions(self, numbers: Sequence[int], logits: Float[np.ndarray, "node classes"]) -> list[NodePrediction]:
        """Return logits of nodes as ranked classes with probabilities."""
        rows = zip(numbers, probabilities(logits, 1.0).tolist(), strict=True)
        return [NodePrediction.rank(self.graph.classes, row, node=self.graph.name(number)) for number, row in rows]


def load_graph(checkpoint: Checkpoint) -> NodeGraph:
    """Load the graph saved in a checkpoint."""
    return restore_graph(checkpoint.json(GRAPH), checkpoint.finite_tensors(TENSORS))


def move_mask(mask: Mask, device: torch.device) -> Mask:
    """Return the mask with its edges on a device."""
    where: Any = mask.where
    parts = {name: part.to(device) for name, part in vars(where).items() if isinstance(part, Tensor)}
    return Mask(where=replace(where, **parts))


def _build_scores(
    name: str,
    task: str,
    graph: NodeGraph,
    nodes: Int[np.ndarray, "nodes"],
    results: ClassifierResults,
    controls: dict[str, float],
) -> Scores:
    scores = score_classifier(name, task, results, [graph.name(node) for node in nodes.tolist()], unit="node")
    calibration_error = measure_calibration(results.logits, results.truth, 1.0)["before"]
    control_measures = {CONTROL_MEASURES[kind]: f"{accuracy:.2%}" for kind, accuracy in controls.items()}
    part = "test" if np.array_equal(nodes, graph.parts["test"]) else "labelled"
    return replace(
        scores,
        measures={**scores.measures, "calibration error": f"{calibration_error:.2%}", **control_measures},
        details={
            **results.metrics,
            "controls": controls,
            "labels": scores.details["labels"],
            "calibration": calibration_error,
            "part": part,
        },
    )
