"""A trained language model in use: it continues a text, or measures how probable a text is."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard import config
from regard.checkpoint import Checkpoint
from regard.config.ranges import Amount, Count, Length, Part, Range, Seed
from regard.data.normalise import recorded
from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.units import UnitsConfig
from regard.decoding.constraints import Forbid
from regard.decoding.generate import generate
from regard.decoding.sampling import Sampler
from regard.interpret.trace import Trace
from regard.metrics.likelihood import linear_cross_entropy, perplexity
from regard.metrics.scores import Scores
from regard.metrics.significance import averaged
from regard.models.lstm import RecurrentLM
from regard.tasks.language import streams
from regard.tasks.language.streams import Stream
from regard.tasks.trained import Workload, blind, described, revived

CARRIED = "carried"  # the buffer in which training keeps the state of every lane
SPAN = 2048  # tokens of a text read at a time to measure it
HELD = 1 << 22  # logits held at once
TIMED = 100  # tokens written to measure speed


@dataclass(frozen=True, kw_only=True)
class WritingConfig:
    """How a text is gone on with."""

    prompt: str = ""
    """Prompt: how every text begins."""
    length: Length = 200
    """Tokens written."""
    temperature: Amount = 1.0
    """Below 1 safer, above 1 wilder; 0 always takes the likeliest token."""
    top_k: Count | None = None
    """Only the k likeliest tokens."""
    top_p: Annotated[float, Range(above=0, most=1)] | None = None
    """Only the likeliest tokens that together have this probability."""
    min_p: Part | None = None
    """Only tokens at least this share as likely as the likeliest."""
    samples: Annotated[int, Range(1, 10_000)] = 2
    """Texts."""
    seed: Seed = 0
    """Random seed."""

    def sampler(self) -> Sampler | None:
        """How tokens are drawn; None where the likeliest is taken."""
        if self.temperature == 0:
            return None
        drawn = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        return Sampler(**drawn, generator=torch.Generator().manual_seed(self.seed))


@dataclass(frozen=True)
class Text:
    """A text that was written, its beginning included, and the log-probability of what was added."""

    text: str
    score: float

    def __str__(self) -> str:
        return self.text

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"text": self.text, "score": round(self.score, 6)}


@dataclass(frozen=True)
class Surprise:
    """How improbable a model finds a text: nats in all, and the text's size in three units."""

    nats: float
    tokens: int
    characters: int
    words: int

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def per_character(self) -> float:
        """Nats per character, line ends included."""
        return self.nats / self.characters

    @property
    def perplexity(self) -> float:
        """Of a word, line ends counting as words: exp of the nats per word."""
        return perplexity(self.nats, max(self.words, 1))


class Writer:
    """Writes text with a trained model."""

    task: ClassVar[str] = "language"
    verb: ClassVar[str] = "write"
    kind: ClassVar[str] = "a language model"
    Options: ClassVar[type] = WritingConfig
    __repr__ = described

    def __init__(self, model: Any, tokenizer: Tokenizer, writing: WritingConfig, name: str = "writer") -> None:
        self.model, self.tokenizer, self.writing, self.name = model, tokenizer, writing, name

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Writer:
        """The writer a checkpoint directory holds."""
        settings = checkpoint.config
        how = config.build(UnitsConfig, recorded(settings["tokenizer"]), where="tokenizer")
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
        writing = config.build(WritingConfig, settings.get("writing", {}), where="writing")
        return cls(revived(checkpoint, device), tokenizer, writing, name=checkpoint.directory.name)

    def parse(self, text: str) -> str:
        """An input is a beginning."""
        return text

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Text]:
        """One continuation of every beginning; options are those of `WritingConfig`."""
        return [self.write(prompt, **{**options, "samples": 1})[0] for prompt in inputs]

    def workloads(self, inputs: Sequence[str], batches: Sequence[int]) -> Iterator[Workload]:
        """What to time: texts that go on from the first input, by one and by many."""
        weights = sum(parameter.nbytes for parameter in self.model.parameters())
        begun = {"prompt": inputs[0]} if inputs else {}
        for batch in batches:
            write = partial(self.write, length=TIMED, samples=batch, **begun)
            yield Workload(f"writing, {batch} at a time", write, batch * TIMED, TIMED * weights)

    def evaluate(self, *files: str | Path, name: str | None = None) -> Scores:
        """How much text files surprise the model."""
        spans, every = [], Surprise(0.0, 0, 0, 0)
        for file in files:
            stream = streams.read(str(file), self.tokenizer)
            found = list(surprises(self.model, stream))
            spans += found
            nats = every.nats + sum(each for each, _ in found)
            every = Surprise(
                nats,
                every.tokens + len(stream.tokens),
                every.characters + stream.characters,
                every.words + stream.words,
            )
        if not spans:
            raise ValueError("no text to measure on: give at least one file")
        measures = {
            "nats per character": f"{every.per_character:.4f}",
            "perplexity per word": f"{every.perplexity:.4g}",
            "tokens": f"{every.tokens:,}",
            "characters": f"{every.characters:,}",
        }
        details = {"loss": every.loss, "nats_per_character": every.per_character, "perplexity": every.perplexity}
        loss = {"nats per token": averaged([nats for nats, _ in spans], [count for _, count in spans], lower=True)}
        return Scores(name or self.name, self.task, loss, measures=measures, details=details, unit="span")

    def look(self, given: str, **options: Any) -> Trace:
        """There is nothing to look at in a recurrent network."""
        raise blind(self, "it is recurrent; train a model with attention")

    def write(self, prompt: str | None = None, **changes: Any) -> list[Text]:
        """Texts that begin with the prompt; `changes` are settings of `WritingConfig`."""
        own = {name: getattr(self.writing, name) for name in WritingConfig.__dataclass_fields__}
        how = config.build(WritingConfig, {**own, **changes}, where="writing")
        begun = self.begin(how.prompt if prompt is None else prompt)
        tokens = torch.tensor([[self.tokenizer.role("end"), *begun]], device=self.device)
        training = self.model.training
        self.model.eval()
        [answers] = generate(
            self.model,
            [tokens],
            limit=how.length,
            eos=None,
            pick=how.sampler(),
            samples=how.samples,
            constraints=[self._unreadable],
        )
        self.model.train(training)
        return [Text(self.tokenizer.decode_lines([*begun, *answer.tokens]), answer.score) for answer in answers]

    def begin(self, prompt: str) -> Sequence[int]:
        """The tokens of a beginning; characters that the model does not know are an error."""
        if strange := self.tokenizer.strange(prompt):
            raise ValueError(
                f"the model has never seen {' '.join(map(repr, strange[:5]))}: begin with characters of its text"
            )
        return self.tokenizer.encode_lines(prompt)

    def measure(self, text: str) -> Surprise:
        """How much a text surprises the model, read from its beginning."""
        how = self.tokenizer.how
        text = "\n".join(how.normal(unicodedata.normalize("NFC", line)) for line in text.split("\n"))
        tokens = self.tokenizer.encode_lines(text)
        if not tokens:
            raise ValueError("an empty text has no perplexity: give at least one character")
        words = sum(len(line.split()) for line in text.split("\n")) + text.count("\n")
        stream = Stream(
            torch.tensor(tokens, dtype=torch.int32).numpy(), len(text), words, before=self.tokenizer.role("end")
        )
        return surprise(self.model, stream)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.model.bias.device

    @property
    def _unreadable(self) -> Forbid:
        """Tokens that stand for no text; texts of words may hold <unk> themselves."""
        own = self.tokenizer
        kept = {own.end, own.unknown if own.closed and own.between else None}
        return Forbid([[token] for token in sorted(own.special - kept)])


def surprise(model: RecurrentLM, stream: Stream) -> Surprise:
    """A whole text in one pass from a blank state, carried from span to span; dropout off."""
    nats = sum(each for each, _ in surprises(model, stream))
    return Surprise(nats, len(stream.tokens), stream.characters, stream.words)


@torch.no_grad()
def surprises(model: RecurrentLM, stream: Stream) -> list[tuple[float, int]]:
    """The nats and tokens of every span of a text, read in one pass."""
    training = model.training
    model.eval()
    device, state, found = model.bias.device, model.blank(1), []
    for first in range(0, len(stream.tokens), SPAN):
        window = stream.span(first, min(first + SPAN, len(stream.tokens)))
        inputs, labels = (torch.from_numpy(part).to(device) for part in window)
        features, state = model(inputs, state)
        found.append((float(lost(model, features, labels)), labels.numel()))
    model.train(training)
    return found


def lost(
    model: RecurrentLM, features: Float[Tensor, "lanes time features"], labels: Int[Tensor, "lanes time"]
) -> Float[Tensor, ""]:
    """The surprise at these labels, summed, in full precision; only so many logits are held at once."""
    chunk = max(1, HELD // model.config.vocab)
    with torch.autocast(features.device.type, enabled=False):
        return linear_cross_entropy(
            features.flatten(0, 1), model.prediction, labels.flatten(), bias=model.bias, chunk=chunk
        )


def carry(model: nn.Module, state: Float[Tensor, "lanes parts width"]) -> None:
    """Give a model in training the buffer that holds its state between rows, which is saved with its weights."""
    model.register_buffer(CARRIED, state)
