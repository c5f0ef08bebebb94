"""The beam search for a caption as a tree, and what else could stand in the place of each of its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.search_tree import SearchTree, record_search
from regard.decoding.teacher_forcing import read_written
from regard.interpret.candidates import list_candidates
from regard.tasks.image_inputs import ImageInput, input_name

if TYPE_CHECKING:
    from regard.tasks.captions.writer import CaptionOptions, CaptionWriter


def search_tree(captioner: CaptionWriter, image: ImageInput, settings: CaptionOptions) -> SearchTree:
    """Return the tree of the search for the caption of an image."""
    regions = captioner.regions([image])
    with record_search() as record:
        best = captioner.search_caption(regions, settings)
    words = {"model": captioner.name, "text": input_name(image), "answer": captioner.tokenizer.decode(best.tokens)}
    prefix = list(settings.prefix) if isinstance(settings.prefix, tuple) else []
    return record.tree(captioner.tokenizer.pieces, prefix=prefix, **words)


def list_caption_candidates(
    captioner: CaptionWriter, regions: Float[Tensor, "image region features"], written: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the likeliest tokens in the place of every token of the caption of one image."""
    prompt = torch.full((1, 1), captioner.tokenizer.opening, device=regions.device)
    logits = read_written(captioner.model, (regions, prompt), written)
    return list_candidates(logits, written, captioner.tokenizer.pieces)
