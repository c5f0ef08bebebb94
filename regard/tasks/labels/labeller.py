"""A trained classifier or tagger in use: labels with their probabilities, scores on a file, where it looked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.attention.tap import Tap
from regard.checkpoint import Checkpoint, fill
from regard.data.normalise import recorded
from regard.data.tokenizers import Tokenizer
from regard.interpret import trace as traces
from regard.interpret.trace import Item, Trace, Weights
from regard.interpret.watch import watch
from regard.models.text_classifier import ENCODERS, AnyEncoderConfig, Labeller
from regard.tasks.labels import files
from regard.tasks.labels.batches import cut, index
from regard.tasks.labels.files import LabelledFile, TaggedFile
from regard.tasks.labels.reading import ReadingConfig, read, settings, shown
from regard.tasks.labels.task import Measured, measure
from regard.tasks.trained import Unfilled

BUDGET = 1 << 14  # tokens read at a time, padding included
CLASS = "<class>"
Self = TypeVar("Self", bound="Labels")


@dataclass(frozen=True)
class Verdict:
    """What a text was found to be, and how probable each label is, the likeliest first."""

    text: str
    label: str
    probability: float
    all: dict[str, float]


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence, what each was found to be, and how probable that is."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


class Labels:
    """What a classifier and a tagger in use share."""

    file: ClassVar[type[LabelledFile] | type[TaggedFile]]

    def __init__(
        self, model: Labeller, tokenizer: Tokenizer, classes: list[str], data: dict[str, Any], name: str = "labeller"
    ) -> None:
        self.model, self.tokenizer, self.classes, self.data, self.name = model, tokenizer, classes, data, name

    @classmethod
    def load(cls: type[Self], checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Self:
        """The one a checkpoint directory holds."""
        known = checkpoint.config
        shape: Any = ENCODERS[known["model"]["name"]][1]
        with Unfilled():
            model = Labeller(config.build(shape, known["model"], where="model"))
        fill(model, checkpoint.tensors())
        how = config.build(ReadingConfig, recorded(known["tokenizer"]), where="tokenizer")
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
        classes = [str(label) for label in known["labels"]]
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        return cls(model.to(device).eval(), tokenizer, classes, known["data"], name)

    def evaluate(self, path: str, **changes: Any) -> Measured:
        """How well a file is labelled, which is read as those it was trained on; `changes` are settings of the file."""
        file = config.build(self.file, {**self.data["file"], "path": path, **changes}, where="file")
        found = files.read([file], self.data["names"], reject=0.0)
        return measure(self.model, index(found, self.tokenizer, self.classes), self.classes, tokens=BUDGET)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.model.output.bias.device

    @property
    def config(self) -> AnyEncoderConfig:
        """The shape of its model."""
        return self.model.config

    @torch.no_grad()
    def _probabilities(self, texts: Sequence[Sequence[int]]) -> list[Float[Tensor, "..."]]:
        """Of the labels of each list of tokens, or of each of its tokens; texts of a length are read together."""
        found: dict[int, Tensor] = {}
        for group in _grouped(texts):
            longest = max(len(texts[number]) for number in group)
            padded = [[*texts[number], *[self.tokenizer.filler] * (longest - len(texts[number]))] for number in group]
            lengths = torch.tensor([len(texts[number]) for number in group], device=self.device)
            logits = self.model(torch.tensor(padded, device=self.device), lengths)
            found |= dict(zip(group, logits.float().softmax(-1).cpu(), strict=True))
        return [found[number] for number in range(len(texts))]

    @torch.no_grad()
    def _watched(self, tokens: Sequence[int]) -> tuple[Tensor, dict[str, Float[Tensor, "heads query key"]]]:
        """Probabilities of one list of tokens, and the weights of every attention by name."""
        if not any(isinstance(module, Tap) for module in self.model.modules()):
            pool = "" if self.config.per_token else " or model.pool=attention"
            raise ValueError(f"this model has no attention to show: train with model.name=transformer{pool}")
        with watch(self.model) as seen:
            [probabilities] = self._probabilities([tokens])
        return probabilities, {name.removeprefix("reader."): seen[name][0].cpu() for name in seen}

    def _items(self, tokens: Sequence[int], shown: Sequence[str]) -> list[Item]:
        """What was read, token by token."""
        if self.tokenizer.closed:  # a letter is to a model of letters what a word is to others
            return [Item(text, word=number) for number, text in enumerate(shown)]
        return traces.tokens(self.tokenizer, tokens)


class Classifier(Labels):
    """Says what a text is."""

    file = LabelledFile

    def classify(self, texts: str | Sequence[str]) -> list[Verdict]:
        """What each text is."""
        listed = [texts] if isinstance(texts, str) else list(texts)
        found = self._probabilities(read(self.tokenizer, listed))
        return [self._verdict(text, probabilities) for text, probabilities in zip(listed, found, strict=True)]

    def look(self, text: str) -> Trace:
        """Classify a text and keep where the model looked."""
        [tokens] = read(self.tokenizer, [text])
        probabilities, weights = self._watched(tokens)
        verdict = self._verdict(text, probabilities)
        items = self._items(tokens, shown(self.tokenizer, text))
        if getattr(self.config, "pool", "") == "class":
            after = [replace(item, word=None if item.word is None else item.word + 1) for item in items]
            items = [Item(CLASS, word=0), *after]
        both = {"source": items, "target": [Item(verdict.label, word=0)]}
        axes = {name: ("target" if name == "pool" else "source", "source") for name in weights}
        facts = {"text": text, "answer": verdict.label, "probability": round(verdict.probability, 6)}
        return Trace(self.name, "classification", both, [Weights(n, *axes[n], w) for n, w in weights.items()], facts)

    def _verdict(self, text: str, probabilities: Float[Tensor, "classes"]) -> Verdict:
        ranked = probabilities.argsort(descending=True, stable=True).tolist()
        all_of_them = {self.classes[number]: float(probabilities[number]) for number in ranked}
        label = self.classes[ranked[0]]
        return Verdict(text, label, all_of_them[label], all_of_them)


class Tagger(Labels):
    """Says what each word of a sentence is."""

    file = TaggedFile

    def tag(self, sentences: str | Sequence[str | Sequence[str]]) -> list[Tagged]:
        """What each word is; a sentence is a text, whose words stand between blanks, or a list of words."""
        listed = [sentences] if isinstance(sentences, str) else sentences
        split = [self.words(each) if isinstance(each, str) else list(each) for each in listed]
        pieces = cut(self.tokenizer, split)
        found = iter(self._probabilities([tokens for some in pieces for _, tokens in some]))
        return [
            self._tagged(words, [(told, next(found)) for told, _ in some])
            for words, some in zip(split, pieces, strict=True)
        ]

    def words(self, sentence: str) -> list[str]:
        """The words of a sentence: what the recipe's pattern finds, or whatever stands between blanks."""
        pattern = settings(self.tokenizer).pattern
        return re.findall(pattern, sentence) if pattern else sentence.split()

    def look(self, sentence: str) -> Trace:
        """Tag a sentence and keep where the model looked."""
        words = self.words(sentence)
        if not words:
            raise ValueError("an empty sentence has no words to tag: give at least one")
        [[(told, tokens), *_]] = cut(self.tokenizer, [words])
        probabilities, weights = self._watched(tokens)
        tagged = self._tagged(words[: len(told)], [(told, probabilities)])
        known = tagged.words if settings(self.tokenizer).kind == "words" else self.tokenizer.pieces(tokens)
        items = {"source": self._items(tokens, known)}
        facts = {"text": " ".join(tagged.words), "answer": str(tagged)}
        return Trace(
            self.name, "tagging", items, [Weights(n, "source", "source", w) for n, w in weights.items()], facts
        )

    def _tagged(self, words: list[str], pieces: Iterable[tuple[list[tuple[int, int]], Tensor]]) -> Tagged:
        rows = [probabilities[last] for told, probabilities in pieces for _, last in told]
        best = [int(row.argmax()) for row in rows]
        return Tagged(
            words, [self.classes[n] for n in best], [float(row[n]) for row, n in zip(rows, best, strict=True)]
        )


def _grouped(texts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Numbers of texts of about the same length, as many as may be read together."""
    group: list[int] = []
    for number in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        if group and len(texts[number]) * (len(group) + 1) > BUDGET:
            yield group
            group = []
        group.append(number)
    if group:
        yield group
