"""Classification of samples by several tables (omics), with attention between modules (MOMA) or omics (DeePROG).

Both read the concatenated features of all omics and which omics a sample has; a missing one is neither attended to nor
used for a prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import AttentionSpec, attend
from regard.attention.masks import Mask
from regard.attention.multihead import MultiHead
from regard.attention.scores import dot
from regard.attention.tap import Tap
from regard.config.ranges import Share, Small, Vocabulary, Width, check_affordable, check_divisible
from regard.config.resuming import Warned
from regard.models.interface import Model, ModelConfig, Traits

PLANE = 2  # numbers of a module's vector


class Answers(NamedTuple):
    """The output of a model: logits, and which of the answers of a sample count."""

    logits: Float[Tensor, "batch answers classes"]
    counted: Bool[Tensor, "batch answers"]

    @property
    def probabilities(self) -> Float[Tensor, "batch classes"]:
        """Return the mean probabilities over the answers that count."""
        share = self.counted / self.counted.sum(-1, keepdim=True)
        return (self.logits.float().softmax(-1) * share[..., None]).sum(-2)

    def loss(self, targets: Tensor) -> Float[Tensor, "batch"]:
        """Return the sum of the cross-entropies of the answers that count, for each sample."""
        several = targets[:, None].expand(self.counted.shape)
        lost = F.cross_entropy(self.logits.float().flatten(0, 1), several.flatten(), reduction="none")
        return (lost.view(self.counted.shape) * self.counted).sum(-1)


@dataclass(frozen=True, kw_only=True)
class MOMAConfig(ModelConfig):
    """Attention between modules of omics (Moon and Lee 2022)."""

    name: Literal["moma"] = "moma"
    """Which model this is."""
    inputs: tuple[Vocabulary, ...] = ()
    """Features of each omic; filled in from the tables."""
    classes: Vocabulary = 0
    """Classes to choose from; filled in from the labels."""
    modules: Small = 16
    """Modules of each omic: unit vectors in the plane, each made of all features."""
    own: bool = True
    """Whether the answer from an omic also reads its own modules, not only those that other omics attend to; false: as
    published, where a single omic cannot be classified."""
    dropout: Warned[Share] = 0.0
    """Dropout rate of features."""
    hide: Warned[Share] = 0.1
    """Share of omics hidden from the model in training, so that it can answer when one is missing."""

    def __post_init__(self) -> None:
        check_affordable(PLANE * self.modules * sum(self.inputs), "lower modules")

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        omics, read = len(self.inputs), len(self.inputs) - (not self.own)
        return PLANE * self.modules * (sum(self.inputs) + omics * read * self.classes) + omics * self.classes


class Across(nn.Module):
    """Attention of the modules of every omic to those of each: `softmax(cos(b, a)) a`, for all omics a and b."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = Tap()

    def forward(
        self, vectors: Float[Tensor, "batch omics modules 2"], present: Bool[Tensor, "batch omics"]
    ) -> Float[Tensor, "batch omics looking modules 2"]:
        """Return what the modules of each omic (`looking`) see in each omic; a missing one sees nothing."""
        omics, modules = vectors.shape[1:3]
        query = vectors.flatten(1, 2)[:, None].expand(-1, omics, -1, -1)  # a head for each omic that is attended to
        sees = present.repeat_interleave(modules, 1)[..., None].expand(-1, -1, modules)
        mixed = attend(query, vectors, vectors, mask=Mask(boolean=sees), way=AttentionSpec(score=dot, tap=self.weights))
        return mixed.unflatten(2, (omics, modules))


class MOMA(Model):
    """MOMA, a multi-task attention network: each omic answers by itself, from what the others see in its modules.

    Module i of omic a is `m = (U x, V x) / |(U x, V x)|`. Module j of another omic b sees
    `sum_i softmax_i(cos(b_j, a_i)) a_i` in a, and a linear layer predicts the answer of a from all that is seen in it.
    """

    traits = Traits(capturable=False)  # training is shorter than compilation

    def __init__(self, config: MOMAConfig):
        super().__init__()
        self.config = config
        omics = len(config.inputs)
        self.maps = nn.ModuleList(nn.Linear(size, PLANE * config.modules, bias=False) for size in config.inputs)
        self.attention = Across()
        read = (omics - (not config.own)) * config.modules * PLANE
        self.heads = nn.ModuleList(nn.Linear(read, config.classes) for _ in config.inputs)

    def forward(self, values: Float[Tensor, "batch features"], present: Bool[Tensor, "batch omics"]) -> Answers:
        """Return an answer for each omic; those of missing ones do not count."""
        with torch.autocast(values.device.type, enabled=False):
            if self.training:
                values, present = F.dropout(values, self.config.dropout), hide_omics(present, self.config.hide)
            vectors = F.normalize(self.vectors(values), dim=-1)
            context = self.attention(vectors, present)
            logits = torch.stack([head(self._read(vectors, context, a)) for a, head in enumerate(self.heads)], 1)
        return Answers(logits, present)

    def vectors(self, values: Float[Tensor, "batch features"]) -> Float[Tensor, "batch omics modules 2"]:
        """Return the vectors of all modules before they are scaled to unit length."""
        parts = values.split(self.config.inputs, -1)
        return torch.stack(
            [projection(part).unflatten(-1, (-1, PLANE)) for projection, part in zip(self.maps, parts, strict=True)], 1
        )

    def _read(self, vectors: Tensor, context: Tensor, omic: int) -> Float[Tensor, "batch read"]:
        """Return the features from which an omic's answer is predicted."""
        others = [context[:, omic, looking] for looking in range(context.shape[1]) if looking != omic]
        return torch.stack([*([vectors[:, omic]] if self.config.own else []), *others], 1).flatten(1)


@dataclass(frozen=True, kw_only=True)
class DeePROGConfig(ModelConfig):
    """An encoder for each omic and self-attention over omics (Dutta, Patra and Saha 2021)."""

    name: Literal["deeprog"] = "deeprog"
    """Which model this is."""
    inputs: tuple[Vocabulary, ...] = ()
    """Features of each omic; filled in from the tables."""
    classes: Vocabulary = 0
    """Classes to choose from; filled in from the labels."""
    width: Width = 32
    """Features of an encoded omic."""
    heads: Small = 1
    """Attention heads; must divide the width."""
    dropout: Warned[Share] = 0.0
    """Dropout rate of features and of what the answer is made of."""
    hide: Warned[Share] = 0.2
    """Share of omics hidden from the model in training, so that it can answer when one is missing."""

    def __post_init__(self) -> None:
        check_divisible(self.width, self.heads)
        check_affordable(self.width * (sum(self.inputs) + 4 * self.width), "lower width")

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        encoders = self.width * (sum(self.inputs) + len(self.inputs))
        return encoders + 4 * self.width * (self.width + 1) + (self.width + 1) * self.classes


class DeePROG(Model):
    """A model that encodes each omic, applies self-attention over omics, and predicts from their mean.

    `z_k = tanh(E_k x_k + e_k)`, `h = z + attention(z)`, and the answer is `W mean_k(h_k) + w`, over the omics that a
    sample has.
    """

    traits = Traits(capturable=False)

    def __init__(self, config: DeePROGConfig):
        super().__init__()
        self.config = config
        self.encoders = nn.ModuleList(nn.Linear(size, config.width) for size in config.inputs)
        self.attention = MultiHead(config.width, config.heads)
        self.output = nn.Linear(config.width, config.classes)

    def forward(self, values: Float[Tensor, "batch features"], present: Bool[Tensor, "batch omics"]) -> Answers:
        """Return one answer for each sample."""
        with torch.autocast(values.device.type, enabled=False):
            if self.training:
                values, present = F.dropout(values, self.config.dropout), hide_omics(present, self.config.hide)
            parts = values.split(self.config.inputs, -1)
            encoded = [encoder(part).tanh() for encoder, part in zip(self.encoders, parts, strict=True)]
            x = torch.stack(encoded, 1)
            x = x + self.attention(x, mask=Mask(boolean=present[:, None].expand(-1, len(parts), -1)))
            share = present / present.sum(-1, keepdim=True)
            mean = (x * share[..., None]).sum(1)
            logits = self.output(F.dropout(mean, self.config.dropout, self.training))
        return Answers(logits[:, None], present.any(-1, keepdim=True))


def hide_omics(present: Bool[Tensor, "batch omics"], share: float) -> Bool[Tensor, "batch omics"]:
    """Hide some omics at random; a sample that would lose all keeps all."""
    if not share:
        return present
    remaining = present & (torch.rand(present.shape, device=present.device) >= share)
    return torch.where(remaining.any(-1, keepdim=True), remaining, present)
