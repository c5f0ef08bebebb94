"""Heads that are added up (`model.merge=add`): sizes, what they compute, and that other libraries lack them."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard import config as configs
from regard.attention.masks import Row
from regard.attention.multihead import SummedHeads
from regard.interop.bert import Bert
from regard.interop.gpt import GPT2
from regard.interop.vit import Vit
from regard.models.bert import BERT, BERTConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.text_classifier import Labeller, TransformerEncoderConfig
from regard.models.vit import ViT, ViTConfig
from tests.models.test_stepping import build

SHAPE = {"vocab": 30, "width": 16, "heads": 4, "hidden": 32, "depth": 2, "context": 12}
PICTURES = {"width": 16, "heads": 4, "hidden": 32, "depth": 2, "size": 8, "patch": 4, "classes": 3}
SAVED = 2 * (16 * 16 - 16 * 4)  # weights that two blocks do without
KINDS = {
    "gpt": (GPT, GPTConfig, SHAPE),
    "bert": (BERT, BERTConfig, SHAPE),
    "vit": (ViT, ViTConfig, PICTURES),
    "vit, pooled by attention": (ViT, ViTConfig, {**PICTURES, "pooling": "attention"}),
    "transformer-encoder": (Labeller, TransformerEncoderConfig, {**SHAPE, "embedding": 16, "classes": 3}),
}


def read(model: nn.Module) -> torch.Tensor:
    """Return what a model makes of two texts in a row, or of two pictures."""
    generator = torch.Generator().manual_seed(1)
    if isinstance(model, ViT):
        return model(torch.rand(2, 3, 8, 8, generator=generator))
    tokens = torch.randint(30, (12,), generator=generator)
    row = Row.of([5, 7])
    return model(tokens, row) if isinstance(model, Labeller) else model(tokens, layout=row)


@pytest.mark.parametrize("kind", ["gpt", "bert", "vit", "vit, pooled by attention"])
def test_a_model_of_added_heads_has_the_parameters_that_its_config_says(kind: str):
    model, config, shape = KINDS[kind]
    for merge in ("concat", "add"):
        small = config(**shape, merge=merge)
        assert sum(weight.numel() for weight in model(small).parameters()) == small.parameters
    assert small.parameters == config(**shape).parameters - SAVED * (3 if "pooled" in kind else 2) // 2


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_added_heads_are_concatenated_heads_that_share_their_part_of_the_projection(kind: str):
    model, config, shape = KINDS[kind]
    added, joined = model(config(**shape, merge="add")).eval(), model(config(**shape)).eval()
    weights = added.state_dict()
    summed = [name for name, module in added.named_modules() if isinstance(module, SummedHeads)]
    assert len(summed) == 2 + ("pooled" in kind)
    for name in summed:
        weights[f"{name}.weight"] = weights[f"{name}.weight"].repeat(1, shape["heads"])
    assert not torch.allclose(read(joined), read(added), atol=1e-3)
    joined.load_state_dict(weights)
    torch.testing.assert_close(read(joined), read(added), atol=1e-5, rtol=1e-5)


def test_every_attention_of_a_transformer_adds_its_heads_up():
    blocks = build(merge="add").decoder
    assert all(isinstance(look.output, SummedHeads) for block in blocks for look in (block.attention, block.cross))


@pytest.mark.parametrize(
    ("family", "config"),
    [
        (GPT2, GPTConfig(**SHAPE, positions="learned", activation="gelu_tanh")),
        (Bert, BERTConfig(**SHAPE)),
        (Vit, ViTConfig(**PICTURES)),
    ],
    ids=["gpt", "bert", "vit"],
)
def test_a_model_of_added_heads_is_not_written_for_a_library_that_lacks_them(family, config):
    assert family.unsupported_reason(config) is None
    assert family.unsupported_reason(replace(config, merge="add")) == "merge is add and would be concat"


@pytest.mark.parametrize("merge", ["sum", "mean"])
def test_another_way_to_merge_is_refused(merge):
    with pytest.raises(ValueError, match="merge"):
        configs.build(GPTConfig, {**SHAPE, "merge": merge})
