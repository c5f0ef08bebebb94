"""A trained classifier or tagger in use: labels with their probabilities, scores on a file, where it looked."""

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
from regard.tasks.labels.dataset import LabelledDataset, TextModel
from regard.tasks.labels.evaluation import LabelResults, measure_labels
from regard.tasks.labels.evaluation_files import TrainedLayout
from regard.tasks.labels.files import AnyFile, read_examples
from regard.tasks.labels.input_format import EncodedText, build_format
from regard.tasks.labels.preparation import build_dataset
from regard.tasks.labels.scoring import score_labels
from regard.tasks.labels.task import TextModelConfig
from regard.tasks.labels.text_tokenizer import TextTokenizerConfig
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.supervised.calibration import read_temperature
from regard.tasks.trained import DirectAnswers, NoOptions, described, revived

BATCH_TOKENS = 1 << 14  # tokens read at a time, padding included
LABEL_ITEMS = "label"  # the items that are answered
READER_PREFIX = "reader."  # what the names of most attentions begin with, and no user types
Self = TypeVar("Self", bound="TextLabeller")


class TextLabeller(DirectAnswers):
    """What a classifier and a tagger in use share."""

    file: ClassVar[type[AnyFile]]
    task: ClassVar[str]
    kind: ClassVar[str]
    pairs: ClassVar[bool] = False
    Options: ClassVar[type] = NoOptions
    __repr__ = described

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
        self.style: str = style or model.config.FORMAT
        self.format = build_format(tokenizer, self.style, pairs=self.pairs)

    @classmethod
    def load(cls: type[Self], checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Self:
        """The one a checkpoint directory holds."""
        known = checkpoint.config
        kind = cls.pair_class() if known.get("pairs", False) else cls
        how = config.build(TextTokenizerConfig, read_text_settings(known["tokenizer"]), where="tokenizer")
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
        classes = [str(label) for label in known["labels"]]
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        model, temperature = revived(checkpoint, device), read_temperature(known)
        return kind(model, tokenizer, classes, known["data"], name, temperature, style=known.get("style"))

    @classmethod
    def pair_class(cls) -> Any:
        """What reads pairs instead of texts."""
        raise ValueError(f"{cls.kind} of pairs is unknown to this version")

    def parse(self, text: str) -> Any:
        """An input is a text, which must not be empty."""
        if not text.strip():
            raise ValueError("one of the texts is empty: there is nothing to label in it")
        return text

    def compare_files(self, *paths: str, **changes: Any) -> tuple[LabelledDataset, LabelResults]:
        """How files are labelled, read as those it was trained on; `changes` are settings of the files."""
        check_files(self, paths, "labelled texts")
        return self._compare_files(self._open_files(paths, changes)[0])

    def _open_files(self, paths: Sequence[str], changes: Mapping[str, Any]) -> tuple[list[AnyFile], list[str]]:
        """Files to measure on, and what to say of those laid out otherwise than what it was trained on."""
        layout = TrainedLayout(self.file, self.data, self.classes)
        return layout.open_files(paths, changes)

    def _compare_files(self, read: Sequence[AnyFile]) -> tuple[LabelledDataset, LabelResults]:
        found = read_examples(read, self.data["names"], reject=0.0)
        if found.pairs != self.pairs:
            raise ValueError(
                f"{read[0].path} holds {_describe_inputs(found.pairs)}, and this model reads {_describe_inputs(self.pairs)}"
            )
        side = build_dataset(found, self.tokenizer, self.classes, self.style)
        return side, measure_labels(self.model, side, self.classes, tokens=BATCH_TOKENS)

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Scores on labelled files; `changes` are settings of the files, such as columns."""
        check_files(self, paths, "labelled texts")
        read, notes = self._open_files([str(path) for path in paths], changes)
        side, found = self._compare_files(read)
        measured = score_labels(name or self.name, self.task, side, found, self.classes, self.temperature)
        return replace(measured, notes=[*measured.notes, *notes])

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.runner.device

    @property
    def config(self) -> TextModelConfig:
        """The shape of its model."""
        return self.model.config

    @torch.no_grad()
    def _probabilities(self, texts: Sequence[EncodedText]) -> list[Float[Tensor, "..."]]:
        """Of the labels of each list of tokens, or of each of its tokens; texts of a length are read together."""
        lengths = [len(one.tokens) for one in texts]

        def answer(batch: list[int]) -> Sequence[Tensor]:
            chances = self._logits([texts[number] for number in batch]).float()
            chances = chances.div(self.temperature).softmax(-1).cpu()
            return chances.split([lengths[number] for number in batch]) if self.config.per_token else chances.unbind()

        return answer_by_length(lengths, answer, budget=BATCH_TOKENS)

    def _logits(self, texts: Sequence[EncodedText]) -> Float[Tensor, "*label classes"]:
        """Logits of texts that are read together."""
        tokens = torch.tensor([token for one in texts for token in one.tokens], device=self.device)
        row = Row.of([len(one.tokens) for one in texts]).to(self.device)
        if not (self.pairs and self.style == "bert"):
            return self.runner(tokens, row)
        seconds = torch.tensor([one.second_start for one in texts], device=self.device)
        return self.runner(tokens, row, (row.place >= seconds[row.segment]).long())

    @torch.no_grad()
    def _watch_attention(self, laid: EncodedText) -> tuple[Tensor, dict[str, Float[Tensor, "heads query key"]]]:
        """Probabilities of one list of tokens, and the weights of every attention by name."""
        if not any(isinstance(module, Tap) for module in self.model.modules()):
            pool = "" if self.config.per_token else " or model.pool=attention"
            raise ValueError(f"this model has no attention to show: train with model.name=transformer-encoder{pool}")
        with watch(self.model) as seen:
            [probabilities] = self._probabilities([laid])
        return probabilities, {name.removeprefix(READER_PREFIX): seen[name][0].cpu() for name in seen}

    def _build_trace(
        self, laid: EncodedText, weights: Mapping[str, Tensor], items: dict[str, list[Item]], facts: dict[str, Any]
    ) -> Trace:
        """Return an answer with the weights of every attention; that of pooling looks from the label."""
        looks = [
            Weights(name, LABEL_ITEMS if name == "pool" else "source", "source", values)
            for name, values in weights.items()
        ]
        facts = {**facts, "read": laid.tokens, "second": laid.second_start}
        return Trace(self.name, self.task, items, looks, facts, again=self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None) -> Steps:
        """The vectors of all attentions (or of those named) as the text is read again, and how likely labels are."""
        laid, chosen = (
            EncodedText(trace.facts["read"], trace.facts["second"]),
            names or [one.name for one in trace.weights],
        )
        own = {name.removeprefix(READER_PREFIX): name for name, module in self.model.named_modules() if name}
        found, [probabilities] = inside(
            self.model, lambda: self._probabilities([laid]), names=[own.get(name, name) for name in chosen]
        )
        opened = {
            name.removeprefix(READER_PREFIX): replace(one, name=name.removeprefix(READER_PREFIX))
            for name, one in found.items()
        }
        return Steps(opened, self._predictions(trace, probabilities), of=LABEL_ITEMS)

    def _predictions(self, trace: Trace, probabilities: Float[Tensor, "..."]) -> list[StepPrediction]:
        """What the labels that were answered were chosen from; none where no attention looks from them."""
        if not any(one.query == LABEL_ITEMS for one in trace.weights):
            return []
        best = probabilities.topk(min(10, len(self.classes)))
        top = [(self.classes[n], share) for n, share in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
        return [StepPrediction(top, *top[0], rank=0)]

    def _items(self, tokens: Sequence[int], shown: Sequence[str]) -> list[Item]:
        """What was read, token by token."""
        if self.tokenizer.closed and shown:  # a letter is to a model of letters what a word is to others
            return [Item(text, word=number) for number, text in enumerate(shown)]
        return traced.tokens(self.tokenizer, tokens)


def _describe_inputs(pairs: bool) -> str:
    return "pairs of texts" if pairs else "single texts"
