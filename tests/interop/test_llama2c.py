"""llama2.c's files: read as the Llamas they are, refused where they are none, and a real one tells its story."""

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import interop, models
from regard.attention.masks import Grid
from regard.config import plain
from regard.tasks.pretraining.writer import Writer
from regard.tasks.writing import WritingConfig
from tests.interop.making import VOCAB, engine, scattered

SIZES = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "max_position_embeddings": 32}


def llama(*, tied: bool, groups: int) -> Any:
    """A small Llama of `transformers`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    heads = {"num_attention_heads": 6, "num_key_value_heads": groups}
    settings = {"rms_norm_eps": 1e-5, "tie_word_embeddings": tied, "bos_token_id": 0, "eos_token_id": 0}
    return scattered(LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, **SIZES, **heads, **settings)).eval())


def written(model: Any, *, base: float = 10000.0) -> bytes:
    """A model as llama2.c's `legacy_export` writes it."""
    config, state = model.config, {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    width, heads, groups = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
    head = width // heads

    def neighbours(matrix: np.ndarray, count: int) -> np.ndarray:
        """Rows 0, 1, 2 ... of a head to 0, head/2, 1, head/2 + 1 ..."""
        order = [row for pair in zip(range(head // 2), range(head // 2, head), strict=True) for row in pair]
        return matrix.reshape(count, head, width)[:, order].reshape(-1, width)

    def every(name: str) -> list[np.ndarray]:
        return [state[f"model.layers.{n}.{name}.weight"] for n in range(config.num_hidden_layers)]

    places = np.outer(np.arange(config.max_position_embeddings), base ** (-np.arange(0, head, 2) / head))
    parts = [
        state["model.embed_tokens.weight"],
        *every("input_layernorm"),
        *(neighbours(each, heads) for each in every("self_attn.q_proj")),
        *(neighbours(each, groups) for each in every("self_attn.k_proj")),
        *every("self_attn.v_proj"),
        *every("self_attn.o_proj"),
        *every("post_attention_layernorm"),
        *every("mlp.gate_proj"),
        *every("mlp.down_proj"),
        *every("mlp.up_proj"),
        state["model.norm.weight"],
        np.cos(places),
        np.sin(places),
        *([] if config.tie_word_embeddings else [state["lm_head.weight"]]),
    ]
    vocab = VOCAB if config.tie_word_embeddings else -VOCAB
    sizes = (width, config.intermediate_size, config.num_hidden_layers, heads, groups, vocab)
    numbers = struct.pack("<7i", *sizes, config.max_position_embeddings)
    return numbers + b"".join(np.ascontiguousarray(part, dtype="<f4").tobytes() for part in parts)


def lay(folder: Path, data: bytes) -> Path:
    """A file of llama2.c beside a tokenizer."""
    folder.mkdir(exist_ok=True)
    engine().save(str(folder / "tokenizer.json"))
    (folder / "model.bin").write_bytes(data)
    return folder / "model.bin"


@pytest.mark.parametrize(("tied", "groups"), [(True, 6), (False, 2)])
def test_a_file_of_llama2c_is_the_llama_it_was_made_from(tied, groups, tmp_path):
    theirs = llama(tied=tied, groups=groups)
    found = interop.read(lay(tmp_path, written(theirs)))
    ours = models.revive(plain(found.shape), found.tensors)
    tokens = torch.randint(0, VOCAB, (2, 20))
    with torch.no_grad():
        expected = theirs(tokens).logits
        logits = ours.logits(ours(tokens, layout=Grid(torch.tensor([20, 20]), 20)))
    assert expected.std() > 0.5
    assert (logits - expected).abs().max() < 1e-5
    family = interop.family_for(found.shape)
    back = family.export_tensors(found.shape, found.tensors)
    assert all(torch.equal(tensor, theirs.state_dict()[name]) for name, tensor in back.items())


def test_a_file_that_is_none_of_llama2c_is_refused(tmp_path):
    data = written(llama(tied=True, groups=6))

    def refused(data: bytes) -> str:
        with pytest.raises(ValueError) as error:
            interop.read(lay(tmp_path, data))
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "is too short" in refused(data[:20])
    assert "bytes and should have" in refused(data[:-1])
    assert "bytes and should have" in refused(data + b"\0")
    assert "has 0 for width" in refused(struct.pack("<i", 0) + data[4:])
    assert "has -3 for blocks" in refused(data[:8] + struct.pack("<i", -3) + data[12:])
    assert "5 heads in 6 groups do not divide a width of 24" in refused(data[:12] + struct.pack("<i", 5) + data[16:])
    assert "is of version 2 of llama2.c's format" in refused(struct.pack("<2I", 0x616B3432, 2) + data[8:])
    assert "model.embed_tokens.weight holds numbers that are not finite" in refused(
        data[:28] + struct.pack("<f", float("nan")) + data[32:]
    )
    assert "its rotary places have another base" in refused(written(llama(tied=True, groups=6), base=500.0))


# A real one, and a reference in float64 that shares no code with Regard: numpy and the two files.


class Reference:
    """llama2.c in numpy: reads both files, writes the likeliest text."""

    def __init__(self, folder: Path) -> None:
        data = (folder / "stories15M.bin").read_bytes()
        width, hidden, depth, heads, _, vocab, _ = struct.unpack_from("<7i", data)
        numbers, self.heads, self.depth = np.frombuffer(data, "<f4", offset=28).astype(np.float64), heads, depth
        shapes = {
            "tokens": (vocab, width), "before": (depth, width), "query": (depth, width, width),
            "key": (depth, width, width), "value": (depth, width, width), "output": (depth, width, width),
            "between": (depth, width), "gate": (depth, hidden, width), "down": (depth, width, hidden),
            "up": (depth, hidden, width), "last": (width,),
        }  # fmt: skip
        self.weights, place = {}, 0
        for name, shape in shapes.items():
            self.weights[name] = numbers[place : (place := place + int(np.prod(shape)))].reshape(shape)
        raw, place = (folder / "tokenizer.bin").read_bytes(), 4
        self.pieces, self.scores = [], []
        while place < len(raw):
            score, length = struct.unpack_from("<fi", raw, place)
            self.pieces.append(raw[place + 8 : (place := place + 8 + length)])
            self.scores.append(score)

    def encode(self, text: str) -> list[int]:
        """Begin, a blank, letters; then the pair whose piece has the best score, until there is none."""
        known = {piece: number for number, piece in enumerate(self.pieces)}
        ids = [known[letter.encode()] for letter in f" {text}"]
        while True:
            pairs = [(known.get(self.pieces[a] + self.pieces[b]), n) for n, (a, b) in enumerate(zip(ids, ids[1:]))]  # noqa: B905, RUF007
            found = [(self.scores[id], -n, id) for id, n in pairs if id is not None]
            if not found:
                return [1, *ids]
            _, n, id = max(found)
            ids[-n : -n + 2] = [id]

    def norm(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight

    def turn(self, x: np.ndarray) -> np.ndarray:
        """Features 2i and 2i + 1 of every head, as one complex number."""
        length, half = x.shape[0], x.shape[1] // self.heads // 2
        angles = np.outer(np.arange(length), 10000.0 ** (-np.arange(half) / half))
        pairs = x.reshape(length, self.heads, half, 2)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)[:, None]
        return np.stack([turned.real, turned.imag], -1).reshape(length, self.heads, -1)

    def logits(self, ids: list[int]) -> np.ndarray:
        """For the token after the last."""
        w, x, length = self.weights, self.weights["tokens"][ids], len(ids)
        for n in range(self.depth):
            y = self.norm(x, w["before"][n])
            query, key = self.turn(y @ w["query"][n].T), self.turn(y @ w["key"][n].T)
            scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(query.shape[-1])
            scores = np.where(np.tri(length, dtype=bool), np.exp(scores - scores.max(-1, keepdims=True)), 0)
            value = (y @ w["value"][n].T).reshape(length, self.heads, -1)
            mixed = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), value)
            x = x + mixed.reshape(length, -1) @ w["output"][n].T
            y = self.norm(x, w["between"][n])
            gate = y @ w["gate"][n].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ w["up"][n].T)) @ w["down"][n].T
        return w["tokens"] @ self.norm(x[-1], w["last"])

    def story(self, beginning: str, count: int) -> tuple[list[int], str]:
        """The likeliest tokens, and all text."""
        ids = self.encode(beginning)
        for _ in range(count):
            ids.append(int(self.logits(ids).argmax()))
        return ids, b"".join(self.pieces[id] for id in ids[1:]).decode().removeprefix(" ")


@pytest.fixture(scope="module")
def stories() -> Path:
    """The folder of stories15M.bin and its tokenizer.bin."""
    folder = Path(os.environ.get("REGARD_DATA", "data")) / "stories15m"
    if not (folder / "stories15M.bin").is_file():
        pytest.skip("the weights of stories15m are not under REGARD_DATA")
    return folder


@pytest.mark.unchecked
@pytest.mark.parametrize("beginning", ["Once upon a time", "Lily had a red ball."])
def test_stories15m_tells_its_story(stories, beginning):
    ids, text = Reference(stories).story(beginning, 60)
    assert len(set(text.split())) > 25, "a story has words"
    found = interop.read(stories)
    ours = models.revive(plain(found.shape), found.tensors)
    prompt = [found.tokenizer.role("begin"), *found.tokenizer.encode(beginning)]
    assert prompt == ids[: len(prompt)]
    scores, state = ours.start(torch.tensor([prompt]), limit=60)
    written = []
    for _ in range(60):
        written.append(int(scores[0, 0].argmax()))
        scores, state = ours.step(torch.tensor([[written[-1]]]), state)
    assert written == ids[len(prompt) :]
    assert found.tokenizer.decode([*prompt, *written]).strip() == text.strip()


@pytest.mark.unchecked
def test_stories15m_ends_its_stories(stories):
    found = interop.read(stories)
    writer = Writer(models.revive(plain(found.shape), found.tensors), found.tokenizer, WritingConfig())
    texts = writer.write("Once upon a time", samples=4, length=250, temperature=0.5)
    assert sum(len(found.tokenizer.encode(text.text)) < 230 for text in texts) >= 2
