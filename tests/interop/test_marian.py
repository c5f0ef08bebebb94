"""Marian of `transformers` read: the same logits, the same greedy text, translated with the pieces of two languages."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard import interop, models
from regard.cli import run
from regard.interop.sentencepiece import Piece
from regard.models.inference import supported
from regard.models.transformer import TransformerConfig
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.translator import Translator
from tests.interop.making import change, scattered
from tests.interop.spelling import BEGIN, END, UNKNOWN, model
from tests.interop.test_t5 import batch, greedy, told

SOURCE = [Piece("▁", -1.0), *(Piece(chr(ord("a") + n), -2.0 - n / 10) for n in range(26))]
TARGET = [Piece("▁", -1.0), *(Piece(chr(ord("à") + n), -2.0 - n / 10) for n in range(26))]
NAMES = ["</s>", "<unk>", *dict.fromkeys(piece.name for piece in (*SOURCE, *TARGET)), "<pad>"]
VOCAB = 140  # rows that stand for no token follow
PAD = NAMES.index("<pad>")
SIZES = {
    "vocab_size": VOCAB,
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
    "scale_embedding": True,
    "activation_function": "swish",
    "pad_token_id": PAD,
    "eos_token_id": 0,
    "decoder_start_token_id": PAD,
    "forced_eos_token_id": None,
}


WRITING = {"do_sample": False, "max_new_tokens": 32, "no_repeat_ngram_size": 1, "bad_words_ids": [[PAD]]}


def lay(folder: Path, **settings):
    """Save a random model with its tokenizers; the model itself."""
    import transformers

    made = transformers.MarianMTModel(transformers.MarianConfig(**{**SIZES, **settings})).eval()
    tables = [made.model.encoder.embed_positions.weight, made.model.decoder.embed_positions.weight]
    kept = [table.detach().clone() for table in tables]
    scattered(made)
    for table, values in zip(tables, kept, strict=True):
        table.data.copy_(values)
    made.model.shared.weight.data.mul_(0.7)
    made.final_logits_bias.normal_(generator=torch.Generator().manual_seed(3))
    made.save_pretrained(folder)
    spell(folder)
    return made


def spell(folder: Path) -> None:
    """Save the tokenizers of letters of both languages."""
    for name, pieces in (("source", SOURCE), ("target", TARGET)):
        (folder / f"{name}.spm").write_bytes(model([UNKNOWN, BEGIN, END, *pieces]))
    ids = {name: id for id, name in enumerate(NAMES)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")


def revived(found: interop.ImportedModel):
    return models.revive(dataclasses.asdict(found.shape), found.tensors)


@pytest.mark.parametrize("settings", [{}, {"activation_function": "relu"}])
def test_a_model_of_theirs_gives_the_same_logits_and_text(settings, tmp_path):
    theirs = lay(tmp_path, **settings)
    found = interop.read(tmp_path)
    ours = revived(found)
    logits, expected = told(theirs, ours, *batch())
    assert expected.std() > 0.2
    assert (logits - expected).abs().max() < 1e-5
    assert (ours.bias - theirs.final_logits_bias[0]).abs().max() == 0
    lengths = torch.tensor([12, 5])
    mask = (torch.arange(12) < lengths[:, None]).long()
    source = torch.randint(2, PAD, (2, 12)) * mask + PAD * (1 - mask)
    options = {"do_sample": False, "num_beams": 1, "max_new_tokens": 20, "eos_token_id": None, "pad_token_id": PAD}
    answer = theirs.generate(source, attention_mask=mask, **options)
    assert greedy(ours, source, lengths, found.tokenizer.opening, 20) == answer[:, 1:].tolist()


def test_it_translates_with_the_pieces_of_two_languages(tmp_path):
    theirs = lay(tmp_path, vocab_size=len(NAMES))
    found = interop.read(tmp_path)
    assert found.target is not None
    translator = Translator(revived(found), (found.tokenizer, found.target), DecodingConfig(beams=1, no_repeat=1))
    text = "a bad cab"
    read = [*found.tokenizer.encode(text), 0]
    assert found.tokenizer.encode("é") == [NAMES.index("▁"), NAMES.index("<unk>")], "a piece of the other language"
    assert found.target.encode("é") == [NAMES.index("▁"), NAMES.index("é")]
    assert read == [*encoded(text), 0]
    answer = theirs.generate(torch.tensor([read]), num_beams=1, **WRITING)[0].tolist()
    assert len(set(answer)) > 3
    assert translator.translate(text) == found.target.decode(answer)


def test_it_becomes_a_checkpoint_that_translates(tmp_path, capsys):
    theirs = lay(tmp_path / "theirs", vocab_size=len(NAMES))
    assert run(["import", str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 0
    assert capsys.readouterr().out.endswith(f'use it with: regard translate {tmp_path / "ours"} "..."\n')
    answer = theirs.generate(torch.tensor([[*encoded("a bad cab"), 0]]), num_beams=1, **WRITING)[0].tolist()
    words = ["translate", str(tmp_path / "ours"), "a bad cab", "-s", "no_repeat=1", "--beams", "1", "--device", "cpu"]
    assert run(words) == 0
    assert (
        capsys.readouterr().out.strip()
        == "".join(NAMES[id] for id in answer if id > 1 and id != PAD).replace("▁", " ").strip()
    )


def encoded(text: str) -> list[int]:
    """Ids of letters."""
    return [NAMES.index(letter) for letter in "▁" + text.replace(" ", "▁")]


def test_a_bias_of_the_logits_is_learnt_and_kept_from_the_fast_path():
    shape = TransformerConfig(vocab=20, width=8, heads=2, hidden=16, encoder=1, decoder=1, output_bias=True)
    made = models.build(shape)
    assert made.bias.shape == (20,)
    assert "bias" in made.state_dict()
    with pytest.raises(supported.Unknown, match="a bias of the logits"):
        supported.check(made.stack)
    plain = models.build(dataclasses.replace(shape, output_bias=False))
    assert plain.bias is None
    assert "bias" not in plain.state_dict()
    made.load_state_dict(plain.state_dict() | {"bias": torch.arange(20.0)})
    features = torch.randn(3, 8)
    assert torch.allclose(made.logits(features), plain.logits(features) + torch.arange(20.0))


def test_repeated_tensors_and_tables_of_places_are_the_same_model(tmp_path):
    lay(tmp_path)
    expected = interop.read(tmp_path).tensors
    tensors = load_file(tmp_path / "model.safetensors")
    tensors |= {
        name: tensors["model.shared.weight"].clone()
        for name in ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    }
    tensors["model.encoder.embed_positions.weight"] = torch.zeros(64, 24)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    found = interop.read(tmp_path).tensors
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scale_embedding": False}, "scale_embedding must be true, not false"),
        ({"decoder_start_token_id": 0}, f"decoder_start_token_id must be {PAD}, not 0"),
        ({"decoder_ffn_dim": 41}, "decoder_ffn_dim must be 40 as encoder_ffn_dim"),
        ({"decoder_vocab_size": 10}, "decoder_vocab_size must be 140 as vocab_size"),
        ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings must be true"),
        ({"normalize_before": True}, "normalize_before must be false"),
        ({"use_new_trick": 1}, "a field that is not understood"),
    ],
)
def test_what_is_not_understood_is_refused(fields, message, tmp_path):
    lay(tmp_path)
    change(tmp_path, **fields)
    with pytest.raises(ValueError, match=message):
        interop.read(tmp_path)


def test_it_is_not_written():
    with pytest.raises(ValueError, match="marian cannot hold it, it is only read"):
        interop.family_for(TransformerConfig(vocab=20))
