"""Learning the classes of nodes from a few that are labelled: every step reads the whole graph, an epoch is one row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.resuming import Fingerprinted, Fixed
from regard.data.examples import spread_over_classes
from regard.models.gat import GATConfig
from regard.tasks.graphs import files
from regard.tasks.graphs.classifier import GRAPH, TENSORS, GraphInputs, NodeClassifier, load_graph
from regard.tasks.graphs.files import GraphConfig, GraphData
from regard.tasks.graphs.recognition import recognise
from regard.tasks.model_card import model_card
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, Task, TraceInput, alone

SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """What is looked at to choose the best weights."""

    metric: Literal["loss", "accuracy"] = "loss"
    """The measure on validation nodes by which the best weights are chosen: the lowest loss or the highest accuracy."""


@dataclass(frozen=True, kw_only=True)
class NodeRecipe:
    """One run that learns classes of nodes."""

    task: Fixed[Literal["node-classification"]] = "node-classification"
    """What is learnt."""
    data: Fingerprinted[GraphConfig]
    """Which graph, and how it is read."""
    model: Fixed[GATConfig] = field(default_factory=GATConfig)
    """Its size."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """How the best weights are chosen."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


@dataclass(frozen=True)
class WholeGraph:
    """A row: all of the graph, which is where it always is."""


class NodeClassification(Task):
    """The task of learning classes of nodes."""

    Recipe = NodeRecipe
    usage: ClassVar[str] = "regard classify {folder} --node NAME"
    shared: ClassVar[bool] = False
    unshared_reason: ClassVar[str] = "an epoch is one row, the whole graph"
    goal: Goal
    recognise = staticmethod(recognise)

    def __init__(self, recipe: NodeRecipe, prepared: GraphData, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.graph, self.model = recipe, prepared.graph, model
        self.rows = 1
        self.goal = (recipe.objective.metric, "min" if recipe.objective.metric == "loss" else "max")
        self.features = len(self.graph) * recipe.model.heads * recipe.model.width
        self.notes: list[str] = []
        self.classifier = NodeClassifier(model, self.graph)
        self._cached_inputs: tuple[torch.device, GraphInputs, Tensor, Tensor] | None = None

    @staticmethod
    def prepare(recipe: NodeRecipe, parent: Checkpoint | None = None) -> GraphData:
        """Read the graph; a model to start from gives the order of features and classes."""
        return files.prepare(recipe.data, None if parent is None or GRAPH not in parent.files else load_graph(parent))

    @staticmethod
    def default_settings(recipe: NodeRecipe, prepared: GraphData) -> dict[str, Any]:
        """Return the paper's learning rate and weight decay, with early stopping."""
        optimizer = {"learning_rate": 0.005, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 5e-4}
        intervals = {"eval_every": 10, "patience": 10, "save_every": 500, "log_every": 100}
        return {
            "optim": {**optimizer, "warmup": 0, "schedule": "constant"},
            "training": {"steps": 1000, **intervals, "clip": None, "spike": None},
        }

    @staticmethod
    def fill_sizes(recipe: NodeRecipe, prepared: GraphData) -> NodeRecipe:
        """Return the recipe with the number of features and of classes."""
        inputs, classes = prepared.graph.features.width, len(prepared.graph.classes)
        return replace(recipe, model=replace(recipe.model, inputs=inputs, classes=classes))

    def batch(self, row: int) -> WholeGraph:
        """Return the graph."""
        return WholeGraph()

    def step(self, batch: WholeGraph, part: str) -> Step:
        """Return the cross-entropy of the training nodes, summed."""
        inputs, nodes, labels = self._training_inputs()
        logits = self.model(inputs.features, inputs.mask).index_select(0, nodes)
        return Step(F.cross_entropy(logits, labels, reduction="sum"), len(nodes), {"nodes": len(nodes)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure how well validation nodes are classified."""
        valid = self.graph.parts["valid"]
        results = self.classifier.compare_with_labels(valid)
        places = spread_over_classes(results.truth.tolist(), SHOWN)
        answers = self.classifier.predictions(valid[places].tolist(), results.logits[places])
        samples = [
            {"node": answer.node, "truth": self.graph.classes[results.truth[place]], "answer": answer.label}
            for place, answer in zip(places, answers, strict=True)
        ]
        return Evaluation(results.metrics, samples)

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return validation nodes of different classes."""
        valid = self.graph.parts["valid"]
        places = spread_over_classes(self.graph.labels[valid].tolist(), count)
        names = [self.graph.name(number) for number in valid[places].tolist()]
        return [TraceInput(name, f"node {name}") for name in names]

    def contents(self) -> dict[str, Any]:
        """Return the files of a checkpoint beside weights and metrics, the graph itself among them."""
        recipe = config.plain(self.recipe)
        data = {name: recipe["data"][name] for name in ("id", "label", "split", "validation_share", "seed")}
        graph, tensors = self.graph.contents()
        settings = {"format": 1, "task": recipe["task"], "model": recipe["model"], "data": data}
        return {"config.yaml": settings, GRAPH: graph, TENSORS: tensors, "README.md": self._card()}

    def _training_inputs(self) -> tuple[GraphInputs, Tensor, Tensor]:
        """Return the graph and the training labels on the device, moved there once, so that a step can be recorded."""
        device = device_of(self.model)
        if self._cached_inputs is None or self._cached_inputs[0] != device:
            nodes = self.graph.parts["train"]
            labels = torch.from_numpy(self.graph.labels[nodes].astype(np.int64)).to(device)
            inputs = self.classifier.graph_inputs(device)
            self._cached_inputs = device, inputs, torch.from_numpy(nodes).to(device), labels
        return self._cached_inputs[1:]

    def _card(self) -> str:
        graph = self.graph
        return model_card(
            f"Classes of nodes: {', '.join(graph.classes[:8])}",
            f"A graph attention network over {len(graph):,} nodes with {graph.features.width:,} features each, trained "
            f"with Regard on the labels of {len(graph.parts['train']):,}. The graph lies beside the weights.",
            command="regard classify DIRECTORY --node NAME",
            code=f'classify("{graph.name(0)}")',
            files=self.recipe.data.train.files,
        )
