"""Bodies that label: equal to transformers' classifiers and taggers, packed or padded, and a GPT sees no future."""

import pytest
import torch

from regard.interop import links
from regard.interop.bert import Bert
from regard.interop.gpt import GPT2
from regard.models.encoder_with_head import BERTEncoderConfig, BodyReader, GPTEncoderConfig
from tests.models.families import packed, padded, shaken, texts

SIZES = {"vocab": 31, "classes": 3, "width": 16, "heads": 2, "hidden": 24, "depth": 2, "context": 32}
STILL = {"dropout": 0.0, "head_dropout": 0.0}
BODIES = [
    *[BERTEncoderConfig(**SIZES, **STILL, pool=pool) for pool in ("class", "mean", "max")],
    BERTEncoderConfig(**SIZES, **STILL, pooler=False, segments=0, norm="pre"),
    *[GPTEncoderConfig(**SIZES, **STILL, pool=pool) for pool in ("last", "mean", "max")],
    GPTEncoderConfig(**SIZES, **STILL, positions="rotary", normalisation="rms", gated=True, groups=1),
]
TAGGERS = [BERTEncoderConfig(**SIZES, **STILL, per_token=True), GPTEncoderConfig(**SIZES, **STILL, per_token=True)]


def named(config) -> str:
    return f"{config.name}-{config.pool}-{config.positions}{'-tokens' * config.per_token}"


def marks(lines):
    """Of which text of a pair each token is: the second half is of the second."""
    return [(torch.arange(len(line)) >= len(line) // 2).long() for line in lines]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("config", [*BODIES, *TAGGERS], ids=named)
def test_rows_batches_and_texts_alone_have_the_same_answers(config, fixed):
    torch.manual_seed(0)
    model = shaken(BodyReader(config))
    lines = texts([7, 1, 4], 31)
    tokens, grid = padded(lines)
    segments = padded(marks(lines))[0]
    wanted = model(tokens, grid, segments)
    flat, row = packed(lines, fixed=fixed)
    found = model(flat, row, packed(marks(lines), fixed=fixed)[0])
    wanted = torch.cat([wanted[n, : len(line)] for n, line in enumerate(lines)]) if config.per_token else wanted
    torch.testing.assert_close(found[: len(wanted)], wanted, atol=1e-4, rtol=1e-4)
    for number, line in enumerate(lines):
        alone = model(*packed([line]), marks([line])[0])
        start = sum(map(len, lines[:number]))
        beside = found[start : start + len(line)] if config.per_token else found[number : number + 1]
        torch.testing.assert_close(alone, beside, atol=1e-4, rtol=1e-4)


def test_segments_are_read_where_there_are_two_kinds():
    torch.manual_seed(0)
    lines = texts([6], 31)
    for config, differs in ((BODIES[0], True), (BERTEncoderConfig(**SIZES, segments=1), False)):
        model = shaken(BodyReader(config))
        apart = model(*packed(lines), marks(lines)[0]) - model(*packed(lines))
        assert bool(apart.abs().max() > 1e-3) is differs


def test_the_future_changes_nothing_for_a_gpt():
    torch.manual_seed(0)
    model = shaken(BodyReader(TAGGERS[1]))
    [line] = texts([9], 31)
    other = torch.cat([line[:5], (line[5:] - 3) % 27 + 4])
    one, two = (model(*packed([each])) for each in (line, other))
    assert torch.equal(one[:5], two[:5])
    assert not torch.allclose(one[5:], two[5:])


@pytest.mark.parametrize("config", [*BODIES, *TAGGERS], ids=named)
def test_the_number_of_parameters_is_told_exactly_and_all_are_taught(config):
    model = BodyReader(config)
    assert sum(weight.numel() for weight in model.parameters()) == config.parameters
    tokens, row = packed(texts([7, 4], 31))
    model(tokens, row).square().sum().backward()
    assert not [name for name, weight in model.named_parameters() if weight.grad is None and "segments" not in name]


def poured(config, theirs, family, head: str) -> BodyReader:
    """Our model with the weights of theirs."""
    model = BodyReader(config)
    tensors = dict(theirs.state_dict())
    own = {name: tensors.pop(f"{head}.{name}") for name in ("weight", "bias") if f"{head}.{name}" in tensors}
    body = links.ours(family.links(model.reader.config), tensors, model.reader.state_dict(), {})
    model.output.bias.data.zero_()
    model.load_state_dict({f"reader.{name}": value for name, value in body.items()}, strict=False)
    model.output.load_state_dict(own, strict=False)
    return model.eval()


def bert(kind: str):
    """A BERT of transformers."""
    import transformers

    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 2}
    shape = transformers.BertConfig(vocab_size=31, max_position_embeddings=32, num_labels=3, **sizes)
    return shaken(getattr(transformers, kind)(shape))


@pytest.mark.parametrize("kind", ["BertForSequenceClassification", "BertForTokenClassification"])
def test_a_bert_labels_as_that_of_transformers(kind):
    torch.manual_seed(0)
    theirs, each = bert(kind), "Token" in kind
    ours = poured(BERTEncoderConfig(**SIZES, **STILL, per_token=each), theirs, Bert, "classifier")
    lines = texts([7, 12, 3], 31)
    tokens, grid = padded(lines)
    with torch.no_grad():
        wanted = theirs(tokens, grid.filled.long(), padded(marks(lines))[0]).logits
        found = ours(*packed(lines), torch.cat(marks(lines)))
    torch.testing.assert_close(found, wanted[grid.filled] if each else wanted, atol=1e-5, rtol=1e-5)


def test_a_gpt_classifies_as_that_of_transformers():
    import transformers

    torch.manual_seed(0)
    sizes = {"n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24}
    shape = transformers.GPT2Config(
        vocab_size=31, num_labels=3, pad_token_id=0, bos_token_id=0, eos_token_id=0, **sizes
    )
    theirs = shaken(transformers.GPT2ForSequenceClassification(shape))
    ours = poured(GPTEncoderConfig(**SIZES, **STILL), theirs, GPT2, "score")
    lines = texts([7, 12, 3], 31)
    tokens, grid = padded(lines)
    with torch.no_grad():
        wanted = theirs(tokens, attention_mask=grid.filled.long()).logits
        torch.testing.assert_close(ours(*packed(lines)), wanted, atol=1e-5, rtol=1e-5)
