"""Beam search for the continuation of a prompt by a language model, as the tree it was searched as."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.data.tokenizers import Tokenizer
from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Constraint, check_room
from regard.decoding.search_tree import SearchTree, record_search
from regard.tasks.search_options import ContinuationTreeOptions


@runtime_checkable
class Continues(Protocol):
    """A language model that continues texts."""

    name: str
    model: Any
    tokenizer: Tokenizer
    eos: int | None

    @property
    def device(self) -> torch.device:
        """The device of the model."""

    def begin(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt."""

    def window(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens that the model reads."""

    def free_tokens(self, window: Sequence[int]) -> int:
        """Return the number of tokens that fit after a window."""

    def rules(self, prefix: Sequence[int], written: int) -> list[Constraint]:
        """Return the constraints of a continuation."""

    def model_inputs(self, window: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the inputs of the model for a window, without the axis of the batch."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""


def search_continuation(writer: Continues, prompt: str, how: ContinuationTreeOptions) -> SearchTree:
    """Return the tree of the search for the likeliest continuation of a prompt."""
    prompt_tokens = writer.begin(prompt)
    window = writer.window(prompt_tokens)
    limit = min(how.length, writer.free_tokens(window))
    check_room(how.prefix, limit)
    beam, rules = Beam(beams=how.beams, length_penalty=how.length_penalty), writer.rules(how.prefix, 0)
    inputs = [tensor[None].to(writer.device) for tensor in writer.model_inputs(window)]
    with evaluating(writer.model), record_search() as record:
        [[best, *_]] = search(writer.model, inputs, beam, limit=limit, eos=writer.eos, constraints=rules)
    words = {"model": writer.name, "text": prompt, "answer": writer.decode([*prompt_tokens, *best.tokens])}
    return record.tree(writer.tokenizer.pieces, prefix=list(how.prefix), **words)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode inside the block."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
