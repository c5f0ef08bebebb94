"""A trained classifier or tagger in use: labels with their probabilities, scores on a file, where it looked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from regard.tasks.inputs import PAIR, SENTENCE, TEXT, InputKind, Inputs, check_files, check_input, list_inputs
from regard.tasks.labels import files, formats, pairs
from regard.tasks.labels.batches import Labelled, index
from regard.tasks.labels.evaluation_files import TrainedLayout
from regard.tasks.labels.files import AnyFile, LabelledFile
from regard.tasks.labels.formats import Laid
from regard.tasks.labels.pairs import Pair
from regard.tasks.labels.pieces import cut
from regard.tasks.labels.reading import ReadingConfig, settings, shown
from regard.tasks.labels.recorded import recorded_column
from regard.tasks.labels.scoring import scores
from regard.tasks.labels.tagged import COLUMNS, TaggedFile
from regard.tasks.labels.task import AnyReaderConfig, Measured, Reader, measure
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.supervised.calibration import read_temperature
from regard.tasks.supervised.prediction import Prediction
from regard.tasks.trained import DirectAnswers, NoOptions, describe_model, load_model, resolve_options

BUDGET = 1 << 14  # tokens read at a time, padding included
CLASS = "<class>"
LABEL = "label"  # the items that are answered
READER = "reader."  # what the names of most attentions begin with, and no user types
Self = TypeVar("Self", bound="Labels")


@dataclass(frozen=True, kw_only=True)
class TextPrediction(Prediction):
    """What a text is, or a pair of texts."""

    text: str | tuple[str, ...]

    @property
    def subject(self) -> dict[str, Any]:
        """The text, or both of a pair."""
        return {"text": self.text} if isinstance(self.text, str) else {"texts": list(self.text)}


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence, what each was found to be, and how probable that is."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        chances = [round(chance, 6) for chance in self.probabilities]
        return {"words": self.words, "tags": self.tags, "probabilities": chances}


class Labels(DirectAnswers):
    """What a classifier and a tagger in use share."""

    file: ClassVar[type[AnyFile]]
    task: ClassVar[str]
    kind: ClassVar[str]
    pairs: ClassVar[bool] = False
    Options: ClassVar[type] = NoOptions
    __repr__ = describe_model

    def __init__(
        self,
        model: Reader,
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
        self.form = formats.of(tokenizer, self.style, pairs=self.pairs)

    @classmethod
    def load(cls: type[Self], checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Self:
        """The one a checkpoint directory holds."""
        known = checkpoint.config
        kind = cls.of_pairs() if known.get("pairs", False) else cls
        how = config.build(ReadingConfig, read_text_settings(known["tokenizer"]), where="tokenizer")
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
        classes = [str(label) for label in known["labels"]]
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        model, temperature = load_model(checkpoint, device), read_temperature(known)
        return kind(model, tokenizer, classes, known["data"], name, temperature, style=known.get("style"))

    @classmethod
    def of_pairs(cls) -> Any:
        """What reads pairs instead of texts."""
        raise ValueError(f"{cls.kind} of pairs is unknown to this version")

    def parse(self, text: str) -> Any:
        """An input is a text, which must not be empty."""
        if not text.strip():
            raise ValueError("one of the texts is empty: there is nothing to label in it")
        return text

    def measure(self, *paths: str, **changes: Any) -> tuple[Labelled, Measured]:
        """How files are labelled, read as those it was trained on; `changes` are settings of the files."""
        check_files(self, paths, "labelled texts")
        return self._measure(self._open_files(paths, changes)[0])

    def _open_files(self, paths: Sequence[str], changes: Mapping[str, Any]) -> tuple[list[AnyFile], list[str]]:
        """Files to measure on, and what to say of those laid out otherwise than what it was trained on."""
        layout = TrainedLayout(self.file, self.data, self.classes)
        return layout.open_files(paths, changes)

    def _measure(self, read: Sequence[AnyFile]) -> tuple[Labelled, Measured]:
        found = files.read(read, self.data["names"], reject=0.0)
        if found.pairs != self.pairs:
            raise ValueError(f"{read[0].path} holds {_kinds(found.pairs)}, and this model reads {_kinds(self.pairs)}")
        side = index(found, self.tokenizer, self.classes, self.style)
        return side, measure(self.model, side, self.classes, tokens=BUDGET)

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Scores on labelled files; `changes` are settings of the files, such as columns."""
        check_files(self, paths, "labelled texts")
        read, notes = self._open_files([str(path) for path in paths], changes)
        side, found = self._measure(read)
        measured = scores(name or self.name, self.task, side, found, self.classes, self.temperature)
        return replace(measured, notes=[*measured.notes, *notes])

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.runner.device

    @property
    def config(self) -> AnyReaderConfig:
        """The shape of its model."""
        return self.model.config

    @torch.no_grad()
    def _probabilities(self, texts: Sequence[Laid]) -> list[Float[Tensor, "..."]]:
        """Of the labels of each list of tokens, or of each of its tokens; texts of a length are read together."""
        lengths = [len(one.tokens) for one in texts]

        def answer(batch: list[int]) -> Sequence[Tensor]:
            chances = self._scores([texts[number] for number in batch]).float()
            chances = chances.div(self.temperature).softmax(-1).cpu()
            return chances.split([lengths[number] for number in batch]) if self.config.per_token else chances.unbind()

        return answer_by_length(lengths, answer, budget=BUDGET)

    def _scores(self, texts: Sequence[Laid]) -> Float[Tensor, "*label classes"]:
        """Logits of texts that are read together."""
        tokens = torch.tensor([token for one in texts for token in one.tokens], device=self.device)
        row = Row.of([len(one.tokens) for one in texts]).to(self.device)
        if not (self.pairs and self.style == "bert"):
            return self.runner(tokens, row)
        seconds = torch.tensor([one.second for one in texts], device=self.device)
        return self.runner(tokens, row, (row.place >= seconds[row.segment]).long())

    @torch.no_grad()
    def _watched(self, laid: Laid) -> tuple[Tensor, dict[str, Float[Tensor, "heads query key"]]]:
        """Probabilities of one list of tokens, and the weights of every attention by name."""
        if not any(isinstance(module, Tap) for module in self.model.modules()):
            pool = "" if self.config.per_token else " or model.pool=attention"
            raise ValueError(f"this model has no attention to show: train with model.name=transformer-encoder{pool}")
        with watch(self.model) as seen:
            [probabilities] = self._probabilities([laid])
        return probabilities, {name.removeprefix(READER): seen[name][0].cpu() for name in seen}

    def _traced(
        self, laid: Laid, weights: Mapping[str, Tensor], items: dict[str, list[Item]], facts: dict[str, Any]
    ) -> Trace:
        """Return an answer with the weights of every attention; that of pooling looks from the label."""
        looks = [
            Weights(name, LABEL if name == "pool" else "source", "source", values) for name, values in weights.items()
        ]
        facts = {**facts, "read": laid.tokens, "second": laid.second}
        return Trace(self.name, self.task, items, looks, facts, again=self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None) -> Steps:
        """The vectors of all attentions (or of those named) as the text is read again, and how likely labels are."""
        laid, chosen = Laid(trace.facts["read"], trace.facts["second"]), names or [one.name for one in trace.weights]
        own = {name.removeprefix(READER): name for name, module in self.model.named_modules() if name}
        found, [probabilities] = inside(
            self.model, lambda: self._probabilities([laid]), names=[own.get(name, name) for name in chosen]
        )
        opened = {
            name.removeprefix(READER): replace(one, name=name.removeprefix(READER)) for name, one in found.items()
        }
        return Steps(opened, self._predictions(trace, probabilities), of=LABEL)

    def _predictions(self, trace: Trace, probabilities: Float[Tensor, "..."]) -> list[StepPrediction]:
        """What the labels that were answered were chosen from; none where no attention looks from them."""
        if not any(one.query == LABEL for one in trace.weights):
            return []
        best = probabilities.topk(min(10, len(self.classes)))
        top = [(self.classes[n], share) for n, share in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
        return [StepPrediction(top, *top[0], rank=0)]

    def _items(self, tokens: Sequence[int], shown: Sequence[str]) -> list[Item]:
        """What was read, token by token."""
        if self.tokenizer.closed and shown:  # a letter is to a model of letters what a word is to others
            return [Item(text, word=number) for number, text in enumerate(shown)]
        return traced.tokens(self.tokenizer, tokens)


class Classifier(Labels):
    """Says what a text is."""

    file = LabelledFile
    task: ClassVar[str] = "classification"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier"

    @classmethod
    def of_pairs(cls) -> Any:
        """What reads pairs instead of texts."""
        return PairClassifier

    @property
    def inputs(self) -> Inputs:
        """Texts, of a table those in the column of the training files."""
        column = recorded_column(self.data, self.classes)
        return Inputs(kind=self.input_kind, parse=self.parse, text_column=column)

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[TextPrediction]:
        """What each text is."""
        resolve_options(self, options)
        return self.classify(inputs)

    def classify(self, texts: Any) -> list[TextPrediction]:
        """What each text is, or each pair."""
        listed = list_inputs(texts, self.input_kind, verb=self.verb)
        found = self._probabilities(self._laid(listed))
        return [self._verdict(text, probabilities) for text, probabilities in zip(listed, found, strict=True)]

    def look(self, text: Any) -> Trace:
        """Classify a text and keep where the model looked."""
        check_input(text, self.input_kind, verb="look")
        [laid] = self._laid([text])
        probabilities, weights = self._watched(laid)
        verdict = self._verdict(text, probabilities)
        written = shown(self.tokenizer, text) if self.style == "plain" and isinstance(text, str) else []
        items = self._items(laid.tokens, written)
        if self.style == "plain" and config.plain(self.config).get("pool") == "class":
            after = [replace(item, word=None if item.word is None else item.word + 1) for item in items]
            items = [Item(CLASS, word=0), *after]
        both = {"source": items, LABEL: [Item(verdict.label, word=0)]}
        facts = {
            "text": text if isinstance(text, str) else " | ".join(text),
            "answer": verdict.label,
            "probability": round(verdict.probability, 6),
        }
        return self._traced(laid, weights, both, facts)

    def _laid(self, texts: Sequence[Any]) -> list[Laid]:
        return formats.lay(self.tokenizer, self.form, [(one,) if isinstance(one, str) else one for one in texts])

    def _verdict(self, text: Any, probabilities: Float[Tensor, "classes"]) -> TextPrediction:
        return TextPrediction.rank(self.classes, probabilities.tolist(), text=text)


class PairClassifier(Classifier):
    """Says what a pair of texts is, such as whether the second follows from the first."""

    kind: ClassVar[str] = "a classifier of pairs"
    input_kind: ClassVar[InputKind] = PAIR
    pairs: ClassVar[bool] = True

    @property
    def inputs(self) -> Inputs:
        """Pairs of texts, of a file those in its columns."""
        return replace(super().inputs, read=self.read)

    def parse(self, text: str) -> Pair:
        """Two texts with a tab between them, or an object of JSON."""
        return pairs.parse(text, pairs.named(self.data))

    def read(self, path: Path) -> list[Pair]:
        """The pairs of a file."""
        *columns, _ = self.data["file"].get("columns") or (None,)
        return pairs.read(path, pairs.named(self.data), columns)

    def classify(self, texts: Any) -> list[TextPrediction]:
        """What each pair of texts is."""
        return super().classify([tuple(pair) for pair in list_inputs(texts, PAIR, verb=self.verb)])


class Tagger(Labels):
    """Says what each word of a sentence is."""

    file = TaggedFile
    task: ClassVar[str] = "tagging"
    verb: ClassVar[str] = "tag"
    kind: ClassVar[str] = "a tagger"
    input_kind: ClassVar[InputKind] = SENTENCE

    @property
    def inputs(self) -> Inputs:
        """Sentences; a file with a word in each line holds none to tag."""
        return Inputs(kind=self.input_kind, parse=self.parse, word_files=COLUMNS)

    def answer(self, inputs: Sequence[str | Sequence[str]], **options: Any) -> list[Tagged]:
        """What each word of each sentence is."""
        resolve_options(self, options)
        return self.tag(inputs)

    def tag(self, sentences: str | Sequence[str | Sequence[str]]) -> list[Tagged]:
        """What each word is; a sentence is a text, whose words stand between blanks, or a list of words."""
        listed = list_inputs(sentences, SENTENCE, verb=self.verb)
        split = [self.words(each) if isinstance(each, str) else list(each) for each in listed]
        pieces = cut(self.tokenizer, split, self.form)
        found = iter(self._probabilities([Laid(tokens, len(tokens)) for some in pieces for _, tokens in some]))
        return [
            self._tagged(words, [(told, next(found)) for told, _ in some])
            for words, some in zip(split, pieces, strict=True)
        ]

    def words(self, sentence: str) -> list[str]:
        """The words of a sentence: what the recipe's pattern finds, or whatever is between spaces."""
        pattern = settings(self.tokenizer).pattern
        return re.findall(pattern, sentence) if pattern else sentence.split()

    def look(self, sentence: str) -> Trace:
        """Tag a sentence and keep where the model looked."""
        words = self.words(check_input(sentence, TEXT, verb="look"))
        if not words:
            raise ValueError("an empty sentence has no words to tag: give at least one")
        [[(told, tokens), *_]] = cut(self.tokenizer, [words], self.form)
        probabilities, weights = self._watched(Laid(tokens, len(tokens)))
        tagged = self._tagged(words[: len(told)], [(told, probabilities)])
        by_word = settings(self.tokenizer).kind == "words" and self.style == "plain"
        known = tagged.words if by_word else self.tokenizer.pieces(tokens)
        labels = [Item(tag, word=number) for number, tag in enumerate(tagged.tags)]
        items = {"source": self._items(tokens, known if self.style == "plain" else []), LABEL: labels}
        facts = {"text": " ".join(tagged.words), "answer": str(tagged)}
        return self._traced(Laid(tokens, len(tokens)), weights, items, facts)

    def _tagged(self, words: list[str], pieces: Iterable[tuple[list[tuple[int, int]], Tensor]]) -> Tagged:
        rows = [probabilities[last] for told, probabilities in pieces for _, last in told]
        best = [int(row.argmax()) for row in rows]
        return Tagged(
            words, [self.classes[n] for n in best], [float(row[n]) for row, n in zip(rows, best, strict=True)]
        )


def _kinds(pairs: bool) -> str:
    return "pairs of texts" if pairs else "single texts"
