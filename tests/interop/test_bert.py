"""BERT and its kin of `transformers` read and written: the same logits of every head, the same bytes."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Engine
from tokenizers import models as kinds
from tokenizers import pre_tokenizers

from regard import checkpoint, interop, models
from regard.attention.masks import Grid
from regard.models.bert import BERTConfig
from tests.interop.making import change, scattered

VOCAB = 60
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 34,
}
SMALL = {"vocab_size": VOCAB, "dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40, "max_position_embeddings": 34}
CASES = {
    "bert": ("BertConfig", "BertForPreTraining", SIZES),
    "bert with other settings": (
        "BertConfig",
        "BertForPreTraining",
        {**SIZES, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "type_vocab_size": 3},
    ),
    "bert that fills in": ("BertConfig", "BertForMaskedLM", SIZES),
    "bert that compares": ("BertConfig", "BertForNextSentencePrediction", SIZES),
    "bert without a head": ("BertConfig", "BertModel", SIZES),
    "distilbert": ("DistilBertConfig", "DistilBertForMaskedLM", SMALL),
    "distilbert without a head": ("DistilBertConfig", "DistilBertModel", {**SMALL, "activation": "relu"}),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM", {**SIZES, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "roberta without a head": ("RobertaConfig", "RobertaModel", {**SIZES, "type_vocab_size": 1}),
    "camembert": ("CamembertConfig", "CamembertForMaskedLM", {**SIZES, "type_vocab_size": 1}),
}
NAMES = {"bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "roberta": ("<s>", "<pad>", "</s>", "<unk>", "<mask>")}
DATA = Path(os.environ.get("REGARD_DATA", "data"))


def lay(folder: Path, case: str):
    """Save a random model with its tokenizer; the model itself."""
    import transformers

    config, kind, sizes = CASES[case]
    made = scattered(getattr(transformers, kind)(getattr(transformers, config)(**sizes)).eval())
    made.save_pretrained(folder)
    special = NAMES["bert" if "bert" in case.split()[0] and "rob" not in case and "cam" not in case else "roberta"]
    names = [*special, *(chr(ord("A") + n) for n in range(VOCAB - len(special)))]
    engine = Engine(kinds.WordPiece({name: id for id, name in enumerate(names)}, unk_token=special[1]))
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.add_special_tokens(list(special))
    engine.save(str(folder / "tokenizer.json"))
    return made


def revived(found: interop.ImportedModel):
    return models.revive(dataclasses.asdict(found.shape), found.tensors)


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Grid]:
    """Tokens that are no pad, segments, mask and layout of three sequences of different length."""
    lengths = torch.tensor([20, 7, 13])
    grid = Grid(lengths, 20)
    mask = (torch.arange(20) < lengths[:, None]).long()
    tokens = torch.randint(5, VOCAB, (3, 20)) * mask + (1 - mask)
    segments = (torch.arange(20) >= 5).long().expand(3, -1) * mask
    return tokens, segments, mask, grid


@torch.no_grad()
def compare(theirs, ours, *, segmented: bool) -> None:
    """Every output that theirs has."""
    tokens, segments, mask, grid = batch()
    here = mask.bool()
    typed = {"token_type_ids": segments} if segmented else {}
    found = theirs(tokens, attention_mask=mask, **typed)
    features = ours(tokens, layout=grid, segments=segments if segmented else None)
    compared = []

    def near(one, other):
        assert other.std() > 0.1
        assert (one - other).abs().max() < 1e-5
        compared.append(one)

    if "last_hidden_state" in found:
        near(features[here], found.last_hidden_state[here])
    for name in ("logits", "prediction_logits"):
        if name in found and ours.config.masked:
            near(ours.logits(features)[here], found[name][here])
    if found.get("pooler_output") is not None:
        near(ours.pool_features(features, grid), found.pooler_output)
    for name in ("logits", "seq_relationship_logits"):
        if name in found and ours.config.next_sentence and (name != "logits" or not ours.config.masked):
            near(ours.following(ours.pool_features(features, grid)), found[name])
    assert compared


@pytest.mark.parametrize("case", CASES)
def test_a_model_of_theirs_gives_the_same_numbers_and_bytes(case, tmp_path):
    import transformers

    theirs = lay(tmp_path / "theirs", case)
    found = interop.read(tmp_path / "theirs")
    segmented = found.shape.segments > 1
    compare(theirs, revived(found), segmented=segmented)
    family = interop.family_for(found.shape, found.kind)
    checkpoint.write(tmp_path / "out", interop.export_files(family, found.shape, found.tensors, found.tokenizer))
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "out"))
    prefix = "" if set(before) <= set(after) else f"{theirs.base_model_prefix}."  # a body by itself has none
    assert {prefix + name for name in before} == set(after)
    for name, tensor in before.items():
        assert tensor.numpy().tobytes() == after[prefix + name].numpy().tobytes(), name
    told = json.loads((tmp_path / "out" / "config.json").read_text())
    assert told["architectures"] == [type(theirs).__name__]
    again = getattr(transformers, told["architectures"][0]).from_pretrained(tmp_path / "out").eval()
    compare(again, revived(found), segmented=segmented)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("A BC", add_special_tokens=False)["input_ids"] == found.tokenizer.encode("A BC")
    assert tokenizer.mask_token_id == found.tokenizer.mask


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, "bert"),
        ({"segments": 0, "pooler": False, "next_sentence": False}, "distilbert"),
        ({"offset": 1, "segments": 1, "pooler": False, "next_sentence": False, "eps": 1e-5}, "roberta"),
    ],
)
def test_a_model_of_ours_gives_the_same_numbers_there_and_comes_back(settings, kind, tmp_path):
    import transformers

    sizes = {"vocab": VOCAB, "width": 24, "heads": 4, "hidden": 40, "depth": 2, "context": 30}
    shape = BERTConfig(**sizes, **settings)
    ours = scattered(models.build(shape)).eval()
    lay(tmp_path / "tokens", "bert")
    tokenizer = interop.read(tmp_path / "tokens").tokenizer
    family = interop.family_for(shape)
    assert family.kind == kind
    checkpoint.write(tmp_path / "out", interop.export_files(family, shape, checkpoint.weights(ours), tokenizer))
    theirs = getattr(transformers, family.architecture_name(shape)).from_pretrained(tmp_path / "out").eval()
    if kind == "roberta":  # whose pad is 0 here
        tokens = torch.randint(5, VOCAB, (2, 30))
        with torch.no_grad():
            features = ours(tokens, layout=Grid(torch.tensor([30, 30]), 30))
            assert (ours.logits(features) - theirs(tokens).logits).abs().max() < 1e-5
    else:
        compare(theirs, ours, segmented=shape.segments > 1)
    back = interop.read(tmp_path / "out")
    assert interop.family.inference_settings(back.shape) == interop.family.inference_settings(shape)
    assert all(torch.equal(tensor, back.tensors[name]) for name, tensor in checkpoint.weights(ours).items())


def test_places_must_be_counted_from_pad_on(tmp_path):
    lay(tmp_path / "tokens", "bert")
    tokenizer = interop.read(tmp_path / "tokens").tokenizer
    shape = BERTConfig(vocab=VOCAB, width=24, heads=4, hidden=40, depth=2, offset=2, segments=1, next_sentence=False)
    family = interop.family_for(shape, "roberta")
    with pytest.raises(ValueError, match="roberta counts places from its pad token on, which must have id 1"):
        interop.export_files(family, shape, checkpoint.weights(models.build(shape)), tokenizer)


@pytest.mark.parametrize("preset", sorted(BERTConfig.PRESETS))
def test_usual_models_have_a_family(preset):
    shape = BERTConfig(**BERTConfig.PRESETS[preset])
    family = interop.family_for(shape)
    expected = preset.split("-")[0].replace("camembert", "roberta").replace("biobert", "bert")
    assert family.kind == expected
    names = [name for link in family.links(shape) for name in link.ours]
    assert sorted(names) == sorted(interop.family.blank(shape))


def test_old_names_and_repeated_tensors_are_the_same_model(tmp_path):
    lay(tmp_path, "bert")
    expected = interop.read(tmp_path).tensors
    tensors = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    old["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    old["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    old["bert.embeddings.position_ids"] = torch.arange(34)[None]
    save_file(old, tmp_path / "model.safetensors", {"format": "pt"})
    found = interop.read(tmp_path).tensors
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    old["cls.predictions.decoder.weight"][0, 0] += 1
    save_file(old, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"cls\.predictions\.decoder\.weight must repeat bert\.embeddings"):
        interop.read(tmp_path)


@pytest.mark.parametrize(
    ("case", "fields", "message"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, 'position_embedding_type must be "absolute"'),
        ("bert", {"is_decoder": True}, "is_decoder must be false, not true"),
        ("bert", {"tie_word_embeddings": False}, "tie_word_embeddings must be true"),
        ("bert", {"hidden_act": "mish"}, "hidden_act must be one of"),
        ("bert", {"use_new_trick": 3}, "use_new_trick is 3, a field that is not understood"),
        ("bert", {"intermediate_size": 41}, "should be"),
        ("bert", {"vocab_size": 59}, "should be"),
        ("roberta", {"hidden_act": "relu"}, "hidden_act must be one of gelu"),
        ("roberta", {"max_position_embeddings": 35}, "should be"),
        ("distilbert", {"tie_weights_": False}, "tie_weights_ must be true"),
    ],
)
def test_what_is_not_understood_is_refused(case, fields, message, tmp_path):
    lay(tmp_path, case)
    change(tmp_path, **fields)
    with pytest.raises(ValueError, match=message) as caught:
        interop.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_head_that_we_have_no_place_for_is_named(tmp_path):
    import transformers

    made = transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES))
    lay(tmp_path, "bert")
    made.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"the weights have classifier\.\w+, for which the model has no place"):
        interop.read(tmp_path)


def real(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"{name} is not under REGARD_DATA")
    return DATA / name


@torch.no_grad()
def test_minilm_gives_the_features_of_transformers():
    from transformers import AutoTokenizer, BertModel

    folder = real("minilm")
    found = interop.read(folder)
    ours, theirs = revived(found), BertModel.from_pretrained(folder).eval()
    for text in ("The cat sat on the mat.", "Une phrase en français, élève naïf 😀", "a " * 200):
        ids = [found.tokenizer.begin, *found.tokenizer.encode(text), found.tokenizer.end]
        tokens = torch.tensor([ids])
        assert AutoTokenizer.from_pretrained(folder).encode(text, max_length=512, truncation=True) == ids
        grid = Grid(torch.tensor([len(ids)]), len(ids))
        features, expected = ours(tokens, layout=grid), theirs(tokens)
        assert (features - expected.last_hidden_state).abs().max() < 1e-5
        assert (ours.pool_features(features, grid) - expected.pooler_output).abs().max() < 1e-5


@torch.no_grad()
def test_a_bert_of_reactions_has_both_heads(tmp_path):
    from transformers import BertForPreTraining

    script = Path(__file__).parents[2] / "scripts" / "bin_to_safetensors.py"
    for path in (real("rxnfp") / "bert_pretrained").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is pickled"):
        interop.read(tmp_path, kind="bert")
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True)
    found = interop.read(tmp_path, kind="bert")
    assert found.shape.masked
    assert found.shape.next_sentence
    change(tmp_path, model_type="bert")
    ours, theirs = revived(found), BertForPreTraining.from_pretrained(tmp_path).eval()
    spelled = [found.tokenizer.encode(piece) for piece in ("Cl", "C", "(", "=", "O", ")", "[C@@H]", "Br", ">>")]
    assert [len(ids) for ids in spelled] == [1] * 6 + [len(spelled[6])] + [1, len(spelled[8])]
    assert found.tokenizer.encode("C") != found.tokenizer.encode("c"), "its vocabulary has capitals"
    tokens = torch.tensor([[found.tokenizer.begin, *torch.randint(15, 591, (30,)).tolist(), found.tokenizer.end]])
    grid = Grid(torch.tensor([32]), 32)
    for precision, near in ((torch.float32, 1e-5), (torch.float64, 1e-10)):  # relative to logits of about 10
        features, expected = ours.to(precision)(tokens, layout=grid), theirs.to(precision)(tokens)
        following = ours.following(ours.pool_features(features, grid))
        assert features.dtype == expected.prediction_logits.dtype == precision
        for one, other in (
            (ours.logits(features), expected.prediction_logits),
            (following, expected.seq_relationship_logits),
        ):
            assert (one - other).abs().max() < near * other.abs().max()
