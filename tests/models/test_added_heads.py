"""Heads that are added up (`model.merge=add`): sizes, and that other libraries lack them."""

import pytest

from regard import config as configs
from regard.attention.multihead import SummedHeads
from regard.interop.gpt import GPT2
from regard.models.gpt import GPT, GPTConfig
from tests.models.test_stepping import build

SHAPE = {"vocab": 30, "width": 16, "heads": 4, "hidden": 32, "depth": 2, "context": 12}


def test_a_gpt_of_added_heads_has_the_parameters_that_its_config_says():
    for merge in ("concat", "add"):
        config = GPTConfig(**SHAPE, merge=merge)
        assert sum(weight.numel() for weight in GPT(config).parameters()) == config.parameters
    assert config.parameters == GPTConfig(**SHAPE).parameters - 2 * (16 * 16 - 16 * 4)


def test_every_attention_of_a_transformer_adds_its_heads_up():
    blocks = build(merge="add").decoder
    assert all(isinstance(look.output, SummedHeads) for block in blocks for look in (block.attention, block.cross))


def test_a_gpt_of_added_heads_is_not_written_as_a_gpt2():
    plain = {"positions": "learned", "activation": "gelu_tanh"}
    assert GPT2.unsupported_reason(GPTConfig(**SHAPE, **plain)) is None
    assert GPT2.unsupported_reason(GPTConfig(**SHAPE, **plain, merge="add")) == "merge is add and would be concat"


@pytest.mark.parametrize("merge", ["sum", "mean"])
def test_another_way_to_merge_is_refused(merge):
    with pytest.raises(ValueError, match="merge"):
        configs.build(GPTConfig, {**SHAPE, "merge": merge})
