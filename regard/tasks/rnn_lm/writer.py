"""A trained recurrent language model for inference: continues texts and measures their surprisal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.data.normalise import read_text_settings
from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.units import UnitsConfig
from regard.decoding.constraints import Forbid
from regard.interpret.trace import Trace
from regard.metrics.likelihood import linear_cross_entropy
from regard.metrics.scores import Scores
from regard.models.rnn_lm import RecurrentLM
from regard.tasks.rnn_lm import streams
from regard.tasks.rnn_lm.streams import Stream
from regard.tasks.surprisal import Surprisal, total_surprisal
from regard.tasks.trained import load_model, no_attention_error
from regard.tasks.writing import Writes, WritingConfig

LANE_STATE = "carried"  # the buffer in which training stores the state of every lane
SPAN = 2048  # tokens of a text read at a time to measure it
LOGITS = 1 << 22  # logits computed at once


class Writer(Writes):
    """A trained recurrent language model that writes text."""

    task: ClassVar[str] = "language"

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Writer:
        """Load the writer of a checkpoint directory."""
        settings = checkpoint.config
        how = config.build(UnitsConfig, read_text_settings(settings["tokenizer"]), where="tokenizer")
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
        writing = config.build(WritingConfig, settings.get("writing", {}), where="writing")
        return cls(load_model(checkpoint, device), tokenizer, writing, name=checkpoint.directory.name)

    def evaluate(self, *files: str | Path, name: str | None = None) -> Scores:
        """Score text files by their surprisal."""
        spans: list[tuple[float, int]] = []
        file_surprisals = []
        for file in files:
            stream = streams.read(str(file), self.tokenizer)
            span_losses = measure_spans(self.model, stream)
            spans += span_losses
            file_surprisals.append(_make_surprisal(sum(nats for nats, _ in span_losses), stream))
        if not spans:
            raise ValueError("no text to measure on: give at least one file")
        return total_surprisal(file_surprisals).scores(name or self.name, self.task, spans)

    def look(self, text: str, **options: Any) -> Trace:
        """Raise an error, since a recurrent network has no attention."""
        raise no_attention_error(self, "it is recurrent; train a model with attention")

    @property
    def opening(self) -> list[int]:
        """Return the token before a text, a line end."""
        return [self.tokenizer.role("end")]

    def begin(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt; characters that the model does not know are an error."""
        if unknown := self.tokenizer.unknown_characters(prompt):
            raise ValueError(
                f"the model has never seen {' '.join(map(repr, unknown[:5]))}: begin with characters of its text"
            )
        return self.tokenizer.encode_lines(prompt)

    def measure(self, text: str) -> Surprisal:
        """Return the surprisal of a text, read from its beginning."""
        how = self.tokenizer.how
        text = "\n".join(how.normal(unicodedata.normalize("NFC", line)) for line in text.split("\n"))
        tokens = self.tokenizer.encode_lines(text)
        if not tokens:
            raise ValueError("an empty text has no perplexity: give at least one character")
        words = sum(len(line.split()) for line in text.split("\n")) + text.count("\n")
        stream = Stream(
            torch.tensor(tokens, dtype=torch.int32).numpy(),
            len(text),
            words,
            before=self.tokenizer.role("end"),
            bytes=len(text.encode()),
        )
        return measure_surprisal(self.model, stream)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, with a line end for every end token."""
        return self.tokenizer.decode_lines(tokens)

    @property
    def unreadable(self) -> Forbid:
        """Return a constraint against tokens without text, except <unk> in texts of words."""
        tokenizer = self.tokenizer
        writable = {tokenizer.end, tokenizer.unknown if tokenizer.closed and tokenizer.between else None}
        return Forbid([[token] for token in sorted(tokenizer.special - writable)])


def measure_surprisal(model: RecurrentLM, stream: Stream) -> Surprisal:
    """Return the surprisal of a text, read in one pass from a blank state, without dropout."""
    nats = sum(span_nats for span_nats, _ in measure_spans(model, stream))
    return _make_surprisal(nats, stream)


def _make_surprisal(nats: float, stream: Stream) -> Surprisal:
    return Surprisal(nats, len(stream.tokens), stream.characters, stream.words, stream.bytes)


@torch.no_grad()
def measure_spans(model: RecurrentLM, stream: Stream) -> list[tuple[float, int]]:
    """Return the nats and tokens of every span of a text, read in one pass."""
    training = model.training
    model.eval()
    device, state, spans = device_of(model), model.blank(1), []
    for first in range(0, len(stream.tokens), SPAN):
        window = stream.span(first, min(first + SPAN, len(stream.tokens)))
        inputs, labels = (torch.from_numpy(part).to(device) for part in window)
        features, state = model(inputs, state)
        spans.append((float(sum_cross_entropy(model, features, labels)), labels.numel()))
    model.train(training)
    return spans


def sum_cross_entropy(
    model: RecurrentLM, features: Float[Tensor, "lanes time features"], labels: Int[Tensor, "lanes time"]
) -> Float[Tensor, ""]:
    """Return the cross-entropy of these labels, summed in full precision; logits are computed in chunks."""
    chunk = max(1, LOGITS // model.config.vocab)
    with torch.autocast(features.device.type, enabled=False):
        return linear_cross_entropy(
            features.flatten(0, 1), model.prediction, labels.flatten(), bias=model.bias, chunk=chunk
        )


def register_lane_state(model: nn.Module, state: Float[Tensor, "lanes parts width"]) -> None:
    """Register the buffer with a model's state between training rows, which is saved with its weights."""
    model.register_buffer(LANE_STATE, state)
