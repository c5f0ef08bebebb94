"""The body of a GPT, a BERT or a T5 under another task: all of it where the model is the same, or none of it."""

import re

import pytest
import torch

from regard import checkpoint, config, models
from regard.models.encoder_with_head import BERTEncoderConfig, GPTEncoderConfig
from regard.models.text_classifier import TransformerEncoderConfig
from regard.models.transformer import TransformerConfig
from regard.training import transfer
from tests.models.families import padded, shaken, texts

SIZES = {"vocab": 23, "width": 16, "heads": 2, "hidden": 24}
LLAMA = {"positions": "rotary", "rotary_base": 500.0, "normalisation": "rms", "activation": "silu", "gated": True}
KINDS = [
    {"name": "transformer", "encoder": 2, "decoder": 1, "groups": 1, "attention_bias": False},
    {"name": "gpt", "depth": 2, **LLAMA, "groups": 1, "attention_bias": False, "mlp_bias": False, "eps": 1e-6},
    {"name": "gpt", "depth": 1, "positions": "alibi", "embedding_norm": True},
    {"name": "bert", "depth": 2, "context": 16, "offset": 2, "segments": 1, "eps": 1e-5},
    {"name": "t5", "depth": 6, "encoder": 2, "decoder": 1, "gated": True, "tied": False, "activation": "silu"},
]
READ = {
    "transformer": lambda model, tokens, grid: model.encode(tokens, grid),
    "gpt": lambda model, tokens, grid: model(tokens, layout=grid),
    "bert": lambda model, tokens, grid: model(tokens, layout=grid),
    "t5": lambda model, tokens, grid: model(tokens, tokens, layouts=(grid, grid)),
}


def parent(folder, **settings):
    """A checkpoint of some task with such a model."""
    model = shaken(models.build(models.config_of({**SIZES, **settings})))
    files = {"config.yaml": {"task": "some", "model": config.plain(model.config)}}
    checkpoint.write(folder / "model", {**files, "model.safetensors": checkpoint.weights(model)})
    return model, checkpoint.read(folder / "model")


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_the_same_model_goes_on_with_all_of_its_body(settings, tmp_path):
    model, before = parent(tmp_path, **settings)
    kept = transfer.model_settings(before, {}, task="other", available=[TransformerEncoderConfig, type(model.config)])
    heads = {"vocab": 23, "dropout": 0.0}
    if settings["name"] == "bert":
        heads |= {"pooler": True, "masked": False, "next_sentence": False}
    after = models.build(models.config_of({**kept, **heads})).eval()
    [said] = transfer.load_weights(after, before, same_task=False)
    anew = {"transformer": ["decoder"]}.get(settings["name"], [])
    assert re.findall(r"made anew: (.*)", said) == anew
    tokens, grid = padded(texts([7, 4], 23))
    assert torch.equal(READ[settings["name"]](after, tokens, grid), READ[settings["name"]](model, tokens, grid))


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_a_reader_of_texts_goes_on_with_plain_blocks_of_a_gpt(activation, tmp_path):
    model, before = parent(tmp_path, name="gpt", depth=2, context=16, activation=activation)
    kept = transfer.model_settings(before, {}, task="other", available=[TransformerEncoderConfig])
    assert kept["causal"] is True
    after = models.build(models.config_of({**kept, "vocab": 23, "classes": 3, "dropout": 0.0})).eval()
    transfer.load_weights(after, before, same_task=False)
    tokens, grid = padded(texts([7, 4], 23))
    features = after.reader(after.embedding(tokens), grid).features
    torch.testing.assert_close(features[grid.filled], model(tokens, layout=grid)[grid.filled])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"name": "gpt", "gated": True}, "gated"),
        ({"name": "gpt", "normalisation": "rms"}, "normalisation"),
        ({"name": "gpt", "attention_bias": False}, "attention_bias"),
        ({"name": "gpt", "groups": 1}, "groups"),
        ({"name": "bert"}, "segments"),
        ({"name": "bert", "segments": 0, "embedding_norm": False}, "eps"),
    ],
    ids=str,
)
def test_what_the_other_model_has_not_is_named(settings, named, tmp_path):
    _, before = parent(tmp_path, depth=1, **settings)
    with pytest.raises(ValueError, match=rf"holds a \w+ of 1 blocks, 16 wide, 2 heads \({named}\), which transf"):
        transfer.model_settings(before, {}, task="other", available=[TransformerEncoderConfig])


def test_a_value_that_the_other_model_does_not_know_is_named_in_one_line(tmp_path):
    plain = {"segments": 0, "embedding_norm": False, "eps": 1e-5}
    _, before = parent(tmp_path, name="bert", depth=1, activation="gelu_tanh", **plain)
    with pytest.raises(ValueError, match=r"model\.activation must be one of .*: leave out --from") as error:
        transfer.model_settings(before, {}, task="other", available=[TransformerConfig])
    assert "\n" not in str(error.value)


def test_as_many_groups_as_heads_are_none(tmp_path):
    _, before = parent(tmp_path, name="gpt", depth=1, groups=2, activation="gelu")
    assert transfer.model_settings(before, {}, task="other", available=[TransformerEncoderConfig])["heads"] == 2


READERS = [TransformerEncoderConfig, BERTEncoderConfig, GPTEncoderConfig]


@pytest.mark.parametrize("settings", KINDS[1:4], ids=str)
@pytest.mark.parametrize("vocab", [23, 25])  # tokens of a format may be new
def test_a_reader_takes_over_all_of_a_bert_or_gpt_under_a_new_head(settings, vocab, tmp_path):
    model, before = parent(tmp_path, **settings)
    kept = transfer.model_settings(before, {}, task="other", available=READERS)
    assert kept["name"] == f"{settings['name']}-encoder"
    after = models.build(models.config_of({**kept, "vocab": vocab, "classes": 3, "dropout": 0.0})).eval()
    [said] = transfer.load_weights(after, before, same_task=False)
    assert re.findall(r"made anew: (.*)", said) == ["output"]
    tokens, grid = padded(texts([7, 4], 23))
    features = READ[settings["name"]](model, tokens, grid)
    assert torch.equal(after.features(tokens, grid), features)
    if settings["name"] == "bert":
        assert torch.equal(after.pool_features(features, grid), model.pool_features(features, grid))


def test_a_reader_gives_its_body_back_to_the_model_it_came_from(tmp_path):
    model, before = parent(tmp_path, name="bert-encoder", depth=2, classes=3, context=16, eps=1e-5)
    kept = transfer.model_settings(before, {}, task="other", available=[type(model.config).__mro__[1]])
    after = models.build(models.config_of({**kept, "vocab": 23, "dropout": 0.0})).eval()
    transfer.load_weights(after, before, same_task=False)
    tokens, grid = padded(texts([7, 4], 23))
    assert (kept["name"], kept["eps"]) == ("bert", 1e-5)
    assert torch.equal(after(tokens, layout=grid), model.features(tokens, grid))


def test_a_pooler_that_the_body_lacks_is_made_anew_and_one_that_is_not_used_is_none(tmp_path):
    _, before = parent(tmp_path, name="bert", depth=1, pooler=False, next_sentence=False)
    kept = transfer.model_settings(before, {}, task="other", available=READERS)
    for pool, anew in (("class", "output, reader"), ("mean", "output")):
        after = models.build(models.config_of({**kept, "vocab": 23, "classes": 3, "pool": pool}))
        [said] = transfer.load_weights(after, before, same_task=False)
        assert re.findall(r"made anew: (.*)", said) == [anew]


def test_the_model_that_is_asked_for_goes_on_with_plain_blocks(tmp_path):
    _, before = parent(tmp_path, name="gpt", depth=1, activation="gelu")
    kept = transfer.model_settings(before, {"name": "transformer-encoder"}, task="other", available=READERS)
    assert kept["name"] == "transformer-encoder"
    with pytest.raises(ValueError, match=r"\(causal\), which bert-encoder for other has not"):
        transfer.model_settings(before, {"name": "bert-encoder"}, task="other", available=READERS)
