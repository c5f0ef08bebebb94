"""A trained omics model in use: predictions, scores, importance of features, and attention."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.checkpoint import Checkpoint
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.metrics import labels as labelling
from regard.metrics.auc import mean_auc
from regard.metrics.scores import Scores, Table
from regard.metrics.significance import mean_statistics
from regard.models.omics import MOMA
from regard.tasks.inputs import InputKind, Inputs
from regard.tasks.omics import importance as importances
from regard.tasks.omics import samples as sample_data
from regard.tasks.omics.samples import Omics, Samples
from regard.tasks.supervised.evaluation import judge_examples
from regard.tasks.supervised.prediction import Prediction
from regard.tasks.trained import DirectAnswers, Extra, NoOptions, describe_model, load_model, resolve_options

OMICS = "omics.json"
SAMPLES = InputKind(
    "samples",
    "a sample of tables",
    "samples",
    lambda value: isinstance(value, Samples),
    is_path=True,
    example="mrna.csv mirna.csv sample=A54N",
)


@dataclass(frozen=True, kw_only=True)
class SamplePrediction(Prediction):
    """The class of a sample."""

    sample: str

    def __str__(self) -> str:
        return f"{self.sample}\t{self.label}\t{self.probability:.4f}"


@dataclass(frozen=True)
class Feature:
    """A feature of an omic and its importance."""

    omic: str
    name: str
    importance: float
    """Gradient times input, as a share of the sum over all features."""
    along: float | None = None
    """The same from MOMA's vectors along attended modules; None for a model without modules."""


class OmicsClassifier(DirectAnswers):
    """Classifies samples with a trained model."""

    task: ClassVar[str] = "omics"
    verb: ClassVar[str] = "predict"
    kind: ClassVar[str] = "a model of omics"
    input_kind: ClassVar[InputKind] = SAMPLES
    Options: ClassVar[type] = NoOptions
    __repr__ = describe_model

    def __init__(self, model: Any, omics: Omics, name: str = "omics") -> None:
        self.model, self.omics, self.name = model, omics, name

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> OmicsClassifier:
        """Load the model of a checkpoint directory."""
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best, so add the run's name
        return cls(load_model(checkpoint, device), read_omics(checkpoint), name)

    @property
    def inputs(self) -> Inputs:
        """Samples, each described by several tables."""
        return Inputs(kind=self.input_kind, parse=self.parse, join=self.join)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Importance of features, as numbers and as a picture."""
        return {
            "importance": Extra(self.importance, NoOptions, "How much answers for some samples rest on each feature."),
            "draw_importance": Extra(self.draw, NoOptions, "The vectors of the most important features, in a file."),
        }

    def parse(self, text: str) -> Samples:
        """Return one sample of some tables from text such as `mrna.csv mirna.csv sample=A54N`."""
        samples = self.join(shlex.split(text))
        if len(samples) > 1:
            names = ", ".join(sample.names[0] for sample in samples[:3])
            raise ValueError(
                f"{len(samples)} samples in these tables ({names} ...): choose one, sample={samples[0].names[0]}"
            )
        return samples[0]

    def join(self, words: Sequence[str]) -> list[Samples]:
        """Return the samples of several tables, one by one: files, `omic=FILE`, and `sample=NAME` for a single one."""
        samples, _ = sample_data.read_for_model(words, self.omics)
        return [samples.select([row]) for row in range(len(samples))]

    def answer(self, inputs: Sequence[Samples], **options: Any) -> list[SamplePrediction]:
        """Predict the class of each sample."""
        resolve_options(self, options)
        if not inputs:
            return []
        rows = zip(inputs, self.probabilities(_concatenate(inputs)).tolist(), strict=True)
        return [SamplePrediction.rank(self.omics.classes, row, sample=sample.names[0]) for sample, row in rows]

    def predict(self, *tables: str | Path) -> list[SamplePrediction]:
        """Predict the class of every sample in these tables."""
        return self.answer(self.join([str(table) for table in tables]))

    def evaluate(
        self, *files: str | Path, labels: str | None = None, importance: bool = False, name: str | None = None
    ) -> Scores:
        """Score the samples of tables; with `importance`, also measure the effect of removing important features."""
        if labels is None:
            raise ValueError("labels are needed to score by: name their file, -s labels=FILE")
        unlabelled, tables = sample_data.read_for_model([str(file) for file in files], self.omics)
        samples = sample_data.add_labels(unlabelled, tables, labels, self.omics)
        assert samples.targets is not None
        chances = self.probabilities(samples).numpy()
        answers, classes = chances.argmax(-1), self.omics.classes
        is_right = answers == samples.targets
        label_scores = labelling.judge(samples.targets, answers, classes)
        auc = mean_auc(chances, samples.targets)
        measures = {"auc": f"{auc:.4f}", "macro F1": f"{label_scores.f1:.4f}"}
        missing = [
            omic for omic, is_present in zip(self.omics.names, samples.present.T, strict=True) if not is_present.any()
        ]
        if missing:
            measures["missing"] = ", ".join(missing)
        if importance:
            top = min(importances.TOP, max(1, len(self.omics.columns) // 4))
            measures[f"auc without top {top}"] = str(importances.judge(self.model, samples, self.omics, top=top))
        rows = [
            (label.name, f"{label.count}", f"{label.precision:.3f}", f"{label.recall:.3f}")
            for label in label_scores.labels
        ]
        examples = judge_examples(samples.names, samples.targets, answers, chances, classes)
        return Scores(
            name or self.name,
            self.task,
            {"accuracy, %": mean_statistics(100 * is_right)},
            examples,
            measures=measures,
            tables=[Table("Classes", ("class", "samples", "precision", "recall"), rows)],
            details={"auc": auc},
            unit="sample",
            counted="probability of the right class",
        )

    def attention_names(self) -> list[str]:
        """Return the names of the attention weights of `look`: pairs of omics (MOMA) or one for all omics (DeePROG)."""
        if not isinstance(self.model, MOMA):
            return ["attention"]
        return [f"{by} to {at}" for by, at in permutations(self.omics.names, 2)]

    def look(self, sample: Samples, **options: Any) -> Trace:
        """Classify a sample and return the attention between its modules (MOMA) or its omics (DeePROG)."""
        resolve_options(self, options)
        [prediction] = self.answer([sample])
        present = [omic for omic, is_present in enumerate(sample.present[0]) if is_present]
        with watch(self.model) as record, torch.no_grad():
            self._outputs(sample)
        weights = record["attention"][0].cpu()
        names = self.omics.names
        facts = {"text": f"sample {prediction.sample}", "answer": f"{prediction.label} ({prediction.probability:.3f})"}
        if isinstance(self.model, MOMA):
            items, looks = self._modules(weights, present)
        else:
            items = {"omics": [Item(names[omic], word=place) for place, omic in enumerate(present)]}
            looks = [Weights("attention", "omics", "omics", weights[:, present][:, :, present])]
        return Trace(self.name, self.task, items, looks, facts)

    def importance(self, inputs: Sequence[Samples]) -> list[Feature]:
        """Return all features with their importance for these samples, the most important first."""
        samples = _concatenate(inputs)
        values, present = torch.from_numpy(self.omics.scale(samples)), torch.from_numpy(samples.present)
        weights = importances.importance(self.model, values, present).tolist()
        along: list[Any] = [None] * len(weights)
        if isinstance(self.model, MOMA):
            along = importances.importance(self.model, values, present, "along").tolist()
        columns = zip(self.omics.columns, weights, along, strict=True)
        features = [Feature(*column, weight, along_weight) for column, weight, along_weight in columns]
        return sorted(features, key=lambda feature: -feature.importance)

    def draw(self, inputs: Sequence[Samples], path: str | Path) -> None:
        """Draw the vectors of the most important features relative to the direction of the most attended module."""
        from regard.interpret.draw import plots
        from regard.tasks.omics.drawing import draw_vectors

        if not isinstance(self.model, MOMA):
            raise ValueError(f"{self.name} has no modules to draw vectors on: write its importance as .csv")
        plots.save(draw_vectors(self.model, self.omics, _concatenate(inputs)), Path(path))

    @torch.no_grad()
    def probabilities(self, samples: Samples) -> Float[Tensor, "samples classes"]:
        """Return the probability of each class for each sample."""
        return self._outputs(samples).probabilities.cpu()

    def scores(self, samples: Samples) -> dict[str, float]:
        """Return loss, accuracy and AUC on samples with labels."""
        assert samples.targets is not None
        truths = torch.from_numpy(samples.targets)
        with torch.no_grad():
            answers = self._outputs(samples)
        loss = answers.loss(truths.to(answers.logits.device)).mean()
        chances = answers.probabilities.cpu().numpy()
        accuracy = float((chances.argmax(-1) == samples.targets).mean())
        auc = mean_auc(chances, samples.targets)
        return {"loss": float(loss), "accuracy": accuracy, **({"auc": auc} if np.isfinite(auc) else {})}

    def _outputs(self, samples: Samples) -> Any:
        device = self.runner.device
        values, present = torch.from_numpy(self.omics.scale(samples)), torch.from_numpy(samples.present)
        return self.runner(values.to(device), present.to(device))

    def _modules(self, weights: Tensor, present: Sequence[int]) -> tuple[dict[str, list[Item]], list[Weights]]:
        """Return the modules as items, and weights (omics, query modules, modules) as a matrix per pair of omics."""
        names, size = self.omics.names, weights.shape[-1]
        items = {names[omic]: [Item(f"{names[omic]} {m + 1}", word=m) for m in range(size)] for omic in present}
        looks = [
            Weights(f"{names[by]} to {names[at]}", names[by], names[at], weights[None, at, by * size : (by + 1) * size])
            for by in present
            for at in present
            if by != at
        ]
        if not looks:
            raise ValueError(
                f"{self.name} looks from one omic at another and this sample has one only: give two tables"
            )
        return items, looks


def read_omics(checkpoint: Checkpoint) -> Omics:
    """Read the omics, features, scales and classes of a checkpoint."""
    return config.build(Omics, checkpoint.json(OMICS), where=OMICS)


def _concatenate(inputs: Sequence[Samples]) -> Samples:
    """Concatenate single samples to one batch."""
    names = tuple(name for sample in inputs for name in sample.names)
    return Samples(
        names,
        np.concatenate([sample.values for sample in inputs]),
        np.concatenate([sample.present for sample in inputs]),
    )
