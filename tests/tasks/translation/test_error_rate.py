"""Letters to sounds: what is learnt is spoken, each word once, and held against the nearest of what is accepted."""

import json

import pytest

import regard
from regard.cli import run
from regard.tasks.translation import error_rate
from regard.tasks.translation.error_rate import evaluate, group_questions, judge

SOUND = {"a": "AA", "b": "B", "c": "K", "d": "D", "e": "EH", "m": "M"}
PAIRS = [
    (word, " ".join(SOUND[letter] for letter in word))
    for x in "bcdm"
    for y in "ae"
    for word in (x + y + z for z in "bcdm")
]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A run that has learnt one sound for each letter: letters in, whole sounds out."""
    folder = tmp_path_factory.mktemp("sounds")
    (folder / "train.tsv").write_text("".join(f"{word}\t{sounds}\n" for word, sounds in PAIRS))
    settings = {
        "data": {"train": {"path": str(folder / "train.tsv")}, "valid": {"path": str(folder / "train.tsv")}},
        "tokenizer": {"kind": "characters", "target": "words", "joint": False, "min_frequency": 1},
        "model": {"name": "seq2seq", "width": 32, "embedding": 16, "share": "target", "dropout": 0.0},
        "optim": {"learning_rate": 0.01, "warmup": 10, "schedule": "constant"},
        "training": {"steps": 80, "eval_every": 80, "save_every": 80, "device": "cpu", "tensorboard": False},
        "decoding": {"beams": 1},
    }
    return regard.train(settings, out=folder / "run", quiet=True).folder


def test_a_letter_is_a_token_on_one_side_and_a_sound_on_the_other(spoken):
    model = regard.load(spoken, device="cpu")
    assert len(model.source.encode("bad")) == 3
    assert len(model.target.encode("B AA D")) == 3
    assert model.target.decode(model.target.encode("B AA D")) == "B AA D"


def test_it_learns_to_speak_and_errors_are_counted_once_a_word(spoken):
    model = regard.load(spoken, device="cpu")
    twice = [*PAIRS, ("bad", "B EH D"), ("bad", "B AA D")]
    found = evaluate(model, twice, name="sounds")
    assert found.errors.answers == len(PAIRS)
    assert found.errors.answer_rate == found.errors.unit_rate == 0
    assert found.worst() == []
    wrong = evaluate(model, [("bad", "D AA D"), ("cab", "K AA B")], name="sounds")
    assert (wrong.errors.answer_rate, wrong.errors.unit_rate) == (50, pytest.approx(100 / 6))
    assert wrong.worst()[0] == error_rate.Mistake("bad", ("D AA D",), "B AA D", 1, 3)


def test_the_best_checkpoint_may_be_the_one_with_fewest_wrong_answers(tmp_path):
    pairs = [*PAIRS, ("bad", "B EH D"), ("bad", "B AA D")]  # a word with two pronunciations is one word
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}\t{sounds}\n" for word, sounds in pairs))
    corpus = {"path": str(tmp_path / "pairs.tsv")}
    settings = {
        "data": {"train": corpus, "valid": corpus},
        "tokenizer": {"kind": "characters", "target": "words", "joint": False, "min_frequency": 1},
        "model": {"name": "seq2seq", "width": 24, "embedding": 16, "share": "target", "dropout": 0.0},
        "objective": {"metric": "errors"},
        "optim": {"learning_rate": 0.01, "warmup": 10, "schedule": "constant"},
        "training": {"steps": 30, "eval_every": 10, "save_every": 10, "device": "cpu", "tensorboard": False},
    }
    outcome = regard.train(settings, out=tmp_path / "run", quiet=True)
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    seen = [record["errors"] for record in records if record["kind"] == "evaluation"]
    assert len(set(seen)) > 1
    assert outcome.metrics["errors"] == min(seen)
    again = evaluate(regard.load(outcome.best, device="cpu"), pairs, name="again", beams=1)
    assert again.errors.answers == len(PAIRS)
    assert again.errors.answer_rate == pytest.approx(min(seen))


def test_a_source_is_asked_once_with_all_that_is_right_for_it():
    pairs = [("read", "R IY D"), ("a", "AH"), ("read", "R EH D"), ("read", "R IY D")]
    assert group_questions(pairs) == [("read", ("R IY D", "R EH D")), ("a", ("AH",))]
    told = judge("file", ["R EH D", "EY", "x", "y"], pairs)
    assert told.answers == ["R EH D", "EY"]
    assert told.errors.answer_rate == 50
    assert dict(told.lines())["sources"] == "2, of which 1 have several right answers"
    with pytest.raises(ValueError, match="no pairs"):
        group_questions([])


def test_the_command_tells_errors_as_a_table_and_as_json(spoken, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.tsv").write_text("bad\tB AA D\nbad\tB EH D\ncab\tK AA D\n")
    asked = ["evaluate", str(spoken), "test.tsv", "--metric", "errors"]
    assert run(asked) == 0
    said = capsys.readouterr().out
    assert "wrong answers" in said
    assert "50 ± 50" in said
    assert "K AA D" in said
    (tmp_path / "answers").write_text("B AA D\nB AA D\nK AA D\n")
    assert run([*asked, "--against", "answers", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["systems"]
    assert (first["answer_error_rate"], second["answer_error_rate"]) == (50, 0)
    assert first["unit_error_rate"] == pytest.approx(100 / 6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metric", "errors", "-o", "x.png"], "has no scores by length to draw"),
        (["--metric", "wrong"], "unknown metric 'wrong': choose one of overlap, errors"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(words, said, spoken, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.tsv").write_text("bad\tB AA D\n")
    assert run(["evaluate", str(spoken), "test.tsv", *words]) != 0
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_tokenizer_for_the_target_needs_one_of_its_own():
    settings = {"data": {"train": {"path": "x"}}, "tokenizer": {"kind": "characters", "target": "words"}}
    with pytest.raises(ValueError, match="set joint: false"):
        regard.train(settings, out="nowhere")
