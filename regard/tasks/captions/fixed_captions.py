"""Captions, read again while the model is disturbed: what checks of where a captioner looks are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks import Grid
from regard.data.images.album import Shape
from regard.data.tokenizers import Tokenizer
from regard.decoding.stepper import Hypothesis
from regard.interpret.measure.fixed_answers import CROSS, FixedAnswers, Gap, Ranking, list_heads
from regard.interpret.watch import watch
from regard.tasks.image_inputs import ImageInput, decode_images
from regard.tasks.trained import Face

PICTURES_PER_BATCH = 64
Regions = Float[Tensor, "1 region features"]
Tell = Callable[[int], None]


class FixesCaptions(Face):
    """A trained captioner, which reads its captions again while it is disturbed."""

    tokenizer: Tokenizer
    decoding: Any
    normalise: Callable[[Tensor], Tensor]
    shape: Shape
    patch: int
    regions: Callable[..., Float[Tensor, "picture region features"]]
    search_caption: Callable[..., Hypothesis]

    def decode_pixels(self, images: Sequence[ImageInput]) -> Tensor:
        """Return the pixels of images in the model's size; one that cannot be read is named."""
        return torch.from_numpy(decode_images(images, self.shape, patch=self.patch))

    @torch.no_grad()
    def fix_answers(self, inputs: Sequence[ImageInput], *, tell: Tell) -> FixedAnswers:
        """Return the model with its captions of these pictures; `tell` counts what is about to be read."""
        regions = self.regions(inputs)
        pixels = self.normalise(self.decode_pixels(inputs[:1]).to(regions.device))
        blank = self.model.regions(torch.zeros_like(pixels)).float()  # 0 is the mean of normalised pixels
        best = [self.search_caption(picture, self.decoding).tokens for picture in regions.split(1)]
        end = self.tokenizer.role("end")
        captions = [[self.tokenizer.opening, *tokens, end] for tokens in best]
        return fix_captions(self.model, regions, blank, captions, tell=tell)


def fix_captions(
    model: Any,
    regions: Float[Tensor, "picture region features"],
    blank: Regions,
    captions: Sequence[Sequence[int]],
    *,
    tell: Tell,
) -> FixedAnswers:
    """Return a captioner with its captions of encoded pictures; `blank` are the regions of an empty picture.

    Captions begin with the token that opens them. `tell` counts what is about to be read.
    """
    heads, region_count = [head for head in list_heads(model) if CROSS in head[0]], regions.shape[1]

    def read() -> list[Tensor]:
        tell(len(captions))
        with torch.no_grad():
            return [
                score_caption(model, picture[None], caption)[0].cpu()
                for picture, caption in zip(regions, captions, strict=True)
            ]

    def rank() -> Iterator[Ranking]:
        for picture, caption in zip(regions.split(1), captions, strict=True):
            tell(1 + region_count)
            yield rank_regions(model, picture, blank, caption, has_looks=bool(heads))

    missing = {"rollout": "no_layers"} if heads else {"attention": "no_attention", "rollout": "no_attention"}
    gaps = [Gap("attention", "alignment", "no_translation")]
    gaps += [Gap(method, "deletion", reason) for method, reason in missing.items()]
    return FixedAnswers(model, read, rank, [1 + region_count] * len(captions), heads, gaps)


def rank_regions(model: Any, regions: Regions, blank: Regions, caption: Sequence[int], *, has_looks: bool) -> Ranking:
    """Return how methods rank the regions of a picture, beside what blanking each costs and nearness to the middle."""
    count = regions.shape[1]
    is_blank = torch.eye(count, dtype=torch.bool, device=regions.device)
    with torch.no_grad():
        whole = score_caption(model, regions, caption).sum()
        parts = [
            score_caption(model, torch.where(chunk[..., None], blank, regions), caption).sum(-1)
            for chunk in is_blank.split(PICTURES_PER_BATCH)
        ]
    scores = {"gradient": weigh_regions(model, regions, caption).tolist()}
    if has_looks:
        with watch(model) as record, torch.no_grad():
            score_caption(model, regions, caption)
        looks = [record[name][0].float().mean((0, 1)) for name in record if CROSS in name]
        scores = {"attention": torch.stack(looks).mean(0).tolist(), **scores}
    rows, columns = model.grid
    across, down = ((torch.arange(size) + 0.5) / size - 0.5 for size in (columns, rows))
    centre = -(down[:, None].square() + across.square()).sqrt().flatten()
    return Ranking(scores, (whole - torch.cat(parts)).tolist(), {"centre": centre.tolist()})


def weigh_regions(model: Any, regions: Regions, caption: Sequence[int]) -> Float[Tensor, "region"]:
    """Return for every region the norm of its features times the gradient of the caption's log-probability."""
    leaf = regions.detach().requires_grad_()
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        [slopes] = torch.autograd.grad(score_caption(model, leaf, caption).sum(), leaf)
    return (slopes * regions)[0].norm(dim=-1).float().cpu()


def score_caption(
    model: Any, regions: Float[Tensor, "picture region features"], caption: Sequence[int]
) -> Float[Tensor, "picture token"]:
    """Return the log-probability of each token of a caption after the first, for each picture."""
    fed = torch.tensor(caption[:-1], device=regions.device).expand(len(regions), -1)
    lengths = torch.full((len(regions),), fed.shape[1], device=regions.device)
    features, _ = model(regions, fed, Grid(lengths, fed.shape[1]))
    labels = torch.tensor(caption[1:], device=regions.device).expand(len(regions), -1)
    return model.logits(features).log_softmax(-1).gather(-1, labels[..., None])[..., 0]
