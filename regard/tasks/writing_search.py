"""Beam search for the continuation of a prompt by a language model, as the tree it was searched as."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch import nn

from regard.decoding.beam import Beam, search
from regard.decoding.constraints import check_room
from regard.decoding.search_tree import SearchTree, record_search
from regard.tasks.search_options import ContinuationTreeOptions

if TYPE_CHECKING:
    from regard.tasks.writing import Writes


def search_continuation(writer: Writes, prompt: str, how: ContinuationTreeOptions) -> SearchTree:
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
