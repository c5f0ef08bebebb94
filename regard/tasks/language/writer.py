"""A trained language model in use: it goes on with a text, or says how much a text surprises it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard import config
from regard.checkpoint import Checkpoint, fill
from regard.data.normalise import recorded
from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.units import UnitsConfig
from regard.decoding.constraints import Forbid
from regard.decoding.generate import generate
from regard.decoding.sampling import Sampler
from regard.metrics.likelihood import linear_cross_entropy, perplexity
from regard.models.lstm import RecurrentLM, RecurrentLMConfig
from regard.tasks.language import streams
from regard.tasks.language.streams import Stream
from regard.tasks.trained import Unfilled

CARRIED = "carried"  # the buffer in which training keeps the state of every lane
SPAN = 2048  # tokens of a text read at a time to measure it
HELD = 1 << 22  # logits held at once


@dataclass(frozen=True, kw_only=True)
class WritingConfig:
    """How a text is gone on with."""

    prompt: str = ""
    """How every text begins."""
    length: int = 200
    """Tokens written."""
    temperature: float = 1.0
    """Below 1 safer, above 1 wilder; 0 always takes the likeliest token."""
    top_k: int | None = None
    """Only the k likeliest tokens."""
    top_p: float | None = None
    """Only the likeliest tokens that together have this probability."""
    min_p: float | None = None
    """Only tokens at least this share as likely as the likeliest."""
    samples: int = 2
    """Texts."""
    seed: int = 0
    """Where randomness starts."""

    def __post_init__(self) -> None:
        if self.length < 1 or self.samples < 1:
            raise ValueError(f"length and samples must be at least 1, not {self.length} and {self.samples}")
        if abs(self.seed) >= 2**63:
            raise ValueError(f"seed must have at most 18 digits, not {self.seed}")
        if self.temperature != 0:
            self.sampler()

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

    def __init__(self, model: Any, tokenizer: Tokenizer, writing: WritingConfig, name: str = "writer") -> None:
        self.model, self.tokenizer, self.writing, self.name = model, tokenizer, writing, name

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Writer:
        """The writer a checkpoint directory holds."""
        settings = checkpoint.config
        with Unfilled():
            model = RecurrentLM(config.build(RecurrentLMConfig, settings["model"], where="model"))
        fill(model, {name: tensor for name, tensor in checkpoint.tensors().items() if name != CARRIED})
        how = config.build(UnitsConfig, recorded(settings["tokenizer"]), where="tokenizer")
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
        writing = config.build(WritingConfig, settings.get("writing", {}), where="writing")
        return cls(model.to(device).eval(), tokenizer, writing, name=checkpoint.directory.name)

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
            raise ValueError("an empty text surprises nobody: give at least one character")
        words = sum(len(line.split()) for line in text.split("\n")) + text.count("\n")
        stream = Stream(
            torch.tensor(tokens, dtype=torch.int32).numpy(), len(text), words, before=self.tokenizer.role("end")
        )
        return surprise(self.model, stream)

    def measure_file(self, name: str) -> Surprise:
        """How much a text file surprises the model; only a line feed ends a line."""
        return surprise(self.model, streams.read(name, self.tokenizer))

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


@torch.no_grad()
def surprise(model: RecurrentLM, stream: Stream) -> Surprise:
    """A whole text in one pass from a blank state, carried from span to span; dropout off."""
    training = model.training
    model.eval()
    device, state, nats = model.bias.device, model.blank(1), 0.0
    for first in range(0, len(stream.tokens), SPAN):
        window = stream.span(first, min(first + SPAN, len(stream.tokens)))
        inputs, labels = (torch.from_numpy(part).to(device) for part in window)
        features, state = model(inputs, state)
        nats += float(lost(model, features, labels))
    model.train(training)
    return Surprise(nats, len(stream.tokens), stream.characters, stream.words)


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
