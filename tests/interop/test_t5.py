"""T5 of `transformers` read and written, 1.0 and 1.1: the same logits, the same greedy text, the same bytes."""

import copy
import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard import checkpoint, interop, models
from regard.attention.masks import Grid
from regard.interop.sentencepiece import Piece, Type
from regard.models.t5 import T5Config
from tests.interop.making import change, scattered
from tests.interop.spelling import END, UNKNOWN, model

VOCAB = 140
SIZES = {
    "vocab_size": VOCAB,
    "d_model": 24,
    "d_kv": 5,
    "d_ff": 40,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
}
CASES = {
    "1.0": SIZES,
    "1.0 with other settings": {**SIZES, "feed_forward_proj": "gelu", "layer_norm_epsilon": 1e-3},
    "1.1": {**SIZES, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "1.1 with silu": {**SIZES, "feed_forward_proj": "gated-silu", "tie_word_embeddings": False},
}


def lay(folder: Path, case: str):
    """Save a random model with its tokenizer; the model itself."""
    import transformers

    made = transformers.T5ForConditionalGeneration(transformers.T5Config(**CASES[case])).eval()
    if case.startswith("1.1"):
        made.lm_head.weight = torch.nn.Parameter(torch.zeros(VOCAB, SIZES["d_model"]))
    scattered(made).save_pretrained(folder)
    spell(folder)
    return made


def spell(folder: Path) -> None:
    """Save a tokenizer of letters, of which a blank is the first."""
    letters = [Piece("▁", -1.0), *(Piece(chr(ord("a") + n), -2.0 - n / 10) for n in range(26))]
    pieces = [Piece("<pad>", 0.0, Type.CONTROL), END, UNKNOWN, *letters]
    (folder / "spiece.model").write_bytes(model(pieces))


def revived(found: interop.ImportedModel):
    return models.revive(dataclasses.asdict(found.shape), found.tensors)


def batch():
    """Sources of different lengths with their mask, and targets."""
    mask = (torch.arange(20) < torch.tensor([[20], [7], [13]])).long()
    source = torch.randint(3, VOCAB, (3, 20)) * mask
    return source, mask, torch.randint(3, VOCAB, (3, 15))


@torch.no_grad()
def told(theirs, ours, source, mask, target) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of both for these sources and what is written after them."""
    count, length = target.shape
    layouts = Grid(mask.sum(-1), source.shape[1]), Grid(torch.full((count,), length), length)
    expected = theirs(source, attention_mask=mask, decoder_input_ids=target).logits
    return ours.logits(ours(source, target, layouts=layouts)), expected


def agree(theirs, ours, *batch: torch.Tensor) -> None:
    """The same logits: to the last digits in float64, and in float32 but for rounding.

    Scores that nothing divides make a sharp softmax, and rounding grows on its way through it: with weights as large as
    here the logits of float32 are 2e-5 from those of float64 in `transformers` as well.
    """
    found, expected = told(theirs, ours, *batch)
    assert expected.std() > 0.2
    assert (found - expected).abs().max() < 1e-5 * max(1, expected.abs().max())
    with unrounded():
        found, expected = told(copy.deepcopy(theirs).double(), copy.deepcopy(ours).double(), *batch)
    assert found.dtype == expected.dtype == torch.float64
    assert (found - expected).abs().max() < 1e-9


@contextmanager
def unrounded() -> Iterator[None]:
    """Their norms, which go through float32 whatever they are given, stay in float64."""
    whole = torch.Tensor.to

    def to(tensor, *wanted, **options):
        return whole(tensor, *(torch.float64 if each is torch.float32 else each for each in wanted), **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "to", to)
        yield


@torch.no_grad()
def greedy(ours, source, lengths, first: int, count: int) -> list[list[int]]:
    """The likeliest tokens, one by one with a cache."""
    scores, state = ours.start(source, lengths, torch.full((len(source), 1), first), limit=count)
    found = [scores[:, 0].argmax(-1)]
    while len(found) < count:
        scores, state = ours.step(found[-1][:, None], state)
        found.append(scores[:, 0].argmax(-1))
    return torch.stack(found, dim=1).tolist()


@pytest.mark.parametrize("case", CASES)
def test_a_model_of_theirs_gives_the_same_logits_text_and_bytes(case, tmp_path):
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    theirs = lay(tmp_path / "theirs", case)
    found = interop.read(tmp_path / "theirs")
    ours = revived(found)
    assert found.shape.tied == case.startswith("1.0")
    agree(theirs, ours, *batch())
    source, mask, _ = batch()
    options = {"do_sample": False, "max_new_tokens": 20, "eos_token_id": None, "pad_token_id": 0}
    answer = theirs.generate(source, attention_mask=mask, **options)
    first = found.tokenizer.opening
    assert greedy(ours, source, mask.sum(-1), first, 20) == answer[:, 1:].tolist()
    family = interop.family_for(found.shape)
    out = tmp_path / "out"
    checkpoint.write(out, interop.export_files(family, found.shape, found.tensors, found.tokenizer))
    before, after = (load_file(path / "model.safetensors") for path in (tmp_path / "theirs", out))
    assert before.keys() == after.keys()
    assert all(tensor.numpy().tobytes() == after[name].numpy().tobytes() for name, tensor in before.items())
    assert json.loads((out / "config.json").read_text())["decoder_start_token_id"] == 0
    again = T5ForConditionalGeneration.from_pretrained(out).eval()
    agree(again, ours, *batch())
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer("ab c")["input_ids"] == [*found.tokenizer.encode("ab c"), found.tokenizer.end]
    assert tokenizer.convert_tokens_to_ids("<extra_id_0>") == found.tokenizer.vocab - 1


def test_a_model_of_ours_gives_the_same_logits_there_and_comes_back(tmp_path):
    from transformers import T5ForConditionalGeneration

    lay(tmp_path / "tokens", "1.0")
    tokenizer = interop.read(tmp_path / "tokens").tokenizer
    for number, settings in enumerate(({}, {"gated": True, "tied": False, "activation": "gelu_tanh"})):
        shape = T5Config(vocab=VOCAB, width=24, depth=5, heads=4, hidden=40, encoder=2, decoder=3, **settings)
        ours = scattered(models.build(shape)).eval()
        out = tmp_path / str(number)
        checkpoint.write(
            out, interop.export_files(interop.family_for(shape), shape, checkpoint.weights(ours), tokenizer)
        )
        agree(T5ForConditionalGeneration.from_pretrained(out).eval(), ours, *batch())
        back = interop.read(out)
        assert interop.family.inference_settings(back.shape) == interop.family.inference_settings(shape)
        assert all(torch.equal(tensor, back.tensors[name]) for name, tensor in checkpoint.weights(ours).items())


def test_1_1_that_shares_its_matrix_gets_one_of_its_own(tmp_path):
    from transformers import T5ForConditionalGeneration

    lay(tmp_path, "1.1")
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    found = interop.read(tmp_path)
    assert not found.shape.tied
    agree(T5ForConditionalGeneration.from_pretrained(tmp_path).eval(), revived(found), *batch())
    checkpoint.write(tmp_path / "saved", {"model.safetensors": found.tensors})
    change(tmp_path, tie_word_embeddings=False)
    with pytest.raises(ValueError, match=r"lm_head\.weight is missing"):
        interop.read(tmp_path)


def test_old_folders_have_a_table_that_nobody_reads(tmp_path):
    lay(tmp_path, "1.0")
    expected = interop.read(tmp_path).tensors
    tensors = load_file(tmp_path / "model.safetensors")
    table = torch.zeros(8, 4)
    tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = table
    tensors |= {name: tensors["shared.weight"].clone() for name in ("encoder.embed_tokens.weight", "lm_head.weight")}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    found = interop.read(tmp_path).tensors
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())


@pytest.mark.parametrize("preset", sorted(T5Config.PRESETS))
def test_usual_models_have_a_family(preset):
    if preset in ("t5-11b",):
        pytest.skip("its names are those of the smaller ones")
    shape = T5Config(**T5Config.PRESETS[preset])
    family = interop.family_for(shape)
    assert sorted(name for link in family.links(shape) for name in link.ours) == sorted(interop.family.blank(shape))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"feed_forward_proj": "gated-mish"}, "feed_forward_proj must be one of"),
        ({"dense_act_fn": "gelu"}, 'dense_act_fn must be "relu", not "gelu"'),
        ({"is_gated_act": True}, "is_gated_act must be false"),
        ({"decoder_start_token_id": 5}, "decoder_start_token_id must be 0, not 5"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder must be true"),
        ({"tie_word_embeddings": False}, "scale_decoder_outputs must be false where"),
        ({"d_kv": 6}, "should be"),
        ({"num_layers": 4}, "is missing from the weights"),
        ({"num_layers": 2}, "for which the model has no place"),
        ({"use_new_trick": [1]}, r"use_new_trick is \[1\], a field that is not understood"),
    ],
)
def test_what_is_not_understood_is_refused(fields, message, tmp_path):
    lay(tmp_path, "1.0")
    change(tmp_path, **fields)
    with pytest.raises(ValueError, match=message) as caught:
        interop.read(tmp_path)
    assert "\n" not in str(caught.value)
