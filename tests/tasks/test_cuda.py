"""On a GPU: a translator in half precision, replayed, says what it says on a CPU."""

import json
from itertools import product

import pytest
import torch

import regard
from regard.models.inference import fast_path
from regard.models.inference.cuda import FusedDecoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

TEXTS = [
    "Good morning.",
    "Where is the station?",
    "I would like a cup of coffee, please.",
    "She has been living in Paris for ten years, and she still misses the sea.",
    "The children are playing in the garden.",
] * 3


def test_translations_are_those_of_the_cpu_whatever_is_replayed():
    here, there = regard.load(device="cpu"), regard.load(device="cuda")
    truth = here.translate(TEXTS, to="fr")
    assert there.translate(TEXTS, to="fr") == truth  # by the model itself
    there.ready.warm()
    for _ in range(4):
        assert there.translate(TEXTS, to="fr") == truth
    assert there.ready(0).tables
    assert there.translate(TEXTS[:1], to="fr", beams=1) == here.translate(TEXTS[:1], to="fr", beams=1)


def test_a_watched_model_is_searched_as_it_is_and_a_changed_one_gives_its_weights_to_the_copy():
    translator = regard.load(device="cuda")
    fast = translator.ready(fast_path.ENOUGH)
    assert isinstance(fast, FusedDecoder)
    assert translator.look("Good morning.", to="fr").weights
    assert translator.ready(1) is fast
    with torch.no_grad():
        translator.model.embedding.weight.mul_(0.0)
    assert translator.ready(1) is fast
    assert not fast.stack.embedding.weight.any()


def test_an_evaluation_while_training_sees_the_weights_of_that_step(tmp_path):
    pairs = [f"{a} {b} {c} z y\ty z {c} {b} {a}" for a in "abcd" for b in "efgh" for c in "ijkl"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs))
    corpus = {"path": str(tmp_path / "pairs.tsv")}
    settings = {
        "data": {"train": corpus, "valid": corpus, "batch_tokens": 512},
        "tokenizer": {"kind": "words", "min_frequency": 1},
        "model": {"width": 64, "heads": 4, "hidden": 128, "encoder": 1, "decoder": 1, "dropout": 0.0},
        "optim": {"learning_rate": 0.003, "warmup": 20},
        "training": {"steps": 60, "eval_every": 5, "save_every": 60, "tensorboard": False},
    }
    regard.train(settings, out=tmp_path / "run", quiet=True)
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scores = [record["bleu"] for record in records if record["kind"] == "evaluation"]
    assert scores[0] < 50 < 90 < scores[-1], scores


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn", "gru_before"])
@pytest.mark.parametrize("attention", ["none", "bahdanau", "luong_general"])
def test_a_recurrent_translator_learns_the_same_recorded_and_step_by_step(cell, attention, tmp_path):
    pairs = [
        f"{a} {b} {c} {'z ' * (n % 5)}y\ty {c} {b} {a}" for n, (a, b, c) in enumerate(product("abcd", "efgh", "ijkl"))
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs))
    corpus = {"path": str(tmp_path / "pairs.tsv")}
    settings = {
        "data": {"train": corpus, "valid": corpus, "batch_tokens": 128, "max_length": 32},
        "tokenizer": {"kind": "words", "min_frequency": 1},
        "model": {
            "name": "seq2seq",
            "cell": cell,
            "attention": attention,
            "width": 32,
            "embedding": 16,
            "dropout": 0.0,
        },
        "optim": {"learning_rate": 0.003, "warmup": 20},
        "training": {"steps": 60, "log_every": 10, "eval_every": 60, "save_every": 60, "tensorboard": False},
    }
    curves = []
    for how in ("off", "auto"):
        regard.train(settings, f"training.compile={how}", out=tmp_path / how, quiet=True)
        records = [json.loads(line) for line in (tmp_path / how / "metrics.jsonl").read_text().splitlines()]
        curves.append([record["loss"] for record in records if record["kind"] == "training"])
    assert curves[0] == pytest.approx(curves[1], rel=2e-3)
    assert curves[0][-1] < curves[0][0]


def test_a_classifier_learns_the_same_compiled_recorded_and_step_by_step(tmp_path):
    words = ["good", "fine", "great", "bad", "poor", "dull"]
    lines = [
        f"{' '.join(words[(n * k) % 6] for k in range(1, 3 + n % 7))}\t{'yes' if n % 6 < 3 else 'no'}"
        for n in range(240)
    ]
    (tmp_path / "texts.tsv").write_text("\n".join(lines))
    model = {"name": "bert-encoder", "width": 64, "heads": 4, "hidden": 128, "depth": 2, "context": 32}
    settings = {
        "task": "classification",
        "data": {"train": {"path": str(tmp_path / "texts.tsv")}, "batch_tokens": 256},
        "tokenizer": {"kind": "words", "min_frequency": 1, "max_length": 32},
        "model": {**model, "dropout": 0.0, "head_dropout": 0.0},
        "optim": {"learning_rate": 0.001, "warmup": 10},
        "training": {"steps": 60, "log_every": 10, "eval_every": 60, "save_every": 60, "tensorboard": False},
    }
    curves = []
    for how in ("off", "record", "on"):
        regard.train(settings, f"training.compile={how}", out=tmp_path / how, quiet=True)
        records = [json.loads(line) for line in (tmp_path / how / "metrics.jsonl").read_text().splitlines()]
        curves.append([record["loss"] for record in records if record["kind"] == "training"])
    assert curves[0] == pytest.approx(curves[1], rel=2e-2)
    assert curves[0] == pytest.approx(curves[2], rel=2e-2)
    assert curves[0][-1] < curves[0][0]
