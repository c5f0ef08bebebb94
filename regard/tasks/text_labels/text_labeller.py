"""Trained models that label texts or words: what all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.attention.masks import Row
from regard.attention.tap import Tap
from regard.checkpoint import Checkpoint
from regard.data.normalise import read_text_settings
from regard.data.tokenizers import Tokenizer
from regard.interpret import items as traced
from regard.interpret.items import Item, Weights
from regard.interpret.steps import Prediction as StepPrediction
from regard.interpret.steps import Steps, inside
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.metrics.scores import Scores
from regard.tasks.inputs import check_files
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.supervised.calibration import read_temperature
from regard.tasks.text_encoders.dataset import LabelledDataset, TextModel
from regard.tasks.text_encoders.evaluation_files import TrainedLayout
from regard.tasks.text_encoders.examples import ExampleFile, read_examples
from regard.tasks.text_encoders.input_format import EncodedText, build_format
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_labels.evaluation import LabelResults, measure_labels
from regard.tasks.text_labels.preparation import build_dataset
from regard.tasks.text_labels.scoring import score_labels
from regard.tasks.text_labels.task import TextModelConfig
from regard.tasks.trained import DirectAnswers, NoOptions, describe_model, load_model

BATCH_TOKENS = 1 << 14  # tokens read at a time, padding included
LABEL_ITEMS = "label"  # the items that are answered
READER_PREFIX = "reader."  # what the names of most attentions begin with, and no user types
Self = TypeVar("Self", bound="TextLabeller")


class TextLabeller(DirectAnswers):
    """Base of trained models that label texts, pairs or words."""

    file: ClassVar[type[ExampleFile]]
    task: ClassVar[str]
    kind: ClassVar[str]
    pairs: ClassVar[bool] = False
    Options: ClassVar[type] = NoOptions
    __repr__ = describe_model

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
        self.model, self.tokenizer, self.classes, self.data, self.name = model, tokenizer, classes, data, name
        self.temperature = temperature
        self.style: str = style or model.config.input_style
        self.format = build_format(tokenizer, self.style, pairs=self.pairs)

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
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        model, temperature = load_model(checkpoint, device), read_temperature(settings)
        return labeller_class(
            model, tokenizer, classes, settings["data"], name, temperature, style=settings.get("style")
        )

    @classmethod
    def pair_class(cls) -> Any:
        """Return the class for models that read pairs instead of texts."""
        raise ValueError(f"{cls.kind} of pairs is unknown to this version")

    def parse(self, text: str) -> Any:
        """Check that a text is not empty."""
        if not text.strip():
            raise ValueError("one of the texts is empty: there is nothing to label in it")
        return text

    def compare_files(self, *paths: str, **changes: Any) -> tuple[LabelledDataset, LabelResults]:
        """Label files, read as those it was trained on, and compare; `changes` are settings of files."""
        check_files(self, paths, "labelled texts")
        return self._compare_files(self._open_files(paths, changes)[0])

    def _open_files(self, paths: Sequence[str], changes: Mapping[str, Any]) -> tuple[list[ExampleFile], list[str]]:
        """Return files to measure on, and notes on those with another layout than those it was trained on."""
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

    @property
    def device(self) -> torch.device:
        """The device it runs on."""
        return self.runner.device

    @property
    def config(self) -> TextModelConfig:
        """The config of its model."""
        return self.model.config

    @torch.no_grad()
    def _probabilities(self, texts: Sequence[EncodedText]) -> list[Float[Tensor, "..."]]:
        """Return the probabilities of labels for each text or each of its tokens; texts of a length share a batch."""
        lengths = [len(text.tokens) for text in texts]

        def answer(batch: list[int]) -> Sequence[Tensor]:
            probabilities = self._logits([texts[number] for number in batch]).float()
            probabilities = probabilities.div(self.temperature).softmax(-1).cpu()
            if self.config.per_token:
                return probabilities.split([lengths[number] for number in batch])
            return probabilities.unbind()

        return answer_by_length(lengths, answer, budget=BATCH_TOKENS)

    def _logits(self, texts: Sequence[EncodedText]) -> Float[Tensor, "*label classes"]:
        """Return the logits of texts that are read in one batch."""
        tokens = torch.tensor([token for text in texts for token in text.tokens], device=self.device)
        row = Row.of([len(text.tokens) for text in texts]).to(self.device)
        if not (self.pairs and self.style == "bert"):
            return self.runner(tokens, row)
        second_starts = torch.tensor([text.second_start for text in texts], device=self.device)
        return self.runner(tokens, row, (row.place >= second_starts[row.segment]).long())

    @torch.no_grad()
    def _watch_attention(self, encoded: EncodedText) -> tuple[Tensor, dict[str, Float[Tensor, "heads query key"]]]:
        """Return the probabilities of one text, and the weights of every attention by name."""
        if not any(isinstance(module, Tap) for module in self.model.modules()):
            pool = "" if self.config.per_token else " or model.pool=attention"
            raise ValueError(f"this model has no attention to show: train with model.name=transformer-encoder{pool}")
        with watch(self.model) as watched:
            [probabilities] = self._probabilities([encoded])
        return probabilities, {name.removeprefix(READER_PREFIX): watched[name][0].cpu() for name in watched}

    def _build_trace(
        self, encoded: EncodedText, weights: Mapping[str, Tensor], items: dict[str, list[Item]], facts: dict[str, Any]
    ) -> Trace:
        """Return an answer with the weights of every attention; that of pooling is from the label to the tokens."""
        attentions = [
            Weights(name, LABEL_ITEMS if name == "pool" else "source", "source", values)
            for name, values in weights.items()
        ]
        facts = {**facts, "read": encoded.tokens, "second": encoded.second_start}
        return Trace(self.name, self.task, items, attentions, facts, again=self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None) -> Steps:
        """Return the vectors inside all attentions, or those named, as the text is read again."""
        encoded = EncodedText(trace.facts["read"], trace.facts["second"])
        attention_names = names or [attention.name for attention in trace.weights]
        module_names = {name.removeprefix(READER_PREFIX): name for name, module in self.model.named_modules() if name}
        inside_modules, [probabilities] = inside(
            self.model,
            lambda: self._probabilities([encoded]),
            names=[module_names.get(name, name) for name in attention_names],
        )
        vectors = {
            name.removeprefix(READER_PREFIX): replace(attention, name=name.removeprefix(READER_PREFIX))
            for name, attention in inside_modules.items()
        }
        return Steps(vectors, self._predictions(trace, probabilities), of=LABEL_ITEMS)

    def _predictions(self, trace: Trace, probabilities: Float[Tensor, "..."]) -> list[StepPrediction]:
        """Return the likeliest labels; none where no attention is from the label to the tokens."""
        if not any(attention.query == LABEL_ITEMS for attention in trace.weights):
            return []
        best = probabilities.topk(min(10, len(self.classes)))
        top = [
            (self.classes[number], probability)
            for number, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        return [StepPrediction(top, *top[0], rank=0)]

    def _items(self, tokens: Sequence[int], shown: Sequence[str]) -> list[Item]:
        """Return the tokens that were read as items of a trace."""
        if self.tokenizer.closed and shown:  # a letter is to a model of letters what a word is to others
            return [Item(text, word=number) for number, text in enumerate(shown)]
        return traced.tokens(self.tokenizer, tokens)


def _describe_inputs(pairs: bool) -> str:
    return "pairs of texts" if pairs else "single texts"
