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
from regard.models.gat import GATConfig
from regard.tasks.card import card
from regard.tasks.graphs import files
from regard.tasks.graphs.classifier import GRAPH, TENSORS, NodeClassifier, Reading, stored
from regard.tasks.graphs.files import GraphConfig, Graphs
from regard.tasks.graphs.recognition import recognise
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, Task, alone, spread_over_classes

SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """What is looked at to choose the best weights."""

    best: Literal["loss", "accuracy"] = "loss"
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
class Whole:
    """A row: all of the graph, which is where it always is."""


class NodeClassification(Task):
    """The task of learning classes of nodes."""

    Recipe = NodeRecipe
    usage: ClassVar[str] = "regard classify {folder} --node NAME"
    shared: ClassVar[bool] = False
    unshared_reason: ClassVar[str] = "an epoch is one row, the whole graph"
    goal: Goal
    recognise = staticmethod(recognise)

    def __init__(self, recipe: NodeRecipe, prepared: Graphs, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.graph, self.model = recipe, prepared.graph, model
        self.rows = 1
        self.goal = (recipe.objective.best, "min" if recipe.objective.best == "loss" else "max")
        self.features = len(self.graph) * recipe.model.heads * recipe.model.width
        self.notes: list[str] = []
        self.classifier = NodeClassifier(model, self.graph)
        self._placed: tuple[torch.device, Reading, Tensor, Tensor] | None = None

    @staticmethod
    def prepare(recipe: NodeRecipe, known: Checkpoint | None = None) -> Graphs:
        """Read the graph; a model to start from gives the order of features and classes."""
        return files.prepare(recipe.data, None if known is None or GRAPH not in known.files else stored(known))

    @staticmethod
    def default_settings(recipe: NodeRecipe, prepared: Graphs) -> dict[str, Any]:
        """The paper's rate and decay, and an end by patience."""
        how = {"rate": 0.005, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 5e-4}
        often = {"evaluate": 10, "patience": 10, "save": 500, "log": 100}
        return {
            "optim": {**how, "warmup": 0, "schedule": "constant"},
            "training": {"steps": 1000, **often, "clip": None, "spike": None},
        }

    @staticmethod
    def fill_sizes(recipe: NodeRecipe, prepared: Graphs) -> NodeRecipe:
        """The recipe with the number of features and of classes."""
        inputs, classes = prepared.graph.features.width, len(prepared.graph.classes)
        return replace(recipe, model=replace(recipe.model, inputs=inputs, classes=classes))

    def batch(self, row: int) -> Whole:
        """The graph."""
        return Whole()

    def step(self, batch: Whole, part: str) -> Step:
        """Cross-entropy of the nodes that are learnt from, summed."""
        reading, nodes, labels = self._here()
        logits = self.model(reading.features, reading.mask).index_select(0, nodes)
        return Step(F.cross_entropy(logits, labels, reduction="sum"), len(nodes), {"nodes": len(nodes)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """How well nodes are told that nothing was learnt from."""
        valid = self.graph.parts["valid"]
        found = self.classifier.measured(valid)
        places = spread_over_classes(found.truth.tolist(), SHOWN)
        answers = self.classifier.verdicts(valid[places].tolist(), found.logits[places])
        samples = [
            {"node": answer.node, "truth": self.graph.classes[found.truth[place]], "answer": answer.label}
            for place, answer in zip(places, answers, strict=True)
        ]
        return Evaluation(found.metrics, samples)

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics: the graph itself, without which it is blind."""
        recipe = config.plain(self.recipe)
        data = {name: recipe["data"][name] for name in ("id", "label", "split", "held", "seed")}
        told, tensors = self.graph.contents()
        kept = {"format": 1, "task": recipe["task"], "model": recipe["model"], "data": data}
        return {"config.yaml": kept, GRAPH: told, TENSORS: tensors, "README.md": self._card()}

    def _here(self) -> tuple[Reading, Tensor, Tensor]:
        """The graph where the model is: brought there once, and never moved, so that a step can be recorded."""
        device = device_of(self.model)
        if self._placed is None or self._placed[0] != device:
            nodes = self.graph.parts["train"]
            labels = torch.from_numpy(self.graph.labels[nodes].astype(np.int64)).to(device)
            reading = self.classifier.reading(device)
            self._placed = device, reading, torch.from_numpy(nodes).to(device), labels
        return self._placed[1:]

    def _card(self) -> str:
        graph = self.graph
        return card(
            f"Classes of nodes: {', '.join(graph.classes[:8])}",
            f"A graph attention network over {len(graph):,} nodes with {graph.features.width:,} features each, trained "
            f"with Regard on the labels of {len(graph.parts['train']):,}. The graph lies beside the weights.",
            command="regard classify DIRECTORY --node NAME",
            code=f'classify("{graph.name(0)}")',
            files=self.recipe.data.train.files,
        )
