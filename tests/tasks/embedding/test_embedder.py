"""Vectors of texts: those of transformers' model with the pooling that a folder of sentence-transformers names."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import interop, recipe
from regard.cli import run
from regard.tasks.embedding import embedder as embedding
from regard.tasks.embedding.embedder import Embedder
from tests.interop.making import lay as lay_gpt
from tests.interop.test_bert import lay as lay_bert

DATA = Path(os.environ.get("REGARD_DATA", "data"))
TEXTS = [
    "A B C",
    "",
    "  D  ",
    "E F G H I J K L M N O P Q R S T U V W X Y Z A B C D E F",
    "😀 B",
    "A\x00B\u200b",
    "漢字",
]
POOLS = {"mean": "mean_tokens", "class": "cls_token", "max": "max_tokens", "last": "lasttoken"}


def modules(folder: Path, pool: str = "mean", *, normalise: bool = True, longest: int | None = 12) -> None:
    """Add what sentence-transformers writes beside a model."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalise else [])]
    paths = ["", "1_Pooling", "2_Normalize"]
    told = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(zip(kinds, paths, strict=False))
    ]
    write(folder / "modules.json", told)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    flags = {f"pooling_mode_{name}": name == POOLS[pool] for name in (*POOLS.values(), "mean_sqrt_len_tokens")}
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 24, **flags})
    write(folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})


def write(place: Path, told: object) -> None:
    place.write_text(json.dumps(told), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small BERT of somebody else's, as sentence encoders come."""
    place = tmp_path_factory.mktemp("theirs") / "bert"
    lay_bert(place, "bert without a head")
    modules(place)
    return place


@torch.no_grad()
def theirs(folder: Path, texts: list[str], pool: str, longest: int, *, normalise: bool) -> np.ndarray:
    """The same by transformers, text by text."""
    from tokenizers import Tokenizer as Engine
    from transformers import AutoModel

    model, engine = AutoModel.from_pretrained(folder).eval(), Engine.from_file(str(folder / "tokenizer.json"))
    rows = []
    for text in texts:
        ids = [2, *engine.encode(text.strip(), add_special_tokens=False).ids[: longest - 2], 3]
        states = model(torch.tensor([ids])).last_hidden_state[0].double()
        row = {"mean": states.mean(0), "class": states[0], "max": states.max(0).values, "last": states[-1]}[pool]
        rows.append(row / row.norm() if normalise else row)
    return torch.stack(rows).numpy()


@pytest.mark.parametrize(("pool", "normalise"), [("mean", True), ("class", False), ("max", True), ("last", False)])
def test_the_pooling_that_a_folder_names_is_kept_and_equals_transformers(folder, tmp_path, pool, normalise):
    modules(folder, pool, normalise=normalise)
    assert run(["import", str(folder), str(tmp_path / "own")]) == 0
    own = Embedder.load(recipe.open_model(tmp_path / "own"))
    assert (own.how.pool, own.how.normalise, own.how.max_length) == (pool, normalise, 12)
    wanted = theirs(folder, TEXTS, pool, 12, normalise=normalise)
    found = own.embed(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("said", "longest"), [({"model_max_length": 9}, 9), ({"model_max_length": 10**30}, None), ({}, None)], ids=str
)
def test_texts_are_cut_where_the_tokenizer_says_if_nothing_else_does(folder, tmp_path, said, longest):
    modules(folder)
    (folder / "sentence_bert_config.json").unlink()
    write(folder / "tokenizer_config.json", said)
    try:
        assert run(["import", str(folder), str(tmp_path / "own")]) == 0
    finally:
        (folder / "tokenizer_config.json").unlink()
    own = Embedder.load(recipe.open_model(tmp_path / "own"))
    wanted = theirs(folder, TEXTS, "mean", longest or own.model.config.context, normalise=True)
    np.testing.assert_allclose(own.embed(TEXTS), wanted, atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def own(folder, tmp_path_factory) -> Path:
    """The same as a checkpoint."""
    modules(folder)
    out = tmp_path_factory.mktemp("ours") / "bert"
    assert run(["import", str(folder), str(out)]) == 0
    return out


def test_the_company_of_a_text_never_changes_its_vector(own):
    embedder = Embedder.load(recipe.open_model(own))
    alone = np.concatenate([embedder.embed(text) for text in TEXTS])
    np.testing.assert_allclose(embedder.embed(TEXTS * 200), np.tile(alone, (200, 1)), atol=1e-6)


def test_texts_are_read_in_blocks_whose_size_means_nothing(own, monkeypatch):
    found = Embedder.load(recipe.open_model(own))
    at_once = found.embed(TEXTS * 3)
    seen = []
    monkeypatch.setattr(embedding, "TOGETHER", 4)
    monkeypatch.setattr(
        found, "encode", lambda texts, how: seen.append(len(texts)) or Embedder.encode(found, texts, how)
    )
    np.testing.assert_allclose(found.embed(TEXTS * 3), at_once, atol=1e-6)
    assert max(seen) == 4, "no more texts are held as tokens"
    assert sum(seen) == 3 * len(TEXTS)


def test_options_stand_above_what_the_checkpoint_says(own, folder):
    embedder = Embedder.load(recipe.open_model(own))
    found = embedder.embed(TEXTS, pool="last", max_length=5, normalise=False)
    np.testing.assert_allclose(found, theirs(folder, TEXTS, "last", 5, normalise=False), atol=1e-5)
    with pytest.raises(ValueError, match="max_length is 40, the model reads 34 tokens at most"):
        embedder.embed(TEXTS, max_length=40)
    with pytest.raises(ValueError, match="max_length is 2, too short for a text and 2 tokens more"):
        embedder.embed(TEXTS, max_length=2)


def test_a_gpt_embeds_by_its_last_token(tmp_path):
    made = lay_gpt(tmp_path / "gpt")
    assert run(["import", str(tmp_path / "gpt"), str(tmp_path / "own")]) == 0
    own = Embedder.load(recipe.open_model(tmp_path / "own"))
    ids = own.tokenizer.encode("abc def")
    with torch.no_grad():
        wanted = made.transformer(torch.tensor([ids])).last_hidden_state[0, -1].numpy()
    np.testing.assert_allclose(own.embed("abc def", pool="last", normalise=False)[0], wanted, atol=1e-4)
    assert np.isfinite(own.embed("")).all()


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("modules.json", lambda told: told[2].update(type="sentence_transformers.models.Dense"), "module Dense cannot"),
        ("modules.json", lambda told: told.pop(1), "modules Transformer, Normalize in a row"),
        ("modules.json", lambda told: told[1].update(path="../x"), "leads out of the folder"),
        ("modules.json", lambda told: told.append(3), "a module must have a type and a path"),
        ("1_Pooling/config.json", lambda told: told.update(pooling_mode_mean_sqrt_len_tokens=True), "must be false"),
        ("1_Pooling/config.json", lambda told: told.update(pooling_mode_cls_token=True), "class and mean at once"),
        ("1_Pooling/config.json", lambda told: told.update(novel=1), "novel is 1, a field that is not understood"),
        ("sentence_bert_config.json", lambda told: told.update(max_seq_length=99), "the model has places for 34"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(folder, file, change, said):
    modules(folder)
    told = json.loads((folder / file).read_text(encoding="utf-8"))
    change(told)
    write(folder / file, told)
    with pytest.raises(ValueError, match=said) as found:
        interop.read(folder)
    assert str(folder) in str(found.value)
    modules(folder)


def test_a_model_that_gives_no_vectors_says_so(tmp_path):
    from tests.interop.test_t5 import lay as lay_t5

    lay_t5(tmp_path / "t5", "1.0")
    assert run(["import", str(tmp_path / "t5"), str(tmp_path / "own")]) == 0
    with pytest.raises(ValueError, match="gives no vectors of texts: give a BERT or a GPT"):
        Embedder.load(recipe.open_model(tmp_path / "own"))


@pytest.mark.skipif(not (DATA / "minilm").is_dir(), reason="all-MiniLM-L6-v2 is not in REGARD_DATA/minilm")
def test_minilm_gives_the_vectors_of_transformers(tmp_path):
    import transformers

    place = DATA / "minilm"
    assert run(["import", str(place), str(tmp_path / "own")]) == 0
    texts = [*TEXTS, "a" * 150, "word " * 600, "漢" * 400, "Ελλάδα Москва שלום", "👩‍👩‍👧‍👦 ❤️", "\x1b[31m\u202e\ufeff"]
    model = transformers.AutoModel.from_pretrained(place).eval()
    engine = transformers.AutoTokenizer.from_pretrained(place)
    with torch.no_grad():
        given = engine(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
        states, mask = model(**given).last_hidden_state, given["attention_mask"][..., None]
        wanted = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1)).numpy()
    np.testing.assert_allclose(Embedder.load(recipe.open_model(tmp_path / "own")).embed(texts), wanted, atol=1e-5)
