"""How alike texts are: scores learnt on their own scale, by a GPT in both orders, and correlated with the truth."""

import random

import numpy as np
import pytest
import torch

import regard
from regard import models, recipe
from regard.metrics.correlation import pearson
from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_labels.files import RatedFile
from regard.tasks.text_labels.recognition import recognise_labelled_texts, recognise_rated_pairs
from regard.training.task import Given
from tests.tasks.small import by_heart, halves_add_up

SIZES = {"width": 16, "heads": 2, "hidden": 32, "depth": 1, "dropout": 0.0}
MODELS = [
    {"name": "bert-encoder", **SIZES, "head_dropout": 0.0},
    {"name": "gpt-encoder", **SIZES, "head_dropout": 0.0},
    {"name": "transformer-encoder", **SIZES, "embedding": 16},
]
TRAINING = {"steps": 3, "log_every": 3, "eval_every": 3, "save_every": 3, "device": "cpu", "tensorboard": False}
named = pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])


@pytest.fixture
def table(tmp_path):
    """Pairs whose score is how many words they share."""
    chance, rows = random.Random(0), []
    for _ in range(120):
        one, other = (chance.sample("abcdefgh", 4) for _ in range(2))
        rows.append(f"{' '.join(one)}\t{' '.join(other)} end\t{len({*one} & {*other}) + 10.5}\n")
    (tmp_path / "a.tsv").write_text("sentence1\tsentence2\tsimilarity\n" + "".join(rows))
    return tmp_path / "a.tsv"


def settings(path, model):
    data = {"train": {"path": str(path)}, "batch_tokens": 256}
    return {"task": "similarity", "data": data, "model": model, "tokenizer": {"kind": "words"}, "training": TRAINING}


def made(path, model, **how):
    kind, found = recipe.resolve(settings(path, model))
    data = kind.prepare(found)
    torch.manual_seed(0)
    found = kind.fill_sizes(found, data)
    return kind(found, data, models.build(found.model), **how)


@named
def test_one_row_is_learnt_by_heart_and_its_halves_add_up(table, model):
    task = made(table, model)
    halves_add_up(task)
    assert task.prepared.train.sequences_per_example == (2 if model["name"] == "gpt-encoder" else 1)
    assert by_heart(task, steps=120, rate=0.01) < 0.2


@named
def test_rows_of_fixed_shape_teach_the_same(table, model):
    task = made(table, model)
    steps = []
    for task.fixed in (False, True):
        task.model.zero_grad()
        step = task.step(task.batch(1), "model")
        step.loss.backward()
        gradients = [weight.grad.clone() for weight in task.model.parameters() if weight.grad is not None]
        steps.append((step.loss.detach(), torch.as_tensor(step.weight), *gradients))
    for bare, fixed in zip(*steps, strict=True):
        torch.testing.assert_close(bare, fixed, atol=1e-4, rtol=1e-4)


def test_both_orders_of_a_pair_are_read_within_the_context(table):
    found = settings(table, {**MODELS[1], "context": 12})
    kind, asked = recipe.resolve({**found, "tokenizer": {"kind": "words", "max_length": 12}})
    data = kind.prepare(asked)
    asked = kind.fill_sizes(asked, data)
    for fixed in (False, True):
        task = kind(asked, data, models.build(asked.model), fixed=fixed)
        batch = task.batch(0)
        assert batch.row.longest <= 12 < data.train.lengths.max()
        assert task.step(batch, "model").loss.isfinite()


@named
def test_pairs_are_rated_on_the_scale_of_the_data_and_scored(table, model, tmp_path):
    out = recipe.train(settings(table, model), out=tmp_path / "run", quiet=True).folder
    trained = regard.load(out, device="cpu")
    pairs = [("a b", "c d e"), ("c d e", "a b"), ("a", "h g f e")]
    together = trained.rate(pairs)
    orders = 2 if model["name"] == "gpt-encoder" else 1
    assert [len(trained._encode(pair)) for pair in pairs] == [orders] * 3
    assert trained.count_tokens(pairs[0]) == trained.count_tokens(pairs[1]) > orders * 4
    for pair, rating in zip(pairs, together, strict=True):
        assert trained.rate(pair)[0].score == pytest.approx(rating.score, abs=1e-5)
    assert 8 < together[0].score < 16
    if model["name"] == "gpt-encoder":
        assert together[0].score == pytest.approx(together[1].score, abs=1e-5), "it reads both orders"
    else:
        assert together[0].score != together[1].score
    scores = trained.evaluate(str(table))
    assert set(scores.metrics) == {"Pearson", "Spearman", "mean error"}
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    told = [one.score for one in trained.rate([(one, other) for one, other, _ in rows])]
    truth = [float(score) for _, _, score in rows]
    assert scores.metrics["Pearson"] == pytest.approx(np.corrcoef(told, truth)[0, 1], abs=1e-4)
    assert scores.metrics["mean error"] == pytest.approx(np.abs(np.array(told) - truth).mean(), abs=1e-4)
    assert trained.look(pairs[0]).weights


def test_files_of_ratings_are_known_by_their_names_and_labels_are_not_taken_for_them(table):
    given = Given((str(table),))
    assert recognise_labelled_texts(given) is None
    assert recognise_rated_pairs(given).data["train"]["label"] == "similarity"
    found = read_examples([RatedFile(path=str(table))], {}, 0.0)
    assert found.has_ratings
    assert found.pairs


def test_a_score_that_is_no_number_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text1\ttext2\tscore\na\tb\t1.5\nc\td\thigh\n")
    with pytest.raises(ValueError, match=r"1 with a score that is no number \(.*a\.tsv:3\)"):
        read_examples([RatedFile(path=str(path))], {}, 0.0)
    path.write_text("text\tscore\na\t1.5\n")
    with pytest.raises(ValueError, match=r"one text in each line, and two are compared: name their columns"):
        read_examples([RatedFile(path=str(path))], {}, 0.0)


def test_scores_that_never_vary_teach_nothing(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text1\ttext2\tscore\n" + "".join(f"a {n}\tb\t2\n" for n in range(9)))
    kind, found = recipe.resolve(settings(path, MODELS[0]))
    with pytest.raises(ValueError, match="all pairs have the score 2: give others too"):
        kind.prepare(found)
    assert pearson([1, 2], [2, 2]).score == 0


def test_without_a_named_model_sizes_are_those_of_the_usual_one(table, tmp_path):
    asked = {"task": "similarity", "data": {"train": {"path": str(table)}}, "training": {**TRAINING, "steps": 1}}
    out = recipe.train(asked, out=tmp_path / "run", quiet=True).folder
    assert regard.load(out, device="cpu").config.name == "transformer-encoder"


def test_what_another_task_made_of_the_same_file_is_not_taken_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    rows = [f"a text number {number}\t{number % 2}.5\n" for number in range(40)]
    (tmp_path / "a.tsv").write_text("".join(rows))
    training = TRAINING | {"steps": 1}
    mapping = settings(tmp_path / "a.tsv", MODELS[0]) | {"training": training}
    kind, found = recipe.resolve(mapping | {"task": "classification"})
    assert len(kind.prepare(found).train)
    kind, found = recipe.resolve(mapping)
    with pytest.raises(ValueError, match="one text in each line, and two are compared"):
        kind.prepare(found)
