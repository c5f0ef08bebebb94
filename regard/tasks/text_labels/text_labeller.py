"""Base class of trained models that label texts or words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.checkpoint import Checkpoint
from regard.data.normalise import read_text_settings
from regard.data.tokenizers import Tokenizer
from regard.interpret.steps import Prediction
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores
from regard.tasks.inputs import check_files
from regard.tasks.supervised.calibration import read_temperature
from regard.tasks.text_encoders.dataset import LabelledDataset, TextModel
from regard.tasks.text_encoders.evaluation_files import TrainedLayout
from regard.tasks.text_encoders.examples import ExampleFile, read_examples
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_encoders.trained_encoder import BATCH_TOKENS, LABEL_ITEMS, TrainedEncoder
from regard.tasks.text_labels.evaluation import LabelResults, measure_labels
from regard.tasks.text_labels.preparation import build_dataset
from regard.tasks.text_labels.scoring import score_labels
from regard.tasks.trained import NoOptions, load_model

Self = TypeVar("Self", bound="TextLabeller")


class TextLabeller(TrainedEncoder):
    """Base class of trained models that label texts, pairs or words."""

    file: ClassVar[type[ExampleFile]]
    task: ClassVar[str]
    kind: ClassVar[str]
    Options: ClassVar[type] = NoOptions

    def __init__(
        self,
        model: TextModel,
        tokenizer: Tokenizer,
        classes: list[str],
        data: dict[str, Any],
        name: str = "labeller",
        temperature: float = 1.0,
        style: str | None = None,
    ) -> None:
        super().__init__(model, tokenizer, data, name, style=style)
        self.classes, self.temperature = classes, temperature

    @classmethod
    def load(cls: type[Self], checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Self:
        """Load the model of a checkpoint directory."""
        settings = checkpoint.config
        labeller_class = cls.pair_class() if settings.get("pairs", False) else cls
        tokenizer_config = config.build(
            TextTokenizerConfig, read_text_settings(settings["tokenizer"]), where="tokenizer"
        )
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), tokenizer_config)
        classes = [str(label) for label in settings["labels"]]
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best, so add the run's name
        model, temperature = load_model(checkpoint, device), read_temperature(settings)
        return labeller_class(
            model, tokenizer, classes, settings["data"], name, temperature, style=settings.get("style")
        )

    @classmethod
    def pair_class(cls) -> Any:
        """Return the class of models for pairs of texts."""
        raise ValueError(f"{cls.kind} of pairs is unknown to this version")

    def parse(self, text: str) -> Any:
        """Return the text; raise an error if it is empty."""
        if not text.strip():
            raise ValueError("one of the texts is empty: there is nothing to label in it")
        return text

    def compare_files(self, *paths: str, **changes: Any) -> tuple[LabelledDataset, LabelResults]:
        """Label files that are read like the training files, and compare; `changes` are settings of the files."""
        check_files(self, paths, "labelled texts")
        return self._compare_files(self._open_files(paths, changes)[0])

    def _open_files(self, paths: Sequence[str], changes: Mapping[str, Any]) -> tuple[list[ExampleFile], list[str]]:
        """Return the evaluation files, and notes on those whose layout differs from the training files."""
        return TrainedLayout(self.file, self.data, self.classes).open_files(paths, changes)

    def _compare_files(self, labelled_files: Sequence[ExampleFile]) -> tuple[LabelledDataset, LabelResults]:
        examples = read_examples(labelled_files, self.data["names"], reject=0.0)
        if examples.pairs != self.pairs:
            raise ValueError(
                f"{labelled_files[0].path} holds {_describe_inputs(examples.pairs)}, "
                f"and this model reads {_describe_inputs(self.pairs)}"
            )
        dataset = build_dataset(examples, self.tokenizer, self.classes, self.style)
        return dataset, measure_labels(self.runner, dataset, self.classes, tokens=BATCH_TOKENS)

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Return scores on labelled files; `changes` are settings of the files, such as columns."""
        check_files(self, paths, "labelled texts")
        labelled_files, notes = self._open_files([str(path) for path in paths], changes)
        dataset, results = self._compare_files(labelled_files)
        scores = score_labels(name or self.name, self.task, dataset, results, self.classes, self.temperature)
        return replace(scores, notes=[*scores.notes, *notes])

    def _activate(self, logits: Float[Tensor, "*label classes"]) -> Float[Tensor, "*label classes"]:
        """Return the probabilities of labels."""
        return logits.div(self.temperature).softmax(-1)

    def _rank_predictions(self, trace: Trace, outputs: Float[Tensor, "..."]) -> list[Prediction]:
        """Return the most probable labels; none if no attention goes from the label to the tokens."""
        if not any(attention.query == LABEL_ITEMS for attention in trace.weights):
            return []
        best = outputs.topk(min(10, len(self.classes)))
        top = [
            (self.classes[number], probability)
            for number, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        return [Prediction(top, *top[0], rank=0)]


def _describe_inputs(pairs: bool) -> str:
    return "pairs of texts" if pairs else "single texts"
