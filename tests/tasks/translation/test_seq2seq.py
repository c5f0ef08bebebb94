"""Recurrent translators go through the same doors: train, translate, explain, evaluate, adapt."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard import checkpoint, config, recipe
from regard.cli import run
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.interventions import ablate_heads, agreement, answer_loss
from regard.tasks.translation.alignment import links
from regard.tasks.translation.teacher_forcing import likelihood
from tests.conftest import SMALL, Corpus, sentences, unchecked

SHAPES = {
    "none": {"attention": "none"},
    "bahdanau": {"attention": "bahdanau"},
    "luong_dot": {"attention": "luong_dot", "reading": 24},
    "luong_general": {"attention": "luong_general", "feed": True},
    "luong_concat": {"attention": "luong_concat"},
    "rnn": {"cell": "rnn"},
    "lstm": {"cell": "lstm", "encoder": 2, "decoder": 2},
    "gru_before": {"cell": "gru_before", "share": "target"},
}


def settings(files: dict[str, str], *changes: str, **model: object) -> dict:
    """A small recipe for a recurrent model."""
    shape = {"name": "seq2seq", "width": 48, "embedding": 48, "dropout": 0.1, **model}
    small = {**SMALL, "data": {**SMALL["data"], "train": files}, "model": shape}
    return recipe.settings(small, *changes)


@pytest.fixture(scope="module")
def looking(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run folder in which a network with attention has learnt the little grammar."""
    place = tmp_path_factory.mktemp("looking")
    for side, texts in zip(("fr", "en"), zip(*sentences(), strict=True), strict=True):
        (place / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    files = {"source": str(place / "train.fr"), "target": str(place / "train.en")}
    changes = ["tokenizer.kind=words", "tokenizer.min_frequency=1", "training.steps=100", "training.eval_every=100"]
    with unchecked():
        return recipe.train(settings(files, *changes), out=place / "run", quiet=True).folder


@pytest.fixture
def files(corpus: Corpus) -> dict[str, str]:
    return {"source": str(corpus.source), "target": str(corpus.target)}


def test_it_learns_the_little_grammar_through_the_same_recipe(looking: Path):
    translator = regard.load(looking, device="cpu")
    assert checkpoint.read(looking / "best").metrics["bleu"] > 80
    assert translator.translate(["Le chat noir dort.", "Le roi mange !"]) == ["The black cat sleeps.", "The king eats!"]
    assert translator.model.config.name == "seq2seq"
    assert "A recurrent network (gru) of 1+1 layers" in (looking / "best" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_checkpoint_of_every_shape_is_the_model(shape, files, tmp_path: Path):
    brief = ["training.steps=2", "training.save_every=2", "objective.eval_examples=2", "decoding.ratio=0"]
    outcome = recipe.train(settings(files, *brief, **shape), out=tmp_path / "run", quiet=True)
    assert outcome.result.step == 2
    last = tmp_path / "run" / "checkpoints" / "step-2"
    held, loaded = checkpoint.read(last).tensors(), regard.load(last, device="cpu").model
    assert held.keys() == checkpoint.weights(loaded).keys()
    assert all(torch.equal(held[name], weight) for name, weight in checkpoint.weights(loaded).items())


@pytest.mark.parametrize("words", [["--beams", "3", "--nbest", "2"], ["--set", "sample=true"], []], ids=str)
def test_it_translates_from_the_command_line(looking: Path, words, capsys):
    assert run(["translate", str(looking), "Le loup dort.", *words]) == 0
    assert "wolf" in capsys.readouterr().out


def test_it_is_explained_as_a_matrix_as_links_by_its_arithmetic_and_on_a_page(looking: Path, tmp_path: Path, capsys):
    text = "Le chat noir dort."
    assert run(["explain", str(looking), text]) == 0
    assert "black" in capsys.readouterr().out
    assert run(["explain", str(looking), text, "--alignments"]) == 0
    assert {"1-2", "2-1"} <= set(capsys.readouterr().out.split()), "cat to chat, black to noir"
    assert run(["explain", str(looking), text, "--step", "1"]) == 0
    assert "v . tanh(W q + U k)" in capsys.readouterr().out
    for name in ("page.html", "trace.json", "table.csv"):
        assert run(["explain", str(looking), text, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 100
    assert json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["weights"][0]["name"] == "decoder.0.cross"


@pytest.mark.parametrize("shape", ["bahdanau", "luong_dot", "luong_general", "luong_concat"])
def test_its_arithmetic_done_again_gives_its_own_weights(shape, files, tmp_path: Path):
    brief = ["training.steps=3", "objective.eval_examples=2"]
    recipe.train(settings(files, *brief, **SHAPES[shape]), out=tmp_path / "run", quiet=True)
    translator = regard.load(tmp_path / "run", device="cpu")
    trace = translator.look("Le chat noir dort.")
    found = translator.steps(trace)
    [(name, inside)] = found.attentions.items()
    assert name == "decoder.0.cross"
    assert inside.difference < 1e-5
    assert torch.allclose(inside.weights, trace.find(name).values, atol=1e-5)
    assert len(found.predictions) == len(trace.items["target"])


def test_who_does_not_look_is_not_explained(files, tmp_path: Path, capsys):
    brief = ["training.steps=2", "objective.eval_examples=2"]
    recipe.train(settings(files, *brief, attention="none"), out=tmp_path / "run", quiet=True)
    assert run(["translate", str(tmp_path / "run"), "Le chat dort."]) == 0
    capsys.readouterr()
    assert run(["explain", str(tmp_path / "run"), "Le chat dort."]) == 1
    error = capsys.readouterr().err
    assert error == "regard: nothing was seen: this model has no attention\n"
    with pytest.raises(ValueError, match="has no attention"):
        links(regard.load(tmp_path / "run", device="cpu"), ["Le chat."], ["The cat."])


def test_its_looks_link_words_and_can_be_silenced(looking: Path):
    translator = regard.load(looking, device="cpu")
    pair = "Le chat noir dort.", "The black cat sleeps."
    [found] = links(translator, [pair[0]], [pair[1]])
    assert {target for _, target in found} == {0, 1, 2, 3, 4}
    reader = ForcedReader(translator)
    [silenced] = ablate_heads(translator.model, answer_loss(reader, [pair]))
    assert (silenced.where, silenced.head) == ("decoder.0.cross", 0)
    assert silenced.silent > 0.1
    assert [one.method for one in agreement(reader, [reader.look(*pair)])] == ["decoder.0.cross", "mean of all"]


@pytest.mark.unchecked
def test_its_links_are_held_against_those_of_a_person(looking: Path, few_aligned: None, tmp_path: Path, capsys):
    gold_links = "0-0 1-2 2-1 3-3 4-4"  # Le chat noir dort . and The black cat sleeps .
    assert run(["explain", str(looking), "Le chat noir dort.", "--gold", gold_links]) == 0
    assert "AER of this sentence: 0." in capsys.readouterr().out
    assert run(["explain", str(looking), "--measures", "--to", "en", "-o", str(tmp_path / "heads.json")]) == 0
    found = json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))
    assert "decoder.0.cross" in json.dumps(found)


def test_it_finds_right_answers_probable(looking: Path):
    translator = regard.load(looking, device="cpu")
    right, wrong = (likelihood(translator, ["Le chat noir dort."], [t]) for t in ("The black cat sleeps.", "cat the"))
    assert right.perplexity < 2 < wrong.perplexity


def test_a_model_to_go_on_from_keeps_its_kind(looking: Path, files, tmp_path: Path):
    changed = settings(files, "training.steps=2", "objective.eval_examples=2")
    del changed["model"], changed["tokenizer"]
    best = recipe.train(changed, out=tmp_path / "run", start=looking, quiet=True).best
    assert regard.load(best, device="cpu").model.config.cell == "gru"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"name": "seq2sec"}, "model.name must be one of transformer, seq2seq, not 'seq2sec', did you mean seq2seq"),
        ({"name": "seq2seq", "heads": 4}, "unknown setting model.heads"),
        ({"name": "seq2seq", "cell": "gur"}, "model.cell must be one of rnn, gru, gru_before, lstm, not 'gur'"),
        ({"name": "seq2seq", "attention": "luong"}, "model.attention must be one of none, bahdanau, luong_dot"),
        ({"name": "seq2seq", "preset": "tiny"}, "model.preset"),
        ({"name": "seq2seq", "feed": True}, "model: feed belongs to Luong's attention, not to bahdanau"),
        ({"cell": "gru"}, "unknown setting model.cell"),
        (3, "model must be a section"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(model, message, files):
    with pytest.raises(ValueError) as caught:
        recipe.resolve({**SMALL, "data": {"train": files}, "model": model})
    assert str(caught.value).startswith(message)


@pytest.mark.unchecked
@pytest.mark.parametrize("attention", [pytest.param("none", marks=pytest.mark.slow), "bahdanau"])
def test_it_learns_words_letter_by_letter(attention, tmp_path: Path):
    words = [("assez", "enough"), ("chat", "cat"), ("chien", "dog"), ("beaucoup", "much"), ("été", "summer")]
    (tmp_path / "words.tsv").write_text("".join(f"{fr}\t{en}\n" for fr, en in words), encoding="utf-8")
    corpus = {"path": str(tmp_path / "words.tsv")}
    letters = settings(corpus, "training.steps=80", "training.eval_every=80", attention=attention, dropout=0.0)
    letters |= {"tokenizer": {"kind": "characters", "min_frequency": 1}, "data": {**letters["data"], "valid": corpus}}
    best = recipe.train(letters, out=tmp_path / "run", quiet=True).best
    translator = regard.load(best, device="cpu")
    assert translator.source.pieces(translator.source.encode("assez")) == [*"assez"]
    assert translator.translate([fr for fr, _ in words], beams=1) == [en for _, en in words]


def test_its_cost_is_told_of_a_recipe_that_names_its_sizes(files, tmp_path: Path, capsys):
    (tmp_path / "mine.yaml").write_text(config.dump(settings(files)), encoding="utf-8")
    assert run(["cost", str(tmp_path / "mine.yaml"), "-s", "length=6", "-s", "target=5"]) == 0
    assert "recurrent layers" in capsys.readouterr().out
    sizeless = {name: value for name, value in settings(files).items() if name != "model"} | {
        "model": {"name": "seq2seq"}
    }
    (tmp_path / "mine.yaml").write_text(config.dump(sizeless), encoding="utf-8")
    assert run(["cost", str(tmp_path / "mine.yaml")]) == 1
    assert "follow from its data, train it and give its run folder\n" in capsys.readouterr().err
