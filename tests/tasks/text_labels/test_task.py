"""Learning labels: a stop changes nothing, one row is learnt by heart, and a checkpoint is all that use needs."""

import json
import random

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regard
from regard import checkpoint, config, recipe
from regard.attention.masks import Row
from regard.data.vectors import write
from regard.interpret.draw.page import render
from regard.metrics.likelihood import cross_entropy
from regard.models.text_classifier import Labeller
from regard.tasks import TASKS
from regard.tasks.text_encoders.text_tokenizer import readable_tokens
from regard.tasks.text_encoders.warm_start import load_word_vectors
from regard.tasks.text_labels.classification import Classification
from regard.tasks.text_labels.preparation import prepare
from regard.tasks.text_labels.tagging import Tagging
from regard.training.task import Task
from tests.documents import ROOT

TRAINING = {"steps": 30, "log_every": 10, "eval_every": 10, "save_every": 10, "device": "cpu", "tensorboard": False}
RECURRENT = {"name": "rnn-encoder", "width": 12, "embedding": 12, "dropout": 0.2, "word_dropout": 0.1}
CONVOLUTION = {"name": "cnn-encoder", "widths": [2, 3], "maps": 8, "embedding": 12}
TRANSFORMER = {
    "name": "transformer-encoder",
    "width": 12,
    "embedding": 12,
    "heads": 2,
    "hidden": 24,
    "depth": 1,
    "dropout": 0.1,
}
MODELS = [RECURRENT, CONVOLUTION, TRANSFORMER]


@pytest.fixture
def reviews(tmp_path):
    """Texts that are good if they hold a good word, in which words stand in any order."""
    chance = random.Random(0)
    rows = []
    for number in range(240):
        word = chance.choice(["good", "great"] if number < 120 else ["bad", "awful"])
        words = [*chance.choices(["the", "film", "was", "by", "a", "man"], k=chance.randrange(2, 12)), word]
        chance.shuffle(words)
        rows.append(json.dumps({"text": f"{' '.join(words)}<br />", "label": int(number < 120)}) + "\n")
    (tmp_path / "train.jsonl").write_text("".join(rows))
    (tmp_path / "test.jsonl").write_text("".join(rows[::7]))
    return {
        "task": "classification",
        "data": {"train": {"path": str(tmp_path / "train.jsonl")}, "names": {"1": "positive"}, "batch_tokens": 256},
        "tokenizer": {"ignore": "<br />", "max_length": 10, "keep": "end"},
        "optim": {"learning_rate": 0.01, "warmup": 5, "schedule": "inverse_root"},
        "training": TRAINING,
    }


@pytest.fixture
def sentences(tmp_path):
    chance = random.Random(0)
    lines = []
    for _ in range(200):
        noun, verb = chance.choice(["cat", "dog", "king"]), chance.choice(["sees", "likes"])
        lines.append(
            f"the/D {'old/A ' * chance.randrange(3)}{noun}/N {verb}/V a/D {chance.choice(['cat', 'bird'])}/_\n"
        )
    (tmp_path / "train.txt").write_text(
        "".join(lines) + "".join(f"the/D x{n}/N sees/V a/D bird/_\n" for n in range(20))
    )
    return {
        "task": "tagging",
        "data": {"train": {"path": str(tmp_path / "train.txt")}, "batch_tokens": 128},
        "optim": {"learning_rate": 0.02, "warmup": 5, "schedule": "inverse_root"},
        "training": TRAINING,
    }


def train(settings, out, *changes: str, **how):
    return recipe.train(recipe.settings(settings, *changes), out=out, quiet=True, **how)


def made(settings, model, **objective):
    kind, found = recipe.resolve({**settings, "model": model, "objective": objective})
    prepared = prepare(found.data, found.tokenizer)
    sizes = {"vocab": prepared.tokenizer.vocab, "classes": len(prepared.classes), "per_token": kind.per_token}
    torch.manual_seed(0)
    return kind(found, prepared, Labeller(type(found.model)(**{**vars(found.model), **sizes})))


@pytest.mark.unchecked
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
@pytest.mark.parametrize("kind", ["reviews", "sentences"])
def test_every_model_learns_one_row_by_heart(kind, model, request):
    task = made(request.getfixturevalue(kind), {**model, "dropout": 0.0, "word_dropout": 0.0})
    assert isinstance(task, Task)
    optimizer = torch.optim.Adam(task.model.parameters(), 0.03)
    for _ in range(60):
        optimizer.zero_grad()
        step = task.step(task.batch(0), "model")
        (step.loss / step.weight).backward()
        optimizer.step()
    assert step.loss.item() / step.weight < 0.1


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_a_classifier_is_trained_loaded_and_used(reviews, model, tmp_path):
    outcome = train({**reviews, "model": model}, tmp_path / "run", "training.steps=60", "training.eval_every=60")
    assert "regard classify" in outcome.summary
    assert outcome.metrics["accuracy"] > 0.9
    (tmp_path / "train.jsonl").unlink()  # a checkpoint needs nothing else
    classifier = regard.load(outcome.folder, device="cpu")
    good, bad = classifier.classify(["the film was great", "awful<br />"])
    assert (good.label, bad.label) == ("positive", "0")
    assert good.probability == max(good.all.values()) > 0.5
    assert sum(bad.all.values()) == pytest.approx(1)
    assert classifier.evaluate(str(tmp_path / "test.jsonl")).metrics["accuracy, %"] > 90
    assert classifier.classify("") != []
    samples = json.loads((outcome.folder / "samples" / "step-60.json").read_text())
    assert {"read", "label", "answer"} == set(samples[0])
    assert "positive" in (outcome.best / "README.md").read_text()
    assert str(tmp_path) not in (outcome.best / "config.yaml").read_text()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_a_tagger_is_trained_loaded_and_used(sentences, model, tmp_path):
    outcome = train({**sentences, "model": model}, tmp_path / "run", "training.steps=60", "training.eval_every=60")
    assert outcome.metrics["accuracy"] > 0.95
    assert outcome.metrics["sentences"] > 0.9
    tagger = regard.load(outcome.best, device="cpu")
    tagged, none, listed = tagger.tag(["the old king likes a", "", ["the", "cat"]])
    assert str(tagged) == "the/D old/A king/N likes/V a/D"
    assert all(0.25 < chance <= 1 for chance in tagged.probabilities)
    assert (none.words, none.tags) == ([], [])
    assert listed.tags == ["D", "N"]
    assert tagger.compare_files(str(tmp_path / "train.txt"))[1].sentence_accuracy > 0.9


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
@pytest.mark.parametrize("kind", ["reviews", "sentences"])
def test_rows_of_fixed_shape_teach_the_same(kind, model, request):
    task = made(request.getfixturevalue(kind), {**model, "dropout": 0.0, "word_dropout": 0.0})
    steps = []
    for task.fixed in (False, True):
        task.model.zero_grad()
        step = task.step(task.batch(1), "model")
        step.loss.backward()
        gradients = [parameter.grad.clone() for parameter in task.model.parameters()]
        steps.append((step.loss.detach(), torch.as_tensor(step.weight), step.counts["tokens"], *gradients))
    for bare, fixed in zip(*steps, strict=True):
        torch.testing.assert_close(bare, fixed, atol=1e-5, rtol=1e-4)
    assert len(task.batch(1).tokens) == task.packing.tokens


def test_labels_and_tags_do_not_depend_on_what_is_asked_beside(reviews, tmp_path):
    outcome = train({**reviews, "model": TRANSFORMER}, tmp_path / "run", "training.steps=5")
    classifier = regard.load(outcome.folder, device="cpu")
    texts = ["good", "the film was bad and " * 3, "a man"]
    together = classifier.classify(texts)
    for text, verdict in zip(texts, together, strict=True):
        assert classifier.classify(text)[0].probability == pytest.approx(verdict.probability, abs=1e-5)


@pytest.mark.parametrize("pool", ["attention", "class", "mean"])
def test_where_a_classifier_looked_is_a_trace_and_a_page(reviews, tmp_path, pool):
    outcome = train({**reviews, "model": {**TRANSFORMER, "pool": pool}}, tmp_path / "run", "training.steps=5")
    trace = regard.load(outcome.folder, device="cpu").look("the film was zebra great")
    words = [item.text for item in trace.items["source"]]
    assert words == [*["<class>"] * (pool == "class"), "the", "film", "was", "zebra", "great"]
    names = [weights.name for weights in trace.weights]
    assert names == ["encoder.0.attention", *["pool"] * (pool == "attention")]
    assert trace.facts["answer"] in ("positive", "0")
    torch.testing.assert_close(trace.weights[-1].values.sum(-1), torch.ones(trace.weights[-1].values.shape[:2]))
    assert "zebra" in render(trace)


def test_where_a_tagger_looked_is_a_trace(sentences, tmp_path):
    outcome = train({**sentences, "model": TRANSFORMER}, tmp_path / "run", "training.steps=5", "tokenizer.kind=bpe")
    trace = regard.load(outcome.folder, device="cpu").look("the old cat sees")
    assert {item.word for item in trace.items["source"]} == {0, 1, 2, 3}
    with pytest.raises(ValueError, match="empty sentence"):
        regard.load(outcome.folder, device="cpu").look(" ")


def test_a_model_that_does_not_attend_has_nothing_to_show(reviews, tmp_path):
    outcome = train({**reviews, "model": CONVOLUTION}, tmp_path / "run", "training.steps=2")
    with pytest.raises(ValueError, match=r"no attention to show: train with .* or model.pool=attention"):
        regard.load(outcome.folder, device="cpu").look("good")


def test_balanced_labels_count_the_same_together():
    truth, weights = torch.tensor([0, 0, 0, 1]), torch.tensor([4 / 6, 2.0])
    logits = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    assert sum(weights[truth][truth == 0]) == pytest.approx(sum(weights[truth][truth == 1]))
    found = cross_entropy(logits, truth, weights=weights)
    by_hand = sum(-F.log_softmax(line, -1)[label] * weights[label] for line, label in zip(logits, truth, strict=True))
    torch.testing.assert_close(found, by_hand)


@pytest.mark.unchecked
@pytest.mark.parametrize(("balanced", "rare"), [(False, 0.1), (True, 0.5)])
def test_where_texts_say_nothing_a_rare_label_is_as_likely_as_it_is_heard(tmp_path, balanced, rare):
    lines = "".join(f"word\t{'rare' if n % 10 == 0 else 'common'}\n" for n in range(400))
    (tmp_path / "a.tsv").write_text(lines, encoding="utf-8")
    file = {"path": str(tmp_path / "a.tsv")}
    settings = {"task": "classification", "data": {"train": file, "valid": file, "batch_tokens": 400}}
    task = made(settings, {**RECURRENT, "dropout": 0.0, "word_dropout": 0.0}, balanced=balanced)
    optimizer = torch.optim.Adam(task.model.parameters(), 0.02)
    for _ in range(40):
        optimizer.zero_grad()
        steps = [task.step(task.batch(row), "model") for row in range(task.rows)]
        (sum(step.loss for step in steps) / sum(step.weight for step in steps)).backward()
        optimizer.step()
    [tokens] = task.prepared.tokenizer.encode_many(["word"])
    chances = task.model.eval()(torch.tensor(tokens), Row.of([len(tokens)])).softmax(-1)[0]
    assert chances.detach()[task.prepared.classes.index("rare")].item() == pytest.approx(rare, abs=0.03)


def test_words_may_start_from_vectors_of_a_file(reviews, tmp_path):
    names, vectors = ["film", "good", "unheard"], np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    write(tmp_path / "v.txt", names, vectors)
    task = made(reviews, RECURRENT)
    said = load_word_vectors(task.model, task.prepared.tokenizer, str(tmp_path / "v.txt"))
    assert "vectors of 2 of" in said
    film = task.prepared.tokenizer.encode_many(["film"])[0][0]
    found = task.model.embedding.weight[film].detach().numpy()
    assert np.corrcoef(found, vectors[0])[0, 1] == pytest.approx(1)
    outcome = train(
        {**reviews, "model": {**RECURRENT, "vectors": str(tmp_path / "v.txt")}}, tmp_path / "run", "training.steps=2"
    )
    assert checkpoint.read(outcome.best).config["model"]["vectors"] is None
    with pytest.raises(ValueError, match=r"vectors of 12 features, model.embedding is 8"):
        train(
            {**reviews, "model": {**RECURRENT, "vectors": str(tmp_path / "v.txt"), "embedding": 8}}, tmp_path / "other"
        )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["model.name=cnn"], "model.name must be one of cnn-encoder, rnn-encoder, transformer-encoder"),
        (["model.widht=3"], "unknown setting model.widht, did you mean width"),
        (
            ["tokenizer.max_length=2000", "model.name=transformer-encoder"],
            "tokenizer.max_length is 2000 tokens, more than model.context",
        ),
        (
            ["objective.label_smoothing=1"],
            "objective.label_smoothing must be a number of at least 0 and below 1, not 1",
        ),
        (["objective.samples=-1"], "objective.samples must be a whole number from 0 to 1e12, not -1"),
        (["data.train.fields=[text, sentiment]"], "without a label named sentiment"),
        (["data.train.path=nowhere.jsonl"], "no file nowhere.jsonl"),
    ],
)
def test_what_cannot_be_learnt_is_told_in_one_line_before_anything_is_written(reviews, tmp_path, changes, said):
    with pytest.raises(ValueError, match=said) as error:
        train(reviews, tmp_path / "run", *changes)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_a_label_that_only_the_validation_file_has_is_told_with_its_place(reviews, tmp_path):
    (tmp_path / "valid.jsonl").write_text('{"text": "x", "label": 1}\n{"text": "x", "label": 7}\n')
    reviews["data"]["valid"] = {"path": str(tmp_path / "valid.jsonl")}
    with pytest.raises(
        ValueError, match=r"valid.jsonl:2: the label '7' is none of the training labels \(0, positive\)"
    ):
        train(reviews, tmp_path / "run")


def test_places_of_a_row_are_told_for_the_guard(reviews):
    task = made(reviews, RECURRENT)
    places = task.origins(task.batch(0))
    assert len(places) == len(task.batch(0).examples)
    assert all(place.rpartition(":")[2].isdigit() for place in places)


@pytest.mark.unchecked
@pytest.mark.slow
def test_letters_tell_what_a_french_word_is(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    outcome = regard.train(
        ROOT / "recipes" / "word-class.yaml",
        "training.tensorboard=false",
        "training.steps=250",
        out=tmp_path / "run",
        quiet=True,
    )
    classifier = regard.load(outcome.best, device="cpu")
    told = {
        verdict.text: verdict.label for verdict in classifier.classify(["être", "savamment", "soigneux", "nageraient"])
    }
    right = {"être": "verbe", "savamment": "adverbe", "soigneux": "adjectif", "nageraient": "verbe"}
    assert len(told.items() & right.items()) >= 3, told
    assert classifier.evaluate("regard/samples/french-words.train.tsv").metrics["accuracy, %"] > 75
    assert outcome.metrics["accuracy"] > 0.7


@pytest.fixture
def news(tmp_path):
    """A table of 400 texts on three matters, of which each word is said of all and some more of one."""
    chance = random.Random(0)
    words = [f"word{number}" for number in range(300)]
    topics = {"sport": words[:30], "money": words[30:60], "science": words[60:90]}
    rows = []
    for number in range(400):
        topic = list(topics)[number % 3]
        said = [
            chance.choice(topics[topic] if chance.random() < 0.3 else words) for _ in range(chance.randrange(6, 16))
        ]
        rows.append(f"{' '.join(said)},{topic}\n")
    (tmp_path / "news.csv").write_text("".join(["body,topic\n", *rows]))
    return tmp_path / "news.csv"


@pytest.mark.unchecked
def test_without_any_setting_a_table_of_texts_is_learnt(news, tmp_path):
    outcome = train({"task": "classification", "data": {"train": {"path": str(news)}}}, tmp_path / "run")
    assert outcome.metrics["accuracy"] > 0.85  # a third by chance
    assert outcome.result.step <= 400


def fitted(settings):
    task, found = recipe.resolve(settings)
    return task.resolve(settings, task.prepare(found, None))


def test_rows_rate_warm_up_and_length_follow_from_the_texts_where_nobody_names_them(news):
    data = {"train": {"path": str(news)}}
    bare = fitted({"task": "classification", "data": data})
    assert (bare.data.batch_tokens, bare.training.steps, bare.training.eval_every, bare.training.patience) == (
        1024,
        400,
        20,
        10,
    )
    assert bare.optim.warmup == 20
    assert (bare.model.maps, bare.optim.learning_rate) == (64, 0.004)
    short = fitted({"task": "classification", "data": data, "training": {"steps": 60}, "model": {"dropout": 0.1}})
    assert (short.training.steps, short.optim.warmup, short.training.eval_every) == (60, 3, 5)  # an epoch has 5 rows
    assert (short.model.maps, short.model.dropout) == (64, 0.1)
    named = {
        "optim": {"learning_rate": 0.1, "warmup": 7},
        "data": {**data, "batch_tokens": 99},
        "training": {"patience": None},
    }
    given = fitted({"task": "classification", **named, "model": {"name": "rnn-encoder", "width": 8}})
    assert (given.optim.learning_rate, given.optim.warmup, given.data.batch_tokens) == (0.1, 7, 99)
    assert (given.model.width, given.training.patience) == (8, None)


def test_recipes_that_name_their_settings_keep_them(monkeypatch):
    monkeypatch.chdir(ROOT)
    given = recipe.settings(ROOT / "recipes" / "word-class.yaml")
    found = config.plain(fitted(given))
    for section in ("tokenizer", "model", "optim", "training"):
        assert found[section] | given[section] == found[section]
    assert found["data"]["batch_tokens"] == given["data"]["batch_tokens"]


def test_single_words_are_read_by_letters_and_texts_by_words_and_signs(tmp_path):
    (tmp_path / "names.csv").write_text("".join(f"Name{n % 50}x,{'ab'[n % 2]}\n" for n in range(100)))
    (tmp_path / "texts.csv").write_text("".join(f"It's good! {n},{'ab'[n % 2]}\n" for n in range(100)))
    for name, kind, tokens in (("names", "characters", list("Name7x")), ("texts", "words", ["It's", "good", "!", "7"])):
        settings = {"task": "classification", "data": {"train": {"path": str(tmp_path / f"{name}.csv")}}}
        _, found = recipe.resolve(settings)
        assert fitted(settings).tokenizer.kind == kind
        text = "Name7x" if name == "names" else "It's good! 7"
        assert readable_tokens(Classification.prepare(found).tokenizer, text) == tokens


def test_both_tasks_are_known_by_name():
    assert TASKS["classification"].task is Classification
    assert TASKS["tagging"].task is Tagging
