"""Pre-trained bodies under labels: all of a BERT or a GPT goes on as a classifier or a tagger, with its tokenizer."""

import json
import re

import pytest
import torch

import regard
from regard import recipe
from regard.metrics.calibration import calibration_error, fit_temperature, probabilities
from regard.metrics.likelihood import IGNORE
from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_encoders.input_format import add_format_tokens, build_format
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_labels.preparation import build_dataset
from regard.tasks.text_labels.sentence_chunks import encode_sentences
from regard.tasks.text_labels.tagged_file import TaggedFile
from tests.training.test_transfer import begun

TRAINING = {"steps": 6, "log_every": 6, "eval_every": 3, "save_every": 3, "device": "cpu", "tensorboard": False}
SIZES = {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "dropout": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts with labels, sentences with entities, and a small BERT and GPT that have read them."""
    place = tmp_path_factory.mktemp("bodies")
    texts = [(f"the film number {n} was {word}", word) for n in range(30) for word in ("great", "awful", "unspeakable")]
    (place / "texts.tsv").write_text(
        "".join(f"{text}\t{'bad' if word != 'great' else 'good'}\n" for text, word in texts)
    )
    (place / "plain.txt").write_text("".join(f"{text}\n" for text, _ in texts) + "Zoe sees New York\n" * 20)
    lines = [f"Zoe\tB-per\nsees\tO\nNew\tB-loc\nYork{n}\tI-loc\n.\t_\n" for n in range(40)]
    (place / "tags.conll").write_text("\n".join(lines))
    for task, name in (("masked-lm", "bert"), ("causal-lm", "gpt")):
        data = {"train": [str(place / "plain.txt")], "context": 24, "batch_size": 4, "document": "line"}
        model = {"name": name, **SIZES, "context": 24}
        asked = {"task": task, "data": data, "model": model, "tokenizer": {"kind": "bpe", "vocab": 300}}
        recipe.train({**asked, "training": TRAINING}, out=place / name, quiet=True)
    return place


def settings(folder, task: str, **more):
    path = folder / ("texts.tsv" if task == "classification" else "tags.conll")
    return {"task": task, "data": {"train": {"path": str(path)}, "batch_tokens": 256}, "training": TRAINING, **more}


@pytest.mark.parametrize("task", ["classification", "tagging"])
@pytest.mark.parametrize("body", ["bert", "gpt"])
def test_a_body_is_taken_over_whole_with_its_tokenizer(folder, body, task):
    asked = settings(folder, task)
    asked = recipe.resolve(asked)[0].limit_settings(asked, recipe.open_model(folder / body))
    model, before, [said], data = begun(asked, folder / body)
    assert model.config.name == f"{body}-encoder"
    assert "made anew: output" in said
    own = data.tokenizer.vocab - (2 if body == "gpt" else 0)
    assert data.tokenizer.encode("Zoe sees") == regard.load(folder / body, device="cpu").tokenizer.encode("Zoe sees")
    tensors = before.tensors()
    for name, weight in model.reader.state_dict().items():
        if name in tensors:
            assert torch.equal(weight[:own], tensors[name][:own]), name


@pytest.mark.parametrize("body", ["bert", "gpt"])
def test_a_classifier_on_a_body_is_trained_asked_and_scored(folder, body, tmp_path):
    asked = settings(folder, "classification", optim={"learning_rate": 0.01})
    out = recipe.train(asked, out=tmp_path / "run", start=folder / body, quiet=True).folder
    trained = regard.load(out, device="cpu")
    texts = ["the film number 3 was great", "awful", "unspeakable " * 40]
    together = trained.classify(texts)
    for text, verdict in zip(texts, together, strict=True):
        assert trained.classify(text)[0].probability == pytest.approx(verdict.probability, abs=1e-6)
    names = [item.text for item in trained.look("awful").items["source"]]
    assert (names[0], names[-1]) == ("<bos>", "<sep>" if body == "bert" else "<extract>")
    scores = trained.evaluate(str(folder / "texts.tsv"))
    assert set(scores.metrics) == {"accuracy, %", "Matthews"}
    assert scores.intervals["Matthews"].low <= scores.metrics["Matthews"]
    again = recipe.train(asked, out=tmp_path / "again", start=out, quiet=True)
    assert f"starting from {out}" in (again.folder / "train.log").read_text()


@pytest.mark.parametrize("body", ["bert", "gpt"])
def test_a_tagger_on_a_body_is_scored_by_entity(folder, body, tmp_path):
    asked = settings(folder, "tagging", optim={"learning_rate": 0.01})
    outcome = recipe.train(asked, out=tmp_path / "run", start=folder / body, quiet=True)
    assert "entity_f1" in outcome.metrics
    trained = regard.load(outcome.folder, device="cpu")
    [tagged] = trained.tag("Zoe sees New York7")
    assert len(tagged.tags) == 4
    scores = trained.evaluate(str(folder / "tags.conll"))
    assert set(scores.metrics) == {"accuracy, %", "entity F1, %"}
    assert scores.metrics["entity F1, %"] == pytest.approx(100 * scores.details["entity_f1"])
    assert {row[0] for row in scores.tables[0].rows} <= {"per", "loc"}


@pytest.mark.parametrize(("body", "place"), [("bert", 0), ("gpt", -1)])
def test_a_word_is_labelled_at_its_first_piece_or_where_all_of_it_was_read(folder, body, place):
    known = regard.load(folder / body, device="cpu").tokenizer
    own = known.with_text_config(TextTokenizerConfig(kind="bpe", normalise="none", max_length=12))
    own = add_format_tokens(own, body, pairs=False)
    form = build_format(own, body, pairs=False)
    sentence = ["unspeakable", "Zoe", "sees", "York39"]
    [pieces] = encode_sentences(own, [sentence], form)
    whole = own.encode("a unspeakable Zoe sees York39")[len(own.encode("a")) :]
    inner = [token for _, ids in pieces for token in ids[1:-1]]
    assert inner == whole, "words have the tokens that they have in a text"
    assert all(len(ids) <= 12 and ids[0] == form.before[0] and ids[-1] == form.after[0] for _, ids in pieces)
    for told, ids in pieces:
        for number, at in told:
            word = own.encode("a " + sentence[number])[len(own.encode("a")) :]
            start = at if place == 0 else at - len(word) + 1
            assert ids[start : start + len(word)] == word
    found = read_examples([TaggedFile(path=str(folder / "tags.conll"))], {}, 0.0)
    side = build_dataset(found, own, ["B-loc", "B-per", "I-loc", "O"], body)
    assert (side.labels != IGNORE).sum() == 4 * 40, "one label for each judged word"


def test_tags_that_break_bio_are_refused_with_their_line(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("a\tB-x\nb\tI-x\n\nc\tO\nd\tI-x\n\ne\tB-x\nf\tI-y\n")
    file = TaggedFile(path=str(path))
    with pytest.raises(ValueError, match=r"2 with an I- tag that continues no entity: begin it .*a\.conll:5, .*:8\)"):
        read_examples([file], {}, 0.0)
    assert len(read_examples([file], {}, 0.9).examples) == 1
    assert len(read_examples([TaggedFile(path=str(path), bio=False)], {}, 0.0).examples) == 3
    path.write_text("a\tD\nb\tI-x\n")  # these are no entities
    assert len(read_examples([file], {}, 0.0).examples) == 1


def test_probabilities_have_the_temperature_of_the_held_out_texts(folder, tmp_path):
    rows = [(f"text {n} {'good' if n % 3 else 'bad'}", n % 3 > 0 or n % 5 == 0) for n in range(720)]
    (tmp_path / "a.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    data = {"train": {"path": str(tmp_path / "a.tsv")}, "validation_share": 0.3}
    asked = {
        "task": "classification",
        "data": data,
        "training": {**TRAINING, "steps": 12},
        "optim": {"learning_rate": 0.02},
    }
    out = recipe.train(asked, out=tmp_path / "run", quiet=True).folder
    trained = regard.load(out, device="cpu")
    assert trained.temperature != 1.0
    assert "too few to fit a temperature" not in (out / "train.log").read_text()
    side, found = trained.compare_files(str(tmp_path / "a.tsv"))
    wanted = probabilities(found.logits, trained.temperature)
    for number in (0, 50, 100):
        [verdict] = trained.classify(side.texts[number][0])
        assert verdict.probability == pytest.approx(wanted[number].max(), abs=1e-5)
    told = trained.evaluate(str(tmp_path / "a.tsv")).details["calibration"]
    assert told["temperature"] == trained.temperature
    assert told["before"] == pytest.approx(calibration_error(probabilities(found.logits), side.labels))
    assert told["after"] == pytest.approx(calibration_error(wanted, side.labels))
    kind, made = recipe.resolve(asked)
    again = kind(made, kind.prepare(made), trained.model)
    again.evaluate()
    held = again.prepared.valid
    assert again.contents()["config.yaml"]["temperature"] == pytest.approx(trained.temperature, rel=1e-3)
    logits = trained.model(*(lambda batch: (batch.tokens, batch.row))(held.batch(held.lengths.argsort(kind="stable"))))
    assert fit_temperature(logits.detach().numpy(), held.labels) == pytest.approx(trained.temperature, rel=1e-3)
    assert json.dumps(trained.evaluate(str(tmp_path / "a.tsv")).plain())


def test_few_held_out_texts_leave_probabilities_as_trained_and_a_line_says_so(tmp_path):
    rows = [(f"text {n} {'good' if n % 3 else 'bad'}", n % 3 > 0 or n % 5 == 0) for n in range(200)]
    (tmp_path / "a.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    data = {"train": {"path": str(tmp_path / "a.tsv")}, "validation_share": 0.3}
    asked = {"task": "classification", "data": data, "training": {**TRAINING, "steps": 2}}
    out = recipe.train(asked, out=tmp_path / "run", quiet=True).folder
    trained = regard.load(out, device="cpu")
    assert trained.temperature == 1.0
    assert re.search(r"\d+ held-out texts are too few to fit a temperature \(200\)", (out / "train.log").read_text())
    told = trained.evaluate(str(tmp_path / "a.tsv")).measures["calibration error"]
    assert re.fullmatch(r"[\d.]+% as trained", told)
