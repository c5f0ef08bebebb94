"""LoRA changes nothing at first, learns beside frozen weights, and can be added to them and taken off again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard import models
from regard.attention.masks import Row
from regard.models.bert import BERT, BERTConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.parts.lora import LoRALinear, adapt, lora_layers, merge_lora

SIZES: dict[str, Any] = {"vocab": 31, "width": 16, "heads": 2, "hidden": 32, "depth": 2, "context": 12, "dropout": 0.0}
MODELS = {"gpt": lambda: GPT(GPTConfig(**SIZES)), "bert": lambda: BERT(BERTConfig(**SIZES))}
EVERY = ("query", "key", "value", "output", "inner", "outer")
TOKENS, ROW = torch.tensor([3, 4, 5, 6, 7, 8, 9, 10, 11]), Row.of([5, 4])


def features(model: Any) -> torch.Tensor:
    return model(TOKENS, layout=ROW)


def stirred(model: nn.Module) -> None:
    """LoRAPair matrices as after some training."""
    with torch.no_grad():
        for each in lora_layers(model):
            each.lora_up.normal_(std=0.3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_at_first_it_gives_what_the_model_gives_to_the_bit(name: str, training: bool) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().train(training)
    joined = features(model)
    apart = features(model.eval())  # in training the projections are one product otherwise
    assert adapt(model, 4, 8.0, EVERY) == 12
    model.train(training)
    assert features(model).equal(apart)
    assert torch.allclose(joined, apart, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_without_a_name_all_matrices_of_blocks_have_some(name: str) -> None:
    model, named = MODELS[name](), MODELS[name]()
    assert adapt(model, 4, 8.0, ()) == adapt(named, 4, 8.0, EVERY)


def test_only_the_thin_matrices_learn_and_both_of_them_do() -> None:
    torch.manual_seed(0)
    model = MODELS["gpt"]()
    for weight in model.parameters():
        weight.requires_grad = False
    adapt(model, 4, 8.0, ("query", "value"))
    stirred(model)
    features(model).square().sum().backward()
    learning = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert len(learning) == 8
    assert all(name.endswith(("lora_down", "lora_up")) for name in learning)
    assert all(
        weight.grad is not None and weight.grad.abs().sum() > 0
        for name, weight in model.named_parameters()
        if name in learning
    )
    assert all(weight.grad is None for name, weight in model.named_parameters() if name not in learning)


@pytest.mark.parametrize("name", MODELS)
def test_merged_it_gives_the_same_and_unmerged_the_weights_are_as_before(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    plain = features(model)
    adapt(model, 4, 8.0, EVERY)
    stirred(model)
    apart = features(model)
    assert not torch.allclose(apart, plain, atol=1e-3), "it does something"
    for each in lora_layers(model):
        each.merge()
        each.merge()  # once is enough
    torch.testing.assert_close(features(model), apart, rtol=0, atol=1e-5)
    for each in lora_layers(model):
        each.unmerge()
    assert features(model).equal(apart)
    assert all(model.state_dict()[name].equal(weight) for name, weight in before.items())


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_with_them_is_used_as_one_without(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    adapt(model, 4, 8.0, EVERY)
    stirred(model)
    tensors = model.state_dict()
    from regard import config

    revived = models.revive(config.plain(model.config), tensors)
    assert not list(lora_layers(revived))
    torch.testing.assert_close(features(revived), features(model), rtol=0, atol=1e-5)
    assert merge_lora(revived.state_dict()).keys() == revived.state_dict().keys(), "nothing is folded twice"


def test_the_product_counts_alpha_over_rank_times() -> None:
    base = nn.Linear(6, 5)
    layer = LoRALinear(base, rank=2, alpha=3.0)
    nn.init.normal_(layer.lora_up)
    x = torch.randn(4, 6)
    truth = base(x) + 1.5 * x @ layer.lora_down.T @ layer.lora_up.T
    torch.testing.assert_close(layer(x), truth)


def test_matrices_that_no_block_has_are_named_with_those_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"names gate, which no block of this model has: choose among inner, key, outer, output"
    ):
        adapt(MODELS["gpt"](), 4, 8.0, ("query", "gate"))
