"""Agreement measured: mistakes are those of the participle alone, and the command draws what was measured."""

import json
from pathlib import Path

import pytest

import regard
from regard.cli import run
from regard.lab.agreement import sentences as agreement
from regard.lab.agreement.judging import Point, measure
from regard.lab.agreement.sentences import Practice
from regard.tasks.text_labels.tagger import TaggedSentence

SETTINGS = {
    "task": "tagging",
    "data": {"train": {"path": "train.txt.gz"}, "valid": {"path": "valid.txt.gz"}, "batch_tokens": 512},
    "tokenizer": {"lowercase": True},
    "model": {
        "name": "rnn-encoder",
        "cell": "gru",
        "bidirectional": False,
        "width": 24,
        "embedding": 16,
        "dropout": 0.0,
    },
    "optim": {"learning_rate": 0.01, "warmup": 10},
    "training": {"steps": 40, "eval_every": 40, "save_every": 40, "device": "cpu", "tensorboard": False},
}


def width(picture: str) -> int:
    """The width of a PNG file in pixels, as its header says."""
    return int.from_bytes(Path(picture).read_bytes()[16:20], "big")


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """A run of a few steps on sentences of the grammar."""
    folder = tmp_path_factory.mktemp("agreement")
    agreement.write(folder, Practice(longest=4), counts={"train": 300, "valid": 40})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return regard.train(SETTINGS, out=folder / "run", quiet=True).folder


def test_only_what_is_said_of_the_participle_counts(tagger, monkeypatch):
    one, said = regard.load(tagger, device="cpu"), []

    def everything_wrong(texts):
        said.extend(texts)
        return [TaggedSentence(list(words), ["wrong"] * len(words), [1.0] * len(words)) for words in texts]

    monkeypatch.setattr(one, "tag", everything_wrong)
    found = measure([one], distances=(6,), count=30)
    for point, asked in zip(found, (said[:30], said[30:]), strict=True):
        how = {"distance": 6, "attractors": point.attractors, "testing": True}
        truth = [agreement.sentence(0, number, **how) for number in range(30)]
        assert [" ".join(words) for words in asked] == [str(each) for each in truth]
        assert point.mistakes == (sum(each.right for each in truth),)


def test_errors_are_counted_at_every_distance_and_condition(tagger):
    found = measure([regard.load(tagger, device="cpu")] * 2, distances=(1, 3), count=20)
    assert [(point.distance, point.attractors) for point in found] == [(1, False), (3, False), (3, True)]
    assert all(point.mistakes[0] == point.mistakes[1] and point.count == 20 for point in found)
    again = measure([regard.load(tagger, device="cpu")], distances=(1, 3), count=20)
    assert [point.mistakes for point in again] == [point.mistakes[:1] for point in found]


def test_a_mean_is_that_of_the_models():
    point = Point(4, True, 50, (5, 10))
    assert (point.errors, point.error) == ([10.0, 20.0], 15.0)
    assert point.plain()["errors"] == [10.0, 20.0]


def test_the_command_draws_and_tells(tagger, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    asked = ["lab", "agreement", str(tagger), str(tagger), "--labels", "GRU,GRU", "--distances", "1,4", "--count", "10"]
    assert run([*asked, "-o", "a.png", "--plain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if len(line.split()) == 2 and line.split()[0].isdigit()] == [
        "1",
        "4",
        "4",
    ]
    many = ["--distances", ",".join(map(str, range(1, 31))), "--count", "1"]
    assert run(["lab", "agreement", str(tagger), *many]) == 0
    assert "…" not in capsys.readouterr().out
    both = ["lab", "agreement", str(tagger), str(tagger / "best"), *asked[6:], "--json"]
    assert run(both) == 0
    assert list(json.loads(capsys.readouterr().out)["models"]) == [tagger.name, f"{tagger.name}/best"]
    assert width("a.png") > 800
    assert run([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["models"]["GRU"]
    assert [len(point["errors"]) for point in told] == [2, 2, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--labels", "a,b"], "give 1 name between commas"),
        (["--distances", "x"], "--distances 'x': give whole numbers"),
        (["--distances", "0,3"], "give whole numbers from 1 to 200"),
    ],
)
def test_bad_input_is_one_line(words, said, tagger, capsys):
    assert run(["lab", "agreement", str(tagger), *words]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_models_of_other_things_are_refused(tagger, tmp_path, monkeypatch, trained, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["lab", "agreement", str(trained)]) == 1
    assert "is a translator; regard tag needs a tagger" in capsys.readouterr().err
    (tmp_path / "words.txt").write_text("the/DET cat/NOUN\na/DET dog/NOUN\n" * 10)
    settings = {**SETTINGS, "data": {"train": {"path": "words.txt"}}}
    other = regard.train(settings, "training.steps=2", out=tmp_path / "other", quiet=True).folder
    capsys.readouterr()
    assert run(["lab", "agreement", str(other)]) == 1
    assert "other/best: tags words as DET, NOUN, not as right or wrong" in capsys.readouterr().err
