"""Models that `transformers` trained, whose logits are larger and whose attention is sharper than at random.

No weights of others were at hand for these families, so small models of theirs stand in: a few hundred steps of their
own code on a text that repeats. They know it by heart, so what they write is known as well.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from regard import checkpoint, interop
from regard.attention.masks import Grid
from tests.interop import test_marian, test_t5
from tests.interop.learning import LINES, SPECIAL, STRIDE, WINDOW, Batches, causal, learn, masked, pairs, spell
from tests.interop.test_gpt import greedy, logits, revived

VOCAB = 64
GPT = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 66,
}
CAUSAL = {
    "gpt2": ("GPT2", "GPT2LMHeadModel", GPT),
    "openai-gpt": ("OpenAIGPT", "OpenAIGPTLMHeadModel", GPT),
    "bloom": ("Bloom", "BloomForCausalLM", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "seq_length": 64}),
    "llama": ("Llama", "LlamaForCausalLM", {**SIZES, "num_key_value_heads": 2}),
}
ROBERTA = {**SIZES, "type_vocab_size": 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.0,
}
MARIAN = test_marian.SIZES | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "dropout": 0.0,
}
ACCENTED = str.maketrans({chr(ord("a") + n): chr(ord("à") + n) for n in range(26)})


def trained(folder: Path, names: tuple[str, str], batches: Batches, **settings: Any) -> Any:
    """A model of theirs that has learnt what it was shown, saved to a folder."""
    import transformers

    made = getattr(transformers, names[1])(getattr(transformers, f"{names[0]}Config")(**settings))
    if settings.get("feed_forward_proj"):  # T5 1.1 has a matrix of its own for the output, which newer versions share
        made.lm_head.weight = torch.nn.Parameter(made.lm_head.weight.detach() / 32**0.5)
    losses = learn(made, batches)
    assert losses[-1] < 0.2 * losses[0]
    made.save_pretrained(folder)
    return made


def near(ours: Tensor, theirs: Tensor) -> None:
    """Whether logits as large as those of a trained model are the same."""
    largest = theirs.abs().max()
    assert largest > 5
    assert (ours - theirs).abs().max() < 1e-5 * max(1, largest / 10)


def same_bytes(found: interop.ImportedModel, folder: Path, out: Path) -> None:
    """Whether a model that was read is written as it was."""
    family = interop.family_for(found.shape, found.kind)
    checkpoint.write(out, interop.export_files(family, found.shape, found.tensors, found.tokenizer))
    before, after = (load_file(place / "model.safetensors") for place in (folder, out))
    assert before.keys() == after.keys()
    assert all(tensor.numpy().tobytes() == after[name].numpy().tobytes() for name, tensor in before.items())


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind != "gpt2")) for kind in CAUSAL])
def test_a_trained_gpt_is_the_same_here(kind, tmp_path):
    *names, sizes = CAUSAL[kind]
    text = spell(tmp_path, VOCAB)
    ends = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
    theirs = trained(tmp_path, names, causal(text), vocab_size=VOCAB, **ends, **sizes)
    found = interop.read(tmp_path)
    ours = revived(found)
    tokens = torch.tensor([text[start : start + WINDOW] for start in range(0, WINDOW, STRIDE)])
    with torch.no_grad():
        near(logits(ours, tokens), theirs(tokens).logits)
    prompt = tokens[:1, :5]
    answer = theirs.generate(prompt, do_sample=False, max_new_tokens=20, eos_token_id=None, pad_token_id=1)
    tokens = greedy(ours, prompt, 20)
    assert tokens == answer[0, 5:].tolist()
    assert tokens[: WINDOW - 5] == text[5:WINDOW]
    same_bytes(found, tmp_path, tmp_path / "out")


@torch.no_grad()
def test_a_trained_roberta_is_the_same_here(tmp_path):
    text = spell(tmp_path, VOCAB)
    with torch.enable_grad():
        theirs = trained(tmp_path, ("Roberta", "RobertaForMaskedLM"), masked(text), vocab_size=VOCAB, **ROBERTA)
    found = interop.read(tmp_path)
    ours = revived(found)
    tokens = torch.tensor([text[:WINDOW], text[STRIDE : STRIDE + WINDOW]])
    hidden = torch.arange(WINDOW) % 4 == 2
    read = tokens.masked_fill(hidden, SPECIAL.index("<mask>"))
    told = ours.logits(ours(read, layout=Grid(torch.full((2,), WINDOW), WINDOW)))
    near(told, theirs(read).logits)
    assert (told.argmax(-1) == tokens)[:, hidden].float().mean() > 0.8
    same_bytes(found, tmp_path, tmp_path / "out")


def written(theirs: Any, found: interop.ImportedModel, batch: dict[str, Tensor], pad: int) -> list[list[int]]:
    """The same logits and greedy tokens of a model that writes the next line; these tokens."""
    ours = revived(found)
    source, mask = batch["input_ids"], batch["attention_mask"]
    options = {"do_sample": False, "num_beams": 1, "max_new_tokens": 20, "eos_token_id": None, "pad_token_id": pad}
    answer = theirs.generate(source, attention_mask=mask, **options)
    near(*test_t5.told(theirs, ours, source, mask, answer))
    tokens = test_t5.greedy(ours, source, mask.sum(-1), found.tokenizer.opening, 20)
    assert tokens == answer[:, 1:].tolist()
    return tokens


def knows(lines: list[list[int]], write: Callable[[str], list[int]]) -> None:
    """Whether every line is followed by the one that follows it in the text."""
    for tokens, line in zip(lines, (*LINES[1:], LINES[0]), strict=True):
        assert tokens[: len(write(line))] == write(line)[: len(tokens)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "version",
    [{}, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_layers": 1}],
    ids=["1.0", "1.1"],
)
def test_a_trained_t5_is_the_same_here(version, tmp_path):
    def read(line: str) -> list[int]:
        return [*(3 if letter == " " else 4 + ord(letter) - ord("a") for letter in f" {line}"), 1]

    batches = pairs(read, read, 0)
    names = ("T5", "T5ForConditionalGeneration")
    theirs = trained(tmp_path, names, batches, vocab_size=test_t5.VOCAB, **T5 | version)
    test_t5.spell(tmp_path)
    found = interop.read(tmp_path)
    assert [*found.tokenizer.encode(LINES[0]), found.tokenizer.end] == read(LINES[0])
    batch = next(batches)
    knows(written(theirs, found, batch, 0), read)
    given = batch["input_ids"], batch["attention_mask"], batch["labels"].clamp(min=0)
    test_t5.agree(theirs, revived(found), *given)
    same_bytes(found, tmp_path, tmp_path / "out")


@pytest.mark.slow
def test_a_trained_marian_is_the_same_here(tmp_path):
    def read(line: str) -> list[int]:
        return [*test_marian.encoded(line), 0]

    def write(line: str) -> list[int]:
        return read(line.translate(ACCENTED))

    batches = pairs(read, write, test_marian.PAD)
    theirs = trained(tmp_path, ("Marian", "MarianMTModel"), batches, **MARIAN)
    test_marian.spell(tmp_path)
    knows(written(theirs, interop.read(tmp_path), next(batches), test_marian.PAD), write)
